"""The batched way to write an admission policy: arrays in, verdicts out, in Python.

The core offers *arrivals*: blocks that a commit is about to make findable, those of one sequence
and layer group together and in the order of its prefix. A policy gives all of them a verdict in one
call, once a step. A block of full attention can only be found behind those before it: after one
that is dropped nothing of its sequence is kept, nor asked for again.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from kvframe.policies.columns import Columns, named_only

ADMISSION_COLUMNS: dict[str, str] = {
    "key": "uint64 (n, 2): key of the prefix that the block ends, the same in every layer group",
    "next": "uint64 (n, 2): key of the prefix one block longer, 0 where that is not known yet",
    "depth": "uint32: place in the prefix, 0 for the first block of its group",
    "tokens": "uint32: tokens that the block holds",
    "group": "uint8: layer group",
    "state": "bool: whether it holds the state of recurrent layers",
    "reach": "uint32: tokens known of the request",
    "prompt": "uint32: tokens of its prompt",
    "uses": "uint32: uses in the tier above; 0 for what was computed just now",
    "session": "uint64: session of the request",
    "turn": "uint32: turn of the request",
    "request_class": "uint32: class of the request",
    "priority": "int32: priority of the request",
}
"""Columns an admission policy may ask for."""

DROP, KEEP, LOWER = 0, 1, 2
"""Verdicts: out of this tier; in; out, but the tier below is asked."""

OCCASIONS = ("computed", "used", "evicted")


class Arrivals(msgspec.Struct, frozen=True):
    """Blocks about to enter a tier.

    Attributes:
        now: The present tick of the core's logical clock.
        block_size: Tokens of `cache.block_size`.
        occasion: ``computed`` just now; ``used`` in the tier above; or being ``evicted`` from it.
        free: Blocks of the tier that are free.
        total: All its blocks.
        columns: Read-only arrays of equal length, those that the policy asked for.
    """

    now: int
    block_size: int
    occasion: str
    free: int
    total: int
    columns: Columns

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        try:
            return self.columns[name]
        except KeyError as error:
            error.add_note(named_only(self.columns))
            raise


class Waiting(msgspec.Struct, frozen=True):
    """Requests that ask to start, one entry of each array a request, and the state of the cache.

    Attributes:
        block_size: Tokens in a block.
        free: Blocks that are free; ``cached``, ``referenced`` and ``total`` likewise.
        running: Sequences that are live.
        tokens: int64: tokens of each prompt.
        sessions: uint64.
        turns: int64, as are ``request_classes`` and ``priorities``.
    """

    block_size: int
    free: int
    cached: int
    referenced: int
    total: int
    running: int
    tokens: npt.NDArray[np.int64]
    sessions: npt.NDArray[np.uint64]
    turns: npt.NDArray[np.int64]
    request_classes: npt.NDArray[np.int64]
    priorities: npt.NDArray[np.int64]


class BatchedAdmission:
    """Base class of admission policies in Python. Override `admit`.

    Attributes:
        columns: Names out of `ADMISSION_COLUMNS`; only these are gathered.
        reasons: Why a request may have to wait, in words, for `start`.
    """

    columns: ClassVar[tuple[str, ...]] = ("key",)
    reasons: ClassVar[tuple[str, ...]] = ()

    def admit(self, blocks: Arrivals, tier: str, out: npt.NDArray[np.uint8]) -> None:
        """Fill ``out`` with one verdict a block: 1 keeps it, 0 drops it, 2 asks the tier below.

        Booleans will do. ``tier`` is ``gpu``, ``host``, ``disk`` or ``remote``.
        """
        raise TypeError(f"{type(self).__name__} must override admit")

    def start(self, requests: Waiting, out: npt.NDArray[np.int64]) -> None:
        """Leave 0 in ``out`` for a request that may start now, else put a reason's number, from 1.

        Whether there is room is the core's own question, asked after this one. A request that waits
        is a `kvframe.HeldError` for `admit`, and refused with `Reason.HELD` by `step`.
        """

    def seen(self, keys: npt.NDArray[np.uint64], now: int) -> None:
        """Requests have found or computed these blocks: uint64 (n, 2), once a block and request.

        Told before `admit` is asked about them; also of blocks that are not asked about. A request
        that comes back after a preemption is not seen again.
        """
