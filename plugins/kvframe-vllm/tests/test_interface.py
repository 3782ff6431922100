"""The interface that is proposed to vLLM: stock's queue and ours fulfil what they should."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not installed here", allow_module_level=True)

from kvframe_vllm import interface
from kvframe_vllm.choice import resolved
from kvframe_vllm.install import put_in
from kvframe_vllm.interface import EvictionOrder, FreeBlocks
from kvframe_vllm.replay.engine import Load, scheduler
from vllm.v1.core.kv_cache_utils import FreeKVCacheBlockQueue, KVCacheBlock


def test_it_imports_neither_side() -> None:
    tree = ast.parse(Path(interface.__file__).read_text(encoding="utf-8"))
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert modules == {"__future__", "collections.abc", "typing"}


def test_stock_and_ours_fulfil_it() -> None:
    stock = FreeKVCacheBlockQueue([KVCacheBlock(at) for at in range(4)])
    assert isinstance(stock, FreeBlocks)
    assert not isinstance(stock, EvictionOrder)
    pool = scheduler(Load(blocks=16)).kv_cache_manager.block_pool
    put_in(pool, resolved("lfu"))
    assert isinstance(pool.free_block_queue, EvictionOrder)


def test_the_pool_calls_nothing_else() -> None:
    """What vLLM's own pool calls of its queue is in the protocol, or is for one block."""
    source = Path(importlib.util.find_spec("vllm.v1.core.block_pool").origin)  # type: ignore[union-attr,arg-type]
    called = {
        node.attr
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "free_block_queue"
    }
    known = {name for name in dir(FreeBlocks) if not name.startswith("_")} | {"num_free_blocks"}
    assert called <= known | {"popleft", "iter_blocks_after"}, called - known
