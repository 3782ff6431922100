"""Where the SGLang adapter works, and that it says so: on the plain RadixCache, in no server."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from kvframe.config import Resolved

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "other-engines.md"
NODE = {
    "id": 1,
    "key": [1, 2, 3],
    "parent": None,
    "children": {},
    "last_access_time": 1.0,
    "creation_time": 1.0,
    "hit_count": 0,
    "priority": 0,
}


@pytest.fixture
def adapter(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The adapter's module, beside as much of SGLang as it imports."""
    seam = ModuleType("sglang.srt.mem_cache.evict_policy")
    seam.EvictionStrategy = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, seam.__name__, seam)
    monkeypatch.delitem(sys.modules, "kvframe.integrations.sglang", raising=False)
    found = import_module("kvframe.integrations.sglang")
    monkeypatch.delitem(sys.modules, "kvframe.integrations.sglang")
    return found


class UnifiedTreeNode(SimpleNamespace):
    """What it has of a TreeNode: slots and locks are kept in component_data instead."""


class TreeNode(SimpleNamespace):
    """A node of a plain RadixCache."""


@pytest.mark.scenario("F28")
def test_nodes_of_another_cache_are_refused_at_the_first_eviction(adapter: Any) -> None:
    strategy = adapter.KvframeStrategy(Resolved.load(env={}))
    with pytest.raises(NotImplementedError, match="node is a UnifiedTreeNode: must be a TreeNode"):
        strategy.get_priority(UnifiedTreeNode(**NODE, component_data={}))
    root = TreeNode(**NODE, value=None, lock_ref=0)
    leaf = TreeNode(**{**NODE, "id": 2, "parent": root}, value=[7], lock_ref=0)
    assert strategy.get_priority(leaf).node_id == 2


@pytest.mark.scenario("F28")
def test_the_page_says_which_servers_it_works_in() -> None:
    page = PAGE.read_text()
    assert "A server builds a `UnifiedRadixCache`: [kvframe-sglang](sglang.md) serves that." in page
    for told in ("create_simulated", "UnifiedRadixCache", "--radix-eviction-policy kvframe:arc"):
        assert told in page
