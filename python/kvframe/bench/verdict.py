"""The sentence: is any of the policies tried better than lru on a trace, by how much, and where?

The policies are those that an engine can run. One is said to be better only where the interval of
its difference, which holds for all policies and sizes tried (`kvframe.bench.bootstrap`), excludes
zero. The one that is named first hits most tokens on the mean of the sizes; of several such, lru.
Where there is nothing to choose from, there is no verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from kvframe.bench.cells import Cell, Plan
from kvframe.bench.comparison import Comparison, Comparisons, compare
from kvframe.bench.field import Field, Outcomes, Rows
from kvframe.bench.policies import BASELINE, OPTIMUM

NAMED = 12
"""Policies that the sentence names one by one; of more it says how many."""

LEAST_GAP = 5e-4
"""Of the prompt tokens: where opt leads lru by less, a share of that lead says nothing."""


def with_gap_closed(rows: Rows) -> dict[Plan, Cell]:
    """The same rows, each with its ``gap_closed`` where opt clearly hits more than lru."""
    tokens = {(_place(plan), plan.label): cell.hit_tokens for plan, cell in rows.items()}
    filled = {}
    for plan, cell in rows.items():
        low = tokens.get((_place(plan), BASELINE))
        high = tokens.get((_place(plan), OPTIMUM))
        gap = None
        least = LEAST_GAP * cell.input_tokens
        if low is not None and high is not None and high - low > least:
            gap = (cell.hit_tokens - low) / (high - low)
        filled[plan] = msgspec.structs.replace(cell, gap_closed=gap)
    return filled


def _place(plan: Plan) -> tuple[object, ...]:
    return plan.group, plan.source.arrival_seed, plan.capacity


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one trace in one mode.

    Attributes:
        trace: Its name.
        mode: The mode.
        block_size: Tokens a block.
        load: What its times were divided by.
        arrival_seeds: Those that ran.
        field: The policies that were compared.
        sizes: Blocks.
        warm_up: The share of requests, at the start, that warm the cache up and do not count.
        best: What hits most on the mean of the sizes, lru where it is among several such; None
            without a verdict.
        better: Whether it is better than lru beyond doubt, on the mean or at a size.
        not_told_apart: Other policies that the data do not tell apart from the best on the mean.
        capacity: The size that says most, in blocks; None where there is no such.
        said: The sentence, without the trace.
        doubt: What its intervals are of.
        comparisons: All that were made.
    """

    trace: str
    mode: str
    block_size: int
    load: float
    arrival_seeds: Sequence[int]
    field: Sequence[str]
    sizes: Sequence[int]
    warm_up: float
    best: str | None
    better: bool
    not_told_apart: Sequence[str]
    capacity: int | None
    said: str
    doubt: str
    comparisons: Sequence[Comparison]

    @property
    def sentence(self) -> str:
        """The answer for one trace and mode, in one line."""
        load = f", load {self.load:g}" if self.load != 1 else ""
        return f"{self.trace}, {self.mode} mode{load}: {self.said}."


def judge(rows: Rows, outcomes: Outcomes, warm_up: float = 0.0) -> Verdict:
    """Compare what ran of one trace in one mode."""
    field = Field.of(rows, outcomes, warm_up)
    why, at = _no_verdict(field)
    if why:
        made, words = None, _Words(None, False, (), at, f"no verdict, since {why}")
    else:
        made = compare(field)
        words = _judge(field, made)
    plan = next(iter(rows))
    return Verdict(
        trace=plan.source.name,
        mode=plan.mode,
        block_size=plan.source.trace.block_size,
        load=plan.source.load,
        arrival_seeds=field.seeds,
        field=list(field.online),
        sizes=field.sizes,
        warm_up=warm_up,
        best=words.best,
        better=words.better,
        not_told_apart=words.equals,
        capacity=words.capacity,
        said=words.said,
        doubt=doubt_of(field, made) if made is not None else "",
        comparisons=made.rows if made is not None else [],
    )


