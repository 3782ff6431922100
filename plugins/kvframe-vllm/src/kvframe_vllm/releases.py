"""What of vLLM this package builds on: of each known minor release, in two tables.

``python -m kvframe_vllm.releases FOLDER VERSION`` records an unpacked wheel in both.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kvframe.integrations.releases import Releases

_HERE = Path(__file__).parent

POOL = Releases(
    "vLLM",
    "vllm",
    {
        "v1/core/block_pool.py": ("BlockPool",),
        "v1/core/kv_cache_utils.py": ("FreeKVCacheBlockQueue", "KVCacheBlock"),
        "distributed/kv_transfer/kv_connector/v1/base.py": ("KVConnectorBase_V1", "SupportsHMA"),
    },
    _HERE / "releases.json",
    numbers=2,
)
"""What the pool face meets."""

MANAGER = Releases(
    "vLLM",
    "vllm",
    {
        "v1/core/kv_cache_manager.py": ("KVCacheManager", "KVCacheBlocks"),
        "v1/core/kv_cache_coordinator.py": (
            *("KVCacheCoordinator", "UnitaryKVCacheCoordinator", "HybridKVCacheCoordinator"),
        ),
        "v1/core/single_type_kv_cache_manager.py": (
            *("SingleTypeKVCacheManager", "FullAttentionManager", "SlidingWindowManager"),
        ),
        "v1/core/block_pool.py": ("BlockPool",),
        "v1/core/sched/scheduler.py": ("Scheduler",),
        "v1/request.py": ("Request",),
    },
    _HERE / "manager" / "releases.json",
    numbers=2,
)
"""What the whole manager stands in for, which vLLM's scheduler calls by other names."""

if __name__ == "__main__":
    for one in (POOL, MANAGER):
        one.record(Path(sys.argv[1]), sys.argv[2])
