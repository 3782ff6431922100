"""The conformance kit: what kvframe expects of a policy, as tests for its author.

In a package's tests, with pytest:

.. code-block:: python

    from kvframe.testing import EvictionConformance


    class TestDeepFirst(EvictionConformance):
        policy = "deep-first"

`check_policy` gives the same as a `Report`; ``kvframe bench check`` prints it with a replay.

Admission policies and prefix matchers have `KindConformance`, and `check_kind` as a function; these
take what the package's hook gives. `check_store` does the same for a tier's store; a
`ServerProcess` on a `free_port` is the server behind it, to be killed, stalled and started again.
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
