"""``kvframe bench``: which policy would have served this traffic best?"""

import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import click

from kvframe.bench.build import debug_warning
from kvframe.bench.capacity import SHARES, SHIPPED
from kvframe.bench.executors import EXECUTORS
from kvframe.bench.job import Job, Request
from kvframe.bench.metrics import BUILTIN
from kvframe.bench.options import split_list
from kvframe.bench.report import unfinished
from kvframe.bench.shards import parse as parse_shard
from kvframe.bench.sweep import read as read_sweep
from kvframe.cli import BELOW_THRESHOLD, INTERRUPTED, NearestGroup
from kvframe.cli.given import refuse
from kvframe.cli.reading import reading


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


def _numbers(
    flag: str, name: str, kind: "click.ParamType[Any]", default: float, metavar: str, told: str
) -> Callable[[_Decorated], _Decorated]:
    """A number that may be given several times, or several with commas."""

    def flat(context: click.Context, option: click.Parameter, texts: Sequence[str]) -> Any:
        listed = (part.strip() for text in texts for part in text.split(","))
        return tuple(dict.fromkeys(kind.convert(part, option, context) for part in listed))

    return click.option(
        flag,
        name,
        multiple=True,
        metavar=metavar,
        default=(str(default),),
        callback=flat,
        help=f"{told}  [default: {default:g}]",
    )


# Imported when they are used: each brings a part of `kvframe.bench` that no other command needs.
_LATER = {
    "answer": "answer:answer_command",
    "check": "kit:check",
    "compare": "compare:compare",
    "curve": "curve:curve",
    "experiment": "experiment:experiment",
    "plot": "report:plot",
    "report": "report:report",
    "reuse": "reuse:reuse",
    "serve": "serve:serve",
    "tune": "tune:tune",
    "verify": "verify:verify",
}


class _Commands(NearestGroup):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *_LATER})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _LATER:
            module, name = _LATER[cmd_name].split(":")
            self.add_command(getattr(import_module(f"kvframe.cli.{module}"), name), cmd_name)
        return super().get_command(ctx, cmd_name)


@click.group(cls=_Commands, invoke_without_command=True)
@click.pass_context
def bench(context: click.Context) -> None:
    """Replay real traffic under every policy.

    Without a command it replays the shipped conversation trace under some policies and the
    optimum, and says on one screen which policy would have served it best, and how sure that is.
    `run --policy all` tries every policy.
    """
    if context.invoked_subcommand is None:
        context.exit(_execute(Request(first_screen=True)))


@bench.command(short_help="Replay traces under policies, at capacities, in modes.")
@click.argument("sweep", required=False, metavar="[SWEEP.toml]", type=click.Path(path_type=Path))
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
    "BLOCKS|RANGE|SHARE|SIZE",
    Request.capacities,
    "Blocks of the trace; a range of them, 1000:64000:x2 or 1000:4000:+1000; a share of its "
    "distinct blocks, 5%; or a size such as '40 GiB' together with --model-shape.  [default: of a "
    f"shipped trace {', '.join(SHIPPED)}; of any other {', '.join(SHARES)}]",
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
@_several(
    "--metric",
    "metrics",
    "NAME|FILE.py:NAME",
    (),
    "One of your own, beside the built-in ones in json and csv. "
    + " ".join(f"{one.name}: {one.definition}." for one in BUILTIN),
)
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.toml",
    help="Run what serving code would be made from: its policies, its capacity and the rest, as "
    "far as other options do not say them.",
)
@reading
@_numbers(
    "--load",
    "loads",
    click.FLOAT,
    1,
    "FACTOR",
    "timed mode: requests a second, as a factor of the trace's.",
)
@_numbers(
    "--arrival-seed",
    "arrival_seeds",
    click.IntRange(0),
    0,
    "N",
    "timed mode: gaps between arrivals drawn anew, around the trace's own; 0 keeps these. "
    "Several are replicates, which intervals include.",
)
@_numbers(
    "--block-factor",
    "block_factors",
    click.IntRange(1, 65536),
    1,
    "N",
    "Blocks of the trace that make one.",
)
@click.option(
    "--warm-up",
    type=float,
    default=0.0,
    show_default=True,
    metavar="SHARE",
    help="Requests at the start that verdicts and intervals do not count, as a share of all.",
)
@click.option(
    "--details", is_flag=True, help="Tables with the details at every capacity, not at one."
)
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
    "--content",
    is_flag=True,
    help="Also keep what the caches hold over time, for `kvframe bench report`.",
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
    "--shard",
    metavar="I/N",
    help="Run the I-th of N parts of the cells only, and keep them in DIR; a run without this then "
    "takes them all from there.",
)
@click.option(
    "--executor",
    type=click.Choice(EXECUTORS),
    default="threads",
    show_default=True,
    help="ray: --jobs workers on the cluster of RAY_ADDRESS, or of this machine.",
)
@click.option("--dry-run", is_flag=True, help="Say how many cells would run, and about how long.")
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    metavar="N",
    help="Of policies that draw at random (those with an option of this name), unless PLUGIN says "
    "its own.",
)
@click.option("--quiet", is_flag=True, help="No progress and no remarks on stderr.")
@click.pass_context
def run(
    context: click.Context, /, sweep: Path | None, shard: str | None, dry_run: bool, **asked: Any
) -> None:
    """Replay traces x policies x admissions x prefix matchers x capacities x modes.

    To give an option several values, repeat it or use commas: `--policy lru,opt`. SWEEP.toml has
    the same options as keys; what the command line says goes before what it says.
    """
    default = click.core.ParameterSource.DEFAULT
    if sweep is not None:
        for name, value in read_sweep(sweep).items():
            if context.get_parameter_source(name) == default:
                asked[name] = value
    if "timed" not in split_list(asked["modes"], "--mode"):
        # What a sweep says of arrivals may stay there when the command line names another mode.
        refuse("only timed mode goes by the clock: --mode timed", "loads", "arrival_seeds")
    if asked["config"] is not None:
        for name in ("policies", "admissions", "matchers", "capacities"):
            declared = asked[name] == getattr(Request, name)
            if declared and context.get_parameter_source(name) == default:
                asked[name] = ()
    if asked["content"] and asked["out"] is None:
        raise click.UsageError("--content: needs --out, where it is kept", context)
    if shard is not None:
        if asked["out"] is None:
            raise click.UsageError("--shard: needs --out, where the parts meet", context)
        asked["shard"] = parse_shard(shard)
    context.exit(_execute(Request(**asked), dry_run=dry_run))


def _execute(request: Request, *, dry_run: bool = False) -> int:
    """Run the request, print its outputs, and return the exit code."""
    warning = debug_warning()
    if warning is not None:
        _say(f"warning: {warning}")
    with redirect_stdout(sys.stderr):  # stdout is for the result, not for plugins
        job = Job(request)
        for doubt in () if request.quiet else job.doubts:
            _say(f"warning: {doubt}")
        if dry_run:
            _say(str(job.estimate()))
            return 0
        outcome = job.run(sys.argv)
    if request.shard is None:
        click.echo("\n".join(job.outputs(outcome)), nl=False)
    elif not request.quiet:
        part, parts = request.shard
        _say(f"shard {part} of {parts}: {len(outcome.cells)} of {len(job.plans)} cells are kept")
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
