"""``kvframe bench tune``: which options are better, and whether that holds."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from kvframe.bench import capacity, room
from kvframe.bench.options import MODES
from kvframe.bench.render import aligned
from kvframe.bench.report import Table
from kvframe.bench.traces import Source
from kvframe.bench.tune import Tuned
from kvframe.bench.tune import tune as run_tune
from kvframe.cli.reading import read_aloud, reading

SHIPPED, SHARES = ("4000",), ("10%",)
"""Sizes that are tried where none is asked for."""


@click.command(short_help="Try options of a policy, judged on a part held out.")
@click.argument("policy", metavar="PLUGIN[:OPTION=VALUE,...]")
@click.option(
    "--option",
    "options",
    multiple=True,
    required=True,
    metavar="NAME=VALUE,VALUE,...",
    help="Values to try; of several options every combination. Repeatable.",
)
@click.option("--trace", default="conversation", show_default=True, metavar="NAME|FILE|-")
@click.option(
    "--capacity",
    "capacities",
    multiple=True,
    metavar="BLOCKS|RANGE|SHARE",
    help="As for `kvframe bench run`; of several the mean decides.  [default: of a shipped trace "
    f"{SHIPPED[0]}; of any other {SHARES[0]}]",
)
@click.option("--mode", type=click.Choice(MODES), default="engine", show_default=True)
@click.option(
    "--fit",
    type=float,
    default=0.5,
    show_default=True,
    metavar="SHARE",
    help="Requests, from the start, that the choice goes by; the rest is held out.",
)
@reading
@click.option("--json", "as_json", is_flag=True, help="Print an object.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def tune(
    policy: str,
    options: tuple[str, ...],
    trace: str,
    capacities: tuple[str, ...],
    mode: str,
    fit: float,
    as_json: bool,
    quiet: bool,
    **how: Any,
) -> None:
    """Try options of a policy.

    The setting that hits most in the first part of the trace is compared with the defaults, and
    with lru, in the rest. The last line says whether it holds there.
    """
    given: dict[str, list[str]] = {}
    for text in options:
        name, equals, values = text.partition("=")
        if not equals or not all(value.strip() for value in values.split(",")):
            raise click.UsageError(f"--option {text}: must read NAME=VALUE,VALUE")
        given.setdefault(name.strip(), []).extend(value.strip() for value in values.split(","))
    source = read_aloud(trace, how)
    sizes = _sizes(source, mode, capacities)
    tuned = run_tune(source, policy, given, sizes, mode, fit, quiet=quiet)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(tuned)).decode())
    else:
        blocks = ", ".join(f"{size:,}" for size in sizes)
        lines = [f"{source.name}: {mode} mode, {blocks} blocks; token hit rates", ""]
        lines += [*aligned(_table(tuned)), "", *_parts(tuned), *tuned.remarks]
        click.echo("\n".join([*lines, f"{tuned.sentence}."]))


def _sizes(source: Source, mode: str, capacities: tuple[str, ...]) -> list[int]:
    """Numbers of blocks, each once."""
    parsed = capacity.parse_blocks(capacities)
    if not parsed:
        for told in room.told_shares(source, mode, SHARES):
            click.echo(f"note: {told}", err=True)
        return room.sizes_by_default(source, mode, SHIPPED, SHARES)
    distinct = source.trace.prepare(mode)["unique_blocks"]
    return list(dict.fromkeys(size.blocks(source.trace.block_size, distinct) for size in parsed))


def _parts(tuned: Tuned) -> list[str]:
    """Which requests each rate is of."""
    cut, end = tuned.first_part, tuned.first_part + tuned.held_out
    return [
        f"first part: requests 1 to {cut:,}, by which settings are ranked. held out: requests "
        f"{cut + 1:,} to {end:,}, in the cache that the first part has left; {tuned.doubt}."
    ]


def _table(tuned: Tuned) -> Table:
    table = Table("", ["setting", "first part", "held out"])
    for setting in tuned.settings:
        marked = " *" if setting.policy == tuned.best else ""
        rates = [f"{setting.fitted:.4f}", f"{setting.held_out:.4f}"]
        table.rows.append([f"{setting.policy}{marked}", *rates])
    return table
