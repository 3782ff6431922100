"""``kvframe bench check``: does a policy keep what it promises?"""

from __future__ import annotations

import sys
from contextlib import redirect_stdout

import click

from kvframe.bench.build import debug_warning
from kvframe.bench.check import CAPACITIES, TRACES
from kvframe.bench.check import check as run_check
from kvframe.bench.check import json as json_of
from kvframe.bench.check import text as text_of
from kvframe.bench.locate import KINDS
from kvframe.cli import BELOW_THRESHOLD
from kvframe.registry.descriptors import Kind


@click.command()
@click.argument("plugin", metavar="PLUGIN[:OPTION=VALUE,...]")
@click.option(
    "--trace",
    "traces",
    metavar="NAME|FILE|-",
    multiple=True,
    default=TRACES,
    show_default=True,
    help="As for `kvframe bench run`.",
)
@click.option(
    "--capacity",
    "capacities",
    metavar="BLOCKS",
    multiple=True,
    default=CAPACITIES,
    show_default=True,
)
@click.option(
    "--kind",
    type=click.Choice(KINDS),
    help="PLUGIN's kind, if a name exists for several.  [default: the first of these]",
)
@click.option("--json", "as_json", is_flag=True, help="Print an object.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
@click.pass_context
def check(
    context: click.Context,
    plugin: str,
    traces: tuple[str, ...],
    capacities: tuple[str, ...],
    kind: Kind | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Test whether a policy keeps its promises, and how it compares.

    PLUGIN is an installed policy, or one in the making: a module (or FILE.py) with its hook, or
    MODULE:CLASS, whose __init__ annotates the type of its options. It goes through kvframe.testing
    and then through a replay: an eviction policy beside every built-in one, an admission policy or
    a prefix matcher as lru with it and without it. The exit code is 1 if it failed in either.
    """
    warning = debug_warning()
    if warning is not None:
        click.echo(f"warning: {warning}", err=True)
    with redirect_stdout(sys.stderr):  # stdout is for the result, not for the plugin
        checked = run_check(plugin, traces, capacities, kind, quiet=quiet)
    click.echo(json_of(checked) if as_json else text_of(checked), nl=False)
    context.exit(0 if checked.ok else BELOW_THRESHOLD)
