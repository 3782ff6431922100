"""What vLLM's CPU tier asks of a policy, of each policy that ships; vLLM need not be there.

The rows of vLLM's own suite (test_vllm_suite.py runs that where vLLM is): chunks come and go, those
being written or read are never victims, an eviction gives all it was asked for or nothing, a
request's tail is evicted before its head whenever its transfers end, and a reset leaves nothing.
"""

from __future__ import annotations

import ast
import inspect
import random
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from kvframe.policies.builtin import BUILTIN

from . import vllm_seam
from .signatures import record
from .vllm_seam import ChunkStatus, ReqContext

POLICIES = sorted(policy.name for policy in BUILTIN if not policy.replay_only)


@pytest.fixture
def adapter(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """`kvframe.integrations.vllm` on the seam."""
    for name, module in vllm_seam.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "kvframe.integrations.vllm", raising=False)
    yield import_module("kvframe.integrations.vllm")
    sys.modules.pop("kvframe.integrations.vllm", None)


def request(name: str, keys: list[bytes]) -> ReqContext:
    context = ReqContext(name)
    for place, key in enumerate(keys):
        context.set_offload_key_position(key, 16 * (place + 1))
    return context


def store(policy: Any, keys: list[bytes], context: ReqContext, ready: bool = True) -> None:
    for at, key in enumerate(keys):
        chunk = ChunkStatus(at)
        policy.insert(key, chunk, context)
        if ready:
            chunk.ref_cnt = 0
            policy.mark_evictable(key)


@pytest.mark.scenario("VT68", "F29")
def test_the_seam_is_as_it_was_recorded() -> None:
    known = record()["vllm"]["0.33.0"]
    place = "vllm.v1.kv_offload.cpu.policies.base.CachePolicy"
    for name, told in known.items():
        method = name.removeprefix(f"{place}.")
        if method == name or not told.endswith(("None", "]", "| None")) or "(self" not in told:
            continue
        ours = getattr(vllm_seam.CachePolicy, method)
        text = told.removeprefix("@abstractmethod ")
        tree = ast.parse(f"def f{text}: ...").body[0]
        assert isinstance(tree, ast.FunctionDef)
        recorded = [argument.arg for argument in tree.args.args]
        assert list(inspect.signature(ours).parameters) == recorded, method
        abstract = getattr(ours, "__isabstractmethod__", False)
        assert abstract == told.startswith("@abstractmethod"), method


@pytest.mark.scenario("VT68", "F29")
@pytest.mark.parametrize("name", POLICIES)
def test_chunks_come_and_go(adapter: Any, name: str) -> None:
    policy = adapter.cache_policy(name)(8)
    keys = [b"a0", b"a1", b"a2"]
    context = request("a", keys)
    store(policy, keys, context)
    assert [policy.get(key).chunk_id for key in keys] == [0, 1, 2]
    assert policy.get(b"b") is None
    policy.remove(b"a2")
    assert policy.get(b"a2") is None
    gone = policy.evict(2, set())
    assert gone is not None
    assert sorted(key for key, _ in gone) == keys[:2]
    assert all(isinstance(chunk, ChunkStatus) for _, chunk in gone)
    assert policy.evict(1, set()) is None
    store(policy, keys, context)
    policy.clear()
    assert [policy.get(key) for key in keys] == [None] * 3
    assert policy.evict(1, set()) is None
    policy.tier.check_integrity()


@pytest.mark.scenario("VT68", "F29")
@pytest.mark.parametrize("name", POLICIES)
def test_an_eviction_gives_all_or_nothing_and_spares_what_it_must(adapter: Any, name: str) -> None:
    policy = adapter.cache_policy(name)(8)
    keys = [b"a%d" % at for at in range(5)]
    context = request("a", keys)
    store(policy, keys[:3], context)
    store(policy, keys[3:], context, ready=False)
    policy.mark_non_evictable(keys[0])
    # Two may go, less the one that is protected.
    for _ in range(3):
        assert policy.evict(2, {keys[1]}) is None
        assert all(policy.get(key) is not None for key in keys)
    gone = policy.evict(1, {keys[1]})
    assert gone is not None
    assert [key for key, _ in gone] == [keys[2]]
    for key in keys[3:]:
        policy.mark_evictable(key)
    policy.mark_evictable(keys[0])
    assert len(policy.evict(4, set()) or ()) == 4
    policy.tier.check_integrity()


