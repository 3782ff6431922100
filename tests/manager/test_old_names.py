"""Names of before the first release say what took their place, and nothing else is the worse."""

from __future__ import annotations

import copy
import inspect
import pickle
import pydoc
import re
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import Any

import pytest

import kvframe
from kvframe import (
    Config,
    KVCacheManager,
    Request,
    RouterIndex,
    SlotCache,
    UsageError,
    renamed,
    results,
)
from kvframe.tiers import Tiers

from .helpers import manager


def reached(start: Any, path: str) -> Any:
    """What a new name stands for: a verb, a verb of a room, or a keyword of a verb."""
    verb, _, keyword = path.partition("(")
    for part in verb.split("."):
        start = getattr(start, part)
    if keyword:
        assert keyword.split("=")[0] in inspect.signature(start).parameters
    return start


@pytest.mark.parametrize("old", renamed.MANAGER)
def test_an_old_verb_of_the_manager_names_a_new_one_that_exists(old: str) -> None:
    kv, new = manager(), renamed.MANAGER[old]
    told = re.escape(f"KVCacheManager.{old} is called KVCacheManager.{new} now")
    with pytest.raises(AttributeError, match=told):
        getattr(kv, old)
    with pytest.raises(AttributeError, match=told):
        getattr(KVCacheManager, old)
    assert not hasattr(kv, old)
    reached(kv, new)


@pytest.mark.parametrize("module", [kvframe, results])
@pytest.mark.parametrize("old", renamed.MODULE)
def test_an_old_type_names_a_new_one_that_exists(old: str, module: ModuleType) -> None:
    new = renamed.MODULE[old]
    told = re.escape(f"{module.__name__}.{old} is called {module.__name__}.{new} now")
    with pytest.raises(AttributeError, match=told):
        getattr(module, old)
    assert isinstance(getattr(kvframe, new, None) or getattr(results, new), type)


@pytest.mark.parametrize("owner", [SlotCache, Tiers])
@pytest.mark.parametrize("old", renamed.CACHE)
def test_an_old_verb_of_a_cache_names_a_new_one_that_exists(old: str, owner: Any) -> None:
    new = renamed.CACHE[old]
    cache = owner.__new__(owner)
    for asked in (owner, cache):
        with pytest.raises(AttributeError, match=f"{owner.__name__}.{old} is called .*{new} now"):
            getattr(asked, old)
    assert callable(getattr(owner, new))


@pytest.mark.parametrize("owner", [KVCacheManager, SlotCache, Tiers])
def test_old_names_are_not_listed(owner: Any) -> None:
    old = renamed.MANAGER if owner is KVCacheManager else renamed.CACHE
    members = [name for name, _ in inspect.getmembers(owner)]
    for listed in (dir(owner), dir(owner.__new__(owner)), members):
        assert "lookup" in listed
        assert not {*old} & {*listed}
    assert "is called" not in pydoc.render_doc(owner)
    assert "__getattr__" not in vars(owner), "every attribute would be looked up the slow way"


@pytest.mark.parametrize("room", ["pins", "stats", "pressure"])
def test_a_room_called_as_the_method_that_it_was_says_what_to_call(room: str) -> None:
    kv = manager()
    calls: list[Callable[[Any], object]] = [lambda r: r(), lambda r: r("x"), lambda r: r(owner="x")]
    for call in calls:
        with pytest.raises(UsageError, match=rf"is kv\.{room}\.\w+\(") as told:
            call(getattr(kv, room))
    (path,) = re.findall(r"kv\.([\w.]+)\(", str(told.value))
    reached(kv, path)


# --- what every object of Python may be asked -----------------------------------------------------


def handles() -> dict[str, Any]:
    kv = manager()
    return {
        "manager": kv,
        **{room: getattr(kv, room) for room in ("pins", "blocks", "log", "inspect", "stats")},
        "pressure": kv.pressure,
        "slots": SlotCache(2, 8),
        "router": RouterIndex(4),
        "request": Request(range(99), session="a\nb", cache_salt="x\n" * 80),
        "allocation": kv.allocate([1, 2, 3]),
        "hit": kv.lookup([1, 2, 3]),
        "step": kv.step(),
        "plan": kv.take_plan(),
        "config": Config(),
    }


@pytest.mark.parametrize("name", handles())
def test_a_handle_is_shown_on_one_line(name: str) -> None:
    handle = handles()[name]
    shown = repr(handle)
    assert shown.startswith(f"{type(handle).__name__}(")
    if name not in {"plan", "step"}:  # These show arrays as NumPy does.
        assert "\n" not in shown
    assert " object at 0x" not in shown
    assert shown.endswith(")")


@pytest.mark.parametrize("name", handles())
def test_a_handle_answers_what_python_asks_of_any_object(name: str) -> None:
    handle = handles()[name]
    assert not hasattr(handle, "__array__")
    assert not hasattr(handle, "_no_such_name")
    assert inspect.signature(type(handle))
    assert inspect.getmembers(handle)
    assert pydoc.render_doc(type(handle))
    assert type(handle).__name__ in str(handle)
    for ask in (copy.copy, copy.deepcopy, pickle.dumps):
        with suppress(TypeError):  # The compiled core cannot be copied; nothing else is raised.
            ask(handle)


def test_an_object_that_was_never_made_does_not_recurse() -> None:
    for owner in (KVCacheManager, SlotCache, Tiers, RouterIndex):
        with pytest.raises(AttributeError, match=r"_core|_levels|block_size"):
            repr(owner.__new__(owner))


def test_log_says_whether_it_is_on() -> None:
    assert repr(manager().log) == "Log(off)"
    kv = manager(event_log=True)
    assert repr(kv.log) == "Log(on)"
    kv.allocate([1])
    assert repr(kv.log) == "Log(on)"
    assert len(kv.log.take()) > 0, "showing it takes nothing"


def test_what_the_handles_show() -> None:
    kv = manager()
    kv.allocate([1, 2, 3])
    assert repr(kv.inspect) == "Inspect(lru; 1 running, 0 tickets open)"
    slots = SlotCache(3, 8)
    seq = slots.allocate([1, 2]).seq
    assert repr(slots) == "SlotCache(lru, 3 slots of 8 tokens: 2 empty, 1 live)"
    slots.commit(seq, 2)
    slots.release(seq)
    assert repr(slots) == "SlotCache(lru, 3 slots of 8 tokens: 2 empty, 1 cached)"
    index = RouterIndex(4)
    index.add_worker(1)
    assert repr(index) == "RouterIndex(blocks of 4 tokens: 0 blocks, 1 workers)"
    assert repr(RouterIndex()) == "RouterIndex(by hashes: 0 blocks, 0 workers)"
