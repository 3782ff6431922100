"""``kvframe events``: the KV events of running engines, as lines, as an index, as a file."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from kvframe.cli import NearestGroup
from kvframe.errors import UsageError
from kvframe.router import RouterIndex
from kvframe.wire.decode import Cleared, Removed, Stored, decode
from kvframe.wire.recording import Recorder

F = TypeVar("F", bound=Callable[..., Any])

WAIT_S = 0.2
"""Seconds of a wait for messages, between two looks at whether the end has come."""

QUIET_S = 5.0
"""Seconds without any batch, after which it is said."""


@click.group(cls=NearestGroup)
def events() -> None:
    """Read the KV events that running engines publish (vLLM, SGLang, kvframe.wire).

    An ENDPOINT is an address as the engine has it, and that of its replay behind a comma, if there
    is one: tcp://127.0.0.1:5557,tcp://127.0.0.1:5657. Workers count from 0, in the order given.
    """


def _reading(command: F) -> F:
    """Add the arguments of every command that reads publishers."""
    for option in (
        click.option("--server", type=click.Path(path_type=Path), help="CURVE: their public key."),
        click.option("--keys", type=click.Path(path_type=Path), help="CURVE: this side's keys."),
        click.option("--topic", default="", help="Only messages whose topic begins so."),
        click.option(
            "--rank", type=click.IntRange(0, 65535), default=0, help="Data-parallel rank."
        ),
        click.argument("endpoints", metavar="ENDPOINT...", nargs=-1, required=True),
    ):
        command = option(command)
    return command


_COUNT = click.option(
    "--count",
    type=click.IntRange(1),
    metavar="BATCHES",
    help="End after so many; never if left out.",
)


@events.command()
@_reading
@_COUNT
@click.option("--json", "as_json", is_flag=True, help="An object a line, with token ids.")
def tail(count: int | None, as_json: bool, **reading: Any) -> None:
    """Print events as they come, one a line.

    Interrupt it to end. Only --json shows token ids, which are the users' prompts.
    """
    for worker, number, payload in _batches(count, **reading):
        try:
            batch = decode(payload, rank=reading["rank"])
        except UsageError as error:
            click.echo(f"worker {worker}, batch {number}: {error}", err=True)
            continue
        place = {"worker": worker, "rank": batch.rank, "batch": number, "time": batch.time}
        for event in batch.events:
            click.echo(_as_json(place, event) if as_json else _in_words(place, event))
        for fault in batch.wrong:
            click.echo(f"worker {worker}, batch {number}: {fault}", err=True)
        sys.stdout.flush()


@events.command()
@click.argument("file", type=click.Path(path_type=Path))
@_reading
@_COUNT
def record(file: Path, count: int | None, **reading: Any) -> None:
    """Write batches to FILE, which kvframe bench run --trace replays.

    FILE holds the prompts: only its owner may read it. Interrupt the recording to end it: the exit
    code is 0, or 130 where nothing had come.
    """
    import_module("kvframe.wire.subscriber")  # an extra: without it no file is made
    with Recorder(file) as recorder:
        total = 0
        try:
            for batch in _batches(count, **reading):
                recorder.write(*batch)
                total += 1
        except KeyboardInterrupt:
            if not total:
                raise
        finally:
            click.echo(f"wrote {file}: {total} batches", err=True)


@events.command()
@_reading
@click.option(
    "--block-size",
    type=click.IntRange(1, 65536),
    required=True,
    help="Tokens of the workers' blocks.",
)
def index(block_size: int, **reading: Any) -> None:
    """Say which worker holds how much of each prompt on standard input.

    A prompt is a line: {"token_ids": [...]}, with "cache_salt", "lora_name" and "tenant" where
    there are any.
    The answer is a line with the leading blocks that each worker holds, by tier. What the workers
    have published before a prompt is read is taken into account, if they have a replay.
    """
    with _subscriber(RouterIndex(block_size), **reading) as subscriber:
        subscriber.poll(WAIT_S)
        for at, line in enumerate(sys.stdin, 1):
            try:
                prompt = msgspec.json.decode(line, type=_Prompt)
            except (msgspec.DecodeError, RecursionError) as error:
                raise UsageError(f"<stdin>:{at}: {error}") from None
            subscriber.sync()
            found = subscriber.index.match_tokens(
                prompt.token_ids,
                cache_salt=prompt.cache_salt,
                lora_name=prompt.lora_name,
                tenant=prompt.tenant,
            )
            told = {str(worker): reach._asdict() for worker, reach in found.items()}
            click.echo(msgspec.json.encode(told).decode())
            sys.stdout.flush()
        counts = subscriber.counts()
    if not counts.applied:
        _say_quiet(reading["endpoints"])
    click.echo(
        f"{counts.applied} batches, {counts.missed} missed, {counts.resets} resets", err=True
    )


class _Prompt(msgspec.Struct):
    token_ids: list[int]
    cache_salt: str | None = None
    lora_name: str | None = None
    tenant: str = ""


@contextmanager
def _subscriber(
    index: RouterIndex,
    endpoints: Iterable[str],
    rank: int,
    topic: str,
    keys: Path | None,
    server: Path | None,
) -> Iterator[Any]:
    # The sockets need an extra: without it the rest of the command line must work.
    from kvframe.wire.sockets import Curve
    from kvframe.wire.subscriber import Subscriber

    if (keys is None) != (server is None):
        raise click.UsageError("--keys and --server: CURVE needs both")
    curve = None if keys is None or server is None else Curve.of_reader(keys, server)
    with Subscriber(index, curve=curve) as subscriber:
        for worker, pair in enumerate(endpoints):
            endpoint, _, replay = pair.partition(",")
            subscriber.add(worker, endpoint, replay or None, rank=rank, topic=topic)
        yield subscriber


def _batches(count: int | None, **reading: Any) -> Iterator[tuple[int, int, bytes]]:
    """Worker, number and payload of each batch, in order; at most ``count`` of them."""
    waiting: list[tuple[int, int, bytes]] = []
    left, quiet_at = count, time.monotonic() + QUIET_S
    with _subscriber(RouterIndex(), **reading) as subscriber:
        subscriber.watch(lambda *batch: waiting.append(batch))
        while True:
            subscriber.poll(WAIT_S)
            if waiting:
                quiet_at = math.inf
            elif time.monotonic() > quiet_at:
                quiet_at = math.inf
                _say_quiet(reading["endpoints"])
            for batch in waiting:
                yield batch
                if left is not None and (left := left - 1) == 0:
                    return
            waiting.clear()


def _say_quiet(endpoints: Iterable[str]) -> None:
    click.echo(
        f"nothing has come from {' '.join(endpoints)}: does the server publish "
        "(--kv-events-config), and serve requests?",
        err=True,
    )


def _as_json(place: dict[str, Any], event: Stored | Removed | Cleared) -> str:
    fields = {name: value for name, value in event._asdict().items() if value not in (None, [])}
    return msgspec.json.encode({**place, "event": type(event).__name__.lower(), **fields}).decode()


def _in_words(place: dict[str, Any], event: Stored | Removed | Cleared) -> str:
    head = f"worker {place['worker']} rank {place['rank']} batch {place['batch']}: "
    if isinstance(event, Cleared):
        return head + "cleared"
    names = " ".join(map(_name, event.block_hashes[:4]))
    more = f" and {len(event.block_hashes) - 4} more" if len(event.block_hashes) > 4 else ""
    if isinstance(event, Removed):
        return f"{head}removed {names}{more} ({_plain(event.medium)})"
    parent = event.parent_block_hash
    after = "" if parent is None else f" after {_name(parent)}"
    return (
        f"{head}stored {names}{more}{after}: {len(event.token_ids)} tokens ({_plain(event.medium)})"
    )


def _plain(text: str) -> str:
    """The text, escaped if it holds control characters, which could move the terminal's cursor."""
    return text if text.isprintable() else ascii(text)


def _name(hash_: int | bytes) -> str:
    return hash_[-8:].hex() if isinstance(hash_, bytes) else f"{hash_ & (1 << 64) - 1:016x}"
