"""A manager's plans, carried out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from kvframe.errors import UsageError
from kvframe.pages.checks import Copies
from kvframe.pages.pool import PagePool


class CopyPlan(Protocol):
    """The parts of a `kvframe.CopyPlan` that are used here."""

    @property
    def ticket(self) -> int: ...

    @property
    def copies(self) -> npt.NDArray[np.int32]: ...


class Settled(NamedTuple):
    """Tickets as `KVCacheManager.step` takes them back.

    Attributes:
        done: Tickets whose copies are made, or queued on the stream of every later writer.
        failed: Tickets whose copies failed.
        why: What went wrong, if anything did.
    """

    done: list[int]
    failed: list[int]
    why: Exception | None = None


def run_plan(plan: CopyPlan, pools: PagePool | Sequence[PagePool]) -> Settled:
    """Make the copies of a plan, one call (on a GPU: one launch) a pool.

    Args:
        plan: From `KVCacheManager.take_plan` or `StepResult.plan`; one without copies is nothing to
            do.
        pools: The pool of each layer group, in their order; or one that serves them all.

    Returns:
        The ticket, as done or as failed. A failed one may have written destinations, which are not
        read; the manager cuts the sequences that wanted them.
    """
    if not len(plan.copies):
        return Settled([], [])
    try:
        for pool, copies in _by_pool(plan, pools):
            pool.copy(copies[:, 0], copies[:, 1], copies[:, 2])
    except Exception as error:  # whatever a backend raises: the ticket has to be answered
        return Settled([], [plan.ticket], error)
    return Settled([plan.ticket], [])


def _by_pool(plan: CopyPlan, pools: PagePool | Sequence[PagePool]) -> list[tuple[PagePool, Copies]]:
    """The copies of each pool, in their order."""
    if not isinstance(pools, Sequence):
        return [(pools, plan.copies)]
    groups = plan.copies[:, 3]
    if len(groups) and groups.max() >= len(pools):
        raise UsageError(f"layer group {groups.max()}: pools are given for {len(pools)}")
    distinct = {id(pool): pool for pool in pools}
    found = []
    for pool in distinct.values():
        mine = np.isin(groups, [at for at, other in enumerate(pools) if other is pool])
        if mine.any():
            found.append((pool, plan.copies[mine]))
    return found
