"""A `Request` shows what it was given, makes others, and says the name that a keyword has now."""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

import numpy as np
import pytest

from kvframe import (
    AllocStatus,
    Config,
    ConfigError,
    KVCacheManager,
    MMItem,
    PluginError,
    Request,
    SlotCache,
    UsageError,
)
from kvframe.request import RequestOptions

from .helpers import manager

GIVEN: dict[str, Any] = {
    "cache_salt": "s",
    "lora_name": "l",
    "mm_items": [(0, 2, b"i")],
    "tenant": "t",
    "session": 3,
    "turn": 2,
    "request_class": 4,
    "priority": -5,
    "read_cache": False,
    "write_cache": False,
    "resumed": True,
    "partial": True,
    "chunk": 2,
    "until": 3,
    "max_seq_len": 9,
    "full_sequence_must_fit": True,
    "num_external_tokens": 4,
    "external_until": 4,
    "join": True,
    "encoder": b"e",
    "encoder_tokens": 6,
}


@pytest.mark.parametrize("name", GIVEN)
def test_an_option_is_shown_kept_and_taken_back(name: str) -> None:
    plain, request = Request([1, 2, 3, 4]), Request([1, 2, 3, 4], **{name: GIVEN[name]})
    assert getattr(request, name) == GIVEN[name] != getattr(plain, name)
    assert request.options == {name: GIVEN[name]}
    assert f"{name}=" in repr(request)
    assert Request(request.prompt, **request.options).options == request.options
    assert plain.replace(**{name: GIVEN[name]}).options == request.options
    assert request.replace(**{name: getattr(plain, name)}).options == {}
    assert plain.options == {}, "a request never changes"
    with pytest.raises(AttributeError):
        setattr(request, name, GIVEN[name])


def test_every_option_is_known_to_type_checkers() -> None:
    assert {*get_type_hints(RequestOptions)} == {*Request.OPTIONS, "num_tokens"}
    assert {*GIVEN} == {*Request.OPTIONS} - {"keys", "next_use", "retention"}


