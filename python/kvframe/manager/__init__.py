"""`KVCacheManager`, the object that an engine holds.

| module | purpose |
| --- | --- |
| `manager` | the manager: its verbs in the order in which a request meets them |
| `step` | a step's answer as Python's types |
| `tables` | arrays for kernels, where the caller brings none |
"""

from kvframe.manager.manager import KVCacheManager

__all__ = ["KVCacheManager"]
