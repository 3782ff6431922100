"""An experiment: a TOML file of a workload, a server, and variants of both."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_type_hints

import msgspec

from kvframe.bench.render import aligned
from kvframe.bench.report import Table, filled
from kvframe.bench.server.cells import ServerCell, ServerPlan, Simulated, simulate
from kvframe.bench.server.fleet import PartCell
from kvframe.bench.server.job import ServerJob
from kvframe.bench.server.report import ExperimentResult, ServerResult
from kvframe.bench.server.request import ServerRequest
from kvframe.bench.server.summary import short
from kvframe.bench.server.variants import Tried, sentence
from kvframe.bench.server.workload import drawn, parse_workload
from kvframe.config.describe import rule
from kvframe.config.text import toml
from kvframe.errors import ConfigError
from kvframe.spelling import did_you_mean

OPTIONS = {
    "trace": "traces",
    "policy": "policies",
    "admission": "admissions",
    "prefix": "matchers",
    "capacity": "capacities",
    "load": "loads",
    "tier": "tiers",
    "routing": "routings",
    "shared_tier": "shared_tiers",
    "link": "links",
}
"""Options of `kvframe bench serve` whose fields have another name."""
DRAWS, MOST_DRAWS = 5, 1000
"""How often the traffic of several variants is drawn, to tell them apart."""
HINTS = get_type_hints(ServerRequest, include_extras=True)
LEFT_OUT = ("requests", "formats", "quiet", "sort", "trace_format", "tokenizer", "time_unit")
"""Fields that are of a run and not of a server."""


class Variant(NamedTuple):
    """A workload and a server, under a name.

    Attributes:
        name: Of the variant; the experiment's where there is one only.
        workload: Its table; None where traces are named.
        serve: The request.
    """

    name: str
    workload: dict[str, Any] | None
    serve: ServerRequest


class Experiment(NamedTuple):
    """A file.

    Attributes:
        variants: Each with what all of them have.
        draws: How often traffic is drawn, to compare variants.
    """

    variants: list[Variant]
    draws: int


def read_experiment(path: Path) -> Experiment:
    """Its variants, each with what all of them have.

    Raises:
        ConfigError: The file cannot be read, or has a key or a value that is wrong.
    """
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    _known(told, ("draws", "workload", "serve", "variants"), f"{path}")
    for key in ("workload", "serve", "variants"):
        _table(told.get(key, {}), f"{path}: {key}")
    draws = told.get("draws", DRAWS)
    if type(draws) is not int or not 1 <= draws <= MOST_DRAWS:
        raise ConfigError(f"{path}: draws = {draws}: must be a whole number from 1 to {MOST_DRAWS}")
    variants = told.get("variants") or {path.stem: {}}
    made = []
    for name, changes in variants.items():
        where = f"{path}: variants.{name}"
        _known(changes, ("workload", "serve"), where)
        for key in ("workload", "serve"):
            _table(changes.get(key, {}), f"{where}.{key}")
        workload = {**told.get("workload", {}), **changes.get("workload", {})} or None
        serve = {**told.get("serve", {}), **changes.get("serve", {})}
        if workload is not None:
            if isinstance(workload.get("sessions"), str):
                workload["sessions"] = _beside(path.parent, workload["sessions"])
            closed = parse_workload(workload, where).is_closed
            serve = {"closed_loop": closed, **serve}
        made.append(Variant(name, workload, _request(serve, where, path.parent)))
    return Experiment(made, draws)


def _table(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where} = {toml(value)}: must be a table")
    return value


def _known(table: object, keys: tuple[str, ...], where: str) -> None:
    for key in _table(table, where):
        if key not in keys:
            raise ConfigError(f"{where}: no key {key}: {', '.join(keys)}{did_you_mean(key, keys)}")


def _request(serve: Mapping[str, Any], where: str, folder: Path) -> ServerRequest:
    fields = {
        field.name: (field.default, HINTS[field.name])
        for field in dataclasses.fields(ServerRequest)
        if field.name not in LEFT_OUT
    }
    names = [*OPTIONS, *(name for name in fields if name not in OPTIONS.values())]
    values: dict[str, Any] = {}
    for option, value in serve.items():
        if option not in names:
            near = did_you_mean(option, names)
            raise ConfigError(f"{where}: serve: no key {option}: an option of bench serve{near}")
        name = OPTIONS.get(option, option)
        values[name] = _value(*fields[name], value, f"{where}: serve.{option}")
    if "config" in values:
        values["config"] = folder / values["config"]
    if "traces" in values:
        values["traces"] = tuple(_beside(folder, name) for name in values["traces"])
    if str(values.get("model_shape")).endswith(".toml"):
        values["model_shape"] = str(folder / values["model_shape"])
    return ServerRequest(**values, quiet=True)


def _beside(folder: Path, name: str) -> str:
    """A file that lies beside the experiment, or the name of a shipped trace."""
    return str(folder / name) if folder != Path() and (folder / name).is_file() else name


def _value(default: object, hint: Any, value: object, where: str) -> object:
    """What the file says, as the command line would say it."""
    if isinstance(default, tuple):
        every = value if isinstance(value, list) else [value]
        if default and not every:
            raise ConfigError(f"{where} = []: must have at least one item")
        return tuple(f"{one:g}" if isinstance(one, float) else str(one) for one in every)
    try:
        return msgspec.convert(value, str if hint == Path | None else hint)
    except msgspec.ValidationError:
        raise ConfigError(f"{where} = {toml(value)}: {rule(hint, value)}") from None


class Ran(NamedTuple):
    """What came of an experiment.

    Attributes:
        text: For people.
        result: For programs.
    """

    text: str
    result: ExperimentResult


def run_experiment(path: Path) -> Ran:
    """A table with a row for each variant and policy, and the verdicts.

    The table is of the first draw of the traffic; the verdict between variants is over all.

    Raises:
        KVFrameError: The file is wrong, or a simulation failed.
    """
    header = ["variant", "policy", "routing", "load", "hit", "TTFT mean", "TTFT P99", "ITL P50 ms"]
    header += ["E2E mean", "good/s", "tokens/s", "busy", "saturated", "rejected", "unfinished"]
    table = Table(f"{path.stem}, TTFT and E2E in s", header)
    said: list[str] = []
    remarks: dict[str, list[str]] = {}
    variants, draws = read_experiment(path)
    rows: dict[str, list[Tried]] = {}
    results: dict[str, ServerResult] = {}
    for variant in variants:
        job = _job(path, variant, 0)
        done = job.run()
        result = results[variant.name] = _named(job.result(done), path, variant)
        shown = {plan: one.cell for plan, one in done.items() if plan.time_factor == 1.0}
        table.rows += [_row(variant.name, cell) for cell in shown.values()]
        said += [*result.verdicts, *result.tier_verdicts]
        for remark in result.remarks:
            remarks.setdefault(remark, []).append(variant.name)
        standing = _standing(shown)
        bounds = {_place(plan) for plan in standing if plan.policy.replay_only}
        tried = {_place(plan): [shown[plan]] for plan in standing}
        if _is_drawn_again(variants, draws):
            for draw in range(1, draws):
                again = _job(path, variant, draw)
                for plan in _standing(again.plans):
                    tried[_place(plan)].append(simulate(plan, again.server).cell)
        rows[variant.name] = [
            Tried(_told(cells[0]), cells, _at_other_times(place, done), place in bounds)
            for place, cells in tried.items()
        ]
    last = _between(path.stem, variants, rows)
    told = _of_whom(remarks, len(variants))
    text = "\n".join([table.title, *aligned(filled(table)), "", *said, *last, "", *told])
    drawn_times = draws if _is_drawn_again(variants, draws) else 1
    return Ran(text, _together(path.stem, results, last, told, drawn_times))


_Part = TypeVar("_Part", ServerCell, PartCell)


def _named(result: ServerResult, path: Path, variant: Variant) -> ServerResult:
    """The same, with the variant's name before those of its traces."""
    if variant.workload is not None:  # Drawn traffic has it already.
        return result
    whose = f"{path.stem}/{variant.name}: "

    def own(parts: Sequence[_Part]) -> list[_Part]:
        return [msgspec.structs.replace(one, trace=f"{whose}{one.trace}") for one in parts]

    return msgspec.structs.replace(
        result,
        cells=own(result.cells),
        by_replica=own(result.by_replica),
        by_class=own(result.by_class),
        verdicts=[f"{whose}{line}" for line in result.verdicts],
        tier_verdicts=[f"{whose}{line}" for line in result.tier_verdicts],
    )


