"""What a decision costs, in time that the policy itself takes."""

from __future__ import annotations

import time

import numpy as np

from kvframe.errors import PolicyError
from kvframe.manager import KVCacheManager
from kvframe.testing.report import PromiseError
from kvframe.testing.spy import Watch
from kvframe.testing.subject import Subject
from kvframe.testing.traffic import blame

BUDGET_US = 100.0
"""Microseconds that a decision among `OFFERED` candidates may take, the events before it included.

Half a scheduler step of 200 us, and few steps need a decision. NumPy takes 5 to 20; a Python loop
over the candidates breaks it.
"""

OFFERED = 256
MANY = 4096
GROWTH = 4.0
"""How much more a candidate among `MANY` may cost than one among `OFFERED`."""

_CHAIN = 16
_DECISIONS = 48


def check_cost(subject: Subject, budget_us: float) -> float:
    """Microseconds of a decision among `OFFERED` candidates that frees 16 blocks.

    The quickest quarter of some dozens of decisions counts, for the machine may be busy.

    Raises:
        PromiseError: It takes more than ``budget_us``, or grows faster than what is offered.
    """
    few = _measure(subject, OFFERED)
    if few > budget_us:
        raise PromiseError(
            "cost", f"a decision among {OFFERED} candidates takes {few:.0f} us of {budget_us:.0f}"
        )
    many = _measure(subject, 0) if subject.batched else few
    limit = GROWTH * max(few, 5.0) * MANY / OFFERED
    if many > limit:
        raise PromiseError(
            "cost",
            f"a decision among {OFFERED} candidates takes {few:.0f} us, and {many:.0f} among "
            f"{MANY}: more than in proportion",
        )
    return few


def _measure(subject: Subject, window: int) -> float:
    """Microseconds of a decision in a full pool: `MANY` cached blocks, in prefixes of 16."""
    watch = Watch()
    manager = subject.manager(MANY, block_size=1, window=window, watch=watch)
    for first in range(0, MANY, _CHAIN):
        _serve(manager, first)
    spent = []
    for first in range(MANY, MANY + _DECISIONS * _CHAIN, _CHAIN):
        before, start = len(watch.spent), time.perf_counter_ns()
        _serve(manager, first)
        whole = time.perf_counter_ns() - start
        # Without a spy, the policy's share of the time cannot be told from the core's.
        spent.append(sum(watch.spent[before:]) if subject.batched else whole)
    return sorted(spent)[len(spent) // 4] / 1000


def _serve(manager: KVCacheManager, first: int) -> None:
    try:
        grant = manager.allocate(np.arange(first, first + _CHAIN, dtype=np.uint32))
    except PolicyError as error:
        raise blame(error) from error
    manager.commit(grant.seq, _CHAIN)
    manager.release(grant.seq)
