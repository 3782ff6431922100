"""``kvframe bench compare``: what changed between two results, and whether that is real."""

from __future__ import annotations

import click
import msgspec

from kvframe.bench.difference import RATE, Limit, compared, sentence, table
from kvframe.bench.render import aligned

BEYOND = 1


@click.command(short_help="Compare two results; fail beyond a limit.")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    default=(RATE,),
    show_default=True,
    metavar="NAME",
    help="A number of a cell, or one of its metrics. Repeatable.",
)
@click.option(
    "--fail-if",
    "limits",
    multiple=True,
    metavar="'METRIC < CHANGE'",
    help="Exit with 1 if a cell changed by more, as 'token_hit_rate < -0.5pp' or "
    "'mean_ttft_seconds > 5%', or if B lacks a cell of A. A change that may be chance does not "
    "count. Repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="Print an object.")
@click.pass_context
def compare(
    context: click.Context,
    a: str,
    b: str,
    metrics: tuple[str, ...],
    limits: tuple[str, ...],
    as_json: bool,
) -> None:
    """Compare the cells that two results have in common, and name those of one alone.

    A and B are directories of `kvframe bench run --out`, or JSON that it printed. From directories
    the difference of token hit rates gets an interval: the same requests under both, resampled by
    session, corrected for all cells.
    """
    parsed = [Limit.parse(text) for text in limits]
    found = compared(a, b, [*metrics, *(limit.metric for limit in parsed)])
    rows = found.differences
    missing = found.only_in_a if parsed else []
    crossed = [
        (limit, row)
        for limit in parsed
        for row in rows
        if row.metric == limit.metric and limit.crossed(row)
    ]
    if as_json:
        told = {
            "differences": [
                {**msgspec.to_builtins(row), "change": row.change, "real": row.real} for row in rows
            ],
            "sentence": sentence(rows),
            "doubt": found.doubt,
            "only_in_a": found.only_in_a,
            "only_in_b": found.only_in_b,
            "failed": [
                *(f"{limit.text}: {row}" for limit, row in crossed),
                *(f"only in A: {cell}" for cell in missing),
            ],
        }
        click.echo(msgspec.json.format(msgspec.json.encode(told)).decode())
    else:
        click.echo(
            "\n".join(
                [*aligned(table(rows)), "", *found.doubt, *found.alone(), f"{sentence(rows)}."]
            )
        )
    for limit, row in crossed[:3]:
        click.echo(f"--fail-if {limit.text}: {row}: {row.change:+.4f}", err=True)
    for cell in missing[:3]:
        click.echo(f"--fail-if: only in A, so not compared: {cell}", err=True)
    context.exit(BEYOND if crossed or missing else 0)
