"""The conformance kit: what kvframe expects of a policy or a store, as tests for its author.

In a package's tests, with pytest:

.. code-block:: python

    from kvframe.testing import EvictionConformance


    class TestDeepFirst(EvictionConformance):
        policy = "deep-first"

`check_policy` returns the same as a `Report`; ``kvframe bench check`` prints that and a replay.

For admission policies and prefix matchers there are `KindConformance` and the function
`check_kind`; both take the descriptor that the package's hook returns. `check_store` checks a
tier's store. A `ServerProcess` on a `free_port` runs the server behind a store, and can kill, stall
and restart it.
"""

from __future__ import annotations

from kvframe.testing.eviction import EvictionConformance, check_policy
from kvframe.testing.kinds import KindConformance, check_kind
from kvframe.testing.report import Check, Report
from kvframe.testing.servers import ServerProcess, free_port
from kvframe.testing.stores import StoreError, check_store

__all__ = [
    "Check",
    "EvictionConformance",
    "KindConformance",
    "Report",
    "ServerProcess",
    "StoreError",
    "check_kind",
    "check_policy",
    "check_store",
    "free_port",
]
