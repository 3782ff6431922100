"""``kvframe bench curve``: token hit rate at many capacities, from one pass and from replays."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from kvframe.bench import capacity
from kvframe.bench.capacity import parse_shape
from kvframe.bench.curve import REPLAYS, SMALL, Curve, CurveResult, knee, lru_curve, replayed_curves
from kvframe.bench.locate import choose_all
from kvframe.bench.options import split_list
from kvframe.bench.policies import BASELINE
from kvframe.bench.render import aligned
from kvframe.bench.report import Table
from kvframe.cli.given import refuse
from kvframe.cli.reading import read_aloud, reading
from kvframe.config.sizes import token_bytes
from kvframe.registry import Registry


@click.command(short_help="Hit rate at many capacities: lru from one pass, others replayed.")
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
    metavar="BLOCKS|RANGE|SHARE|SIZE",
    help="As for `kvframe bench run`.  [default: 20 from the longest prompt on]",
)
@click.option("--mode", type=click.Choice(("engine", "trace")), default="engine", show_default=True)
@click.option(
    "--replays",
    type=int,
    metavar="COUNT",
    help="Capacities at which other policies are replayed; between them their distance from lru is "
    f"interpolated.  [default: all; {REPLAYS} above {SMALL:,} block accesses]",
)
@click.option(
    "--model-shape",
    metavar="layers=N,kv_heads=N,head_dim=N,dtype=NAME",
    help="The model, for capacities in bytes, and to say sizes in GiB too.",
)
@reading
@click.option("--json", "as_json", is_flag=True, help="Print an object.")
def curve(
    trace: str,
    policies: tuple[str, ...],
    capacities: tuple[str, ...],
    mode: str,
    replays: int | None,
    model_shape: str | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Token hit rates by capacity.

    lru's are exact, from one pass at every capacity at once. Other policies are replayed at each;
    of a large trace at some, and what lies between is marked ~. The knee is that of lru's curve
    from the longest prompt to all that lru can use, whatever capacities are asked for.
    """
    if as_json:
        refuse("for the table alone: --json has blocks", "model_shape")
    if not policies:
        refuse("lru needs no replay: only with --policy", "replays")
    source = read_aloud(trace, how)
    block_size, distinct = source.trace.block_size, source.trace.prepare(mode)["unique_blocks"]
    asked = capacity.parse_all(capacities, model_shape)
    sizes = [size.blocks(block_size, distinct) for size in asked]
    exact = lru_curve(source, mode, sorted(set(sizes)))
    names = [name for name in split_list(policies, "--policy") if name != BASELINE]
    choices = choose_all("eviction", names, Registry())
    curves = [exact, *replayed_curves(source, mode, choices, exact, replays)]
    bend = knee(lru_curve(source, mode))
    if as_json:
        told = CurveResult(
            trace=source.name,
            mode=mode,
            block_size=block_size,
            distinct_blocks=distinct,
            knee_blocks=bend,
            curves=curves,
        )
        click.echo(msgspec.json.format(msgspec.json.encode(told)).decode())
        return
    click.echo("\n".join([f"{source.name}: {mode} mode, blocks of {block_size} tokens", ""]))
    block_bytes = 0 if model_shape is None else token_bytes(parse_shape(model_shape)) * block_size
    click.echo("\n".join(aligned(_table(curves, distinct, block_bytes))))
    for one in curves:
        if not one.exact:
            click.echo(
                f"{one.policy}: replayed at {len(one.replayed)} of {len(one.capacities)} "
                f"capacities; where ~ stands, off by {one.error:.4f} or less, as far as those "
                "can tell"
            )
    click.echo(
        "Lru's curve has no knee."
        if bend is None
        else f"The knee of lru's curve is at {bend:,} blocks{_gib(bend, block_bytes)}."
    )


def _gib(blocks: int, block_bytes: int) -> str:
    return f" ({blocks * block_bytes / 2**30:,.2f} GiB)" if block_bytes else ""


def _table(curves: list[Curve], distinct: int, block_bytes: int) -> Table:
    sized = ["GiB"] if block_bytes else []
    header = ["blocks", *sized, "of distinct", *(one.policy for one in curves)]
    table = Table("", header)
    for at, size in enumerate(curves[0].capacities):
        rates = [
            f"{'' if one.exact or size in one.replayed else '~'}{one.token_hit_rates[at]:.4f}"
            for one in curves
        ]
        gib = [f"{size * block_bytes / 2**30:,.2f}"] if block_bytes else []
        table.rows.append([f"{size:,}", *gib, f"{size / max(distinct, 1):.1%}", *rates])
    return table
