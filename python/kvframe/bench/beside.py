"""What an admission policy or a prefix matcher does to the hit rate of lru, on shipped traces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvframe.bench import capacity
from kvframe.bench.admissions import Admission
from kvframe.bench.cells import Cell
from kvframe.bench.leaderboard import MODE
from kvframe.bench.matchers import Matcher
from kvframe.bench.plan import cross
from kvframe.bench.policies import BASELINE, OPTIMUM, choose_all
from kvframe.bench.report import Table
from kvframe.bench.run import run_all
from kvframe.bench.traces import Source
from kvframe.registry import Registry


@dataclass(frozen=True)
class Beside:
    """Replays of one trace at one capacity.

    Attributes:
        trace: Its name.
        capacity: In blocks.
        mine: lru with the policy on trial.
        lru: lru alone.
        opt: The optimum, with every block admitted.
    """

    trace: str
    capacity: int
    mine: Cell
    lru: Cell
    opt: Cell

    def sentence(self) -> str:
        gain = 100 * (self.mine.token_hit_rate - self.lru.token_hit_rate)
        dropped = self.mine.admission_dropped
        told = f", {dropped:,} blocks not kept" if dropped else ""
        return (
            f"{self.trace}, {self.capacity} blocks: {self.mine.policy} is {gain:+.2f} points "
            f"from lru{told}"
        )

    def table(self) -> Table:
        header = ["policy", "token hit", "evictions", "not kept", "ns/block"]
        table = Table(f"{self.trace}, {MODE} mode, {self.capacity} blocks", header)
        for cell in sorted((self.opt, self.mine, self.lru), key=lambda cell: -cell.hit_tokens):
            table.rows.append(
                [
                    f"{cell.policy}{' *' if cell is self.mine else ''}",
                    f"{cell.token_hit_rate:.4f}",
                    f"{cell.evictions:,}",
                    f"{cell.admission_dropped:,}",
                    f"{1e9 * cell.seconds / max(1, cell.block_accesses):,.0f}",
                ]
            )
        return table


def besides(
    mine: Admission | Matcher,
    registry: Registry,
    sources: Sequence[Source],
    capacities: Sequence[str],
    *,
    quiet: bool = False,
) -> list[Beside]:
    """Replay lru with and without ``mine``; the arguments are those of `leaderboard.boards`.

    Raises:
        KVFrameError: A capacity is none, or the policy failed.
        KeyboardInterrupt: Ctrl-C.
    """
    sizes = capacity.parse_blocks(capacities)
    lru, opt = choose_all((BASELINE, OPTIMUM), registry)
    gates = [mine] if isinstance(mine, Admission) else []
    indexes = [mine] if isinstance(mine, Matcher) else []
    plans = cross(sources, [MODE], [lru], sizes, (lru, opt), gates, indexes)
    found: dict[tuple[str, int], list[Cell]] = {}
    for plan, cell in run_all(plans, quiet=quiet).items():
        found.setdefault((cell.trace, plan.capacity or 0), []).append(cell)
    return [_of(place, cells) for place, cells in found.items()]


def _of(place: tuple[str, int], cells: list[Cell]) -> Beside:
    by_name = {cell.policy: cell for cell in cells}
    lru, opt = by_name[BASELINE], by_name[OPTIMUM]
    mine = next((cell for cell in cells if cell.policy not in (BASELINE, OPTIMUM)), lru)
    return Beside(*place, mine=mine, lru=lru, opt=opt)