def test_another_prompt_is_another_request() -> None:
    request = Request([1, 2, 3], cache_salt="x", session=3)
    other = request.replace(prompt=[7, 8])
    assert (other.num_tokens, len(other), other.cache_salt, other.session) == (2, 2, "x", 3)
    assert other.prompt is not None
    assert other.prompt.tolist() == [7, 8]
    assert request.num_tokens == 3
    kv = manager()
    seq = kv.allocate(request.replace(prompt=range(8))).seq
    kv.commit(seq, 8)
    assert kv.lookup(Request(range(9), cache_salt="x")).tokens == 8
    assert kv.lookup(request.replace(prompt=range(9), cache_salt="")).tokens == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt": None}, "prompt = None: give token ids"),
        ({"prompt": ["a"]}, "prompt must be a 1-d array of token ids"),
        ({"num_tokens": 2}, "num_tokens = 2: the prompt has 3 tokens"),
        ({"max_seq_len": 2}, "max_seq_len = 2: counts prompt and answer together"),
        ({"cache_sal": "x"}, "cache_sal: a Request has no such option; did you mean cache_salt"),
        ({"chunk": "x"}, "chunk = 'x'"),
        ({"session": -1}, "session = -1"),
        ({"retention": 3}, "retention = 3: must be a Retention"),
    ],
)
def test_a_wrong_change_is_told(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Request([1, 2, 3]).replace(**changes)


@pytest.mark.parametrize(
    ("old", "new"),
    {
        "salt": "cache_salt",
        "adapter": "lora_name",
        "extras": "mm_items",
        "outlook": "next_use",
        "whole_sequence": "full_sequence_must_fit",
        "external": "num_external_tokens",
        "read": "read_cache",
        "insert": "write_cache",
        "max_tokens": "max_seq_len",
    }.items(),
)
def test_an_old_keyword_names_its_successor(old: str, new: str) -> None:
    kv, told = manager(), f"^{old}: this option of a Request is called {new}"
    wrong: dict[str, Any] = {old: 1}
    for ask in (Request, kv.allocate):
        with pytest.raises(UsageError, match=told):
            ask([1], **wrong)
    with pytest.raises(UsageError, match=told):
        Request([1]).replace(**wrong)
    assert new in Request.OPTIONS
    assert old not in Request.OPTIONS


@pytest.mark.parametrize(
    ("wrong", "near"),
    [("prioriti", "priority"), ("lora", "lora_name"), ("num_token", "num_tokens"), ("xyz", "")],
)
def test_a_misspelt_keyword_names_the_nearest(wrong: str, near: str) -> None:
    told = f"no such option; did you mean {near}" if near else "no such option$"
    with pytest.raises(UsageError, match=told):
        Request([1], **{wrong: 1})


def test_a_long_request_is_shown_short() -> None:
    items = [MMItem(0, 1, b"x" * 999)]
    shown = repr(Request(np.arange(9999), cache_salt="a\n" * 999, mm_items=items))
    assert "\n" not in shown
    assert len(shown) < 250
    assert shown.startswith("Request([0, 1, 2, 3, ...], num_tokens=9999, cache_salt=")
    assert inspect.signature(Request)


# --- results that stand for yes or no -------------------------------------------------------------


def test_a_status_is_true_where_a_request_may_begin_now() -> None:
    kv = manager(4)
    assert [bool(status) for status in AllocStatus] == [False, False, True]
    assert kv.can_allocate(Request(range(16))) is AllocStatus.OK
    kv.allocate([1])
    assert kv.can_allocate(Request(range(16))) is AllocStatus.LATER
    assert kv.can_allocate(Request(range(17))) is AllocStatus.NEVER


def test_a_plan_is_there_always_and_true_where_it_has_copies() -> None:
    kv = manager()
    seq = kv.allocate(range(6)).seq
    kv.commit(seq, 6)
    for empty in (kv.step().plan, kv.step(allocate=[[1]]).plan, kv.take_plan()):
        assert empty is not None
        assert not empty
        assert len(empty.copies) == 0
    fork = kv.fork(seq)
    plan = kv.step(append=[fork], tokens=[7]).plan
    assert plan
    assert len(plan.copies) == 1
    assert not SlotCache(2, 8).take_plan()


# --- keywords instead of a configuration ----------------------------------------------------------


def test_a_manager_is_made_of_keywords() -> None:
    kv = KVCacheManager(block_size=8, capacity=32, eviction="clock")
    assert (kv.block_size, kv.counts().total) == (8, 32)
    config = kv.inspect.resolved.config
    assert (config.cache.block_size, config.cache.capacity) == (8, 32)
    assert config.eviction.policy == "clock"
    assert "clock, 32 blocks of 8 tokens" in repr(kv)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"block_size": 0}, ConfigError, "block_size = 0: must be between 1 and"),
        ({"block_size": "x"}, ConfigError, 'block_size = "x"'),
        ({"block_sze": 4}, ConfigError, "block_sze = 4: unknown key; did you mean .*block_size"),
        ({"capacity": -1}, ConfigError, "capacity = -1: must be between"),
        ({"capacity": "1GB"}, ConfigError, r'capacity = "1GB": bytes need \[model\]'),
        ({"eviction": "lruu"}, PluginError, 'eviction.policy = "lruu".*did you mean lru'),
        ({"eviction": 3}, ConfigError, "eviction = 3: must be a table"),
        ({"admission": "x"}, PluginError, 'admission.policy = "x"'),
        ({"prefix": "x"}, PluginError, 'prefix.policy = "x"'),
        ({"policy": "lru"}, ConfigError, 'policy = "lru": is now eviction'),
        ({"config": Config(), "block_size": 4}, UsageError, "block_size: not beside"),
        ({"config": "a.toml"}, UsageError, "from_toml"),
    ],
)
def test_a_wrong_setting_is_told_by_its_keyword(
    settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        KVCacheManager(**settings)
