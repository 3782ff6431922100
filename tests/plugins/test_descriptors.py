"""What a descriptor refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from kvframe import EvictionPolicy


class Places(msgspec.Struct):
    """A type that no table of TOML holds."""

    path: Path = Path()


class Row(msgspec.Struct, array_like=True):
    uses: int = 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, "name '' must be lower-case words"),
        ({"name": "My Policy"}, "name 'My Policy' must be lower-case words"),
        ({"name": 3}, "name 3 must be lower-case words"),
        ({"way": "quick"}, "way 'quick' of mine must be builtin, batched or native"),
        (
            {"way": "batchd"},
            "way 'batchd' of mine must be builtin, batched or native; did you mean batched?",
        ),
        ({"summary": "two\nlines"}, "summary of mine must be a string of one line"),
        ({"source": None}, "source of mine must be a string of one line"),
        ({"options": dict}, "options of mine must be a msgspec.Struct class or None"),
        ({"options": Places}, "options of mine is no usable schema: its fields must be of types t"),
        ({"options": Row}, "options of mine is no usable schema: array_like: it must be a table"),
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
