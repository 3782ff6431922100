"""An experiment: a TOML file of a workload, a server, and variants of both."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kvframe.bench.render import aligned
from kvframe.bench.report import Table
from kvframe.bench.server.cells import ServerCell
from kvframe.bench.server.job import ServerJob, ServerRequest
from kvframe.bench.server.summary import short
from kvframe.bench.server.workload import drawn, parse_workload
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
}
"""Options of `kvframe bench serve` whose fields have another name."""
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


def read_experiment(path: Path) -> list[Variant]:
    """Its variants, each with what all of them have.

    Raises:
        ConfigError: The file cannot be read, or has a key or a value that is wrong.
    """
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    _known(told, ("workload", "serve", "variants"), f"{path}")
    variants = told.get("variants") or {path.stem: {}}
    made = []
    for name, changes in variants.items():
        where = f"{path}: variants.{name}"
        _known(changes, ("workload", "serve"), where)
        workload = {**told.get("workload", {}), **changes.get("workload", {})} or None
        serve = {**told.get("serve", {}), **changes.get("serve", {})}
        if workload is not None:
            closed = parse_workload(workload, where).is_closed
            serve = {"closed_loop": closed, **serve}
        made.append(Variant(name, workload, _request(serve, where, path.parent)))
    return made


def _known(table: object, keys: tuple[str, ...], where: str) -> None:
    if not isinstance(table, dict):
        raise ConfigError(f"{where}: must be a table")
    for key in table:
        if key not in keys:
            raise ConfigError(f"{where}: no key {key}: {', '.join(keys)}{did_you_mean(key, keys)}")


def _request(serve: Mapping[str, Any], where: str, folder: Path) -> ServerRequest:
    fields = {
        field.name: field.default
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
        values[name] = _value(fields[name], value, f"{where}: serve.{option}")
    if "config" in values:
        values["config"] = folder / values["config"]
    return ServerRequest(**values, quiet=True)


def _value(default: object, value: object, where: str) -> object:
    """What the file says, as the command line would say it."""
    if isinstance(default, tuple):
        every = value if isinstance(value, list) else [value]
        return tuple(f"{one:g}" if isinstance(one, float) else str(one) for one in every)
    kind: type = type(default) if isinstance(default, bool | int | float) else str
    if kind is float and isinstance(value, int):
        value = float(value)
    if type(value) is not kind:
        told = {"str": "a string", "bool": "true or false"}.get(kind.__name__, "a number")
        raise ConfigError(f"{where} = {value}: must be {told}")
    return value


def run_experiment(path: Path) -> str:
    """A table with a row for each variant and policy, and the verdicts.

    Raises:
        KVFrameError: The file is wrong, or a simulation failed.
    """
    header = ["variant", "policy", "routing", "load", "hit", "TTFT mean", "TTFT P99", "ITL P50 ms"]
    header += ["E2E mean", "tokens/s", "busy", "saturated", "rejected", "unfinished"]
    table = Table(f"{path.stem}, TTFT and E2E in s", header)
    said: list[str] = []
    for name, workload, request in read_experiment(path):
        where = f"{path.stem}/{name}"
        sources = None if workload is None else [drawn(parse_workload(workload, where), where)]
        job = ServerJob(request, sources)
        result = job.result(job.run())
        shown = (cell for cell in result.cells if cell.time_factor == 1.0)
        table.rows += [_row(name, cell) for cell in shown]
        said += [*result.verdicts, *result.tier_verdicts]
    return "\n".join([table.title, *aligned(table), "", *said]) + "\n"


def _row(name: str, cell: ServerCell) -> list[str]:
    return [
        *(name, cell.policy, cell.routing or "-", f"{cell.load:g}", f"{cell.token_hit_rate:.4f}"),
        *(short(cell.ttft_mean), short(cell.ttft_p99), short(cell.itl_p50, 1e3)),
        *(short(cell.e2e_mean), f"{cell.output_tokens_per_second:,.0f}"),
        *(f"{cell.utilisation:.0%}", "yes" if cell.saturated else "no"),
        *(f"{cell.rejected:,}", f"{cell.unfinished:,}"),
    ]
