"""A whole run, from the texts of the command line to finished cells and their outputs."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kvframe import _core
from kvframe.bench import (
    admissions,
    capacity,
    first_screen,
    matchers,
    metrics,
    policies,
    render,
    report,
    room,
    tiered,
)
from kvframe.bench.arrivals import coarsened
from kvframe.bench.build import build_name
from kvframe.bench.cells import Cell, Plan
from kvframe.bench.configured import configured
from kvframe.bench.estimate import Estimate, estimate, future_bytes, told_future
from kvframe.bench.executors import executor
from kvframe.bench.locate import choose_all
from kvframe.bench.misses import with_misses
from kvframe.bench.options import FORMATS, MODES, one_of, split_list
from kvframe.bench.plan import cross
from kvframe.bench.progress import Progress
from kvframe.bench.remarks import remarks
from kvframe.bench.results import ResultStore
from kvframe.bench.run import Outcome, run
from kvframe.bench.server.tiers import ServedTiers, configured_tiers
from kvframe.bench.shards import of_shard
from kvframe.bench.traces import ReadOptions, read
from kvframe.bench.verdict import Verdict, judge, with_gap_closed
from kvframe.config.sizes import token_bytes
from kvframe.errors import ConfigError
from kvframe.registry import Registry

_MUCH = 10**9
"""Bytes of which a run says beforehand that it will take them."""

_FLATTERS = (
    "an engine's log, replayed one request at a time: none that runs beside it holds blocks, so "
    "hit rates may be above the engine's; ask --mode timed too"
)
# Forms for people: they show lru, opt and infinite whether or not these were asked for.
_FOR_PEOPLE = ("table", "md")
# Its verdicts are of lru, whether or not it was asked for.
_JUDGED = "json"


@dataclass(frozen=True)
class Request:
    """What was asked, as text; every sequence may hold comma lists.

    ``details`` gives a table its details at every capacity, not only where they say most;
    ``first_screen`` is of one trace and mode. ``shard`` is (i, n): the i-th of n parts of the
    cells, from 1. ``content`` keeps what the caches held over time. ``seed`` is that of policies
    which draw at random. ``config`` says the policies, the capacity and the further options of a
    manager, but for lists that are not empty here.
    """

    traces: Sequence[str] = ("conversation",)
    policies: Sequence[str] = policies.DEFAULT
    admissions: Sequence[str] = admissions.DEFAULT
    matchers: Sequence[str] = matchers.DEFAULT
    capacities: Sequence[str] = capacity.DEFAULT
    modes: Sequence[str] = ("engine",)
    formats: Sequence[str] = ("table",)
    block_size: int | None = None
    time_unit: str | None = None
    trace_format: str | None = None
    sort: bool = False
    tokenizer: str | None = None
    model_shape: str | None = None
    out: Path | None = None
    seed: int = 0
    jobs: int = 1
    quiet: bool = False
    min_hit_rate: float | None = None
    details: bool = False
    loads: Sequence[float] = (1.0,)
    arrival_seeds: Sequence[int] = (0,)
    block_factors: Sequence[int] = (1,)
    warm_up: float = 0.0
    metrics: Sequence[str] = ()
    first_screen: bool = False
    shard: tuple[int, int] | None = None
    executor: str = "threads"
    content: bool = False
    config: Path | None = None


class Job:
    """A request that was checked whole: nothing runs before every trace and name is known good.

    ``doubts`` says, in lines that begin with a trace, what its figures depend on: a unit that was
    guessed, ids that were chained, lengths that were assumed.
    """

    def __init__(self, request: Request) -> None:
        """Resolve policies and capacities, then read the traces.

        Raises:
            ConfigError: an option's value; names the option.
            PluginError: an unknown or broken policy.
            TraceError: a trace that cannot be read; names file and line.
        """
        self.request = request
        self._verdicts: dict[report.Group, Verdict] | None = None
        self._formats = one_of(request.formats, "--format", FORMATS)
        modes = one_of(request.modes, "--mode", MODES)
        registry = Registry()
        names, broken = policies.expand(split_list(request.policies, "--policy"), registry)
        found = configured(request.config, registry)
        if not 0 <= request.seed < 2**32:
            raise ConfigError(f"--seed {request.seed}: must be between 0 and {2**32 - 1}")
        choices = choose_all("eviction", names, registry, request.seed)
        gates = choose_all("admission", split_list(request.admissions, "--admission"), registry)
        indexes = choose_all("prefix", split_list(request.matchers, "--prefix"), registry)
        sizes = capacity.parse_all(request.capacities, request.model_shape)
        if found is not None:
            choices = choices or [found.eviction]
            gates = gates or [found.admission]
            indexes = indexes or [one for one in [found.matcher] if one is not None]
            sizes = sizes or [found.capacity]
        human = any(form in _FOR_PEOPLE for form in self._formats)
        judged = [policies.BASELINE] if _JUDGED in self._formats else []
        beside = policies.REFERENCE if human else judged
        reference = policies.choose_all(beside, registry)
        rate = request.min_hit_rate
        if rate is not None and not 0 <= rate <= 1:
            raise ConfigError(f"--min-hit-rate {rate}: must be between 0 and 1")
        if not 0 <= request.warm_up < 1:
            raise ConfigError(f"--warm-up {request.warm_up}: must be at least 0 and below 1")
        self._metrics = metrics.choose(split_list(request.metrics, "--metric"))
        how = ReadOptions(
            request.block_size,
            request.time_unit,
            request.trace_format,
            request.sort,
            request.tokenizer,
        )
        sources = [
            coarsened(source, factor)
            for source in (read(name, how) for name in split_list(request.traces, "--trace"))
            for factor in dict.fromkeys(request.block_factors)
        ]
        if request.details and not human:
            raise ConfigError(f"--details: of tables alone: --format {' or '.join(_FOR_PEOPLE)}")
        arrivals = [(load, seed) for load in request.loads for seed in request.arrival_seeds]
        # In other modes, times only order the requests.
        timed = "timed" in modes
        self.doubts = [f"{s.name}: {s.doubt}" for s in sources if s.doubt and timed]
        self.doubts += [f"{s.name}: {remark}" for s in sources for remark in s.remarks]
        if not timed:
            self.doubts += [f"{s.name}: {_FLATTERS}" for s in sources if s.form == "kvframe-log"]
        self._remarks = [f"Left out of all: {why}." for why in broken]
        self._remarks += [
            remark
            for size in sizes
            for remark in dict.fromkeys(size.remark(s.trace.block_size) for s in sources)
            if remark
        ]
        # Csv and json have no place for remarks.
        shown = self._remarks if human else self.doubts
        for source in () if sizes else sources:
            shown += room.told_shares(source, modes[0], capacity.SHARES)
        if request.jobs > 1:
            self._remarks.append(f"{request.jobs} replays ran side by side: speeds are too low.")
        self.plans = cross(
            sources, modes, choices, sizes, reference, gates, indexes, list(dict.fromkeys(arrivals))
        )
        shown += room.larger(self.plans)
        if found is not None:
            shown += found.remarks([s.trace.block_size for s in sources])
            for source in sources:
                shown += found.unclaimed(source.name, source.trace.block_size, ())
                shown += found.no_tenants(source.name, source.trace.classes)
            self.plans = [dataclasses.replace(plan, configured=found) for plan in self.plans]
            self.plans += self._with_tiers(configured_tiers(found.resolved))
        if request.content:
            self.plans = [dataclasses.replace(plan, content=True) for plan in self.plans]
        if request.shard is not None:
            self.plans = of_shard(self.plans, *request.shard)
        if (future := future_bytes(self.plans)) > _MUCH:
            self.doubts.append(told_future(future))

    def run(self, command: Sequence[str]) -> Outcome:
        """Run the cells and keep them in the result directory, if one was named.

        Args:
            command: the command line, for the record.

        Raises:
            KVFrameError: a cell failed, or the directory cannot be written.
        """
        request = self.request
        build = build_name()
        store = None
        if request.out is not None:
            store = ResultStore(request.out, build, content=request.content)
        progress = Progress(request.quiet)
        if request.jobs > 1 and request.executor == "threads":
            # Once, before threads would each do it.
            for plan in {plan.group: plan for plan in self.plans}.values():
                plan.source.trace.prepare(plan.mode)
        try:
            execute = executor(request, self.plans)
            outcome = run(self.plans, store, progress, execute, self._metrics)
        finally:
            progress.clear()
        done = {plan: outcome.cells[plan] for plan in self.plans if plan in outcome.cells}
        filled = with_misses(with_gap_closed(_pools(done)))
        outcome.cells = {plan: filled.get(plan, cell) for plan, cell in done.items()}
        if store is not None:
            verdicts = [render.told_verdict(one) for one in self.verdicts(outcome).values()]
            record = self._record(command, outcome, build)
            store.finish(record, outcome.cells, verdicts)
        return outcome

    @property
    def token_bytes(self) -> int | None:
        """Bytes of a token's KV in all layers; None where no model is named."""
        shape = self.request.model_shape
        return None if shape is None else token_bytes(capacity.parse_shape(shape))

    def estimate(self) -> Estimate:
        """What the run would take, without running any of it."""
        request = self.request
        kept = request.out is not None and request.out.is_dir()
        store = None
        if kept and request.out is not None:
            store = ResultStore(request.out, build_name(), content=request.content)
        return estimate(self.plans, store, request.jobs)

    def _notes(self, outcome: Outcome) -> list[str]:
        """Remarks on this run's options and on what its policies had to go by."""
        pools = remarks(_pools(outcome.cells), outcome.requests)
        return [*self._remarks, *pools, *tiered.sentences(outcome.cells)]

    def _with_tiers(self, below: ServedTiers | None) -> list[Plan]:
        """The cells that were asked for, once more with tiers; in engine mode alone."""
        if below is None:
            return []
        if any(plan.mode != "engine" for plan in self.plans):
            self._remarks.append(
                "[[tiers]]: with them, requests come one at a time, in engine mode; `kvframe bench "
                "serve --config` has them by the clock."
            )
        self._remarks.append(
            "Tiers: a request comes when nothing moves any more, so that speeds of links play no "
            "part."
        )
        return [
            dataclasses.replace(plan, tiers=below)
            for plan in self.plans
            if plan.asked and plan.mode == "engine" and not plan.policy.replay_only
        ]

    def verdicts(self, outcome: Outcome) -> dict[report.Group, Verdict]:
        """What is better than lru, for each trace and mode; made once."""
        if self._verdicts is None:
            self._verdicts = {
                place: judge(rows, outcome.requests, self.request.warm_up)
                for place, rows in report.grouped(_pools(outcome.cells)).items()
            }
        return self._verdicts

    def outputs(self, outcome: Outcome) -> list[str]:
        """The finished cells in each form that was asked for; none where no cell finished."""
        if not outcome.cells:
            return []
        if self.request.first_screen:
            (rows,) = report.grouped(outcome.cells).values()
            (verdict,) = self.verdicts(outcome).values()
            return [first_screen.text(rows, verdict, self._notes(outcome))]
        asked = [cell for plan, cell in outcome.cells.items() if plan.asked]
        return [self._output(form, asked, outcome) for form in self._formats]

    def below_threshold(self, outcome: Outcome) -> list[Cell]:
        """Cells that were asked for and hit less than ``min_hit_rate``."""
        least = self.request.min_hit_rate
        if least is None:
            return []
        return [
            cell
            for plan, cell in outcome.cells.items()
            if plan.asked and cell.token_hit_rate < least
        ]

    def _output(self, form: str, asked: Sequence[Cell], outcome: Outcome) -> str:
        match form:
            case "json":
                return render.json(asked, list(self.verdicts(outcome).values()))
            case "csv":
                return render.comma_separated(asked)
            case "md":
                return render.markdown(self._sections(outcome), self._notes(outcome))
            case _:
                return render.text(self._sections(outcome), self._notes(outcome))

    def _sections(self, outcome: Outcome) -> list[report.Section]:
        return report.sections(
            outcome.cells, self.verdicts(outcome), brief=not self.request.details
        )

    def _record(self, command: Sequence[str], outcome: Outcome, build: str) -> dict[str, object]:
        used = {plan.policy.label: plan.policy.version for plan in self.plans}
        traces = {
            plan.source.name: {
                "sha256": plan.source.sha256,
                "block_size": plan.source.trace.block_size,
                "time_unit": plan.source.time_unit,
                "form": plan.source.form,
                "remarks": list(plan.source.remarks),
                "requests": plan.source.trace.requests,
                "input_tokens": plan.source.trace.input_tokens,
                "parse_seconds": plan.source.trace.parse_seconds,
            }
            for plan in self.plans
        }
        return {
            "state": "interrupted" if outcome.interrupted else "finished",
            "command": [os.fsencode(word).decode(errors="replace") for word in command],
            "kvframe": build,
            "core_profile": _core.build_profile(),
            "policies": used,
            "traces": traces,
            "seed": self.request.seed,
            "warm_up": self.request.warm_up,
            "model_shape": self.request.model_shape,
            "token_bytes": self.token_bytes,
            "jobs": self.request.jobs,
            "cells": len(outcome.cells),
            "reused": outcome.reused,
            "unfinished": [str(plan) for plan in self.plans if plan not in outcome.cells],
        }


def _pools(cells: Mapping[Plan, Cell]) -> dict[Plan, Cell]:
    """Those without tiers, which can be compared with the optimum."""
    return {plan: cell for plan, cell in cells.items() if plan.tiers is None}
