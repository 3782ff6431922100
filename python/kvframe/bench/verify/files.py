"""A recording as files: a trace, a log of steps, a log of requests."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from kvframe.bench.verify.recording import Recording, Served, StepRow
from kvframe.calibrate.profile import COLUMNS

STEP_COLUMNS = (*COLUMNS[:4], "prefill_context", COLUMNS[4])
REQUEST_COLUMNS = ("arrival", "prompt", "cached", "output", "ttft", "e2e")


def in_order(recording: Recording) -> list[Served]:
    """Its requests in the order of the trace: by the times at which they would come at best."""
    return sorted(recording.requests, key=lambda one: (one.nominal, one.chat, one.turn))


def write_trace(path: Path, recording: Recording, block_size: int) -> None:
    """Its requests as rows of a trace, a session a chat.

    A block's id stands for all tokens up to its end.
    """
    ids: dict[tuple[int, tuple[int, ...]], int] = {}
    with path.open("wb") as file:
        for request in in_order(recording):
            chain, last = [], -1
            for at in range(0, len(request.prompt), block_size):
                block = request.prompt[at : at + block_size]
                last = ids.setdefault((last, block), len(ids))
                chain.append(last)
            row = {
                "timestamp": request.nominal,
                "input_length": len(request.prompt),
                "output_length": request.answer,
                "hash_ids": chain,
                "block_size": block_size,
                "session_id": f"chat-{request.chat}",
            }
            file.write(msgspec.json.encode(row) + b"\n")


def write_steps(path: Path, recordings: Iterable[Recording]) -> None:
    """The steps of all, for ``kvframe calibrate --from``."""
    steps = [step for recording in recordings for step in recording.steps]
    _write(path, STEP_COLUMNS, [_step(step) for step in steps])


def _step(step: StepRow) -> tuple[object, ...]:
    context = step.pairs / step.prefill if step.prefill else 0
    tokens = step.prefill + step.n_decode
    facts = (tokens, step.n_decode, step.kv_decode, step.prefill, f"{context:.3f}")
    return *facts, f"{step.seconds * 1e6:.3f}"


def write_requests(path: Path, recording: Recording) -> None:
    """What each request felt, for ``kvframe calibrate --from-log``."""
    rows = [
        (
            f"{one.arrival:.6f}",
            len(one.prompt),
            one.cached,
            one.answer,
            f"{one.ttft:.6f}",
            f"{one.end - one.arrival:.6f}",
        )
        for one in recording.requests
    ]
    _write(path, REQUEST_COLUMNS, rows)


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
