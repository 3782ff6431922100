"""``kvframe bench verify``: is what the simulated server says true of an engine?"""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path

import click

from kvframe.bench.options import one_of, split_list
from kvframe.bench.verify.compare import LIMITS, Row, json, missed, parse_limits, text
from kvframe.bench.verify.engine import KNOWN, find
from kvframe.bench.verify.job import Verification
from kvframe.bench.verify.simulated import beside
from kvframe.cli.given import refuse
from kvframe.errors import ConfigError, UsageError

BEYOND_LIMIT = 1
POLICIES = ("lru", "slru", "s3-fifo")
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(short_help="Predict an engine, run it, and print how far off that was.")
@click.option(
    "--engine",
    metavar=f"{'|'.join(KNOWN)}|MODULE:FUNCTION",
    help="Run this one: the example of a checkout, transformers with a tiny model, or your own.",
)
@click.option(
    "--metrics",
    type=_FILE,
    metavar="FILE",
    help="Compare with the /metrics text of a vLLM that has served the trace of --predicted.",
)
@click.option(
    "--predicted",
    type=_FILE,
    metavar="FILE.json",
    help="With --metrics: what `kvframe bench serve --format json` printed.",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    default=POLICIES,
    show_default=True,
    metavar="NAME",
    help="The first is recorded; from that recording all are predicted.",
)
@click.option("--capacity", type=click.IntRange(1), metavar="BLOCKS", help="Of the engine's pool.")
@click.option(
    "--load",
    "loads",
    multiple=True,
    default=("0.4", "0.8"),
    show_default=True,
    metavar="FACTOR",
    help="1 keeps an engine busy that serves one request at a time.",
)
@click.option("--chats", type=click.IntRange(2), default=48, show_default=True, metavar="N")
@click.option(
    "--repeat",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    metavar="N",
    help="Runs of each policy and load; their medians count.",
)
@click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="KEY=N,...",
    help=f"Exit with 1 beyond it: {', '.join(LIMITS)}. Points of hit rate, per cent of TTFT.",
)
@click.option(
    "--save",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Keep the recordings: traces, steps, requests, and the profiles fitted to them.",
)
@click.option("--format", "form", metavar="table|json", default="table", show_default=True)
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def verify(
    engine: str | None,
    metrics: Path | None,
    predicted: Path | None,
    policies: tuple[str, ...],
    capacity: int | None,
    loads: tuple[str, ...],
    chats: int,
    repeat: int,
    limits: tuple[str, ...],
    save: Path | None,
    form: str,
    quiet: bool,
) -> int:
    """Print how far a simulated server is off, in hit rate and time to the first token.

    With --engine, an engine serves chats under the first policy. A profile of step times is fitted
    to what it did, every policy is simulated with that, and then the engine runs under each. With
    --metrics, a simulation is compared with what a server has counted.
    """
    one_of([form], "--format", ("table", "json"))
    bounds = parse_limits(limits)
    if (engine is None) == (metrics is None):
        raise UsageError("name one of --engine and --metrics")
    if metrics is None and predicted is not None:
        raise UsageError("--predicted: only with --metrics")
    if metrics is not None:
        what = "only with --engine: --metrics compares with what was served"
        refuse(what, "policies", "capacity", "loads", "chats", "repeat", "save")
    if engine is not None:
        told = Verification(
            engine,
            find(engine),
            split_list(policies, "--policy"),
            [_number(load) for load in split_list(loads, "--load")],
            capacity=capacity,
            count=chats,
            say=lambda said: None if quiet else click.echo(said, err=True),
        )
        rows: list[Row] = []
        with redirect_stdout(sys.stderr):  # stdout is for the result, not for engines
            for compared in told.rounds(repeat):
                rows = compared
        if save is not None:
            told.save(save)
    else:
        if predicted is None or metrics is None:
            raise UsageError("--metrics: needs --predicted FILE.json")
        rows = beside(predicted, metrics)
    beyond = missed(rows, bounds)
    click.echo(json(rows, beyond) if form == "json" else text(rows))
    for line in beyond:
        click.echo(line, err=True)
    return BEYOND_LIMIT if beyond else 0


def _number(load: str) -> float:
    try:
        return float(load)
    except ValueError:
        raise ConfigError(f"--load {load}: must be a positive number") from None
