"""The sentence: which policy would have served a trace best, at which capacity."""

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from kvframe.bench.cells import Cell, Plan
from kvframe.bench.policies import BASELINE, OPTIMUM

Rows = Mapping[Plan, Cell]


def with_gap_closed(rows: Rows) -> dict[Plan, Cell]:
    """The same rows, each with its ``gap_closed`` where lru and opt ran at its capacity."""
    tokens = {
        (plan.group, plan.capacity, plan.label): cell.hit_tokens for plan, cell in rows.items()
    }
    filled = {}
    for plan, cell in rows.items():
        low = tokens.get((plan.group, plan.capacity, BASELINE))
        high = tokens.get((plan.group, plan.capacity, OPTIMUM))
        gap = None
        if low is not None and high is not None and high != low:
            gap = (cell.hit_tokens - low) / (high - low)
        filled[plan] = msgspec.structs.replace(cell, gap_closed=gap)
    return filled


class Telling(NamedTuple):
    """The three cells that a verdict compares, at one capacity; ``equals`` are the labels of other
    online policies that hit exactly as many tokens as ``best``, ``elsewhere`` the policies that
    lead at other capacities.
    """

    best: Cell
    lru: Cell
    opt: Cell
    equals: list[str]
    elsewhere: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def gain(self) -> int:
        """Tokens that the best online policy hits and lru does not."""
        return self.best.hit_tokens - self.lru.hit_tokens

    @property
    def gap(self) -> int:
        """Tokens that opt hits and lru does not."""
        return self.opt.hit_tokens - self.lru.hit_tokens


def telling(rows: Rows) -> Telling | None:
    """The capacity that says most about one trace and mode.

    It is where the best online policy gains most tokens over lru; where none gains anything, lru is
    the best and it is where opt gains most. None when lru and opt did not both run at any capacity.
    """
    by_capacity: dict[int, dict[str, Cell]] = defaultdict(dict)
    for plan, cell in rows.items():
        if plan.capacity is not None and (not plan.policy.replay_only or plan.label == OPTIMUM):
            by_capacity[plan.capacity][plan.label] = cell
    found = []
    for cells in by_capacity.values():
        opt, lru = cells.pop(OPTIMUM, None), cells.get(BASELINE)
        if opt is not None and lru is not None:
            top = max(cell.hit_tokens for cell in cells.values())
            equal = [cell for cell in cells.values() if cell.hit_tokens == top]
            best = lru if lru in equal else equal[0]
            others = [cell.policy for cell in equal if cell is not best]
            found.append(Telling(best, lru, opt, others))
    if not found:
        return None
    chosen = max(found, key=lambda at: (at.gain, at.gap))
    return chosen._replace(elsewhere=_leaders(found, chosen))


def _leaders(found: list[Telling], chosen: Telling) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Where another policy than the chosen one leads, by policy."""
    leads: dict[str, list[int]] = defaultdict(list)
    for at in found:
        if chosen.best.policy not in (at.best.policy, *at.equals):
            leads[at.best.policy].append(at.best.capacity_blocks or 0)
    return tuple((policy, tuple(sorted(blocks))) for policy, blocks in leads.items())


def sentence(rows: Rows) -> str:
    """The answer for one trace and mode, in one line."""
    plan = next(iter(rows))
    where = f"{plan.source.name}, {plan.mode} mode"
    at = telling(rows)
    if at is None:
        return f"{where}: no verdict, since lru and opt did not both run at one capacity."
    size = f"{at.best.capacity_blocks} block{'' if at.best.capacity_blocks == 1 else 's'}"
    lru, opt = f"{at.lru.token_hit_rate:.2%}", f"{at.opt.token_hit_rate:.2%}"
    if not any(cell.hit_tokens for cell in rows.values()):
        return f"{where}: no verdict, since no policy hits anything, opt neither."
    if at.gap == 0:
        return (
            f"{where}: lru would have served it best: it hits all that opt does, {lru}, at {size}."
        )
    if at.gain == 0:
        return (
            f"{where}: lru would have served it best, no online policy that ran beats it; most is "
            f"left to win at {size}, where lru hits {lru} of the input tokens and opt {opt}."
        )
    equals = f" (equal: {', '.join(at.equals)})" if at.equals else ""
    return (
        f"{where}: {at.best.policy}{equals} would have served it best, most clearly at {size}, "
        f"where it hits {at.best.token_hit_rate:.2%} of the input tokens against {lru} for lru and "
        f"{opt} for opt ({at.gain / at.gap:.1%} of the gap closed){_but(at)}."
    )


def _but(at: Telling) -> str:
    led = [f"{policy} leads at {' and '.join(map(str, blocks))}" for policy, blocks in at.elsewhere]
    return f"; {', '.join(led)}" if led else ""
