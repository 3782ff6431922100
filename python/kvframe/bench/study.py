"""The benchmark from Python, for notebooks: run, read, look at frames, plot, write a report.

::

    study = Study.run(policies=["lru", "mq", "opt"], capacities=["1000", "4000"])
    study.rows()                # a dict a cell; study.frame() is a pandas.DataFrame
    study.compare("mq", "lru")  # points, with intervals
    study.plot("hits")          # a matplotlib Figure
    study.report("report.html")
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

import msgspec

from kvframe.bench.cells import Cell
from kvframe.bench.charts import page, pictures
from kvframe.bench.charts.chart import FAMILIES, Chart
from kvframe.bench.charts.gathered import (
    BOUNDS,
    Gathered,
    Kept,
    Source,
    Traffic,
    by_traffic,
    of_policies,
    together,
)
from kvframe.bench.charts.listing import charts, differences
from kvframe.bench.charts.paired import Paired
from kvframe.bench.charts.pictures import Look
from kvframe.bench.charts.reading import read_results
from kvframe.bench.job import Job, Request
from kvframe.bench.results import write_atomic
from kvframe.bench.server.job import ServerJob
from kvframe.bench.server.request import ServerRequest
from kvframe.bench.server.requests import rows_of
from kvframe.bench.sweep import LISTS
from kvframe.bench.verdict import Verdict
from kvframe.errors import ConfigError
from kvframe.spelling import did_you_mean

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


class PolicyDifference(msgspec.Struct, frozen=True, kw_only=True):
    """Two policies at one size, or on the mean of all sizes (None).

    Attributes:
        traffic: What it is of.
        capacity_blocks: The size.
        difference: Token hit rate of the one less that of the other.
        low: Where its interval begins; NaN where requests were not kept.
        high: Where it ends.
    """

    traffic: str
    capacity_blocks: int | None
    difference: float
    low: float
    high: float

    @property
    def real(self) -> bool:
        """Whether zero lies outside of the interval."""
        return self.low > 0 or self.high < 0


_FLAG = re.compile(r"--([a-z-]+) (?P<value>[^:]*):")


@contextmanager
def _in_words_of(kind: type[Any]) -> Iterator[None]:
    """Errors name the field of ``kind``, and not the option of the command line that sets it."""
    try:
        yield
    except ConfigError as error:
        fields = get_type_hints(kind)

        def field(found: re.Match[str]) -> str:
            name = found[1].replace("-", "_")
            names = (LISTS.get(name, name), name, f"{name}s")
            known = next((one for one in names if one in fields), None)
            return found[0] if known is None else f"{known} = {found['value']}:"

        raise ConfigError(_FLAG.sub(field, str(error), count=1)) from error


@dataclass(frozen=True)
class Study:
    """Results, of one run or of several.

    Attributes:
        gathered: By what they are of.
    """

    gathered: Gathered

    # --- where they come from ---------------------------------------------------------------------

    @classmethod
    @_in_words_of(Request)
    def run(cls, **asked: Any) -> Study:
        """Replay traces, as ``kvframe bench run`` does.

        Args:
            **asked: Fields of `kvframe.bench.job.Request`: ``traces``, ``policies``,
                ``capacities``, ``modes``, each a list of texts as the command line has them,
                ``model_shape``, ``content``, ``jobs``, ``out`` …

        Raises:
            ConfigError: An unknown field, or an option's value.
            KVFrameError: A trace cannot be read, a policy is not known, or a cell failed.
            KeyboardInterrupt: Ctrl-C.
        """
        request = _request(Request, {"quiet": True, **asked})
        job = Job(request)
        outcome = job.run(sys.argv)
        if outcome.interrupted:
            raise KeyboardInterrupt
        kept = [
            Kept(cell, outcome.requests[plan], outcome.contents.get(plan))
            for plan, cell in outcome.cells.items()
        ]
        facts = {plan.source.name: plan.source.facts for plan in outcome.cells}
        traffic = by_traffic(kept, facts, job.verdicts(outcome).values(), request.warm_up)
        found = Gathered(traffic=traffic, token_bytes=job.token_bytes, sources=[_here])
        return cls(together([found]))

    @classmethod
    @_in_words_of(ServerRequest)
    def serve(cls, **asked: Any) -> Study:
        """Simulate servers, as ``kvframe bench serve`` does; requests are kept, too.

        Args:
            **asked: Fields of `kvframe.bench.server.request.ServerRequest`.

        Raises:
            ConfigError: An unknown field, or an option's value.
            KVFrameError: A trace cannot be read, a policy is not known, or a simulation failed.
        """
        job = ServerJob(_request(ServerRequest, {"quiet": True, **asked}))
        done = job.run()
        found = job.result(done)
        tried = [(plan, one) for plan, one in done.items() if plan.time_factor == 1.0]
        return cls(
            Gathered(
                servers=[one.cell for _, one in tried],
                rows=[row for plan, one in tried for row in rows_of(plan, one)],
                sentences=found.verdicts,
                host_sentences=found.tier_verdicts,
                remarks=found.remarks,
                token_bytes=found.token_bytes,
                sources=[_here],
            )
        )

    @classmethod
    def read(cls, *results: str | Path) -> Study:
        """Results that commands have written.

        Args:
            *results: Directories of ``bench run --out``, JSON of ``bench run``, ``serve`` or
                ``curve``, rows of ``serve --requests``.

        Raises:
            ConfigError: One is none of these, or does not go with the others.
        """
        return cls(read_results([str(name) for name in results]))

    def of_model(self, token_bytes: int) -> Study:
        """The same, with sizes in bytes of a model that keeps so many a token."""
        return Study(replace(self.gathered, token_bytes=token_bytes))

    def of_policies(self, *names: str) -> Study:
        """The same, of these policies alone: all of them are named and coloured in charts.

        Raises:
            ConfigError: One of them did not run.
        """
        return Study(of_policies(self.gathered, names))

    def __add__(self, other: Study) -> Study:
        """Both; of cells in both the other's are taken."""
        return Study(together([self.gathered, other.gathered]))

    # --- numbers ----------------------------------------------------------------------------------

    @property
    def cells(self) -> list[Cell]:
        """Of replays."""
        return [kept.cell for one in self.gathered.traffic for kept in one.kept.values()]

    @property
    def verdicts(self) -> list[Verdict]:
        """What runs said of their policies."""
        return [one.verdict for one in self.gathered.traffic if one.verdict is not None]

    def rows(self, what: str = "cells") -> list[dict[str, Any]]:
        """Numbers as dicts, nested ones beside the others.

        Args:
            what: ``cells`` of replays; ``servers``; ``requests``, one for each request and cell.

        Raises:
            ConfigError: It is none of these.
        """
        match what:
            case "cells":
                return [_flat(cell) for cell in self.cells]
            case "servers":
                return [msgspec.to_builtins(cell) for cell in self.gathered.servers]
            case "requests":
                return list(self._requests())
        known = ("cells", "servers", "requests")
        raise ConfigError(
            f"rows {what!r}: must be cells, servers or requests{did_you_mean(what, known)}"
        )

    def frame(self, what: str = "cells") -> DataFrame:
        """The same as a table of pandas.

        Raises:
            ConfigError: pandas is missing, or as `rows`.
        """
        try:
            import pandas as pd
        except ImportError:
            raise ConfigError(
                "frames need pandas; install it with: pip install 'kvframe[notebook]'"
            ) from None
        return pd.DataFrame(self.rows(what))

    def compare(self, one: str, other: str = "lru") -> list[PolicyDifference]:
        """How far ``one`` is ahead of ``other``, at each size and on the mean, for all traffic.

        The intervals hold for all pairs of policies and all sizes at once, so any may be picked.

        Raises:
            ConfigError: No traffic has both at every size.
        """
        found = []
        for traffic, made in zip(self.gathered.traffic, self._made, strict=True):
            if {one, other} <= set(made.policies):
                for size in (*made.sizes, None):
                    apart, low, high = made.difference(one, other, size)
                    found.append(
                        PolicyDifference(
                            traffic=traffic.label,
                            capacity_blocks=size,
                            difference=apart,
                            low=low,
                            high=high,
                        )
                    )
        if not found:
            names = list(dict.fromkeys(name for made in self._made for name in made.policies))
            wrong = next((name for name in (one, other) if name not in names), one)
            if wrong not in self.gathered.policies:
                why, names = "did not run; those that did", self.gathered.policies
            else:
                why = "did not run at every size; those that did"
            if wrong in BOUNDS:
                why = "is a bound, which no engine can run; what is compared"
            near = did_you_mean(wrong, names)
            raise ConfigError(f"{wrong}: {why}: {', '.join(names)}{near}")
        return found

    # --- pictures ---------------------------------------------------------------------------------

    def charts(self, family: str | None = None, **choice: object) -> list[Chart]:
        """What can be drawn.

        Args:
            family: A key of `kvframe.bench.charts.chart.FAMILIES`; all where it is None.
            **choice: What tells charts of a family apart: ``show="miss ratio"``, ``size=4000``.

        Raises:
            ConfigError: There is no such family.
        """
        if family is not None and family not in FAMILIES:
            raise ConfigError(
                f"charts {family}: must be one of {', '.join(FAMILIES)}"
                f"{did_you_mean(family, FAMILIES)}"
            )
        return [
            chart
            for chart in self._charts
            if family in (None, chart.family)
            and all(chart.choice.get(key) == str(value) for key, value in choice.items())
        ]

    def plot(self, family: str = "hits", **choice: object) -> Figure:
        """One chart of a family for each traffic (or trace and size of a server), as panels of one
        figure.

        Args:
            family: As `charts` has it.
            **choice: Likewise; the first of each is drawn where it is not said.

        Raises:
            ConfigError: matplotlib is missing, or there is no such chart in these results.
        """
        found: dict[object, Chart] = {}
        for chart in self.charts(family, **choice):
            found.setdefault((chart.traffic, chart.choice.get("traffic")), chart)
        if not found:
            raise ConfigError(f"plot {self._asked(family, choice)}")
        return pictures.figure(list(found.values()), self._look)

    def draw(self, path: str | Path) -> None:
        """Write `plot` of the hit rates into a file.

        Args:
            path: Its suffix, .png, .svg or .pdf, is the form.

        Raises:
            ConfigError: Another suffix, or as `plot` and `pictures`.
        """
        path = Path(path)
        if path.suffix not in (".png", ".svg", ".pdf"):
            raise ConfigError(f"{path}: must end in .png, .svg or .pdf")
        found = self.charts("hits", show="hit rate")
        if not found:
            raise ConfigError(f"{path}: nothing to draw, no cell has a capacity")
        drawn = pictures.picture(found, self._look, path.suffix[1:])
        try:
            write_atomic(path, drawn)
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from None

    def pictures(self, folder: str | Path, form: str = "svg") -> int:
        """Write every chart into a file of its own; answers how many.

        Args:
            folder: Made where it is missing.
            form: ``svg`` or ``png``.

        Raises:
            ConfigError: matplotlib is missing, or a file cannot be written.
        """
        return pictures.save(self._charts, self._look, Path(folder), form)

    def report(self, path: str | Path, title: str | None = None) -> None:
        """Write one HTML file with everything in it.

        Args:
            path: Of the file.
            title: Its heading; what the traces are called where there is none.

        Raises:
            ConfigError: There is nothing to show, or the file cannot be written.
        """
        text = page.write(self.gathered, title)
        try:
            write_atomic(Path(path), text.encode())
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from None

    # --- made once --------------------------------------------------------------------------------

    @cached_property
    def _made(self) -> list[Paired]:
        return differences(self.gathered)

    @cached_property
    def _charts(self) -> list[Chart]:
        return charts(self.gathered, self._made)

    @cached_property
    def _look(self) -> Look:
        return Look(self.gathered)

    def _asked(self, family: str, choice: Mapping[str, object]) -> str:
        """Which charts there are in place of one that there is not."""
        there = self.charts(family)
        if not there:
            families = ", ".join(dict.fromkeys(chart.family for chart in self._charts))
            return f"{family}: these results have no such chart; they have {families or 'none'}"
        told = []
        for key in dict.fromkeys(key for chart in there for key in chart.choice):
            values = dict.fromkeys(chart.choice[key] for chart in there if key in chart.choice)
            told.append(f"{key} = {' or '.join(values)}")
        asked = ", ".join(f"{key} = {value}" for key, value in choice.items())
        have = "; ".join(told) or "no choice, the chart is one of its kind"
        return f"{family}: there is none of {asked}; there is {have}"

    def _requests(self) -> Iterator[dict[str, Any]]:
        for traffic in self.gathered.traffic:
            yield from _of_traffic(traffic)
        for row in self.gathered.rows:
            yield msgspec.to_builtins(row)


