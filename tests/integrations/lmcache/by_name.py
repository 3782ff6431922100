"""Run by LMCache's interpreter: a backend and an MP server get their policy by configuration alone.

Nothing here imports kvframe. What LMCache loads of it is what its metadata and arguments name.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def backend(policy: str) -> Any:
    """The policy of LMCache's CPU backend, as its engine builds it from a configuration."""
    import torch
    from lmcache.v1.config import LMCacheEngineConfig
    from lmcache.v1.metadata import LMCacheMetadata
    from lmcache.v1.storage_backend.local_cpu_backend import LocalCPUBackend

    config = LMCacheEngineConfig.from_legacy(chunk_size=16, backend="cpu")
    config.cache_policy = policy
    config.local_cpu = True
    config.max_local_cpu_size = 0.01
    metadata = LMCacheMetadata(
        model_name="m",
        world_size=1,
        local_world_size=1,
        worker_id=0,
        local_worker_id=0,
        kv_dtype=torch.float16,
        kv_shape=(1, 2, 16, 1, 8),
    )
    return LocalCPUBackend(config, metadata, dst_device="cpu").cache_policy


def server(config: dict[str, Any]) -> Any:
    """The policy of an MP server's host memory, with the module that its argument names."""
    import argparse

    from lmcache.v1.distributed.config import add_storage_manager_args, parse_args_to_config
    from lmcache.v1.multiprocess.config import (
        CoordinatorConfig,
        add_mp_server_args,
        parse_args_to_mp_server_config,
    )
    from lmcache.v1.multiprocess.engine_context import MPCacheServerContext
    from lmcache.v1.multiprocess.ext_server_module import load_server_module_components

    parser = argparse.ArgumentParser()
    add_storage_manager_args(parser)
    add_mp_server_args(parser)
    module = {"module_path": "kvframe.integrations.lmcache_server", "config": config}
    asked = parser.parse_args(
        ["--l1-size-gb", "0.01", "--eviction-policy", "LRU", "--server-module", json.dumps(module)]
    )
    context = MPCacheServerContext(parse_args_to_config(asked), chunk_size=16)
    told = parse_args_to_mp_server_config(asked)
    load_server_module_components(
        told.server_modules,
        server_context=context,
        mp_config=told,
        coordinator_config=CoordinatorConfig(),
        built_modules=(),
    )
    (controller,) = context.storage_manager._eviction_controllers
    assert controller._eviction_policy is controller._listener.policy
    return controller._eviction_policy


def main() -> int:
    """What each got, one a line."""
    for name in ("kvframe:arc", "kvframe:S3-FIFO", "kvframe", "LRU"):
        policy = backend(name)
        tier = getattr(policy, "tier", None)
        print(f"backend {name}: {type(policy).__name__} {'-' if tier is None else tier.policy}")
    for config in ({"policy": "arc"}, {"policy": "s3-fifo", "options": {"small_percent": 20}}):
        policy = server(config)
        options = dict(policy.tier.resolved.eviction.values)
        print(f"server {config['policy']}: {type(policy).__name__} {policy.tier.policy} {options}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
