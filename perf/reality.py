"""``python -m perf.reality``: what the simulated server predicts, beside engines that really run.

On a CPU: the serving example, and transformers with a tiny model where it is installed. On a card
(``--on card``): transformers with a decoder of an 8B shape (bf16, random weights), and the shipped
profile of step times against steps drawn anew. Chats are recorded under one policy; from that the
hit rates and times to the first token of all policies are predicted, and then measured. Exit code 1
if one is farther off than the bars.

Results are written after every part and every run, so that what was measured is kept.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import click
import msgspec
import numpy as np

from kvframe.bench.verify import compare
from kvframe.bench.verify.compare import missed, text
from kvframe.bench.verify.engine import Engine, find
from kvframe.bench.verify.job import Verification
from kvframe.calibrate import SHIPPED, ModelShape, Steps, held_out, read_profile
from perf.results import FOLDER, head

POLICIES = ("lru", "slru", "s3-fifo")
LOADS = {"cpu": (0.4, 0.8), "card": (0.2, 0.4)}
"""A card serves more chats at once: beyond this its queue makes so much of a step's last per cent
that no 95th percentile can be told, by whoever."""
CHATS = {"cpu": 48, "card": 64}
BARS = {"order": 0.1, "hit": 1.0, "ttft_p50": 15.0, "ttft_p95": 25.0}
"""Points of hit rate, and per cent of the time to the first token."""
PROFILE_BARS = {"median": 8.0, "worst": 20.0}
"""Per cent of a step's time."""
SEED = 7
"""Of the steps that judge the shipped profile; its own were drawn with another."""

Row = dict[str, Any]
Keep = Callable[[Any], None]
Part = Callable[[float, Keep], list[str]]
"""Runs until a time, hands over what it has, and returns what is beyond a bar."""


@cache
def _large() -> Any:
    import torch

    from kvframe.integrations.transformers.stepped import random_model
    from perf.batching_work import LARGE

    return random_model(LARGE, "cuda", torch.bfloat16)


def card_engine(policy: str, capacity: int | None) -> Engine:
    """Transformers with a decoder of an 8B shape on the current card.

    Prompts are so long that the card takes longer to compute one than the host to start its
    kernels: what the host does in between is not kvframe's to predict.
    """
    from kvframe.integrations.transformers.stepped import Stepped

    sizes = {"block_size": 32, "budget": 4_096, "longest": 8_192, "answer": 4}
    return Stepped(_large(), policy, blocks=capacity or 1_024, **sizes)


@dataclass(frozen=True)
class Asked:
    """What an engine is to serve, how often, and where recordings go."""

    loads: Sequence[float]
    chats: int
    repeat: int
    recordings: Path | None


def engine_part(name: str, asked: Asked, until: float, keep: Keep) -> list[str]:
    """Record, predict, run; what is beyond a bar."""
    make = card_engine if name == "card" else find(name)
    told = Verification(name, make, POLICIES, asked.loads, count=asked.chats, say=_say)
    beyond = ["nothing was compared"]
    for rows in told.rounds(asked.repeat, until - time.monotonic()):
        if not rows:
            continue
        beyond = missed(rows, BARS)
        keep([_kept(told, row) for row in rows])
        _say(text(rows))
        if asked.recordings is not None:
            told.save(asked.recordings)
    return beyond


def _kept(told: Verification, row: compare.Row) -> Row:
    """A row, how far it is off, and what the engine took in each run: that shows what drifts."""
    busy = [round(each.busy, 3) for each in told.at[row.load].recorded[row.policy]]
    return {**msgspec.to_builtins(row), "errors": row.errors(), "busy_s": busy}


