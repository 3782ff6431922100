"""What a run would take: its cells, those that are kept already, and roughly how long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvframe.bench.cells import Plan
from kvframe.bench.results import ResultStore

NANOSECONDS = {"builtin": 800, "native": 1_500, "batched": 20_000}
"""Of a block access by the way a policy is written, where no kept cell says better."""


@dataclass(frozen=True)
class Estimate:
    """A run that has not begun.

    Attributes:
        cells: All of them.
        kept: Those that the result directory has.
        block_accesses: Of the others.
        seconds: That the others take, as far as that can be said.
        jobs: Replays side by side.
    """

    cells: int
    kept: int
    block_accesses: int
    seconds: float
    jobs: int

    def __str__(self) -> str:
        kept = f", of which {self.kept} are kept already" if self.kept else ""
        jobs = "one at a time" if self.jobs == 1 else f"{self.jobs} at a time"
        return (
            f"{self.cells} cells{kept}; {self.block_accesses / 1e6:,.1f} M block accesses to "
            f"replay, about {self.seconds:,.0f} s, {jobs}"
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
    return Estimate(len(plans), len(kept), accesses, seconds / jobs, jobs)