def doubt_of(field: Field, made: Comparisons) -> str:
    """What the intervals are of, in one sentence or two."""
    seeds = f" and {len(field.seeds)} arrival seeds" if len(field.seeds) > 1 else ""
    warm = "no warm-up, from a cold cache"
    if field.first:
        warm = f"the first {field.first:,} requests warm the cache up and do not count"
    return (
        f"{made.level:.0%} intervals by {made.draws:,} paired resamplings of {made.resampled}"
        f"{seeds}, {_corrected(len(made.rows))}{warm}"
    )


def _corrected(comparisons: int) -> str:
    if comparisons == 1:
        return ""
    return f"corrected for all {comparisons} comparisons (max-statistic); "


def _no_verdict(field: Field) -> tuple[str, int | None]:
    """Why there is nothing to choose from, empty if there is; and the size that says most."""
    if not field.compared:
        return "lru did not run at every size", None
    ahead = field.unfinished_ahead()
    if ahead:
        return f"{_and(ahead)} did not run at every size, and led where both ran", None
    at = field.widest
    if not field.hits_anything:
        return f"no policy hits anything{', opt neither' if field.bounded else ''}", at
    if len(field.online) == 1:
        return f"lru alone was tried; {_left_to_win(field, at)}", at
    if len(field.finished) == 1:
        alone = f"lru alone ran at every size{_unfinished(field)}"
        return f"{alone}; {_left_to_win(field, at)}", at
    return "", at


class _Words(msgspec.Struct, frozen=True):
    best: str | None
    better: bool
    equals: Sequence[str]
    capacity: int | None
    said: str


def _judge(field: Field, made: Comparisons) -> _Words:
    tops = field.tops(field.sizes)
    best, mean = tops[0], None if len(field.sizes) > 1 else field.sizes[0]
    others = [label for label in field.finished if label != best]
    against = {label: made.of(best, label, mean) for label in others}
    equals = [label for label, row in against.items() if row is None or not row.real]
    if best == BASELINE:
        return _lru_leads(field, made, equals, mean)
    rows = [row for row in made.rows if (row.policy, row.baseline) == (best, BASELINE)]
    sized = [row for row in rows if row.capacity_blocks is not None]
    whole = next(row for row in rows if row.capacity_blocks == mean)
    clear = [row for row in sized if row.better]
    if not whole.better and not clear:
        return _nothing_differs(field, made, whole, equals)
    top = max(clear or sized, key=lambda row: (row.difference, field.gap(row.capacity_blocks or 0)))
    size = top.capacity_blocks or 0
    where = f"{top.points} at {_blocks(size)}{_closed(field, best, size)}"
    if len(field.sizes) == 1:
        said = f"{best} is better than lru by {where}"
    elif whole.better:
        said = f"{best} is better than lru by {whole.points}{_on_mean(field)}"
        said += f", most clearly by {where}" if clear else ", though at no single size"
    else:
        said = (
            f"{best} is better than lru by {where}; on the mean of {len(field.sizes)} sizes the "
            f"two are not told apart, {whole.points}"
        )
    rest = [label for label in equals if label != BASELINE]
    said += _told(tops, rest) + _unfinished(field) + f"; tried were {_names(field)}"
    return _Words(best, True, equals, size, said)


def _lru_leads(field: Field, made: Comparisons, equals: Sequence[str], mean: int | None) -> _Words:
    at = field.widest
    others = [label for label in field.finished if label != BASELINE]
    second = max(others, key=lambda label: field.tokens(label, field.sizes))
    row = made.of(BASELINE, second, mean)
    assert row is not None
    if row.better:
        said = (
            f"lru wins of {_names(field)}: it is better than {second}, the next, by "
            f"{row.points}{_on_mean(field)}"
        )
    else:
        said = f"lru would do of {_names(field)}: none hits more{_on_mean(field)}"
        said += _told(field.tops(field.sizes), equals)
    said += _better_at(field, made)
    return _Words(
        BASELINE, False, equals, at, f"{said}{_unfinished(field)}; {_left_to_win(field, at)}"
    )


