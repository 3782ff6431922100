"""The vocabulary has every old name, and every new one exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import kvframe
from kvframe import (
    Config,
    ConfigError,
    EventKind,
    KVCacheManager,
    Request,
    Resolved,
    UsageError,
    renamed,
)
from kvframe.stats.counters import RENAMED

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "vocabulary.md").read_text()
SECTIONS = dict(re.findall(r"^## (.*?)$(.*?)(?=^## |\Z)", PAGE, flags=re.M | re.S))
ROW = re.compile(r"^\| `([^`]+)`.*? \| `([^`]+)`", re.M)
OBJECTS = {"pressure": "pressure.level", "pins": "pins.held", "stats": "stats.counters"}
"""Methods whose names are rooms now."""


def rows(section: str) -> dict[str, str]:
    return dict(ROW.findall(SECTIONS[section]))


def test_verbs() -> None:
    told = rows("Verbs of `KVCacheManager`")
    kept = {name: OBJECTS.get(name, name) for name in told if name not in renamed.MANAGER}
    assert told == {**renamed.MANAGER, **kept}
    kv = KVCacheManager(Config.of(block_size=4, capacity=16))
    for now in told.values():
        place: object = kv
        for part in now.partition("(")[0].split("."):
            place = getattr(place, part)


def test_every_verb_that_stays_is_told() -> None:
    new = {"abort", "advance", "block_size"}
    verbs = {name for name in dir(KVCacheManager) if not name.startswith("_")} - new
    now = {name.partition("(")[0] for name in rows("Verbs of `KVCacheManager`").values()}
    assert verbs - now == set()


def test_types() -> None:
    told = rows("Types")
    assert told == {**renamed.MODULE, "PolicyConfig": "EvictionConfig"}
    assert [name for name in told.values() if not hasattr(kvframe, name)] == []


@pytest.mark.parametrize(("old", "new"), rows("Options of a `Request`").items())
def test_options(old: str, new: str) -> None:
    assert hasattr(Request([1]), new)
    with pytest.raises(UsageError, match=rf"^{old}: .* is called {new}\b"):
        Request([1], **{old: 1})


@pytest.mark.parametrize(("old", "new"), rows("Configuration").items())
def test_configuration(old: str, new: str, tmp_path: Path) -> None:
    section, _, key = old.partition(".")
    key, *inner = key.split(".")
    value = "{ size = { min_tokens = 1 } }" if inner else '"lru"'
    file = tmp_path / "kvframe.toml"
    head = f"[[{section}]]\nname = 'a'\ncapacity = 1" if section == "tiers" else f"[{section}]"
    file.write_text(f"{head}\n{key} = {value}\n")
    with pytest.raises(ConfigError) as caught:
        Resolved.load(file, env={})
    now = new.removesuffix(".OPTION").partition(".")[2 if section == "tiers" else 0]
    assert now in str(caught.value)


def test_counters_and_states() -> None:
    told = rows("Counters, and states of blocks")
    assert told == RENAMED
    kv = KVCacheManager(Config.of(block_size=4, capacity=16))
    assert set(told.values()) <= kv.stats.counters().keys()
    states = kv.inspect.snapshot().states()
    assert told["lent"] in states
    with pytest.raises(KeyError, match="lent is called taken"):
        states["lent"]


def test_kinds_of_the_event_log() -> None:
    told = rows("Kinds of the event log")
    assert [name for name in told.values() if name not in EventKind.__members__] == []
    assert set(told) & EventKind.__members__.keys() == {"ALLOCATE"}  # it was another kind's name
