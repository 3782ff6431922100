"""``kvframe calibrate``: how long a step takes on this card, for a simulated server."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from kvframe.calibrate import (
    Measured,
    ModelShape,
    Profile,
    Requests,
    Steps,
    fit,
    fit_log,
    fit_requests,
    fitted,
    has_steps,
    held_out,
    write_profile,
)
from kvframe.calibrate.store import accuracy
from kvframe.cli.given import refuse
from kvframe.errors import UsageError

_STEPS = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.toml",
    help="The profile; measured steps are written beside it as CSV.",
)
@click.option(
    "--from",
    "source",
    type=_STEPS,
    metavar="STEPS.csv",
    help="Fit to these steps of an earlier run instead of measuring.",
)
@click.option(
    "--from-log",
    "log",
    type=_STEPS,
    metavar="LOG.csv",
    help="Fit to a server's log: a row a step, or a row a request (arrival, prompt, cached, "
    "output, ttft, e2e).",
)
@click.option(
    "--judge",
    type=_STEPS,
    metavar="STEPS.csv",
    help="With --from or --from-log: steps that are not fitted to, to state the error over.",
)
@click.option(
    "--model-shape",
    default="",
    metavar="KEY=N,…",
    help="layers, hidden, ffn, heads, kv_heads, head_dim, vocab; the default is an 8B model.",
)
@click.option(
    "--kv-tokens",
    type=click.IntRange(65_536),
    default=480_000,
    show_default=True,
    metavar="N",
    help="Tokens of KV that fit beside the weights.",
)
def calibrate(
    output: Path,
    source: Path | None,
    log: Path | None,
    judge: Path | None,
    model_shape: str,
    kv_tokens: int,
) -> None:
    """Measure how long a step of a server takes on this card.

    A profile is fitted to the times, for `kvframe bench serve --profile FILE.toml`. A decoder of
    the given shape runs with random weights, in bf16: decoding alone, prefill alone and both. It
    needs PyTorch and Triton, and about two minutes. Other engines have other kernels: a profile of
    your server's own log (--from-log) is better than this one.
    """
    shape = ModelShape.parse(model_shape)
    if source is not None and log is not None:
        raise UsageError("--from and --from-log: name one of them")
    if source is not None or log is not None:
        refuse(
            "only where a card is measured: what is fitted has its own", "model_shape", "kv_tokens"
        )
    judged = Steps.read(judge) if judge else None
    steps: Steps | None
    if log is not None:
        profile, steps = _logged(log)
        measured = Measured(command=f"kvframe calibrate --from-log {log.name}")
    elif source is not None:
        steps = Steps.read(source)
        profile = fit(steps)
        measured = Measured(command=f"kvframe calibrate --from {source.name}")
    elif judge is not None:
        raise UsageError("--judge: only with --from or --from-log")
    else:
        steps, judged, measured = _measured(output, shape, kv_tokens)
        profile = fit(steps)
    write_profile(output, profile, measured, steps, judged)
    if steps is None:
        click.echo(f"{output}: fitted to what requests felt; `kvframe bench serve` says how well")
    else:
        click.echo(f"{output}: fitted to {accuracy(profile, steps)}")
    if judged is not None:
        click.echo(f"{output}: not fitted to {accuracy(profile, judged)}")


def _logged(path: Path) -> tuple[Profile, Steps | None]:
    """The profile of a log, and its steps if it has some."""
    if has_steps(path):
        steps = Steps.read(path)
        return fit_log(steps), steps
    return fit_requests(Requests.read(path)), None


def _measured(output: Path, shape: ModelShape, room: int) -> tuple[Steps, Steps, Measured]:
    try:
        from kvframe.calibrate.engine import Engine
    except ImportError as error:
        raise UsageError(
            f"{error.name}: not installed; to measure on a card: pip install torch; "
            "to fit steps that you have: --from"
        ) from None
    from kvframe.calibrate.measure import measure, measured_here

    engine = Engine(shape, room)
    parts = []
    for name, steps in (("steps", list(fitted(room))), ("judged", list(held_out(room)))):
        shown = sys.stderr.isatty()

        def progress(
            done: int, name: str = name, total: int = len(steps), on: bool = shown
        ) -> None:
            if on:
                click.echo(f"\r{name}: {done} of {total}", nl=done == total, err=True)

        parts.append(measure(engine, steps, output.with_suffix(f".{name}.csv"), progress))
    return parts[0], parts[1], measured_here(f"kvframe calibrate -o {output.name}")