@pytest.mark.scenario("VT68", "F29")
@pytest.mark.parametrize("ends", [[0, 1, 2, 3], [3, 1, 0, 2], [3, 2, 1, 0]])
def test_a_requests_tail_dies_before_its_head_whenever_its_transfers_end(
    adapter: Any, ends: list[int]
) -> None:
    policy = adapter.cache_policy("lru")(8)
    old, keys = [b"o0", b"o1"], [b"n0", b"n1", b"n2", b"n3"]
    before, context = request("old", old), request("new", keys)
    store(policy, old, before)
    policy.on_request_finished([old], set(old), set(), before)
    store(policy, keys, context, ready=False)
    for at in ends:
        policy.get(keys[at]).ref_cnt = 0
        policy.mark_evictable(keys[at])
    policy.on_request_finished([keys], set(keys), set(), context)
    order = [key for _ in range(6) for key, _ in policy.evict(1, set()) or ()]
    assert order == [b"o1", b"o0", b"n3", b"n2", b"n1", b"n0"]


@pytest.mark.scenario("VT68", "F29")
def test_use_moves_a_prefix_up_under_lru_and_frequency_keeps_it_under_lfu(adapter: Any) -> None:
    for name, first in (("lru", b"b"), ("lfu", b"c")):
        policy = adapter.cache_policy(name)(4)
        for key in (b"a", b"b", b"c"):
            store(policy, [key], request(key.decode(), [key]))
        for number in range(2 if name == "lfu" else 1):
            for key in (b"a", b"b") if name == "lfu" else (b"a",):
                context = request(f"{number}", [key])
                policy.touch([key], context)
                policy.on_request_access([key], context)
                policy.on_request_finished([[key]], set(), {key}, context)
        gone = policy.evict(1, set())
        assert [key for key, _ in gone] == [first], name


@pytest.mark.scenario("VT68", "F29")
@pytest.mark.parametrize("name", POLICIES)
def test_random_traffic_keeps_the_books(adapter: Any, name: str) -> None:
    """Requests with shared prefixes, transfers in flight, protected chunks: 300 of them."""
    dice = random.Random(5)
    policy = adapter.cache_policy(name)(24)
    here: dict[bytes, bool] = {}
    """Of each chunk, whether it may be evicted."""
    for number in range(300):
        family, length = dice.randrange(9), dice.randint(1, 6)
        keys = [b"%d/%d" % (family, at) for at in range(length)]
        context = request(str(number), keys)
        known = [key for key in keys if key in here]
        policy.touch(known, context)
        policy.on_request_access(known, context)
        fresh = [key for key in keys if key not in here]
        policy.on_store_miss(fresh, context)
        need = len(here) + len(fresh) - 24
        if need > 0:
            may = [key for key, idle in here.items() if idle and key not in keys]
            gone = policy.evict(need, set(keys))
            assert (gone is None) == (need > len(may)), name
            if gone is None:
                continue
            evicted = [key for key, _ in gone]
            assert len(set(evicted)) == need
            assert set(evicted) <= set(may), "a chunk in transfer, or a protected one"
            for key in evicted:
                del here[key]
                assert policy.get(key) is None
        store(policy, fresh, context, ready=False)
        here.update(dict.fromkeys(fresh, False))
        for key, idle in list(here.items()):
            if dice.random() < (0.1 if idle else 0.7):
                here[key] = not idle
                policy.get(key).ref_cnt = int(idle)
                (policy.mark_non_evictable if idle else policy.mark_evictable)(key)
        policy.on_request_finished([keys], set(fresh), set(known), context)
        policy.tier.check_integrity()
    assert policy.tier.failures == 0
