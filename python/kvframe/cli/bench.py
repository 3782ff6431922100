"""``kvframe bench``: which policy would have served this traffic best?"""

import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, TypeVar

import click

from kvframe.bench.build import debug_warning
from kvframe.bench.check import CAPACITIES, TRACES
from kvframe.bench.check import check as run_check
from kvframe.bench.check import json as json_of
from kvframe.bench.check import text as text_of
from kvframe.bench.job import Job, Request
from kvframe.bench.locate import KINDS
from kvframe.bench.report import unfinished
from kvframe.cli import INTERRUPTED, NearestGroup
from kvframe.cli.reading import reading
from kvframe.cli.reuse import reuse
from kvframe.cli.serve import serve
from kvframe.registry.descriptors import Kind

BELOW_THRESHOLD = 1


def _say(line: str) -> None:
    click.echo(line, err=True)


_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])


def _several(
    flag: str, name: str, metavar: str, default: Sequence[str], told: str | None = None
) -> Callable[[_Decorated], _Decorated]:
    """An option that may be given several times."""
    return click.option(
        flag, name, multiple=True, metavar=metavar, default=default, show_default=True, help=told
    )


@click.group(cls=NearestGroup, invoke_without_command=True)
@click.pass_context
def bench(context: click.Context) -> None:
    """Replay real traffic under every policy.

    Without a command it replays the shipped conversation trace under some policies and the
    optimum, and the last line says which policy would have served it best. `run --policy all`
    tries every policy.
    """
    if context.invoked_subcommand is None:
        context.exit(_execute(Request(brief=True)))


@bench.command(short_help="Replay traces under policies, at capacities, in modes.")
@_several(
    "--trace",
    "traces",
    "NAME|FILE|-",
    Request.traces,
    "A shipped trace (conversation, synthetic, agent), a file of any form that docs/reference/"
    "traces.md lists, packed or plain, a folder of sessions, or - for stdin.",
)
@_several(
    "--policy",
    "policies",
    "PLUGIN[:OPTION=VALUE,...]",
    Request.policies,
    "An eviction policy that `kvframe plugins` lists, including opt, opt-forced and infinite; "
    "`all` stands for every one. Or one in the making, as `kvframe bench check` takes it: "
    "./FILE.py:CLASS.",
)
@_several(
    "--admission",
    "admissions",
    "PLUGIN[:OPTION=VALUE,...]",
    Request.admissions,
    "An admission policy, likewise, to combine with each of the policies.",
)
@_several(
    "--prefix",
    "matchers",
    "PLUGIN[:OPTION=VALUE,...]",
    Request.matchers,
    "A prefix matcher, likewise, except radix: a trace has no tokens.",
)
@_several(
    "--capacity",
    "capacities",
    "BLOCKS|SIZE",
    Request.capacities,
    "Blocks of the trace, or a size such as '40 GiB' together with --model-shape.",
)
@_several(
    "--mode",
    "modes",
    "trace|engine|timed",
    Request.modes,
    "trace: every id is a block, and a whole prompt may hit. engine: as a manager serves it. "
    "timed: by the clock, beside sequences that are still running.",
)
@_several(
    "--format",
    "formats",
    "table|json|csv|md",
    Request.formats,
    "table and md always show lru, opt and infinite as well; json and csv only what you ask for.",
)
@reading
@click.option(
    "--model-shape",
    metavar="layers=N,kv_heads=N,head_dim=N,dtype=NAME",
    help="The model's shape, for capacities in bytes; with MLA, latent_dim=N instead of the heads.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep every finished cell here; a later run reuses them.",
)
@click.option(
    "--min-hit-rate",
    type=float,
    metavar="RATE",
    help="Exit with 1 if any requested cell has a token hit rate below this.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    metavar="N",
    help="Replays side by side. Only one at a time gives timings worth comparing.",
)
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    metavar="N",
    help="Recorded in DIR/run.json. The shipped policies are deterministic and need no seed.",
)
@click.option("--quiet", is_flag=True, help="No progress and no remarks on stderr.")
@click.pass_context
def run(context: click.Context, /, **asked: Any) -> None:
    """Replay traces x policies x admissions x prefix matchers x capacities x modes.

    To give an option several values, repeat it or use commas: `--policy lru,opt`.
    """
    context.exit(_execute(Request(**asked)))


@bench.command(short_help="Draw hit rate against capacity.")
@click.argument("results", metavar="DIR|FILE.json|-")
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.png|FILE.svg",
    help="The picture; the suffix chooses its format.",
)
def plot(results: str, output: Path) -> None:
    """Draw hit rate against capacity from a result directory or a run's JSON."""
    # matplotlib is an extra, and slow to import.
    from kvframe.bench.plot import save
    from kvframe.bench.results import read_cells

    save(read_cells(results), output)


@bench.command()
@click.argument("plugin", metavar="PLUGIN[:OPTION=VALUE,...]")
@_several(
    "--trace",
    "traces",
    "NAME|FILE|-",
    TRACES,
    "As for `kvframe bench run`.",
)
@_several(
    "--capacity",
    "capacities",
    "BLOCKS",
    CAPACITIES,
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
        _say(f"warning: {warning}")
    with redirect_stdout(sys.stderr):  # stdout is for the result, not for the plugin
        checked = run_check(plugin, traces, capacities, kind, quiet=quiet)
    click.echo(json_of(checked) if as_json else text_of(checked), nl=False)
    context.exit(0 if checked.ok else BELOW_THRESHOLD)


bench.add_command(reuse)
bench.add_command(serve)


def _execute(request: Request) -> int:
    """Run and print; the exit code."""
    warning = debug_warning()
    if warning is not None:
        _say(f"warning: {warning}")
    with redirect_stdout(sys.stderr):  # stdout is for the result, not for plugins
        job = Job(request)
        for doubt in () if request.quiet else job.doubts:
            _say(f"warning: {doubt}")
        outcome = job.run(sys.argv)
    click.echo("\n".join(job.outputs(outcome)), nl=False)
    if outcome.reused and not request.quiet:
        _say(f"{outcome.reused} of {len(job.plans)} cells taken from {request.out}")
    if outcome.interrupted:
        _say(unfinished(job.plans, outcome.cells))
        return INTERRUPTED
    low = job.below_threshold(outcome)
    for cell in low[:1]:
        _say(
            f"--min-hit-rate {request.min_hit_rate}: {len(low)} of {len(job.plans)} cells below; "
            f"first {cell.trace} {cell.mode} {cell.policy} {cell.capacity_blocks} "
            f"with {cell.token_hit_rate:.4f}"
        )
    return BELOW_THRESHOLD if low else 0
