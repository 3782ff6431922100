"""Which policies are named in charts; the others are there for context, in grey."""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean

from kvframe.bench.charts.gathered import BOUNDS, Gathered, Traffic
from kvframe.bench.policies import BASELINE, BOUND, OPTIMUM

FEW = 5
"""Policies that are named besides lru and the bounds; more where more than these win a part."""
ENOUGH = 8
"""So many policies in all are told apart without choosing."""


def ranked(gathered: Gathered) -> list[str]:
    """Policies that an engine can run, the best first.

    Best is what hits most on the mean of all sizes and traffic; in results of servers alone, what
    has the shortest mean time to the first token.
    """
    off: dict[str, list[float]] = defaultdict(list)
    for traffic in gathered.traffic:
        means = _means(traffic)
        most = max(means.values(), default=0.0)
        for name, rate in means.items():
            off[name].append(rate - most)
    late: dict[str, list[float]] = defaultdict(list)
    for cell in gathered.servers:
        if cell.policy not in BOUNDS:
            late[cell.policy].append(cell.ttft_mean or 0.0)
    names = [name for name in gathered.policies if name not in BOUNDS]

    def rank(name: str) -> tuple[float, float]:
        lost = -fmean(off[name]) if off.get(name) else float("inf")
        return lost, fmean(late[name]) if late.get(name) else 0.0

    return sorted(names, key=rank)


def _means(traffic: Traffic) -> dict[str, float]:
    """Hit rates on the mean of the sizes, of the policies that an engine can run."""
    means = {}
    for name in traffic.policies:
        rates = [rate for rate in traffic.line(name) if rate is not None]
        if name not in BOUNDS and rates:
            means[name] = fmean(rates)
    return means


def winners(gathered: Gathered) -> set[str]:
    """The best of each traffic and of each trace's curves, by hit rate, and of each simulated trace
    and size, by mean time to the first token: each has charts of its own. lru is none: it is always
    named.
    """
    parts = [_means(traffic) for traffic in gathered.traffic]
    parts += [
        {one.policy: fmean(one.token_hit_rates) for one in made.curves if one.policy not in BOUNDS}
        for made in gathered.curves
    ]
    late: dict[tuple[str, int], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for cell in gathered.servers:
        if cell.policy not in BOUNDS and cell.ttft_mean is not None:
            late[cell.trace, cell.capacity_blocks][cell.policy].append(-cell.ttft_mean)
    parts += [{name: fmean(each) for name, each in one.items()} for one in late.values()]
    parts = [{name: mean for name, mean in one.items() if name != BASELINE} for one in parts]
    return {max(means, key=means.__getitem__) for means in parts if means}


def named(gathered: Gathered) -> list[str]:
    """The winners and the best few, lru, and the bounds that were tried; all policies where these
    are few.
    """
    order = ranked(gathered)
    bounds = [name for name in (OPTIMUM, BOUND) if name in gathered.policies]
    if len(gathered.policies) <= ENOUGH:
        return [*order, *(name for name in gathered.policies if name in BOUNDS)]
    first = winners(gathered)
    others = [name for name in order if name != BASELINE and name not in first]
    chosen = first.union(others[: max(FEW - len(first), 0)])
    best = [name for name in order if name in chosen]
    return [*best, *([BASELINE] if BASELINE in order else []), *bounds]


def roles(gathered: Gathered) -> dict[str, str]:
    """The policies with a role: the baseline (lru), and the bounds that no engine can run."""
    return {
        name: "baseline" if name == BASELINE else "limit" if name == BOUND else "bound"
        for name in gathered.policies
        if name == BASELINE or name in BOUNDS
    }


def slots(gathered: Gathered) -> dict[str, int]:
    """A colour for each policy that is named and has no role, by number."""
    told = roles(gathered)
    return {name: at for at, name in enumerate(n for n in named(gathered) if n not in told)}
