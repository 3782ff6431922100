"""``kvframe bench curve``: token hit rate at many capacities, from one pass or from a sample."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from kvframe.bench import capacity
from kvframe.bench.curve import Curve, CurveResult, knee, lru_curve, sampled_curves
from kvframe.bench.locate import choose_all
from kvframe.bench.options import split_list
from kvframe.bench.policies import BASELINE
from kvframe.bench.render import aligned
from kvframe.bench.report import Table
from kvframe.bench.traces import ReadOptions, read
from kvframe.cli.reading import reading
from kvframe.registry import Registry


@click.command(short_help="Hit rate at many capacities: lru from one pass, others sampled.")
@click.option("--trace", default="conversation", show_default=True, metavar="NAME|FILE|-")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="PLUGIN[:OPTION=VALUE,...]",
    help="Policies besides lru.",
)
@click.option(
    "--capacity",
    "capacities",
    multiple=True,
    metavar="BLOCKS|RANGE|SHARE",
    help="As for `kvframe bench run`.  [default: 20 from the longest prompt on]",
)
@click.option("--mode", type=click.Choice(("engine", "trace")), default="engine", show_default=True)
@click.option(
    "--sample",
    "rate",
    type=float,
    default=0.1,
    show_default=True,
    metavar="SHARE",
    help="Conversations that other policies than lru are replayed on; 1 is all of them.",
)
@reading
@click.option("--json", "as_json", is_flag=True, help="Print an object.")
def curve(
    trace: str,
    policies: tuple[str, ...],
    capacities: tuple[str, ...],
    mode: str,
    rate: float,
    as_json: bool,
    **how: Any,
) -> None:
    """Token hit rates by capacity.

    lru's are exact, from one pass at every capacity at once. Other policies are replayed on a share
    of the conversations, with a cache that is as much smaller, and corrected by what the same
    sample gets wrong of lru.
    """
    options = ReadOptions(
        how["block_size"], how["time_unit"], how["trace_format"], how["sort"], how["tokenizer"]
    )
    source = read(trace, options)
    block_size, distinct = source.trace.block_size, source.trace.prepare(mode)["unique_blocks"]
    sizes = [size.blocks(block_size, distinct) for size in capacity.parse_all(capacities, None)]
    exact = lru_curve(source, mode, sorted(set(sizes)))
    names = [name for name in split_list(policies, "--policy") if name != BASELINE]
    choices = choose_all("eviction", names, Registry())
    curves = [exact, *(sampled_curves(source, mode, choices, exact, rate) if choices else [])]
    if as_json:
        told = CurveResult(
            trace=source.name,
            mode=mode,
            block_size=block_size,
            distinct_blocks=distinct,
            knee_blocks=knee(exact),
            curves=curves,
        )
        click.echo(msgspec.json.format(msgspec.json.encode(told)).decode())
        return
    click.echo("\n".join([f"{source.name}: {mode} mode, blocks of {block_size} tokens", ""]))
    click.echo("\n".join(aligned(_table(curves, distinct))))
    for one in curves:
        if not one.exact:
            click.echo(f"{one.policy}: from a sample that is {one.error:.4f} off for lru at most")
    click.echo(f"The knee of lru's curve is at {knee(exact):,} blocks.")


def _table(curves: list[Curve], distinct: int) -> Table:
    header = ["blocks", "of distinct", *(one.policy for one in curves)]
    table = Table("", header)
    for at, size in enumerate(curves[0].capacities):
        rates = [f"{one.token_hit_rates[at]:.4f}" for one in curves]
        table.rows.append([f"{size:,}", f"{size / max(distinct, 1):.1%}", *rates])
    return table
