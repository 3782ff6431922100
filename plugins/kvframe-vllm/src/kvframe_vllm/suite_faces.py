"""What stands in vLLM's place while its own tests run: a plugin of pytest (`kvframe_vllm.suite`).

| face | under a policy |
| --- | --- |
| pool | every pool with prefix caching is ruled by it as soon as it is made |
| manager | kvframe's manager stands in every scheduler, and for every manager, that it serves |
| offload | the CPU tier's ``lru`` is the policy by name, and its spec kvframe's |

A test says in its report how often it met kvframe there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

POLICY = "KVFRAME_SUITE_POLICY"
FACE = "KVFRAME_SUITE_FACE"

MET = "kvframe"
"""The property of a test's report that says how often it met kvframe."""

_met = [0]


def pytest_configure() -> None:
    """Put the face in before the tests are imported."""
    import torch
    import vllm.platforms
    from vllm.platforms.cpu import CpuPlatform

    if vllm.platforms.current_platform.is_unspecified() or not torch.cuda.is_available():
        vllm.platforms._current_platform = CpuPlatform()
    if policy := os.environ.get(POLICY):
        FACES[os.environ[FACE]](policy)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: Any) -> Any:
    """Note how often a test met kvframe, its fixtures included."""
    yield
    item.user_properties.append((MET, _met[0]))


def pytest_runtest_logstart() -> None:
    """A test begins."""
    _met[0] = 0


def raised(_: Any, error: Exception) -> Any:
    """A server would go on with what vLLM has; a test that did so would show nothing."""
    raise error


def pool(policy: str) -> None:
    """The policy in every pool."""
    from vllm.v1.core.block_pool import BlockPool

    from kvframe_vllm import install
    from kvframe_vllm.choice import resolved

    stock = BlockPool.__init__

    def init(made: Any, *args: Any, **kwargs: Any) -> None:
        stock(made, *args, **kwargs)
        if type(made) is BlockPool and made.enable_caching:
            install.put_in(made, resolved(policy))
            _met[0] += 1

    BlockPool.__init__ = init
    vars(install)["give_up"] = raised


def manager(policy: str) -> None:
    """Our manager in every scheduler, and for every manager that a test makes."""
    from vllm.v1.core import kv_cache_manager
    from vllm.v1.core.sched.scheduler import Scheduler

    from kvframe_vllm.manager import whole
    from kvframe_vllm.manager.fit import unfit

    stock, init_scheduler = kv_cache_manager.KVCacheManager, Scheduler.__init__

    def init(scheduler: Any, *args: Any, **kwargs: Any) -> None:
        init_scheduler(scheduler, *args, **kwargs)
        if unfit(scheduler) is None:
            scheduler.kv_cache_manager = whole.WholeManager(scheduler, policy)
            _met[0] += 1

    class Made(type(stock)):  # type: ignore[misc]
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            own = stock(*args, **kwargs)
            alone = {"connector": None, "aux_output_connector": None, "defer_block_free": False}
            scheduler = SimpleNamespace(kv_cache_manager=own, **alone)
            if unfit(scheduler) is not None:
                return own
            _met[0] += 1
            return whole.WholeManager(scheduler, policy)

    Scheduler.__init__ = init
    kv_cache_manager.KVCacheManager = Made("KVCacheManager", (stock,), {})
    vars(whole)["hand_over"] = raised


def offload(policy: str) -> None:
    """The policy by its name in the CPU tier, and the spec by its name."""
    from vllm.v1.kv_offload.cpu.policies.factory import CachePolicyFactory
    from vllm.v1.kv_offload.factory import OffloadingSpecFactory

    from kvframe_vllm.offload import names

    names.register()
    by_name, create = CachePolicyFactory.get_cache_policy_cls, OffloadingSpecFactory.create_spec

    def policy_of(name: str, *args: Any, **kwargs: Any) -> Any:
        ours = name == "lru"
        _met[0] += ours
        return by_name(f"kvframe:{policy}" if ours else name, *args, **kwargs)

    def spec_of(config: Any, *args: Any, **kwargs: Any) -> Any:
        extra = config.extra_config
        if extra.get("spec_name", "CPUOffloadingSpec") == "CPUOffloadingSpec":
            extra["spec_name"] = names.SPEC
            _met[0] += 1
        return create(config, *args, **kwargs)

    CachePolicyFactory.get_cache_policy_cls = staticmethod(policy_of)
    OffloadingSpecFactory.create_spec = staticmethod(spec_of)


FACES: dict[str, Callable[[str], None]] = {"pool": pool, "manager": manager, "offload": offload}
