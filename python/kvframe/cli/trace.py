"""``kvframe trace``: what a trace holds, whether it is sound, and traces made of traces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from kvframe.bench.capacity import parse_shape
from kvframe.bench.prompts import WORKLOADS
from kvframe.cli import NearestGroup, fail
from kvframe.cli.given import refuse
from kvframe.cli.reading import mode_option, output_option, reading
from kvframe.cli.trace_text import shown
from kvframe.config.sizes import layer_bytes
from kvframe.errors import TraceError
from kvframe.traces import Row
from kvframe.traces.info import Info, info
from kvframe.traces.output import FORMS, written
from kvframe.traces.rewrite import convert, merge, sample
from kvframe.traces.source import ReadOptions, open_lengths
from kvframe.traces.synth import SynthRules, with_prefixes
from kvframe.traces.values import token_blocks

UNSOUND = 1

_OUT = output_option("The file to write; .gz, .zst, .bz2 and .xz pack it.", required=True)
_SEED = click.option(
    "--seed", type=int, default=0, show_default=True, metavar="N", help="Of draws."
)


@click.group(cls=NearestGroup)
def trace() -> None:
    """Look at traces, check them, and make others of them.

    FILE is a trace in any form that docs/reference/traces.md lists, packed or plain, the name of a
    shipped trace, a folder of sessions, or - for stdin.
    """


class _OneTrace(click.Command):
    """A command of one trace; what is said of several names what takes them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if "unexpected extra argument" not in error.message:
                raise
            told = (
                f"{error.message}: one trace at a time; `kvframe trace merge` makes one of "
                "several, and a folder of sessions is one"
            )
            raise click.UsageError(told, ctx) from error