_here = Source("This study", "run from Python")


def _request(kind: type[Any], asked: dict[str, Any]) -> Any:
    """What was asked for, as the command line would have it: one text for several, and numbers."""
    hints = get_type_hints(kind)
    given = {}
    for name, value in asked.items():
        if name not in hints:
            raise ConfigError(f"{name}: no option of a run{did_you_mean(name, hints)}")
        if get_origin(hints[name]) is Sequence:
            several = [value] if isinstance(value, str | int | float) else list(value)
            value = [str(one) for one in several] if get_args(hints[name]) == (str,) else several
        elif Path in get_args(hints[name]) and isinstance(value, str):
            value = Path(value)
        given[name] = value
    return kind(**given)


def _flat(cell: Cell) -> dict[str, Any]:
    row: dict[str, Any] = msgspec.to_builtins(cell)
    metrics, misses = row.pop("metrics"), row.pop("misses") or {}
    return {**row, **metrics, **{f"miss_{name}": tokens for name, tokens in misses.items()}}


def _of_traffic(traffic: Traffic) -> Iterator[dict[str, Any]]:
    if traffic.facts is None:
        return
    facts = traffic.facts
    for kept in traffic.kept.values():
        if kept.outcomes is None:
            continue
        cell = kept.cell
        columns = facts.input_tokens, facts.session, facts.timestamp_ms, kept.outcomes.hit_tokens
        for at, row in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
            yield {
                "trace": cell.trace,
                "mode": cell.mode,
                "policy": cell.policy,
                "capacity_blocks": cell.capacity_blocks,
                "request": at,
                "input_tokens": row[0],
                "session": row[1],
                "timestamp_ms": row[2],
                "hit_tokens": row[3],
            }
