"""``kvframe bench reuse``: whole blocks, copies of parts, or single tokens?"""

from __future__ import annotations

import click
import msgspec

from kvframe.bench.build import debug_warning
from kvframe.bench.prompts import WORKLOADS, load
from kvframe.bench.render import aligned
from kvframe.bench.reuse import compare, table
from kvframe.cli.given import refuse

NUMBER = click.IntRange(1, 2**31)


@click.command(short_help="What hits inside a block would save, and what copies cost.")
@click.option(
    "--tokens",
    "names",
    multiple=True,
    metavar="NAME|FILE.jsonl",
    default=tuple(WORKLOADS),
    show_default=True,
    help='A made workload, or a file with {"token_ids": [...]} a line. Repeatable.',
)
@click.option(
    "--capacity",
    "capacities",
    type=NUMBER,
    multiple=True,
    metavar="TOKENS",
    default=(100_000,),
    show_default=True,
    help="Tokens that the pool holds. Repeatable.",
)
@click.option(
    "--block-size",
    "block_sizes",
    type=click.IntRange(1, 65536),
    multiple=True,
    metavar="TOKENS",
    default=(16, 64, 256),
    show_default=True,
    help="Repeatable.",
)
@click.option("--policy", default="lru", show_default=True, help="An eviction policy.")
@click.option(
    "--token-bytes",
    type=NUMBER,
    default=131_072,
    show_default=True,
    metavar="BYTES",
    help="KV of a token in all layers; the default is of 32 layers with 8 heads of 128 in fp16.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects.")
def reuse(
    names: tuple[str, ...],
    capacities: tuple[int, ...],
    block_sizes: tuple[int, ...],
    policy: str,
    token_bytes: int,
    as_json: bool,
) -> None:
    """What prompts that part inside a block lose to whole blocks, and what copies cost.

    Prompts are token ids, over the radix index: hits of whole blocks, hits that end in a copy of
    part of a block, and blocks of one token, the most there is to find.
    """
    if as_json:
        refuse("for the table alone: --json has tokens", "token_bytes")
    warning = debug_warning()
    if warning is not None:
        click.echo(f"warning: {warning}", err=True)
    rows = []
    for name in names:
        rows += compare(name, load(name), capacities, block_sizes, policy)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(rows)).decode())
    else:
        click.echo("\n".join(aligned(table(rows, token_bytes))))
