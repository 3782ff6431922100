"""Measures what other policies and sizes would have hit, on the traffic that an engine serves.

```text
 an engine ────── step ──────▶ ShadowSet ──▶ a thread of its own: one pool a policy and size
 a manager's log ─ follow ───▶     │
                                   └──▶ ShadowReport: hit rates beside the real one
```

| module | purpose |
| --- | --- |
| `shadows` | `ShadowSet`: the pools, and what an engine says of its steps |
| `follow` | `LogFollower`: the steps that a manager's log tells |
| `report` | `ShadowReport`: what came of it, and whether it can be trusted |
"""

from kvframe.shadow.follow import LogFollower, attach, followed
from kvframe.shadow.report import ShadowCounts, ShadowReport
from kvframe.shadow.shadows import Batching, ShadowSet

__all__ = [
    "Batching",
    "LogFollower",
    "ShadowCounts",
    "ShadowReport",
    "ShadowSet",
    "attach",
    "followed",
]
