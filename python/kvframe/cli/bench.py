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
from kvframe.cli import INTERRUPTED
from kvframe.cli.reuse import reuse
from kvframe.descriptors import Kind
from kvframe.spelling import did_you_mean

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


class _Commands(click.Group):
    """A misspelt subcommand gets the nearest one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.commands and not args[0].startswith("-"):
            ctx.fail(f"no command {args[0]}{did_you_mean(args[0], self.commands)}")
        return super().resolve_command(ctx, args)


@click.group(cls=_Commands, invoke_without_command=True)
@click.pass_context
def bench(context: click.Context) -> None:
    """Replay real traffic under every policy.

    Without a command: the shipped conversation trace, some policies beside the optimum, and a last
    line that says which would have served it best. `run --policy all` tries every one.
    """
    if context.invoked_subcommand is None:
        context.exit(_execute(Request(brief=True)))


@bench.command(short_help="Replay traces under policies, at capacities, in modes.")
@_several(
    "--trace",
    "traces",
    "NAME|FILE|-",
    Request.traces,
    "A shipped trace (conversation, synthetic, agent), a Mooncake JSONL file, gzip or plain, "
    "or - for stdin.",
)
@_several(
    "--policy",
    "policies",
    "NAME[:OPTION=VALUE...]",
    Request.policies,
    "An eviction policy that `kvframe plugins` lists, opt, opt-forced and infinite among "
    "them; `all` is every one.",
)
@_several(
    "--admission",
    "admissions",
    "NAME[:OPTION=VALUE...]",
    Request.admissions,
    "An admission policy that `kvframe plugins` lists, under each of the policies.",
)
@_several(
    "--prefix",
    "matchers",
    "NAME[:OPTION=VALUE...]",
    Request.matchers,
    "A prefix matcher that `kvframe plugins` lists; not radix, as a trace has no tokens.",
)
@_several(
    "--capacity",
    "capacities",
    "BLOCKS|SIZE",
    Request.capacities,
    "Virtual blocks, or a size such as '40 GiB' together with --model-shape.",
)
@_several(
    "--mode",
    "modes",
    "trace|engine|timed",
    Request.modes,
    "trace: every id is a block and a whole prompt may hit. engine: the manager itself. "
    "timed: by the clock, beside sequences that still run.",
)
@_several(
    "--format",
    "formats",
    "table|json|csv|md",
    Request.formats,
    "table and md always show lru, opt and infinite as well; json and csv hold what you ask.",
)
@click.option(
    "--block-size",
    type=click.IntRange(1, 65536),
    metavar="TOKENS",
    help="Tokens a block, where the trace's rows do not say.  [default: 512]",
)
@click.option(
    "--model-shape",
    metavar="layers=N,kv_heads=N,head_dim=N,dtype=NAME",
    help="What a block's bytes are, for capacities in bytes.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep every finished cell here; a later run takes them from here.",
)
@click.option(
    "--min-hit-rate",
    type=float,
    metavar="RATE",
    help="Exit with 1 if a cell that was asked for has a token hit rate below this.",
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
    help="Recorded in DIR/run.json. Every shipped policy decides the same each time without.",
)
@click.option("--quiet", is_flag=True, help="No progress and no remarks on stderr.")
@click.pass_context
def run(context: click.Context, /, **asked: Any) -> None:
    """Replay traces x policies x admissions x prefix matchers x capacities x modes.

    Options with several values repeat, or take a comma list: `--policy lru,opt`.
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
    help="The picture; its suffix is the form.",
)
def plot(results: str, output: Path) -> None:
    """Draw hit rate against capacity from a result directory or a run's JSON."""
    # matplotlib is an extra, and slow to import.
    from kvframe.bench.plot import save
    from kvframe.bench.results import read_cells

    save(read_cells(results), output)


@bench.command()
@click.argument("plugin", metavar="PLUGIN[:OPTION=VALUE...]")
@_several(
    "--trace",
    "traces",
    "NAME|FILE|-",
    TRACES,
    "As of `kvframe bench run`.",
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
    help="Of which kind PLUGIN is, where a name is of several.  [default: the first of these]",
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
    """Whether a policy keeps its promises, and where it stands.

    PLUGIN is an installed policy, or one in the making: a module (or FILE.py) with its hook, or
    MODULE:CLASS, whose __init__ says of which type its options are. It goes through
    kvframe.testing, then through a replay: an eviction policy beside every built-in one, an
    admission policy or a prefix matcher with lru and lru without it. Exit code 1 if it failed in
    either.
    """
    warning = debug_warning()
    if warning is not None:
        _say(f"warning: {warning}")
    with redirect_stdout(sys.stderr):  # what it prints is no data
        checked = run_check(plugin, traces, capacities, kind, quiet=quiet)
    click.echo(json_of(checked) if as_json else text_of(checked), nl=False)
    context.exit(0 if checked.ok else BELOW_THRESHOLD)


bench.add_command(reuse)


def _execute(request: Request) -> int:
    """Run and print; the exit code."""
    warning = debug_warning()
    if warning is not None:
        _say(f"warning: {warning}")
    with redirect_stdout(sys.stderr):  # what plugins print is no data
        job = Job(request)
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
