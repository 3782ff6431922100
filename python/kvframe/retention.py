"""Retention priorities: what a request may ask for its blocks.

Of the blocks that may be evicted, those with the lowest retention priority go first, whatever the
policy says of them; the policy ranks blocks of equal priority. Time is the caller's:
`KVCacheManager.expire_until` sets it, and durations and leases are in the same unit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from kvframe.arguments import is_int, shown
from kvframe.errors import UsageError

DEFAULT_PRIORITY = 35
"""The priority of a block unless a request asks for another, as in TensorRT-LLM."""

MAX_PRIORITY = 100
"""The highest priority."""

_FOREVER = 2**64
_LAST = 2**32 - 1

_KeepTuple = tuple[int, int | None, int, bool]


@dataclass(frozen=True, slots=True)
class Keep:
    """A retention priority, and for how long (TensorRT-LLM's ``KvCacheRetentionConfig``).

    Attributes:
        priority: 0 to 100; 35 is the priority of blocks for which no request asks for another.
        duration: How long it lasts after its sequence gives the block up, in the unit of
            `KVCacheManager.expire_until`; None: for ever. Hits by others do not prolong it.
        then: The priority once the duration is over; 0 makes it a time to live.
        decay: Whether the priority falls at the end of the duration (``step``), or evenly over it
            (``linear``).

    Raises:
        UsageError: A priority over 100, a negative duration, an unknown decay.
    """

    priority: int
    duration: int | None = None
    then: int = DEFAULT_PRIORITY
    decay: Literal["step", "linear"] = "step"

    def __post_init__(self) -> None:
        for name in ("priority", "then"):
            value = getattr(self, name)
            if not is_int(value) or not 0 <= value <= MAX_PRIORITY:
                limit = f"must be an integer from 0 to {MAX_PRIORITY}"
                raise UsageError(f"{name} = {shown(value)}: {limit}")
        duration = self.duration
        if duration is not None and not (is_int(duration) and 0 <= duration < _FOREVER):
            raise UsageError(f"duration = {shown(duration)}: must be an integer from 0 on, or None")
        if not isinstance(self.decay, str) or self.decay not in ("step", "linear"):
            raise UsageError(f'decay = {shown(self.decay)}: must be "step" or "linear"')

    @classmethod
    def from_core(cls, priority: int, duration: int | None, then: int, linear: bool) -> Keep:
        """What the core was given by `of_core`."""
        return cls(priority, duration, then, "linear" if linear else "step")

    def of_core(self) -> _KeepTuple:
        """As the core takes it."""
        return self.priority, self.duration, self.then, self.decay == "linear"


@dataclass(frozen=True, slots=True)
class TokenRange:
    """Prompt tokens ``start`` to ``end`` (exclusive; None: all from there on) and how to keep them.

    Raises:
        UsageError: The range is empty or out of range.
    """

    start: int
    end: int | None
    keep: Keep

    def __post_init__(self) -> None:
        end = _LAST if self.end is None else self.end
        if not (is_int(self.start) and is_int(end) and 0 <= self.start < end):
            limit = "must be 0 <= start < end, or end None"
            raise UsageError(f"range [{shown(self.start)}, {shown(self.end)}): {limit}")
        if end > _LAST:
            raise UsageError(f"range end = {shown(end)}: must be at most {_LAST}")
        if not isinstance(self.keep, Keep):
            raise UsageError(f"keep = {shown(self.keep)}: must be a Keep")


@dataclass(frozen=True, slots=True)
class Retention:
    """How important the blocks of a request are: ``Request(..., retention=...)``.

    It takes effect when the request gives its blocks up. A block gets the highest priority asked
    for any of its tokens. Blocks that the request found or shares keep their priority if it is
    higher. Blocks that it computed itself may also get less than the default, until a request uses
    them that asks for more, or for nothing, which means the default.

    Attributes:
        ranges: Ranges of the prompt. They may overlap; the highest priority counts.
        decode: For the tokens that are generated.

    Raises:
        UsageError: A range is no `TokenRange`, or ``decode`` no `Keep`.
    """

    ranges: Iterable[TokenRange] = ()
    decode: Keep | None = None

    def __post_init__(self) -> None:
        try:
            # Many requests may ask for the same: a generator would serve the first only.
            ranges = tuple(self.ranges)
        except TypeError:
            limit = "must be a sequence of TokenRange"
            raise UsageError(f"ranges = {shown(self.ranges)}: {limit}") from None
        for place, one in enumerate(ranges):
            if not isinstance(one, TokenRange):
                raise UsageError(f"ranges[{place}] = {shown(one)}: must be a TokenRange")
        if self.decode is not None and not isinstance(self.decode, Keep):
            raise UsageError(f"decode = {shown(self.decode)}: must be a Keep, or None")
        object.__setattr__(self, "ranges", ranges)

    @classmethod
    def from_core(
        cls, ranges: list[tuple[int, int, _KeepTuple]], decode: _KeepTuple | None
    ) -> Retention:
        """What the core was given by `of_core`."""
        return cls(
            [
                TokenRange(a, None if b == _LAST else b, Keep.from_core(*keep))
                for a, b, keep in ranges
            ],
            None if decode is None else Keep.from_core(*decode),
        )

    def of_core(self) -> tuple[list[tuple[int, int, _KeepTuple]], _KeepTuple | None]:
        """As the core takes it."""
        ranges = [
            (r.start, _LAST if r.end is None else r.end, r.keep.of_core()) for r in self.ranges
        ]
        return ranges, None if self.decode is None else self.decode.of_core()
