"""What a replay did for each request: the arrays on which everything statistical stands."""

from __future__ import annotations

import dataclasses
import io
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.uint32]
Sessions = npt.NDArray[np.int64]
Seconds = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RequestOutcomes:
    """A cell's outcomes, an entry a request in the trace's order.

    Attributes:
        hit_tokens: Prompt tokens in the longest cached prefix.
        after_gap_tokens: Cached prompt tokens behind the first missing block.
        ttft_seconds: From arrival to the first token in timed mode, NaN for a request larger than
            the cache; empty in the other modes.
    """

    hit_tokens: Counts
    after_gap_tokens: Counts
    ttft_seconds: Seconds = field(default_factory=lambda: np.zeros(0))

    def pack(self) -> bytes:
        """As a compressed ``.npz``: NumPy alone reads it."""
        return packed(self)

    @classmethod
    def unpack(cls, data: bytes) -> RequestOutcomes:
        """What `pack` wrote.

        Raises:
            ValueError: It is damaged, or something else.
        """
        return cls(*unpacked(data, hit_tokens="u4", after_gap_tokens="u4", ttft_seconds="f8"))


@dataclass(frozen=True, eq=False)
class RequestFacts:
    """What a trace says of each request, the same for every cell.

    Attributes:
        input_tokens: Of the prompt.
        session: Number of its session, -1 for none.
        timestamp_ms: Arrival.
    """

    input_tokens: Counts
    session: Sessions
    timestamp_ms: Sessions

    def pack(self) -> bytes:
        """As a compressed ``.npz``."""
        return packed(self)

    @classmethod
    def unpack(cls, data: bytes) -> RequestFacts:
        """What `pack` wrote; raises as `RequestOutcomes.unpack`."""
        return cls(*unpacked(data, input_tokens="u4", session="i8", timestamp_ms="i8"))


def packed(arrays: Any) -> bytes:
    """The fields of a dataclass of arrays as a compressed ``.npz``."""
    file = io.BytesIO()
    named = {each.name: getattr(arrays, each.name) for each in dataclasses.fields(arrays)}
    np.savez_compressed(file, **named)
    return file.getvalue()


def unpacked(data: bytes, **types: str) -> list[npt.NDArray[Any]]:
    """The arrays of these names and types.

    Raises:
        ValueError: They are damaged, or something else.
    """
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return [arrays[name].astype(kind, casting="safe") for name, kind in types.items()]
    # What np.load raises of a damaged archive is of many types, EOFError and zlib's among them.
    except Exception as error:
        raise ValueError(f"not the outcomes of a cell: {error}") from None
