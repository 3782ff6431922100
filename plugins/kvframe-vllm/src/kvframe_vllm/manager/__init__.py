"""kvframe's manager in the place of vLLM's, for full attention and sliding windows. Experimental.

In ``--scheduler-cls kvframe_vllm.manager.KvframeManagerScheduler`` the whole block manager of the
scheduler is kvframe's: it knows which block follows which, so that policies by parents and turns,
admission policies and retention work, and a decode step that fills no block costs no call of it.
The policy is named as for the pool alone (`kvframe_vllm.choice`); of a ``.toml`` file
``[eviction]``, ``[admission]`` and ``[retention]`` count.

| module | what it does |
| --- | --- |
| `scheduler` | the way in |
| `fit` | whether the model, the settings and the release are served |
| `whole` | what vLLM's scheduler calls |
| `windows` | layer groups, and when blocks leave a sliding window |
| `requests` | a request of vLLM as kvframe takes it |
| `results` | blocks as vLLM's scheduler gets them |
| `events` | kvframe's log as vLLM's KV events |
| `handover` | everything back to vLLM's own manager, in mid-run |
"""

from kvframe_vllm.manager.scheduler import KvframeManagerScheduler

__all__ = ["KvframeManagerScheduler"]