def _together(
    name: str,
    results: Mapping[str, ServerResult],
    last: Sequence[str],
    remarks: list[str],
    draws: int,
) -> ExperimentResult:
    """The results of all variants in one."""
    every = list(results.values())
    shapes = {one.model_shape for one in every}
    sizes = {one.token_bytes for one in every}
    return ExperimentResult(
        experiment=name,
        variants=[variant for variant, one in results.items() for _ in one.cells],
        draws=draws,
        cells=[cell for one in every for cell in one.cells],
        by_replica=[part for one in every for part in one.by_replica],
        by_class=[part for one in every for part in one.by_class],
        model_shape=shapes.pop() if len(shapes) == 1 else "",
        token_bytes=sizes.pop() if len(sizes) == 1 else None,
        verdicts=[*(said for one in every for said in one.verdicts), *last],
        tier_verdicts=[said for one in every for said in one.tier_verdicts],
        remarks=remarks,
    )


def _of_whom(remarks: Mapping[str, Sequence[str]], variants: int) -> list[str]:
    """What the figures depend on, each once, with the variants that it is said of if not all."""
    return [
        remark if len(names) == variants else f"{', '.join(names)}: {remark}"
        for remark, names in remarks.items()
    ]


def _job(path: Path, variant: Variant, draw: int) -> ServerJob:
    """A variant with its traffic drawn for the so-manieth time."""
    where = f"{path.stem}/{variant.name}"
    if variant.workload is None:
        return ServerJob(variant.serve)
    work = parse_workload(variant.workload, where)
    again = msgspec.structs.replace(work, seed=work.seed + draw)
    return ServerJob(variant.serve, [drawn(again, where)])


