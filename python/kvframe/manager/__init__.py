"""`KVCacheManager`, the object that an engine holds.

| module | purpose |
| --- | --- |
| `manager` | the manager: its verbs in the order in which a request meets them |
| `build` | the core's manager, made from a configuration |
| `forks` | the ways to fork, and which arguments go together |
| `step` | a scheduler step: its arguments and its result |
| `tables` | block tables and slot mappings for kernels, if the caller gives no array |
"""

from kvframe.manager.manager import KVCacheManager

__all__ = ["KVCacheManager"]
