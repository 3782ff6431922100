"""``kvframe bench tune``: which options are better, and whether that holds."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from kvframe.bench import capacity
from kvframe.bench.options import MODES
from kvframe.bench.render import aligned
from kvframe.bench.report import Table
from kvframe.bench.tune import Tuned
from kvframe.bench.tune import tune as run_tune
from kvframe.cli.reading import read_aloud, reading


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
    default=("4000",),
    show_default=True,
    metavar="BLOCKS|RANGE|SHARE",
    help="As for `kvframe bench run`; of several the mean decides.",
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
    block_size, distinct = source.trace.block_size, source.trace.prepare(mode)["unique_blocks"]
    parsed = capacity.parse_blocks(capacities)
    sizes = list(dict.fromkeys(size.blocks(block_size, distinct) for size in parsed))
    tuned = run_tune(source, policy, given, sizes, mode, fit, quiet=quiet)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(tuned)).decode())
    else:
        click.echo("\n".join([*aligned(_table(tuned)), "", *tuned.remarks, f"{tuned.sentence}."]))


def _table(tuned: Tuned) -> Table:
    table = Table("", ["setting", "first part", "held out"])
    for setting in tuned.settings:
        marked = " *" if setting.policy == tuned.best else ""
        rates = [f"{setting.fitted:.4f}", f"{setting.held_out:.4f}"]
        table.rows.append([f"{setting.policy}{marked}", *rates])
    return table