@trace.command(
    "info", cls=_OneTrace, short_help="What a trace could reuse at best, how soon, and where."
)
@click.argument("file")
@reading
@mode_option("engine", "trace")
@click.option(
    "--bytes-per-token",
    type=click.IntRange(1, 2**40),
    metavar="BYTES",
    help="KV of a token in all layers, for sizes in GiB.",
)
@click.option(
    "--model-shape",
    metavar="layers=N,kv_heads=N,head_dim=N,dtype=NAME",
    help="The same from the model's shape.",
)
@click.option("--json", "as_json", is_flag=True, help="Print an object.")
def info_command(
    file: str,
    mode: str,
    bytes_per_token: int | None,
    model_shape: str | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Print requests, sessions, tokens, the working set, the ceiling of hits, and lru's curve."""
    size = bytes_per_token
    if model_shape is not None:
        refuse("--model-shape says it", "bytes_per_token")
        model = parse_shape(model_shape)
        size = layer_bytes(model) * model.layers
    found = info(file, _options(how), mode)
    if as_json:
        plain = msgspec.to_builtins(found) | {"ceiling": found.ceiling, "bytes_per_token": size}
        click.echo(msgspec.json.format(msgspec.json.encode(plain)).decode())
    else:
        click.echo("\n".join(shown(found, size)))
        _say(found.remarks)


@trace.command(cls=_OneTrace, short_help="Read a trace whole; exit with 1 where it is not sound.")
@click.argument("file")
@reading
@click.pass_context
def validate(context: click.Context, /, file: str, **how: Any) -> None:
    """Read a trace whole. An error names the line and says what is wrong; the exit code is 1."""
    try:
        found = info(file, _options(how))
    except TraceError as error:
        fail(str(error))
        context.exit(UNSOUND)
    _say(found.remarks)
    click.echo(_sound(found))


@trace.command("convert", short_help="Write a trace in another form.")
@click.argument("file")
@_OUT
@click.option("--to", metavar="|".join(FORMS), help="The form.  [default: that of FILE's ending]")
@reading
def convert_command(file: str, output: Path, to: str | None, **how: Any) -> None:
    """Write a trace as JSONL, kvframe's compact form, or libCacheSim's CSV, oracleGeneral, lcsllm.

    Ids become those of whole prefixes, from 0 on.
    """
    _say(convert(file, _options(how), output, to))


@trace.command("sample", short_help="Write some of a trace's sessions.")
@click.argument("file")
@_OUT
@click.option(
    "--share",
    type=click.FloatRange(0, 1, min_open=True),
    default=1.0,
    show_default=True,
    help="Of the sessions; of the requests where no session is named.",
)
@click.option("--first", type=click.IntRange(1), metavar="N", help="Look at N requests at most.")
@_SEED
@reading
def sample_command(
    file: str, output: Path, share: float, first: int | None, seed: int, **how: Any
) -> None:
    """Write all requests of a share of the sessions, so that what they reuse stays whole."""
    kept, seen, told = sample(file, _options(how), output, share, first, seed)
    _say([*told, f"{kept:,} of {seen:,} requests written"])


@trace.command("merge", short_help="Write several traces as one.")
@click.argument("files", nargs=-1, required=True)
@_OUT
@click.option(
    "--gap",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="Mean time from a trace's start to the next one's, drawn exponentially.  [default: times "
    "stay as they are]",
)
@_SEED
@reading
def merge_command(
    files: tuple[str, ...], output: Path, gap: float | None, seed: int, **how: Any
) -> None:
    """Write several traces as one, by time. Nothing is shared across them."""
    if gap is None:
        refuse("nothing is drawn without --gap", "seed")
    requests, told = merge(files, _options(how), output, gap, seed)
    _say([*told, f"{requests:,} requests written"])


@trace.command(short_help="Make up prefixes for a trace that has lengths only.")
@click.argument("file")
@_OUT
@click.option("--system", type=click.IntRange(0), default=512, show_default=True, metavar="TOKENS")
@click.option("--systems", type=click.IntRange(1), default=1, show_default=True, metavar="N")
@click.option(
    "--turns",
    type=click.FloatRange(1),
    default=1.0,
    show_default=True,
    metavar="MEAN",
    help="Requests a conversation, where rows name no session.",
)
@_SEED
@reading
def synth(
    file: str, output: Path, system: int, systems: int, turns: float, seed: int, **how: Any
) -> None:
    """Make up prefixes for FILE, which has lengths only, or write a made workload.

    Each prompt begins with one of N system prompts; a conversation's next prompt begins with the
    one before it. The trace says in its first row that its prefixes were made up, and every command
    that reads it says so, too. FILE may be few-shot, edits or branches, which are made whole.
    """
    options = _options(how)
    size = options.block_size or 16
    if file in WORKLOADS:
        refuse(f"the workload {file} is always the same", "system", "systems", "turns", "seed")
        mark = f"the workload {file} was made up"
        rows = _workload(file, size)
    else:
        rules = SynthRules(system, systems, turns, size, seed)
        given, lengths = open_lengths(file, options)
        _say(given.remarks)
        mark, rows = rules.mark, list(with_prefixes(lengths, rules))
    with written(output) as out:
        for at, row in enumerate(rows):
            line: Any = msgspec.to_builtins(row)
            out.write(
                msgspec.json.encode(({"synthesised": mark} if at == 0 else {}) | line) + b"\n"
            )
    _say([f"{mark}: figures of it say nothing of recorded traffic"])


def _workload(name: str, size: int) -> list[Row]:
    prompts = WORKLOADS[name](_dice())
    return [
        Row(
            timestamp=1_000 * at,
            input_length=len(prompt),
            output_length=0,
            hash_ids=token_blocks(prompt, size),
            block_size=size,
        )
        for at, prompt in enumerate(prompts)
    ]


def _dice() -> Any:
    import numpy as np

    return np.random.default_rng(0)


def _options(how: dict[str, Any]) -> ReadOptions:
    how["form"] = how.pop("trace_format")
    return ReadOptions(**how)


def _sound(found: Info) -> str:
    return (
        f"{found.name}: sound: {found.form}, {found.requests:,} requests, {found.input_tokens:,} "
        f"prompt tokens in blocks of {found.block_size}"
    )


def _say(remarks: Any) -> None:
    for remark in remarks:
        click.echo(f"note: {remark}", err=True)
