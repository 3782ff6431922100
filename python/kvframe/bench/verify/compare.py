"""Predicted beside measured: hit rate and time to the first token, and whether limits hold."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kvframe.bench.options import keyed
from kvframe.bench.render import aligned
from kvframe.bench.report import Table
from kvframe.bench.server.summary import short
from kvframe.errors import ConfigError
from kvframe.spelling import did_you_mean

LIMITS = {
    "order": "points between hit rates, simulated and measured, where steps take the same time",
    "hit": "points between the simulated hit rate and the measured one",
    "ttft_mean": "per cent between the means of TTFT",
    "ttft_p50": "per cent between the medians of TTFT",
    "ttft_p95": "per cent between the 95th percentiles of TTFT",
}


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A policy at a load. Hit rates are shares, times seconds; None where it is not known.

    Attributes:
        where: What was measured.
        policy: Under which policy.
        load: At which load.
        runs: Runs, whose medians are measured.
        requests: Requests of each.
        hit: Measured.
        hit_predicted: Simulated.
        hit_paced: Measured in a run whose steps count as what a profile says, so that requests
            come in the simulated order.
        hit_paced_predicted: Simulated with that profile.
        equal: Requests that find the very same tokens in these two.
        recorded_equal: Of the recorded run, requests that find the very tokens that they found, if
            a pool is asked in the recorded order; None for a policy that was not recorded.
        ttft_mean, ttft_p50, ttft_p95: Measured.
        ttft_mean_predicted, ttft_p50_predicted, ttft_p95_predicted: Simulated; of an engine that
            ran, the medians of simulations whose steps take a little less and more
            (`kvframe.bench.verify.predict.NEAR`).
        ttft_p95_near: The least and the most that these say: how much the queue makes of little.
        preemptions: Measured.
    """

    where: str
    policy: str
    load: float
    runs: int = 1
    requests: int = 0
    hit: float | None = None
    hit_predicted: float | None = None
    hit_paced: float | None = None
    hit_paced_predicted: float | None = None
    equal: int | None = None
    recorded_equal: int | None = None
    ttft_mean: float | None = None
    ttft_p50: float | None = None
    ttft_p95: float | None = None
    ttft_mean_predicted: float | None = None
    ttft_p50_predicted: float | None = None
    ttft_p95_predicted: float | None = None
    ttft_p95_near: tuple[float, float] | None = None
    preemptions: int = 0

    def errors(self) -> dict[str, float]:
        """How far predictions are off, by the keys of `LIMITS`; those that are known."""
        found: dict[str, float | None] = {
            "order": _points(self.hit_paced_predicted, self.hit_paced),
            "hit": _points(self.hit_predicted, self.hit),
        }
        for name in ("ttft_mean", "ttft_p50", "ttft_p95"):
            found[name] = _percent(getattr(self, f"{name}_predicted"), getattr(self, name))
        return {key: value for key, value in found.items() if value is not None}


def _points(predicted: float | None, measured: float | None) -> float | None:
    return None if predicted is None or measured is None else 100 * (predicted - measured)


def _percent(predicted: float | None, measured: float | None) -> float | None:
    return 100 * (predicted / measured - 1) if predicted is not None and measured else None


def parse_limits(texts: Iterable[str]) -> dict[str, float]:
    """The limits of ``--limit``.

    Raises:
        ConfigError: An unknown key, or a value that is no number of 0 or more.
    """
    found: dict[str, float] = {}
    for text in texts:
        for key, value in keyed(text.split(","), f"--limit {text}").items():
            if key not in LIMITS:
                known = ", ".join(LIMITS)
                raise ConfigError(f"--limit {text}: no {key}: {known}{did_you_mean(key, LIMITS)}")
            try:
                found[key] = float(value)
            except ValueError:
                found[key] = -1.0
            if not 0 <= found[key] < float("inf"):
                raise ConfigError(f"--limit {text}: {key} = {value}: must be a number, 0 or more")
    return found


def missed(rows: Sequence[Row], limits: Mapping[str, float]) -> list[str]:
    """What is beyond a limit, a line each."""
    said = []
    for row in rows:
        place = f"{row.where}, {row.policy}, load {row.load:g}"
        if "order" in limits and row.recorded_equal not in (None, row.requests):
            said.append(
                f"{place}: {row.recorded_equal} of {row.requests} requests find in the recorded "
                "order what they found"
            )
        for key, error in row.errors().items():
            if key in limits and abs(error) > limits[key]:
                unit = "points" if key in ("order", "hit") else "%"
                said.append(f"{place}: {key} is {error:+.2f} {unit} off, limit {limits[key]:g}")
    return said


def text(rows: Sequence[Row]) -> str:
    """A table, and what its columns are."""
    header = ["policy", "load", "requests", "recorded order", "same times", "hit", "simulated"]
    for name in ("TTFT mean", "P50", "P95"):
        header += [f"{name}, ms", "simulated", "error"]
    header.append("at ±2%")
    tables: dict[str, Table] = {}
    for row in rows:
        table = tables.setdefault(row.where, Table(row.where, header))
        cells = [row.policy, f"{row.load:g}", f"{row.requests:,}"]
        cells += ["-" if n is None else f"{n:,}" for n in (row.recorded_equal, row.equal)]
        cells += [_share(each) for each in (row.hit, row.hit_predicted)]
        errors = row.errors()
        for key in ("ttft_mean", "ttft_p50", "ttft_p95"):
            cells += [short(getattr(row, name), 1e3) for name in (key, f"{key}_predicted")]
            cells.append(f"{errors[key]:+.0f}%" if key in errors else "-")
        near = row.ttft_p95_near
        cells.append("-" if near is None else " to ".join(short(each, 1e3) for each in near))
        table.rows.append(cells)
    lines = []
    for table in tables.values():
        lines += [table.title, *aligned(table), ""]
    return "\n".join(lines)


def json(rows: Sequence[Row], beyond: Sequence[str]) -> str:
    """An object: rows with their errors, and what is beyond a limit."""
    told = [{**msgspec.to_builtins(row), "errors": row.errors()} for row in rows]
    return msgspec.json.format(msgspec.json.encode({"rows": told, "missed": beyond})).decode()


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2%}"


def median(values: Iterable[float]) -> float:
    """The median of several runs."""
    return statistics.median(values)
