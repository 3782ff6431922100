"""What the tree core answers a cache: receipts, names, walks, failures, what it does not serve."""

from __future__ import annotations

import logging
from array import array
from typing import Any

import pytest

pytest.importorskip("sglang", reason="SGLang is not installed")

from kvframe_sglang import fit, plugin, releases
from kvframe_sglang.cost import made
from kvframe_sglang.hostless import UnservedError
from kvframe_sglang.server import cache, start
from sglang.srt.mem_cache.base_prefix_cache import (
    EvictParams,
    InsertParams,
    MatchPrefixParams,
)
from sglang.srt.mem_cache.radix_cache import RadixKey
from sglang.srt.mem_cache.unified_cache.component_type import ComponentType

from kvframe.config import Resolved
from kvframe.prefix_tree import PrefixTree

NEWEST = '''
from kvframe.policies import BatchedEviction


class Newest(BatchedEviction):
    """The newest goes first."""

    columns = ("inserted",)

    def score(self, candidates, out):
        out[:] = -candidates["inserted"].astype("float64")
'''

SERVER: list[Any] = []


@pytest.fixture(scope="module", autouse=True)
def _server() -> None:
    # Once: it takes the handlers off the root logger.
    SERVER.append(start())


def build(policy: str = "kvframe:lru", page_size: int = 1, **given: Any) -> Any:
    return cache(SERVER[0], 1024, page_size=page_size, eviction_policy=policy, **given)


def store(tree: Any, tokens: list[int], **given: Any) -> Any:
    slots = tree.token_to_kv_pool_allocator.alloc(len(tokens))
    return tree.insert(InsertParams(key=RadixKey(array("q", tokens)), value=slots, **given))


def find(tree: Any, tokens: list[int]) -> Any:
    return tree.match_prefix(MatchPrefixParams(key=RadixKey(array("q", tokens))))


def test_a_wrong_receipt_is_refused_and_the_tree_goes_on() -> None:
    # SGLang's Rust tree panics here, and its lock stays poisoned.
    tree = build()
    first, second = store(tree, [1, 2, 3]), store(tree, [1, 2, 4])
    lock = tree.lock(second.last_device_node)
    with pytest.raises(AssertionError):
        tree.dec_lock_ref(first.last_device_node, lock.receipt)
    tree.unlock(lock)
    with pytest.raises(AssertionError, match="no lock left"):
        tree.unlock(lock)
    tree.evict(EvictParams(num_tokens=100))
    for stale in (first.last_device_node, 2**62, -1):
        with pytest.raises((KeyError, OverflowError)):
            tree.inc_lock_ref(stale)
    tree.sanity_check()


def test_looks_say_the_same_as_sglangs() -> None:
    told = []
    for policy in ("kvframe:lru", "lru"):
        tree = build(policy)
        nodes = [
            store(tree, tokens).last_device_node
            for tokens in ([1, 2, 3, 4], [1, 2, 5], [9, 9], [1, 2, 3, 4, 6])
        ]
        lock = tree.lock(nodes[1])
        core, root = tree.tree_core, tree.root_node_handle()
        walks = [
            # Siblings have no order in SGLang's Rust tree.
            sorted(
                zip(
                    *(c.tolist() for c in (w.slot_indices, w.positions, w.prev_slot_indices)),
                    strict=True,
                )
            )
            for w in (core.walk_for_kv_canary(unlocked, False) for unlocked in (False, True))
        ]
        paths = core.collect_path_info([*nodes, root])
        shapes = [
            [(i.path_start, i.path_end, i.full_value_len, i.num_children) for i in path]
            for path in paths
        ]
        told.append(
            (
                *(walks, shapes, core.dfs_weight_order([nodes[2], nodes[3], nodes[0], nodes[3]])),
                *(core.total_size(), sorted(core.all_values_flatten().tolist())),
                tree.path_device_indices(nodes[3]).tolist(),
                core.match_full_device_prefix(RadixKey(array("q", [1, 2, 3, 7])))[::2],
                core.get_component_device_value(nodes[2], ComponentType.FULL).tolist(),
                *(core.is_root(root), core.is_backuped(nodes[0]), tree.evictable_size()),
            )
        )
        tree.unlock(lock)
        tree.reset()
        assert tree.total_size() == (0, 0)
        assert root != tree.root_node_handle()
    assert told[0] == told[1]


