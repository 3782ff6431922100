"""A pytest plugin for vLLM's own tests: what they call "lru" is a kvframe policy loaded by path.

Loaded with ``-p`` in vLLM's interpreter; ``KVFRAME_TEST_POLICY`` names the policy. Without one
vLLM's own runs, to compare with. Where vLLM finds no device it takes the CPU for one.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
import vllm.platforms as platforms
from vllm.platforms.cpu import CpuPlatform
from vllm.platforms.interface import UnspecifiedPlatform

if isinstance(platforms.current_platform, UnspecifiedPlatform):
    platforms._current_platform = CpuPlatform()

from vllm.v1.kv_offload.cpu import manager

POLICY = os.environ.get("KVFRAME_TEST_POLICY", "")
MODULE = "kvframe.integrations.vllm"

made: set[str] = set()
"""Tests in which vLLM made a kvframe policy."""


@pytest.fixture(autouse=True)
def _kvframe_policy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    # `test_factory` looks at vLLM's table of names itself.
    if not POLICY or "policies" in request.module.__name__:
        return
    from kvframe.integrations.peers import PREFIX
    from kvframe.integrations.vllm import cache_policy

    factory = manager.CachePolicyFactory
    find = factory.get_cache_policy_cls

    def by_path(name: str, module_path: str | None = None) -> Any:
        if name != "lru":
            return find(name, module_path)
        made.add(request.node.nodeid)
        return find(f"{PREFIX}{POLICY}", MODULE)

    monkeypatch.setattr(factory, "get_cache_policy_cls", by_path)
    if hasattr(request.module, "LRUCachePolicy"):
        monkeypatch.setattr(request.module, "LRUCachePolicy", cache_policy(POLICY))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """How many tests that was."""
    terminalreporter.write_line(f"{len(made)} tests made a kvframe policy")
