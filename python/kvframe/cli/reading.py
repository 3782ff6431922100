"""The options of every command that reads traces, and of several that replay or write them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from kvframe.bench.traces import ReadOptions, Source, read
from kvframe.errors import ConfigError

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

UNITS = ("s", "ms", "us", "ns")


def mode_option(*modes: str) -> Callable[[Decorated], Decorated]:
    """``--mode``: one of these, by default the first."""
    return click.option(
        "--mode",
        type=click.Choice(modes),
        default=modes[0],
        show_default=True,
        help="What a hit is, as in `kvframe bench run`.",
    )


def output_option(told: str, **more: Any) -> Callable[[Decorated], Decorated]:
    """``--output``: a file, or ``-`` for stdout."""
    kind = click.Path(dir_okay=False, allow_dash=True, path_type=Path)
    return click.option("-o", "--output", type=kind, metavar="FILE|-", help=told, **more)


def reading(command: Decorated) -> Decorated:
    """Add the options for reading traces to a command, in the order of its help."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read_aloud(trace: str, how: dict[str, Any]) -> Source:
    """Read the trace with these options, and write what its figures depend on to stderr.

    Raises:
        ConfigError: Several are named, or an option has an impossible value.
        TraceError: It cannot be read.
    """
    if "," in trace and not Path(trace).exists():
        raise ConfigError(f"--trace {trace}: must be one trace; `kvframe bench run` takes several")
    form = how.pop("trace_format")
    source = read(trace, ReadOptions(form=form, **how))
    for remark in source.remarks:
        click.echo(f"note: {remark}", err=True)
    return source


_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--trace-format",
        metavar="NAME",
        help="The trace's form, where its content does not tell; docs/reference/traces.md has all. "
        "[default: recognised]",
    ),
    click.option(
        "--block-size",
        type=click.IntRange(1, 65536),
        metavar="TOKENS",
        help="Tokens in a block, if the trace's rows do not say.  [default: what the number of ids "
        "says, else 512; 16 for tokens and text]",
    ),
    click.option(
        "--time-unit",
        type=click.Choice(UNITS),
        help="Unit of a trace's times, or of a log's clock.  [default: the form's; a log's ticks]",
    ),
    click.option("--sort", is_flag=True, help="Put requests in order of time, in memory."),
    click.option(
        "--tokenizer",
        metavar="FILE|NAME",
        help="Of forms that keep text: a tokenizer.json, or a model's name on the Hub, which has "
        "60 s to answer.",
    ),
)
