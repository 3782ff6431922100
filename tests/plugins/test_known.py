"""A name that one of kvframe's own packages would bring: the refusal says what to install."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from kvframe.errors import PluginError
from kvframe.registry import Kind, Registry
from kvframe.registry.known import OWN


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No package of kvframe's own is on the path, as after a bare installation."""
    bare = [entry for entry in sys.path if not [*Path(entry).glob("kvframe_*.dist-info")]]
    monkeypatch.setattr(sys, "path", bare)


@pytest.mark.parametrize(
    ("kind", "name", "told"),
    [
        ("store", "redis", "kvframe-redis brings it; install it:"),
        ("store", "kvframe-redis", "kvframe-redis brings it, called redis; install it:"),
        ("store", "Mooncake", "kvframe-mooncake brings it, called mooncake; install it:"),
        ("eviction", "tlru", "kvframe-tlru brings it, called t-lru; install it:"),
        ("eviction", "redis", "kvframe-redis brings it, named in tiers.store; install it:"),
        ("eviction", "kvframe_vllm", "which loads kvframe-vllm by itself; install it:"),
        ("prefix", "sglang", "which loads kvframe-sglang by itself; install it:"),
    ],
)
def test_what_a_package_of_kvframes_own_would_bring_says_which_to_install(
    alone: None, kind: Kind, name: str, told: str
) -> None:
    with pytest.raises(PluginError) as raised:
        getattr(Registry(), kind)(name)
    message = str(raised.value)
    assert told in message
    assert f"{sys.executable} -m pip install kvframe-" in message


def test_a_near_spelling_of_what_is_not_installed_names_its_package(alone: None) -> None:
    with pytest.raises(PluginError, match="did you mean redis, of the package kvframe-redis"):
        Registry().store("reddis")


def test_every_package_of_this_repository_is_known_by_its_names() -> None:
    there = set()
    for project in (Path(__file__).parents[2] / "plugins").glob("*/pyproject.toml"):
        about = tomllib.loads(project.read_text())["project"]
        for group, table in about["entry-points"].items():
            ours = group.startswith("kvframe.")
            for name in table if ours else [about["name"].removeprefix("kvframe-")]:
                there.add((about["name"], name, group.removeprefix("kvframe.") if ours else None))
    assert there == {*OWN}
