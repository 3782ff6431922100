"""What a run would take: its cells, those that are kept already, and roughly how long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvframe.bench.cells import Plan
from kvframe.bench.policies import BOUND
from kvframe.bench.results import ResultStore

NANOSECONDS = {"builtin": 800, "native": 1_500, "batched": 20_000}
"""Of a block access by the way a policy is written, where no kept cell says better."""


FUTURE_BYTES = 4
"""Of a block access: the index of the request that uses the block next."""


@dataclass(frozen=True)
class Estimate:
    """A run that has not begun.

    Attributes:
        cells: All of them.
        kept: Those that the result directory has.
        block_accesses: Of the others.
        seconds: That the others take, as far as that can be said.
        jobs: Replays side by side.
        future_bytes: What policies that know the future keep of it.
    """

    cells: int
    kept: int
    block_accesses: int
    seconds: float
    jobs: int
    future_bytes: int = 0

    def __str__(self) -> str:
        kept = f", of which {self.kept} are kept already" if self.kept else ""
        jobs = "one at a time" if self.jobs == 1 else f"{self.jobs} at a time"
        future = f"; {told_future(self.future_bytes)}" if self.future_bytes else ""
        return (
            f"{self.cells} cells{kept}; {self.block_accesses / 1e6:,.1f} M block accesses to "
            f"replay, about {self.seconds:,.0f} s, {jobs}{future}"
        )


def estimate(plans: Sequence[Plan], store: ResultStore | None, jobs: int) -> Estimate:
    """Look at every plan, and run none."""
    kept, todo = {}, []
    for plan in plans:
        found = store.load(plan) if store is not None else None
        if found is None:
            todo.append(plan)
        else:
            kept[plan] = found.cell
    known: dict[str, list[float]] = {}
    for plan, cell in kept.items():
        known.setdefault(plan.label, []).append(cell.seconds / max(cell.block_accesses, 1))
    accesses, seconds = 0, 0.0
    for plan in todo:
        own = plan.source.trace.prepare(plan.mode)["block_accesses"]
        speeds = known.get(plan.label)
        default = NANOSECONDS[plan.policy.loaded.descriptor.way] / 1e9
        seconds += own * (sum(speeds) / len(speeds) if speeds else default)
        accesses += own
    return Estimate(len(plans), len(kept), accesses, seconds / jobs, jobs, future_bytes(todo))


def future_bytes(plans: Sequence[Plan]) -> int:
    """Bytes of next uses: `FUTURE_BYTES` a block access, once for each trace and mode."""
    told = {
        (plan.source.sha256, plan.source.block_factor, plan.mode): plan
        for plan in plans
        if plan.policy.replay_only and plan.policy.name != BOUND
    }
    accesses = (plan.source.trace.prepare(plan.mode)["block_accesses"] for plan in told.values())
    return FUTURE_BYTES * int(sum(accesses))


def told_future(size: int) -> str:
    """A sentence on them."""
    return f"opt and its like keep {FUTURE_BYTES} bytes a block access: {size / 1e6:,.0f} MB"
