"""How a policy is named, in the bench, in a configuration and in code."""

from __future__ import annotations

import pytest

from kvframe.errors import ConfigError
from kvframe.registry.naming import is_place, listed, named


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ("lru", "lru", {}),
        ("slru:protected_uses=3", "slru", {"protected_uses": "3"}),
        (
            "ttl:session_ticks=3,one_shot_ticks=4",
            "ttl",
            {"session_ticks": "3", "one_shot_ticks": "4"},
        ),
        (
            "ttl:session_ticks=3:one_shot_ticks=4",
            "ttl",
            {"session_ticks": "3", "one_shot_ticks": "4"},
        ),
        (" ttl : session_ticks = 3 ", "ttl", {"session_ticks": "3"}),
        ("deep.py:Deep", "deep.py:Deep", {}),
        ("deep.py:sign=-1", "deep.py", {"sign": "-1"}),
        ("a.b:Deep:sign=-1,window=0", "a.b:Deep", {"sign": "-1", "window": "0"}),
        (
            "redis:url=redis://h:6379/0,prefix=a,b",
            "redis",
            {"url": "redis://h:6379/0", "prefix": "a,b"},
        ),
        ("volatile:start=[1, 2],end=[3]", "volatile", {"start": "[1, 2]", "end": "[3]"}),
        ("slru:protected_uses", "slru:protected_uses", {}),
        ("x:a=b=c", "x", {"a": "b=c"}),
    ],
)
def test_a_name_and_its_options(text: str, name: str, options: dict[str, str]) -> None:
    assert named(text, "") == (name, options)


def test_an_option_is_given_once() -> None:
    with pytest.raises(ConfigError, match=r"^--policy x: a is given twice$"):
        named("x:a=1,a=2", "--policy x")


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("lru,opt", ["lru", "opt"]),
        (
            "ttl:session_ticks=3,one_shot_ticks=4,lru",
            ["ttl:session_ticks=3,one_shot_ticks=4", "lru"],
        ),
        ("lru , slru:protected_uses=3", ["lru", "slru:protected_uses=3"]),
        ("lru,", ["lru", ""]),
    ],
)
def test_a_list_of_names_with_options(text: str, items: list[str]) -> None:
    assert listed(text) == items


def test_places() -> None:
    assert all(is_place(name) for name in ("deep.py", "./deep.py:Deep", "a.b:Deep"))
    assert not any(is_place(name) for name in ("lru", "w-tinylfu", "my.policy"))
