"""Whether tiers below the pool pay, and whether that outlasts an error in the step times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvframe.bench.report import Table, filled
from kvframe.bench.server.cells import ServerCell, ServerPlan
from kvframe.bench.server.summary import short
from kvframe.bench.server.verdict import ALIKE, FACTORS, Cells, rejected, unfinished

FELT = 0.01
"""Seconds of a time to the first token: no one feels a smaller change, and it pays for nothing."""

PAYS, COSTS, MIXED, ALL_THE_SAME = "pays", "costs", "mixed", "makes no difference"


class _Pair(NamedTuple):
    """One policy at one time factor, without and with tiers."""

    without: ServerCell
    below: ServerCell

    @property
    def says(self) -> str:
        """By mean and P99 of the time to the first token: changes within `ALIKE` or `FELT` count as
        none.
        """
        one, other = self.without, self.below
        signs = {_sign(one.ttft_mean, other.ttft_mean), _sign(one.ttft_p99, other.ttft_p99)}
        better, worse = -1 in signs, 1 in signs
        if better and worse:
            return MIXED
        return PAYS if better else COSTS if worse else ALL_THE_SAME

    @property
    def mean(self) -> float | None:
        return _change(self.without.ttft_mean, self.below.ttft_mean)

    @property
    def late(self) -> float | None:
        return _change(self.without.ttft_p99, self.below.ttft_p99)


def tier_sentence(cells: Cells) -> str:
    """The verdict on the tiers at one trace, capacity and load; empty where there are none, or no
    request was finished.

    It is of the first policy that an engine can run.

    Args:
        cells: The simulations of all time factors.
    """
    plan = next((plan for plan in cells if plan.tiers and not plan.policy.replay_only), None)
    if plan is None or plan.tiers is None:
        return ""
    pairs = {factor: _pair(cells, plan, factor) for factor in (1.0, *FACTORS)}
    pair = pairs[1.0]
    if pair is None:
        return ""
    below, without = pair.below, pair.without
    if not below.finished and not without.finished:
        return ""  # The verdict on the policies says so.
    servers = f"{plan.fleet.before_blocks}{below.capacity_blocks} blocks"
    where = f"{plan.source.name}, load {plan.load:g}, {servers}"
    told = {
        PAYS: "pays",
        COSTS: "costs more than it saves",
        MIXED: "helps some and keeps others waiting",
        ALL_THE_SAME: f"makes no difference of more than {ALIKE:.0%} and {FELT * 1e3:.0f} ms",
    }
    others = [one for factor, one in pairs.items() if factor != 1.0 and one is not None]
    same = all(one.says == pair.says for one in others)
    survives = (
        "the verdict survives step times of 0.7 and 1.4 times these"
        if same
        else f"with step times of 0.7 and 1.4 times these it {' and '.join(o.says for o in others)}"
    )
    shares = ", ".join(f"{share:.1%} {name}" for name, share in _shares(below).items())
    saturated = (
        "; saturated with the tier too: lower the load for times that users would feel"
        if below.saturated
        else "; saturated without the tier, and not with it"
        if without.saturated
        else ""
    )
    return (
        f"{where}: {rejected(cells)}{plan.tiers.label} below the pool {told[pair.says]} under "
        f"{plan.above}, mean TTFT {short(without.ttft_mean)} -> {short(below.ttft_mean)} s"
        f"{_signed(pair.mean)}, P99 {short(without.ttft_p99)} -> {short(below.ttft_p99)} s"
        f"{_signed(pair.late)}; prompt tokens found at first {without.token_hit_rate:.1%} -> "
        f"{below.token_hit_rate:.1%} ({shares}){_computed(pair)}{_saved(pair)}; {survives}"
        f"{unfinished(cells)}{saturated}."
    )


def _pair(cells: Cells, plan: ServerPlan, factor: float) -> _Pair | None:
    found = {
        other.tiers is not None: cell
        for other, cell in cells.items()
        if other.above == plan.above and other.time_factor == factor
    }
    return _Pair(found[False], found[True]) if len(found) == 2 else None


def _computed(pair: _Pair) -> str:
    """The prompt tokens computed, where they do not fall as more is found, or rise as less is:
    preempted requests are computed again, and what they find then is in no hit rate.
    """
    without, below = pair.without, pair.below
    found = below.token_hit_rate - without.token_hit_rate
    more = below.prefill_tokens - without.prefill_tokens
    if found * more <= 0:
        return ""
    return (
        f", computed with what was preempted {without.prefill_tokens:,} -> {below.prefill_tokens:,}"
    )


def _saved(pair: _Pair) -> str:
    """What a card computes less, for each GiB below the pool; empty where that is nothing."""
    size = sum(pair.below.tier_bytes.values()) / 2**30
    saved = pair.without.busy_seconds - pair.below.busy_seconds
    per_gib = saved / size if size else 0.0
    hours = pair.below.makespan / 3600
    told = "saved" if saved >= 0 else "more"
    if round(saved) == 0:
        return ""
    return (
        f"; {abs(saved):,.0f} GPU-seconds {told} in {hours:.3g} h, {abs(per_gib):.3g} a GiB of the "
        f"{size:,.0f} below the pool"
    )


def _sign(before: float | None, after: float | None) -> int:
    """-1 where the time is clearly shorter, 1 where it is clearly longer."""
    change = _change(before, after)
    if change is None or before is None or after is None:
        return 0
    if abs(change) <= ALIKE or abs(after - before) <= FELT:
        return 0
    return 1 if change > 0 else -1


def _change(before: float | None, after: float | None) -> float | None:
    return after / before - 1 if before and after is not None else None


def _signed(change: float | None) -> str:
    return "" if change is None else f" ({change:+.0%})"


def _shares(cell: ServerCell) -> dict[str, float]:
    """Parts of the prompt tokens, by where they were found."""
    found = sum(cell.tier_hit_tokens.values())
    rate = cell.token_hit_rate
    return {
        name: rate * tokens / found if found else 0.0
        for name, tokens in cell.tier_hit_tokens.items()
    }


def tier_table(cells: Sequence[ServerCell]) -> Table:
    """What each tier gave, and what it took."""
    header = ["policy", "load", "tier", "hit", "tokens found", "GB up", "GB down"]
    header += ["tokens a GB", "pays from", "dropped", "stalled s", "of others", "ahead", "used"]
    table = Table("What the tiers do", header)
    for cell in cells:
        shares = _shares(cell)
        for name, tokens in cell.tier_hit_tokens.items():
            row = [cell.policy, f"{cell.load:g}", name, f"{shares[name]:.4f}", f"{tokens:,}"]
            if name not in cell.tier_read_bytes:
                ahead, used = cell.ahead_tokens, cell.ahead_used_tokens
                row += [
                    *["-"] * 4,
                    f"{cell.tier_dropped_pages:,}",
                    short(cell.stalled_seconds),
                    "-",
                ]
                row += [f"{ahead:,}", f"{used / ahead:.0%}"] if ahead else ["-", "-"]
                table.rows.append(row)
                continue
            pays = cell.tier_break_even[name]
            up, down = cell.tier_read_bytes[name] / 1e9, cell.tier_written_bytes[name] / 1e9
            row += [short(up), short(down), f"{tokens / (up + down):,.0f}" if up + down else "-"]
            others = cell.tier_others_tokens.get(name)
            row += ["never" if pays is None else f"{pays:,} tokens", "-", "-"]
            row += ["-" if others is None else f"{others:,}", "-", "-"]
            table.rows.append(row)
    return filled(table)
