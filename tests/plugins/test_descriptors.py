"""What a descriptor refuses."""

from __future__ import annotations

from typing import Any

import pytest

from kvframe import EvictionPolicy


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, "name '' must be lower-case words"),
        ({"name": "My Policy"}, "name 'My Policy' must be lower-case words"),
        ({"name": 3}, "name 3 must be lower-case words"),
        ({"way": "quick"}, "way 'quick' of mine must be builtin, batched or native"),
        ({"summary": "two\nlines"}, "summary of mine must be a string of one line"),
        ({"source": None}, "source of mine must be a string of one line"),
        ({"options": dict}, "options of mine must be a msgspec.Struct class or None"),
        ({"make": None}, "make of mine must be callable, for it is batched"),
        ({"way": "builtin"}, "make of mine must be None: the core makes built-in policies"),
    ],
)
def test_impossible_descriptors(change: dict[str, Any], message: str) -> None:
    fields: dict[str, Any] = {"name": "mine", "way": "batched", "summary": "x", "make": print}
    with pytest.raises((TypeError, ValueError)) as caught:
        EvictionPolicy(**(fields | change))
    assert str(caught.value).startswith(message)


def test_descriptors_are_frozen() -> None:
    policy = EvictionPolicy(name="mine", way="batched", summary="x", make=print)
    with pytest.raises(AttributeError):
        policy.name = "yours"  # type: ignore[misc]
