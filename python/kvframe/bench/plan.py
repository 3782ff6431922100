"""The cross product of what was asked, each cell once."""

from collections.abc import Iterable, Sequence

from kvframe.bench.admissions import KEEP_ALL, Admission
from kvframe.bench.arrivals import varied
from kvframe.bench.capacity import SHARES, SHIPPED, Capacity
from kvframe.bench.cells import Plan
from kvframe.bench.matchers import OWN, Matcher
from kvframe.bench.policies import BOUND, Choice
from kvframe.bench.room import sizes_by_default
from kvframe.bench.traces import Source


def cross(
    sources: Sequence[Source],
    modes: Sequence[str],
    choices: Sequence[Choice],
    capacities: Sequence[Capacity],
    reference: Iterable[Choice] = (),
    admissions: Sequence[Admission] = (),
    matchers: Sequence[Matcher] = (),
    arrivals: Sequence[tuple[float, int]] = ((1.0, 0),),
) -> list[Plan]:
    """Traces x modes x arrivals x policies x admissions x matchers x capacities, in this order.

    ``arrivals`` are pairs of load and arrival seed; they make a difference in timed mode alone.

    A policy without a capacity (``infinite``) gives one cell a trace and mode. Two capacities that
    come to the same number of blocks are one; without any, those tried by default. ``reference``
    policies are added, not ``asked``, unless they were chosen anyway; under them everything is
    kept.
    """
    gates = [None if gate.label == KEEP_ALL else gate for gate in admissions] or [None]
    indexes = [None if one.label == OWN else one for one in matchers] or [None]
    rows = [(choice, (gate, one), True) for choice in choices for gate in gates for one in indexes]
    labels = {choice.label for choice, besides, _ in rows if besides == (None, None)}
    rows += [(choice, (None, None), False) for choice in reference if choice.label not in labels]
    # The bound reads best as the last row, wherever it was named.
    rows.sort(key=lambda row: row[0].name == BOUND)
    plans = []
    for source in sources:
        for mode in modes:
            sizes = _sizes(source, mode, capacities)
            for load, seed in arrivals if mode == "timed" else ((1.0, 0),):
                other = varied(source, load, seed)
                for choice, besides, asked in rows:
                    for size in [None] if choice.name == BOUND else sizes:
                        plans.append(Plan(other, choice, mode, size, asked, *besides))
    return plans


def _sizes(source: Source, mode: str, capacities: Sequence[Capacity]) -> list[int | None]:
    """Numbers of blocks, each once."""
    if not capacities:
        return list(sizes_by_default(source, mode, SHIPPED, SHARES))
    distinct = 0
    if any(capacity.share is not None for capacity in capacities):
        distinct = source.trace.prepare(mode)["unique_blocks"]
    block_size = source.trace.block_size
    return list(dict.fromkeys(capacity.blocks(block_size, distinct) for capacity in capacities))
