"""What of SGLang this package builds on: of each known release in ``releases.json``.

``python -m kvframe_sglang.releases FOLDER VERSION`` records an unpacked wheel.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kvframe.integrations.releases import Releases

TREE = Releases(
    "SGLang",
    "sglang/srt",
    {
        "mem_cache/unified_cache/unified_tree_core_interface.py": (
            *("BaseEvictionResult", "EvictDeviceNextNodeResult", "EvictDeviceLeafResult"),
            *("InsertStepResult", "TreePathNodeInfo", "RadixCacheWalkResult"),
            "UnifiedTreeCoreInterface",
        ),
        "mem_cache/unified_cache/tree_core_registry.py": (
            *("create_tree_core", "register_tree_core_backend", "registered_tree_core_backends"),
        ),
        "mem_cache/unified_cache/cache_action.py": ("FreeDeviceKV",),
        "mem_cache/base_prefix_cache.py": (
            *("MatchPrefixParams", "MatchResult", "InsertParams", "InsertResult"),
            *("IncLockRefResult", "DecLockRefParams", "DecLockRefResult"),
        ),
        "mem_cache/cache_init_params.py": ("CacheInitParams",),
        "mem_cache/radix_cache.py": ("RadixKey",),
        "mem_cache/events.py": ("KVCacheEventRecorder",),
        "mem_cache/utils.py": ("get_eviction_strategy", "split_node_hash_value"),
        "mem_cache/allocator/page_interleave.py": ("page_interleave_shard_size",),
        "environ.py": ("EnvField",),
    },
    Path(__file__).with_name("releases.json"),
)
"""What the tree core meets."""

if __name__ == "__main__":
    TREE.record(Path(sys.argv[1]), sys.argv[2])
