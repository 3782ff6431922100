"""transformers' continuous batching on kvframe, for transformers 5.16 and 5.17.

    with kvframe_blocks("kvframe.toml") as managers:
        outputs = model.generate_batch(prompts, generation_config=...)
    print(managers[0].stats())

The engine keeps its scheduler, its tensors and its attention. A `KVCacheManager`, with the policy
that the configuration names, decides instead which blocks a request gets, which are found again and
which are evicted. With ``[[tiers]]`` in the configuration, the engine's tensors are the pages of
`kvframe.tiers.Tiers`: what leaves the pool goes to host memory and stores, prompts are brought back
from there, and requests are preempted by swap, each where that is faster than to compute again.
"""

from __future__ import annotations

from kvframe.integrations.peers import missing
from kvframe.integrations.transformers.releases import RELEASES, check_release

try:
    import transformers as transformers
    from transformers.generation.continuous_batching import continuous_api as continuous_api
except ImportError as error:
    known = ", ".join(RELEASES)
    raise missing(error, "its continuous batching", "transformers", known) from error

check_release()

from kvframe.integrations.transformers.blocks import Managers, kvframe_blocks  # noqa: E402
from kvframe.integrations.transformers.cache import Cache  # noqa: E402

__all__ = ["RELEASES", "Cache", "Managers", "kvframe_blocks"]
