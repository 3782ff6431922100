"""The sentence: which of the policies tried would have served a trace best, over all sizes tried.

The policies are those that an engine can run. The best one hits most tokens on the mean of the
sizes, so it loses to no other on that mean; of several such, lru is the best. Where there is
nothing to choose from, there is no verdict.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import msgspec

from kvframe.bench.cells import Cell, Plan
from kvframe.bench.policies import BASELINE, OPTIMUM

Rows = Mapping[Plan, Cell]

NAMED = 12
"""Policies that the sentence names one by one; of more it says how many."""


def with_gap_closed(rows: Rows) -> dict[Plan, Cell]:
    """The same rows, each with its ``gap_closed`` where opt hits more than lru at its capacity."""
    tokens = {
        (plan.group, plan.capacity, plan.label): cell.hit_tokens for plan, cell in rows.items()
    }
    filled = {}
    for plan, cell in rows.items():
        low = tokens.get((plan.group, plan.capacity, BASELINE))
        high = tokens.get((plan.group, plan.capacity, OPTIMUM))
        gap = None
        if low is not None and high is not None and high > low:
            gap = (cell.hit_tokens - low) / (high - low)
        filled[plan] = msgspec.structs.replace(cell, gap_closed=gap)
    return filled


class Verdict(NamedTuple):
    """The verdict on one trace and mode.

    Attributes:
        best: Label of the policy that is said to have served it best; None without a verdict.
        capacity: The size that says most, in blocks; None where there is no such.
        said: The rest of the sentence.
    """

    best: str | None
    capacity: int | None
    said: str


def sentence(rows: Rows) -> str:
    """The answer for one trace and mode, in one line."""
    plan = next(iter(rows))
    return f"{plan.source.name}, {plan.mode} mode: {judge(rows).said}."


def judge(rows: Rows) -> Verdict:
    """Which policy hits most tokens on the mean of all sizes that were tried."""
    field = _Field.of(rows)
    if not field.compared:
        return _none("lru and opt did not both run at every size")
    ahead = field.unfinished_ahead()
    if ahead:
        return _none(f"{_and(ahead)} did not run at every size, and led where both ran")
    at = field.widest
    if not any(cell.hit_tokens for cell in rows.values()):
        return _none("no policy hits anything, opt neither", at)
    if len(field.online) == 1:
        return _none(f"lru alone was tried; {field.left_to_win(at)}", at)
    tops = field.tops(field.sizes)
    if BASELINE in tops:
        return Verdict(BASELINE, at, field.for_lru(tops, at))
    at = field.clearest(tops[0])
    return Verdict(tops[0], at, field.for_another(tops, at))


def _none(why: str, at: int | None = None) -> Verdict:
    return Verdict(None, at, f"no verdict, since {why}")


@dataclass(frozen=True)
class _Field:
    """What ran of one trace in one mode.

    Attributes:
        sizes: Blocks, in the order they were tried.
        online: Cells of each policy that an engine can run, by label and size.
        opt: Cells of the optimum by size.
    """

    sizes: Sequence[int]
    online: Mapping[str, Mapping[int, Cell]]
    opt: Mapping[int, Cell]

    @classmethod
    def of(cls, rows: Rows) -> _Field:
        sizes = list(dict.fromkeys(p.capacity for p in rows if p.capacity is not None))
        online: dict[str, dict[int, Cell]] = defaultdict(dict)
        opt: dict[int, Cell] = {}
        for plan, cell in rows.items():
            if plan.capacity is None:
                continue
            if plan.label == OPTIMUM:
                opt[plan.capacity] = cell
            elif not plan.policy.replay_only:
                online[plan.label][plan.capacity] = cell
        return cls(sizes, dict(online), opt)

    @cached_property
    def finished(self) -> list[str]:
        """Policies that ran at every size."""
        return [label for label, cells in self.online.items() if len(cells) == len(self.sizes)]

    @property
    def compared(self) -> bool:
        """Whether both references, the optimum and lru, ran at every size."""
        every = 0 < len(self.sizes) == len(self.opt)
        return every and BASELINE in self.finished

    def tokens(self, label: str, sizes: Iterable[int]) -> int:
        """Tokens hit, summed over sizes: at each of them there are as many to hit."""
        cells = self.opt if label == OPTIMUM else self.online[label]
        return sum(cells[size].hit_tokens for size in sizes)

    def tops(self, sizes: Sequence[int]) -> list[str]:
        """Those that hit most over some sizes, lru first."""
        hits = {label: self.tokens(label, sizes) for label in self.finished}
        found = [label for label, tokens in hits.items() if tokens == max(hits.values())]
        return sorted(found, key=lambda label: label != BASELINE)

    def unfinished_ahead(self) -> list[str]:
        """Policies that ran at some sizes only, and hit more there than those that ran at all."""
        found = []
        for label, cells in self.online.items():
            best = self.tops(self.sizes)[0]
            if label not in self.finished and self.tokens(label, cells) > self.tokens(best, cells):
                found.append(label)
        return found

    # --- sizes ------------------------------------------------------------------------------------

    def gap(self, size: int) -> int:
        """Tokens that opt hits and lru does not; by the clock it may hit fewer."""
        return self.opt[size].hit_tokens - self.online[BASELINE][size].hit_tokens

    @property
    def widest(self) -> int:
        """Where opt gains most over lru."""
        return max(self.sizes, key=self.gap)

    def clearest(self, label: str) -> int:
        """Where a policy gains most over lru, and of several such where opt does."""
        lru = self.online[BASELINE]
        gains = {s: cell.hit_tokens - lru[s].hit_tokens for s, cell in self.online[label].items()}
        return max(self.sizes, key=lambda size: (gains[size], self.gap(size)))

    # --- words ------------------------------------------------------------------------------------

    def share(self, label: str, sizes: Sequence[int]) -> str:
        """The mean over some sizes of the input tokens hit."""
        whole = next(iter(self.opt.values())).input_tokens * len(sizes)
        return f"{self.tokens(label, sizes) / whole:.2%}" if whole else f"{0:.2%}"

    @property
    def on_mean(self) -> str:
        return "" if len(self.sizes) == 1 else f" on the mean of {len(self.sizes)} sizes"

    @property
    def names(self) -> str:
        """The policies that were tried, in words."""
        labels = list(self.online)
        return _and(labels) if len(labels) <= NAMED else f"the {len(labels)} policies tried"

    def leads(self, best: Sequence[str]) -> str:
        """Sizes at which a policy other than the best hits most, by policy."""
        found: dict[str, list[int]] = defaultdict(list)
        for size in self.sizes:
            tops = self.tops([size])
            if not set(tops) & set(best):
                found[tops[0]].append(size)
        return "".join(
            f"; {label} leads at {_and(map(str, sorted(at)))}" for label, at in found.items()
        )

    @property
    def unfinished(self) -> str:
        """Policies that are left out because they did not run at every size."""
        others = [label for label in self.online if label not in self.finished]
        return f"; {_and(others)} did not run at every size" if others else ""

    def left_to_win(self, at: int) -> str:
        """How far the optimum is ahead of lru."""
        lru, opt = self.share(BASELINE, [at]), self.share(OPTIMUM, [at])
        if self.gap(at) <= 0:
            return (
                f"opt hits no more than lru, which hits {lru} of the input tokens at {_blocks(at)}"
            )
        return (
            f"most is left to win at {_blocks(at)}, where lru hits {lru} of the input tokens and "
            f"opt {opt}"
        )

    def for_lru(self, tops: Sequence[str], at: int) -> str:
        return (
            f"{_crown(tops)} of {self.names}: none hits more{self.on_mean}"
            f"{self.leads(tops)}{self.unfinished}; {self.left_to_win(at)}"
        )

    def for_another(self, tops: Sequence[str], at: int) -> str:
        best, mean, where = tops[0], "", f"at {_blocks(at)} it hits"
        if len(self.sizes) > 1:
            mean = f"it hits {self._against(best, self.sizes)}{self.on_mean}, "
            where = f"most clearly at {_blocks(at)}, where it hits"
        gain = self.tokens(best, [at]) - self.tokens(BASELINE, [at])
        closed = f" ({gain / self.gap(at):.1%} of the gap closed)" if self.gap(at) > 0 else ""
        return (
            f"{_crown(tops)} of {self.names}: {mean}{where} {self._against(best, [at])}{closed}"
            f"{self.leads(tops)}{self.unfinished}"
        )

    def _against(self, best: str, sizes: Sequence[int]) -> str:
        hit, lru, opt = (self.share(label, sizes) for label in (best, BASELINE, OPTIMUM))
        return f"{hit} of the input tokens against {lru} for lru and {opt} for opt"


def _crown(tops: Sequence[str]) -> str:
    equals = f" (equal: {', '.join(tops[1:])})" if tops[1:] else ""
    return f"{tops[0]}{equals} would have served it best"


def _and(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def _blocks(size: int) -> str:
    return f"{size} block{'' if size == 1 else 's'}"
