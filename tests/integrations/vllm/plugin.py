"""A pytest plugin for vLLM's own tests: what they call "lru" is a kvframe policy loaded by path.

Loaded with ``-p`` in vLLM's interpreter; ``KVFRAME_POLICY`` names the policy.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from vllm.v1.kv_offload.cpu import manager

from kvframe.integrations.vllm import PREFIX, cache_policy

POLICY = os.environ.get("KVFRAME_POLICY", "lru")


@pytest.fixture(autouse=True)
def _kvframe_policy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    factory = manager.CachePolicyFactory
    find = factory.get_cache_policy_cls

    def by_path(name: str, module_path: str | None = None) -> Any:
        if name == "lru":
            name, module_path = f"{PREFIX}{POLICY}", "kvframe.integrations.vllm"
        return find(name, module_path)

    if request.module.__name__.endswith("test_factory"):
        return  # it looks at the table of names itself
    monkeypatch.setattr(factory, "get_cache_policy_cls", by_path)
    if hasattr(request.module, "LRUCachePolicy"):
        monkeypatch.setattr(request.module, "LRUCachePolicy", cache_policy(POLICY))
