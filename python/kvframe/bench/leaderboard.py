"""One policy's place among the built-in ones: replays of shipped traces at one capacity each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvframe.bench import capacity
from kvframe.bench.cells import Cell
from kvframe.bench.plan import cross
from kvframe.bench.policies import BASELINE, BOUND, OPTIMUM, Choice, choose_all
from kvframe.bench.report import Table, is_wide
from kvframe.bench.run import run_all
from kvframe.bench.traces import Source
from kvframe.bench.verdict import with_gap_closed
from kvframe.registry import Registry

MODE = "engine"


@dataclass(frozen=True)
class Board:
    """Replays of one trace at one capacity.

    Attributes:
        trace: Its name.
        capacity: In blocks.
        mine: The policy on trial.
        lru: The baseline.
        opt: The optimum.
        online: Every policy that an engine could run, ``mine`` among them, most tokens hit first.
    """

    trace: str
    capacity: int
    mine: Cell
    lru: Cell
    opt: Cell
    online: tuple[Cell, ...]

    @property
    def rank(self) -> int:
        """Its place from 1; policies that hit as many tokens share one."""
        return 1 + sum(cell.hit_tokens > self.mine.hit_tokens for cell in self.online)

    @property
    def best(self) -> Cell:
        """The best of the others."""
        return next(cell for cell in self.online if cell is not self.mine)

    def sentence(self) -> str:
        gain = 100 * (self.mine.token_hit_rate - self.lru.token_hit_rate)
        gap = self.mine.gap_closed if is_wide(self.lru, self.opt) else None
        closed = "" if gap is None else f", {gap:+.1%} of the gap to the optimum"
        return (
            f"{self.trace}, {self.capacity} blocks: {self.mine.policy} is {self.rank} of "
            f"{len(self.online)}, {gain:+.2f} points from lru{closed}"
        )

    def table(self) -> Table:
        """The rows worth a look: optimum, best of the others, the policy itself, lru."""
        header = ["policy", "rank", "token hit", "gap closed", "evictions", "ns/decision"]
        table = Table(f"{self.trace}, {MODE} mode, {self.capacity} blocks", header)
        rows = {id(cell): cell for cell in (self.opt, self.best, self.mine, self.lru)}
        ranked = sorted(rows.values(), key=lambda cell: -cell.hit_tokens)
        for cell in ranked:
            online = cell is not self.opt
            above = sum(other.hit_tokens > cell.hit_tokens for other in self.online)
            told = online and is_wide(self.lru, self.opt)
            gap = "-" if cell.gap_closed is None or not told else f"{cell.gap_closed:+.1%}"
            table.rows.append(
                [
                    f"{cell.policy}{' *' if cell is self.mine else ''}",
                    str(1 + above) if online else "-",
                    f"{cell.token_hit_rate:.4f}",
                    gap,
                    f"{cell.evictions:,}",
                    f"{decision_ns(cell):,.0f}" if cell.evictions else "-",
                ]
            )
        return table


def decision_ns(cell: Cell) -> float:
    """Nanoseconds of the replay for each block evicted: the policy's work and all the rest."""
    return 1e9 * cell.seconds / max(1, cell.evictions)


def boards(
    mine: Choice,
    registry: Registry,
    sources: Sequence[Source],
    capacities: Sequence[str],
    *,
    quiet: bool = False,
) -> list[Board]:
    """Replay ``mine`` and every built-in policy.

    Args:
        mine: The policy.
        registry: Knows the built-in ones.
        sources: The traces.
        capacities: Blocks.
        quiet: No progress on stderr.

    Raises:
        KVFrameError: A capacity is none, or the policy failed.
        KeyboardInterrupt: Ctrl-C.
    """
    sizes = capacity.parse_blocks(capacities)
    shipped = [
        row.name
        for row in registry.list()
        if (row.kind, row.way, row.state) == ("eviction", "builtin", "ok") and row.name != BOUND
    ]
    others = [choice for choice in choose_all(shipped, registry) if choice.name != mine.label]
    plans = cross(sources, [MODE], [mine, *others], sizes)
    cells = with_gap_closed(run_all(plans, quiet=quiet))
    found: dict[tuple[str, int], list[tuple[Choice, Cell]]] = {}
    for plan, cell in cells.items():
        found.setdefault((cell.trace, plan.capacity or 0), []).append((plan.policy, cell))
    return [_board(place, rows, mine) for place, rows in found.items()]


def _board(place: tuple[str, int], rows: list[tuple[Choice, Cell]], mine: Choice) -> Board:
    by_label = {choice.label: cell for choice, cell in rows}
    online = [cell for choice, cell in rows if not choice.replay_only]
    return Board(
        *place,
        mine=by_label[mine.label],
        lru=by_label[BASELINE],
        opt=by_label[OPTIMUM],
        online=tuple(sorted(online, key=lambda cell: -cell.hit_tokens)),
    )
