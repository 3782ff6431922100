"""A recorded stream of KV events as the rows of a trace.

Events tell what was stored, not what was asked: a request shows by the blocks that it added to a
prefix. One that found its whole prompt adds none, and is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
import numpy as np

from kvframe.errors import TraceError
from kvframe.router import RouterIndex
from kvframe.wire.decode import Stored
from kvframe.wire.recording import Recorded, recorded

PAUSE_S = 2.0
"""Seconds: blocks stored behind the end of a request within them are the same request's, the next
chunk of its prompt or its answer. Later ones are the next turn."""

Place = tuple[int, int, int | bytes]
"""Worker, rank, hash."""


class _Block(NamedTuple):
    id: int
    parent: _Block | None


def _ids(block: _Block | None) -> list[int]:
    """The blocks of a prefix, from its start."""
    ids: list[int] = []
    while block is not None:
        ids.append(block.id)
        block = block.parent
    return ids[::-1]


@dataclass
class _Request:
    time: float
    last: float
    ids: list[int] = field(default_factory=list)


class _Requests:
    """Requests in order of their first block."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows: list[_Request] = []
        self.block_size: int | None = None
        self._groups = RouterIndex()
        self._blocks: dict[Place, _Block] = {}
        self._ids: dict[bytes, int] = {}
        self._open: dict[Place, _Request] = {}

    def add(self, one: Recorded, event: Stored) -> None:
        """Blocks that were stored."""
        self._groups.add_worker(one.worker)
        is_prefix = self._groups.keeps(one.worker, event.group_idx, event.kind)
        if event.medium.upper() != "GPU" or not is_prefix or not event.block_hashes:
            return
        if event.block_size is not None and self.block_size not in (None, event.block_size):
            sizes = f"{self.block_size} and {event.block_size}"
            raise TraceError(f"{self.name}: blocks of {sizes} tokens: must be of one size")
        self.block_size = self.block_size or event.block_size
        at = one.worker, one.batch.rank
        parent = event.parent_block_hash
        start: Place | None = None if parent is None else (*at, parent)
        block = None if start is None else self._blocks.get(start)
        row = self._open.pop(start, None) if start is not None else None
        if row is None or one.batch.time - row.last > PAUSE_S:
            row = _Request(one.batch.time, one.batch.time, _ids(block))
            self.rows.append(row)
        row.last = one.batch.time
        for number, hash_ in enumerate(event.block_hashes):
            row.ids.append(self._id(row.ids[-1] if row.ids else -1, event, number, hash_))
            self._blocks[*at, hash_] = block = _Block(row.ids[-1], block)
        self._open[*at, event.block_hashes[-1]] = row

    def _id(self, parent: int, event: Stored, at: int, hash_: int | bytes) -> int:
        """A number for the content of a block: by its tokens where they came, else by its hash."""
        size = event.block_size or 0
        tokens = event.token_ids[at * size : (at + 1) * size]
        keys = event.extra_keys
        apart: Any = keys[at] if isinstance(keys, list) and at < len(keys) else keys
        said = [parent, tokens, apart, event.lora_name, event.lora_id] if tokens else [hash_]
        content = blake2b(msgspec.msgpack.encode(said), digest_size=16).digest()
        return self._ids.setdefault(content, len(self._ids))


def rows(data: bytes, name: str) -> bytes:
    """The rows, JSONL in Mooncake's form, from the bytes of a recording.

    Raises:
        TraceError: It is no recording, is damaged, stores nothing, or blocks of several sizes.
    """
    requests = _Requests(name)
    for one in recorded(data, name):
        for event in one.batch.events:
            if isinstance(event, Stored):
                requests.add(one, event)
    if not requests.rows or requests.block_size is None:
        raise TraceError(f"{name}: no requests: the recording stores no block", name)
    try:
        return b"".join(_lines(requests.rows, requests.block_size))
    except (ValueError, OverflowError) as error:
        raise TraceError(f"{name}: damaged: {error}", name) from None


def _lines(requests: list[_Request], size: int) -> Iterator[bytes]:
    times = np.array([request.time for request in requests])
    # The clocks of several workers differ, but times of rows must not decrease.
    order = np.argsort(times, kind="stable").tolist()
    for at in order:
        row = {
            "timestamp": round((times[at] - times[order[0]]) * 1000),
            "input_length": len(requests[at].ids) * size,
            "output_length": 0,
            "hash_ids": requests[at].ids,
            "block_size": size,
        }
        yield msgspec.json.encode(row) + b"\n"