def _nothing_differs(
    field: Field, made: Comparisons, whole: Comparison, equals: Sequence[str]
) -> _Words:
    at = field.widest
    worse = [label for label in field.finished if label not in equals and label != whole.policy]
    said = (
        f"lru would do of {_names(field)}: no policy is better beyond doubt; {whole.policy} leads "
        f"by {whole.points}{_on_mean(field)}"
    )
    if not worse:
        said = (
            f"nothing differs between {_names(field)}: {whole.policy} leads lru by "
            f"{whole.points}{_on_mean(field)}, which may be chance"
        )
    said += _better_at(field, made)
    return _Words(
        whole.policy, False, equals, at, f"{said}{_unfinished(field)}; {_left_to_win(field, at)}"
    )


# --- words ----------------------------------------------------------------------------------------


def _better_at(field: Field, made: Comparisons) -> str:
    """Sizes at which another policy is better than lru beyond doubt: the clearest of each."""
    if len(field.sizes) == 1:
        return ""
    clearest: dict[str, Comparison] = {}
    for row in made.rows:
        if row.baseline == BASELINE and row.capacity_blocks is not None and row.better:
            known = clearest.get(row.policy)
            if known is None or row.difference > known.difference:
                clearest[row.policy] = row
    return "".join(
        f"; {label} is better at {_blocks(row.capacity_blocks or 0)}, by {row.points}"
        for label, row in list(clearest.items())[:NAMED]
    )


def _told(tops: Sequence[str], equals: Sequence[str]) -> str:
    """Others that the data do not tell apart from the best, and those that hit as much."""
    same = [label for label in equals if label in tops]
    near = [label for label in equals if label not in tops]
    told = f"; {_and(same)} {_verb(same, 'hits', 'hit')} as much" if same else ""
    if near:
        names = _and(near) if len(near) <= NAMED else f"{len(near)} others"
        told += f"; {names} {_verb(near, 'is', 'are')} not told apart from it"
    return told


def _verb(words: Sequence[str], one: str, several: str) -> str:
    return one if len(words) == 1 else several


def _on_mean(field: Field) -> str:
    if len(field.sizes) == 1:
        return f" at {_blocks(field.sizes[0])}"
    return f" on the mean of {len(field.sizes)} sizes"


def _names(field: Field) -> str:
    """The policies that were tried, in words."""
    labels = list(field.online)
    return _and(labels) if len(labels) <= NAMED else f"{len(labels)} policies"


def _unfinished(field: Field) -> str:
    """Policies that are left out because they did not run at every size."""
    others = [label for label in field.online if label not in field.finished]
    return f"; {_and(others)} did not run at every size" if others else ""


def _closed(field: Field, label: str, size: int) -> str:
    gap = field.gap(size)
    gain = field.tokens(label, [size]) - field.tokens(BASELINE, [size])
    return f" ({gain / gap:.1%} of the gap to opt closed)" if gap > 0 else ""


def _left_to_win(field: Field, at: int) -> str:
    """How far the optimum is ahead of lru; without it, what lru hits."""
    lru = f"{field.rate(BASELINE, [at]):.2%}"
    if not field.bounded:
        return f"lru hits {lru} of the input tokens at {_blocks(at)}"
    opt = f"{field.rate(OPTIMUM, [at]):.2%}"
    if field.gap(at) <= 0:
        return f"opt hits no more than lru, which hits {lru} of the input tokens at {_blocks(at)}"
    return (
        f"most is left to win at {_blocks(at)}, where lru hits {lru} of the input tokens and "
        f"opt {opt}"
    )


def _and(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def _blocks(size: int) -> str:
    return f"{size:,} block{'' if size == 1 else 's'}"
