"""What a replay did for each request: the arrays on which everything statistical stands."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.uint32]
Sessions = npt.NDArray[np.int64]
Seconds = npt.NDArray[np.float64]


class Packed:
    """A dataclass of arrays that is kept in a file.

    Attributes:
        kinds: Each field's name, and the dtype of its array.
    """

    kinds: ClassVar[dict[str, str]]

    def pack(self) -> bytes:
        """As a compressed ``.npz``: NumPy alone reads it."""
        file = io.BytesIO()
        np.savez_compressed(file, **{name: getattr(self, name) for name in self.kinds})
        return file.getvalue()

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """What `pack` wrote.

        Raises:
            ValueError: It is damaged, or something else.
        """
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
                kinds = cls.kinds.items()
                return cls(*(arrays[name].astype(kind, casting="safe") for name, kind in kinds))
        # What np.load raises of a damaged archive is of many types, EOFError and zlib's among them.
        except Exception as error:
            raise ValueError(f"not the outcomes of a cell: {error}") from None


@dataclass(frozen=True, eq=False)
class RequestOutcomes(Packed):
    """A cell's outcomes, an entry a request in the trace's order.

    Attributes:
        hit_tokens: Prompt tokens in the longest cached prefix.
        after_gap_tokens: Cached prompt tokens behind the first missing block.
        ttft_seconds: From arrival to the first token in timed mode, NaN for a request larger than
            the cache; empty in the other modes.
    """

    kinds: ClassVar = {"hit_tokens": "u4", "after_gap_tokens": "u4", "ttft_seconds": "f8"}

    hit_tokens: Counts
    after_gap_tokens: Counts
    ttft_seconds: Seconds = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True, eq=False)
class RequestFacts(Packed):
    """What a trace says of each request, the same for every cell.

    Attributes:
        input_tokens: Of the prompt.
        session: Number of its session, -1 for none.
        timestamp_ms: Arrival.
        by_prompt: The session that its prompt tells; empty where rows name sessions.
    """

    kinds: ClassVar = {
        "input_tokens": "u4",
        "session": "i8",
        "timestamp_ms": "i8",
        "by_prompt": "i8",
    }

    input_tokens: Counts
    session: Sessions
    timestamp_ms: Sessions
    by_prompt: Sessions = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def are_told(self) -> bool:
        """Whether prompts tell sessions, and rows none."""
        begun = int((self.by_prompt == np.arange(len(self.by_prompt))).sum())
        # One alone could not be resampled: its interval would have no width.
        return 1 < begun < len(self.by_prompt)

    @property
    def together(self) -> Sessions:
        """What is resampled together: the sessions that rows name; where none does, those that
        prompts tell; -1 for a request that is of none.
        """
        return self.by_prompt if self.are_told else self.session
