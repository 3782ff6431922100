"""The batched way to write an eviction policy: arrays in, scores or victims out, in Python.

The core offers *candidates*: blocks that may be evicted, in least-recently-used order, each after
the blocks that follow it in its prefix. A policy scores them all in one call, and the lowest score
is evicted first; the core picks the victims, never a block before its children. A policy with an
order of its own overrides `BatchedEviction.victims` instead.
"""

from __future__ import annotations

from typing import Any, ClassVar
from warnings import warn

import msgspec
import numpy as np
import numpy.typing as npt

from kvframe.policies.columns import Columns, named_only
from kvframe.registry.descriptors import Kind
from kvframe.spelling import nearest

COLUMNS: dict[str, str] = {
    "block": "int64: the block's id",
    "depth": "uint32: place in the prefix, 0 for the first block",
    "parent": "int64: place in this offer of the block it follows, -1 if that one is not offered",
    "last_use": "uint64: tick of the last hit or release",
    "inserted": "uint64: tick at which it became findable",
    "uses": "uint32: admissions that have used it since then, the first included",
    "reach": "uint32: tokens of the longest request that used it",
    "session": "uint64: session of the request that used it last",
    "turn": "uint32: turn of that request",
    "request_class": "uint32: class of that request",
    "priority": "int32: priority of that request",
    "next_use": "uint32: when that request expects its next use, NO_NEXT_USE where it did not say",
    "key": "uint64: of shape (blocks, 2), low word first: the key of its tokens and their prefix",
    "last_use_time": "uint64: the engine's time of the last hit or release, 0 before it told any",
    "inserted_time": "uint64: the engine's time at which it became findable",
    "copies": "uint32: other engines that hold it too, as far as this one was told",
    "tenant": "uint32: tenant of that request: its place in [[tenants]], from 1; 0 if not there",
}
"""Columns that a policy may ask for. Ticks are the core's logical clock: one per operation."""

NO_NEXT_USE = 2**32 - 1
"""The next use of a block of which none is known."""

DEFAULT_WINDOW = 256
"""Candidates offered at a time unless the configuration or the policy says otherwise."""


NOTHING: npt.NDArray[np.uint32] = np.empty(0, np.uint32)
NOTHING.flags.writeable = False


class Candidates(msgspec.Struct, frozen=True):
    """Blocks offered to a policy.

    Attributes:
        now: The present tick.
        block_size: Tokens in a block: ``depth * block_size`` of them precede it in its prefix.
        columns: The columns that the policy asked for: read-only arrays of equal length.
        time: What the engine's clock says, in its own unit: the ``now`` of its last
            `kvframe.KVCacheManager.expire_until`; 0 before the first, and in a tier.
        found: uint32: the blocks that the admission has found, which are not offered. Empty unless
            the policy overrides `BatchedEviction.on_miss`.
        capacity: Blocks of the pool (of a tier, its pages), as large as it is now: a pool may be
            resized.
    """

    now: int
    block_size: int
    columns: Columns
    time: int = 0
    found: npt.NDArray[np.uint32] = NOTHING
    capacity: int = 0

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        try:
            return self.columns[name]
        except KeyError as error:
            error.add_note(named_only(self.columns))
            raise


RENAMED_EVENTS = {"claim": "acquire", "missed": "on_miss"}
"""Event names of before the first release: a policy that overrides one would never be called."""

EVENTS = ("insert", "insert_keyed", "on_miss", "hit", "acquire", "release", "remove")
"""The event methods of `BatchedEviction`."""

OTHER_WORDS = {"miss": "on_miss", "on_evict": "remove"}
"""What other libraries call these events."""


def _meant(name: str) -> str | None:
    """The event that a method's name is a slip of; None where it is none."""
    if name.startswith("_") or name in EVENTS:
        return None
    return OTHER_WORDS.get(name) or nearest(name.removeprefix("on_"), EVENTS, cutoff=0.8)


class BatchedEviction:
    """Base class of eviction policies in Python. Override `score`, or `victims`.

    The class attributes declare what the policy wants to see. An object may override them in
    ``__init__``, for example by its options.

    Attributes:
        columns: Names from `COLUMNS`; only these are gathered.
        window: Candidates offered at a time: 0 for all, None for 256. ``eviction.window`` of
            the configuration overrides it. A policy far from least-recently-used order wants more.
        floats: Whether columns of numbers come as float64 (exact: ticks stay below 2**53), so that
            a score needs no casts and nothing wraps around. ``block``, ``parent``, ``session``,
            ``request_class``, ``tenant`` and ``key`` keep their types.

    Event methods that a subclass overrides get arrays of block ids, before the decision that
    follows them; events that no method handles cost nothing. Ids are reused once a block is
    evicted.
    """

    kvframe_kind: ClassVar[Kind] = "eviction"
    columns: ClassVar[tuple[str, ...]] = ("last_use",)
    window: ClassVar[int | None] = None
    floats: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for old, new in RENAMED_EVENTS.items():
            if old in vars(cls):
                raise TypeError(f"{cls.__name__}.{old}: this event is called {new} now")
        for name, value in vars(cls).items():
            event = _meant(name) if callable(value) else None
            if event is not None:
                warn(
                    f"{cls.__name__}.{name} is called by nothing; did you mean the event {event}? "
                    f"If it is a helper, name it _{name}",
                    stacklevel=2,
                )

    def score(self, candidates: Candidates, out: npt.NDArray[np.float64]) -> None:
        """Fill ``out`` (float64) with one score per candidate; the lowest goes first; no NaN."""
        raise TypeError(f"{type(self).__name__} must override score or victims")

    def victims(self, n: int, eligible: Candidates, out: npt.NDArray[np.int64]) -> None:
        """Fill ``out`` (n entries of -1) with ids from ``eligible["block"]``, in the order of
        eviction.

        A block may come only after all offered blocks that follow it.
        """
        raise TypeError(f"{type(self).__name__} must override score or victims")

    def insert(self, blocks: npt.NDArray[np.uint32], now: int) -> None:
        """Blocks became findable."""

    def insert_keyed(
        self, blocks: npt.NDArray[np.uint32], keys: npt.NDArray[np.uint64], now: int
    ) -> None:
        """The same, with the blocks' keys: of shape (blocks, 2), low word first.

        A key stands for a block's tokens and all that precedes them. Content that comes back has
        the same key, whatever its new block id: a policy recognises its ghosts by their keys.
        """

    def on_miss(self, keys: npt.NDArray[np.uint64], now: int) -> None:
        """An admission did not find these keys, and is about to compute their blocks.

        If it needs victims, this call comes before the one for them. The next blocks that become
        free, and then the victims, go to these keys, in this order. A `step` of several admissions
        may ask for the victims of all at once, before the keys are known.
        """

    def hit(self, blocks: npt.NDArray[np.uint32], now: int) -> None:
        """Admissions found these blocks."""

    def acquire(self, blocks: npt.NDArray[np.uint32], now: int) -> None:
        """Cached blocks got an owner."""

    def release(self, blocks: npt.NDArray[np.uint32], now: int) -> None:
        """The last owner of these blocks left."""

    def remove(self, blocks: npt.NDArray[np.uint32], why: str, now: int) -> None:
        """Blocks are gone: ``why`` is "evicted" or "invalidated"."""