def _standing(plans: Iterable[ServerPlan]) -> list[ServerPlan]:
    """Those that may stand for a variant: with its tiers, and of policies that an engine can run,
    where it has any.
    """
    likely = [plan for plan in plans if plan.time_factor == 1.0]
    served = [plan for plan in likely if not plan.policy.replay_only] or likely
    return [plan for plan in served if plan.tiers is not None] or served


def _place(plan: ServerPlan) -> tuple[object, ...]:
    """The same of every draw."""
    return plan.source.name, plan.label, plan.capacity, plan.load, plan.fleet, plan.tiers is None


def _at_other_times(
    place: tuple[object, ...], done: Mapping[ServerPlan, Simulated]
) -> dict[float, ServerCell]:
    """The first draw where all step times are another."""
    return {
        plan.time_factor: one.cell
        for plan, one in done.items()
        if plan.time_factor != 1.0 and _place(plan) == place
    }


def _told(cell: ServerCell) -> str:
    return f"{cell.policy} by {cell.routing}" if cell.routing else cell.policy


def _is_drawn_again(variants: Sequence[Variant], draws: int) -> bool:
    """Whether variants can be told apart by more draws."""
    return len(variants) > 1 and draws > 1 and _is_same(variants) and bool(variants[0].workload)


def _is_same(variants: Sequence[Variant]) -> bool:
    """Whether all serve the same traffic."""
    first = variants[0]
    return all(
        (one.workload, one.serve.traces, one.serve.closed_loop, set(one.serve.loads))
        == (first.workload, first.serve.traces, first.serve.closed_loop, set(first.serve.loads))
        for one in variants
    )


def _between(
    name: str, variants: Sequence[Variant], rows: Mapping[str, Sequence[Tried]]
) -> list[str]:
    """Which variant serves best, at each load and trace."""
    if len(variants) == 1:
        return []
    if not _is_same(variants):
        return [f"{name}: no verdict between variants, since their traffic differs."]
    groups: dict[tuple[str, float], dict[str, list[Tried]]] = {}
    for variant, tried in rows.items():
        for row in tried:
            trace = name if variants[0].workload else f"{name}, {row.cells[0].trace}"
            here = groups.setdefault((trace, row.cells[0].load), {})
            here.setdefault(variant, []).append(row)
    return [sentence(f"{trace}, load {load:g}", of) for (trace, load), of in groups.items()]


def _row(name: str, cell: ServerCell) -> list[str]:
    return [
        *(name, cell.policy, cell.routing or "-", f"{cell.load:g}", f"{cell.token_hit_rate:.4f}"),
        *(short(cell.ttft_mean), short(cell.ttft_p99), short(cell.itl_p50, 1e3)),
        *(short(cell.e2e_mean), "-" if cell.goodput is None else short(cell.goodput)),
        f"{cell.output_tokens_per_second:,.0f}",
        *(f"{cell.utilisation:.0%}", "yes" if cell.saturated else "no"),
        *(f"{cell.rejected:,}", f"{cell.unfinished:,}"),
    ]