def profile_part(_until: float, keep: Keep) -> list[str]:
    """The shipped profile of an H200 against steps that it was not fitted to."""
    import torch

    from kvframe.calibrate.engine import Engine as Decoder
    from kvframe.calibrate.measure import measure

    room = 480_000
    decoder = Decoder(ModelShape.parse(""), room)
    steps = list(held_out(room, count=60, seed=SEED))
    path = Path(os.environ.get("OUT", "/tmp")) / f"held-out-{SEED}.csv"
    measured = measure(decoder, steps, path, lambda done: None)
    del decoder
    torch.cuda.empty_cache()
    errors = 100 * np.abs(read_profile(SHIPPED["h200-8b"]).errors(measured))
    found = {"median": float(np.median(errors)), "worst": float(errors.max())}
    told = {"steps": len(errors), **found, "p90": float(np.percentile(errors, 90))}
    keep({**told, "rows": _rows(measured)})
    _say(", ".join(f"{name} {value:.3g}" for name, value in told.items()))
    return [
        f"h200-8b: {name} error {found[name]:.1f} %, bar {bar:g} %"
        for name, bar in PROFILE_BARS.items()
        if found[name] > bar
    ]


def _rows(steps: Steps) -> list[Row]:
    names = ("num_tokens", "n_decode", "kv_decode", "prefill_chunk", "kv_prefill", "step_us")
    columns = [getattr(steps, name).tolist() for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _say(said: str) -> None:
    print(said, flush=True)


def parts(on: str, asked: Asked) -> Iterator[tuple[str, Part]]:
    """The parts of a run, by name."""

    def served(name: str) -> Part:
        return lambda until, keep: engine_part(name, asked, until, keep)

    if on == "card":
        yield "profile", profile_part
        yield "card", served("card")
        return
    yield "example", served("example")
    try:
        version("transformers")
    except PackageNotFoundError:
        _say("transformers is not installed here: it is left out")
        return
    yield "transformers", served("transformers")


def begun(on: str) -> Row:
    """Where and when."""
    record: Row = {
        **head("reality"),
        "bars": {**BARS, "profile": PROFILE_BARS},
        "parts": {},
    }
    for package in ("torch", "transformers"):
        try:
            record["versions"][package] = version(package)
        except PackageNotFoundError:
            continue
    if on == "card":
        import torch

        record["card"] = torch.cuda.get_device_name()
    return record


@click.command()
@click.option("--on", type=click.Choice(("cpu", "card")), default="cpu", show_default=True)
@click.option("--part", "only", multiple=True, help="Of a run, this part alone.")
@click.option("--load", "loads", multiple=True, type=float, help="One of the loads alone.")
@click.option("--chats", type=click.IntRange(4), help="Chats of three requests each.")
@click.option("--repeat", type=click.IntRange(1), default=5, show_default=True, help="Runs.")
@click.option("--minutes", type=float, default=7.0, help="On a card, no run begins after so many.")
@click.option("--save", is_flag=True, help="Write a result file, into $OUT if that is set.")
@click.option(
    "--recordings", type=click.Path(path_type=Path), help="Keep traces, steps and requests there."
)
def main(
    on: str,
    only: tuple[str, ...],
    loads: tuple[float, ...],
    chats: int | None,
    repeat: int,
    minutes: float,
    save: bool,
    recordings: Path | None,
) -> None:
    """Predict, run, compare; exit with 1 beyond a bar."""
    until = time.monotonic() + 60 * minutes if on == "card" else float("inf")
    record, beyond = begun(on), list[str]()
    folder = Path(os.environ.get("OUT") or FOLDER)
    which = "-".join([on, *(f"{load:g}" for load in loads)])
    file = folder / f"{record['date'][:10]}-reality-{which}.json"
    asked = Asked(loads or LOADS[on], chats or CHATS[on], repeat, recordings)
    for name, part in parts(on, asked):
        if only and name not in only:
            continue

        def keep(rows: Any, name: str = name) -> None:
            record["parts"][name] = rows
            if save:
                folder.mkdir(parents=True, exist_ok=True)
                file.write_text(json.dumps(record, indent=2) + "\n")

        try:
            beyond += part(until, keep)
        except Exception:  # the other parts are worth having
            beyond.append(f"{name}: {traceback.format_exc()}")
    record["missed"] = beyond
    if save:
        file.write_text(json.dumps(record, indent=2) + "\n")
    _say("\n".join(beyond) or "every bar holds")
    sys.exit(1 if beyond else 0)


if __name__ == "__main__":
    main()
