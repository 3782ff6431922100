"""Retention priorities: what a request may ask for its blocks.

Eviction takes blocks of the lowest retention priority that may die, whatever the policy says of
them; the policy ranks those of the same priority. Time is the caller's: `KVCacheManager.expire`
tells it, and durations and leases are in the same unit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kvframe.errors import UsageError

DEFAULT_PRIORITY = 35
"""The priority of blocks nobody asked anything for, as in TensorRT-LLM."""

MAX_PRIORITY = 100
"""The highest priority."""

_FOREVER = 2**64
_LAST = 2**32 - 1

_KeepTuple = tuple[int, int | None, int, bool]


@dataclass(frozen=True, slots=True)
class Keep:
    """A retention priority, and for how long (TensorRT-LLM's ``KvCacheRetentionConfig``).

    Attributes:
        priority: 0 to 100; 35 is what blocks have that nobody asked anything for.
        duration: From when its sequence gives a block up, in the unit of `KVCacheManager.expire`;
            None: for ever. Hits by others do not prolong it.
        then: The priority once the duration is over; 0 makes it a time to live.
        decay: Whether it falls at the end of the duration (``step``), or evenly over it.

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
            if not isinstance(value, int | np.integer) or not 0 <= value <= MAX_PRIORITY:
                raise UsageError(f"{name} = {value!r}: must be an integer from 0 to {MAX_PRIORITY}")
        duration = self.duration
        if duration is not None and not (
            isinstance(duration, int | np.integer) and 0 <= duration < _FOREVER
        ):
            raise UsageError(f"duration = {duration!r}: must be an integer from 0 on, or None")
        if self.decay not in ("step", "linear"):
            raise UsageError(f'decay = {self.decay!r}: must be "step" or "linear"')

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
        whole = isinstance(self.start, int | np.integer) and isinstance(end, int | np.integer)
        if not (whole and 0 <= self.start < end):
            raise UsageError(
                f"range [{self.start!r}, {self.end!r}): must be 0 <= start < end, or end None"
            )
        if end > _LAST:
            raise UsageError(f"range end = {end}: must be at most {_LAST}")


@dataclass(frozen=True, slots=True)
class Retention:
    """How important the blocks of a request are: ``Request(..., retention=...)``.

    It takes effect as the request gives its blocks up. A block has the strongest of what is asked
    for any of its tokens. Blocks that the request found or shares keep what they have if that is
    stronger; those it computed itself may also get less than the default, until somebody uses them
    who asks for more, or for nothing, which is the default.

    Attributes:
        ranges: Of the prompt. They may overlap; the strongest counts.
        decode: For what is decoded.
    """

    ranges: Iterable[TokenRange] = ()
    decode: Keep | None = None

    def of_core(self) -> tuple[list[tuple[int, int, _KeepTuple]], _KeepTuple | None]:
        """As the core takes it."""
        ranges = [
            (r.start, _LAST if r.end is None else r.end, r.keep.of_core()) for r in self.ranges
        ]
        return ranges, None if self.decode is None else self.decode.of_core()