def test_a_leaf_goes_alone_or_by_need() -> None:
    tree = build(page_size=16)
    leaf = store(tree, list(range(32)))
    result = tree.tree_core.evict_device_leaf(leaf.last_device_node, False)
    assert result.tracker[ComponentType.FULL] == 32
    tree._apply_eviction_result(result)
    assert tree.token_to_kv_pool_allocator.available_size() == 1024
    for first in range(8):
        store(tree, [first] * 16)
    # Whole leaves: 17 tokens take two of them.
    assert tree.evict(EvictParams(num_tokens=17)).num_tokens_evicted == 32
    assert find(tree, [2] * 16).device_prefix_len == 16


def test_a_policy_that_fails_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    tree = build("kvframe:lfu")
    for first in range(10):
        store(tree, [first, 0])

    def fail(tokens: int) -> Any:
        raise RuntimeError("of the policy")

    tree.tree_core.tree.evict = fail
    with caplog.at_level(logging.ERROR, logger="sglang.kvframe"):
        assert tree.evict(EvictParams(num_tokens=4)).num_tokens_evicted == 4
        tree.evict(EvictParams(num_tokens=2))
    assert [record.getMessage() for record in caplog.records] == [
        "kvframe's policy lfu failed, and its least recently used go instead: "
        "RuntimeError: of the policy"
    ]


def test_a_policy_in_python_rules(tmp_path: Any) -> None:
    file = tmp_path / "newest.py"
    file.write_text(NEWEST)
    tree = PrefixTree(Resolved.load("/dev/null", env={}, eviction={"policy": f"{file}:Newest"}), 1)
    for first in range(5):
        tree.store([first, 0], None, None)
    assert tree.evict(2)[0] == 2
    assert tree.find([4, 0], None, None).tokens == 0
    assert tree.find([0, 0], None, None).tokens == 2


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"tree_components": (ComponentType.FULL, ComponentType.MAMBA)}, "mamba"),
        ({"enable_session_radix_cache": True}, "--enable-session-radix-cache"),
    ],
)
def test_other_caches_are_left_to_sglang(changed: dict[str, Any], why: str) -> None:
    from sglang.srt.mem_cache.cache_init_params import CacheInitParams

    params = CacheInitParams(False, None, None, 1)
    params.tree_components = (ComponentType.FULL,)
    assert fit.unfit(params) is None
    for name, value in changed.items():
        setattr(params, name, value)
    assert why in str(fit.unfit(params))


def test_a_session_cache_gets_sglangs_tree_and_a_sentence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, logger="sglang.kvframe"):
        tree = build("kvframe:arc", enable_session_radix_cache=True)
    assert type(tree.tree_core).__name__ == "UnifiedTreeCore"
    assert len(caplog.records) == 1
    assert "Python tree" in caplog.records[0].getMessage()


def test_what_has_no_tier_says_so() -> None:
    core = made("kvframe lru").tree_core
    with pytest.raises(UnservedError, match="no tier below the device"):
        core.set_hicache_enabled()
    assert core.drive_host_eviction(ComponentType.FULL, 4).tracker == {}


def test_another_release_is_left_alone(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert releases.TREE.unknown is None
    assert "not one of the known" in str(releases.TREE.difference(tmp_path, "0.9.9"))
    known = next(iter(releases.TREE.recorded()))
    assert "as recorded" in str(releases.TREE.difference(tmp_path, known))
    monkeypatch.setattr(releases.TREE, "unknown", "SGLang 9 is not one of the known releases")
    with caplog.at_level(logging.WARNING, logger="sglang.kvframe"):
        plugin.register()
    assert len(caplog.records) == 1


def test_a_disabled_cache_is_sglangs() -> None:
    tree = build("kvframe:arc", disable=True)
    assert type(tree.tree_core).__name__ != "KvframeTreeCore"
    assert find(tree, [1, 2]).device_prefix_len == 0
