"""What a replay did for each request: the arrays on which everything statistical stands."""

from __future__ import annotations

import io
from dataclasses import dataclass, field

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
        file = io.BytesIO()
        np.savez_compressed(
            file,
            hit_tokens=self.hit_tokens,
            after_gap_tokens=self.after_gap_tokens,
            ttft_seconds=self.ttft_seconds,
        )
        return file.getvalue()

    @classmethod
    def unpack(cls, data: bytes) -> RequestOutcomes:
        """What `pack` wrote.

        Raises:
            ValueError: It is damaged, or something else.
        """
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
                return cls(
                    arrays["hit_tokens"].astype(np.uint32, casting="safe"),
                    arrays["after_gap_tokens"].astype(np.uint32, casting="safe"),
                    arrays["ttft_seconds"].astype(np.float64, casting="safe"),
                )
        # What np.load raises of a damaged archive is of many types, EOFError and zlib's among them.
        except Exception as error:
            raise ValueError(f"not the outcomes of a cell: {error}") from None


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
