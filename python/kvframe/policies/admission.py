"""The batched way to write an admission policy: arrays in, verdicts out, in Python.

The core offers *arrivals*: blocks that a commit is about to make findable. Those of one sequence
and layer group stand together, in prefix order. A policy gives all of them a verdict in one call,
once a step. A block of full attention can only be found through those before it: after a dropped
block nothing of its sequence is kept, nor asked about again.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from kvframe.policies.columns import Columns, named_only
from kvframe.registry.descriptors import Kind

ADMISSION_COLUMNS: dict[str, str] = {
    "key": "uint64 (n, 2): key of the prefix that the block ends, the same in every layer group",
    "next": "uint64 (n, 2): key of the prefix one block longer, 0 if that is not known yet",
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
    "tenant": "uint32: tenant of the request: its place in [[tenants]], from 1; 0 if not there",
}
"""Columns that an admission policy may ask for."""

DROP, KEEP, LOWER = 0, 1, 2
"""Verdicts: keep it out of this tier; let it in; keep it out, but ask the tier below."""

OCCASIONS = ("computed", "used", "evicted")
"""Why blocks may enter a tier: see `Arrivals.occasion`."""


class Arrivals(msgspec.Struct, frozen=True):
    """Blocks about to enter a tier.

    Attributes:
        now: The present tick of the core's logical clock.
        block_size: ``cache.block_size``, in tokens.
        occasion: ``computed`` just now; ``used`` in the tier above; or being ``evicted`` from it.
        free: Blocks of the tier that are free.
        total: All blocks of the tier.
        columns: The columns that the policy asked for: read-only arrays of equal length.
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
    """The state of the cache, and the requests that ask to start: arrays of one entry per request.

    Attributes:
        block_size: Tokens in a block.
        free: Blocks that are free.
        cached: Blocks that are cached.
        referenced: Blocks that have an owner.
        total: All blocks.
        running: Sequences that are live.
        tokens: int64: tokens of each prompt.
        sessions: uint64: each request's session.
        turns: int64: its turn.
        request_classes: int64: its class.
        priorities: int64: its priority.
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
        columns: Names from `ADMISSION_COLUMNS`; only these are gathered.
        reasons: Why a request may have to wait, in words; `start` gives their numbers, from 1.
    """

    kvframe_kind: ClassVar[Kind] = "admission"
    columns: ClassVar[tuple[str, ...]] = ("key",)
    reasons: ClassVar[tuple[str, ...]] = ()

    def admit(self, blocks: Arrivals, tier: str, out: npt.NDArray[np.uint8]) -> None:
        """Fill ``out`` with one verdict per block: 1 keeps it, 0 drops it, 2 asks the tier below.

        Booleans work too. ``tier`` is ``gpu``, ``host``, ``disk`` or ``remote``.
        """
        raise TypeError(f"{type(self).__name__} must override admit")

    def start(self, requests: Waiting, out: npt.NDArray[np.int64]) -> None:
        """Leave 0 in ``out`` for a request that may start now, or put the number of a reason.

        The core decides afterwards whether there is room. For a request that waits,
        `KVCacheManager.allocate` raises `kvframe.HeldError`, and a step refuses it with
        `Reason.HELD`.
        """

    def seen(self, keys: npt.NDArray[np.uint64], now: int) -> None:
        """Requests have found or computed the blocks of these keys: uint64 (n, 2).

        The call comes once per block and request, before `admit` decides on the block, and also for
        blocks on which it does not decide. A request that comes back after a preemption causes
        none.
        """
