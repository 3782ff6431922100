"""What the core calls to ask an admission policy written in Python."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kvframe.drivers.asker import Asker, Terms, check_filled
from kvframe.errors import PolicyError
from kvframe.policies.admission import (
    ADMISSION_COLUMNS,
    OCCASIONS,
    Arrivals,
    BatchedAdmission,
    Waiting,
)
from kvframe.policies.columns import Columns, wrong_columns
from kvframe.registry import Loaded
from kvframe.registry.descriptors import AdmissionPolicy

Keys = npt.NDArray[np.uint64] | None
"""uint64 (n, 2), or None."""


class AdmissionDriver(Asker[BatchedAdmission]):
    """Declares what a policy wants, and passes blocks and requests on."""

    base = BatchedAdmission
    instead = "everything is kept"

    def __init__(self, loaded: Loaded[AdmissionPolicy], terms: Terms) -> None:
        super().__init__(loaded, terms)
        policy, kind = self.policy, type(self.policy)
        self.refuse(
            wrong_columns(policy.columns, ADMISSION_COLUMNS) or _wrong_reasons(policy.reasons)
        )
        self.columns = list(policy.columns)
        self.wants_seen = kind.seen is not BatchedAdmission.seen
        self.holds = kind.start is not BatchedAdmission.start

    def waits(self, about: Waiting) -> list[str | None]:
        """For each request, why it has to wait; None if it may start."""
        count = len(about.tokens)
        for array in (about.tokens, about.sessions, about.turns):
            array.setflags(write=False)
        numbers = self.asked(lambda: self._started(about, count), "every request may start")
        if numbers is None:
            return [None] * count
        reasons = self.policy.reasons
        return [
            f"{self.origin} lets it wait: {reasons[number - 1]}" if number else None
            for number in numbers
        ]

    def _started(self, about: Waiting, count: int) -> list[int]:
        out = np.zeros(count, np.int64)
        told: object = self.policy.start(about, out)  # type: ignore[func-returns-value]
        check_filled("start", told, out, count)
        most = len(self.policy.reasons)
        wrong = np.flatnonzero((out < 0) | (out > most))
        if len(wrong):
            i = int(wrong[0])
            limit = f"must be 0, or the number of one of {most} reasons"
            raise PolicyError(f"start: out[{i}] = {out[i]}: {limit}")
        numbers: list[int] = out.tolist()
        return numbers

    def admit(
        self,
        about: tuple[int, str, int, int, int],
        columns: Columns,
        seen: Keys,
        out: npt.NDArray[np.uint8],
    ) -> object:
        """One decision: ``about`` is (tick, tier, occasion, free blocks, all blocks).

        The core times it, and checks that None comes back and what is in ``out``.
        """
        now, tier, occasion, free, total = about
        # NaN must not become 0, which is a verdict.
        with np.errstate(invalid="raise"):
            if seen is not None:
                self.policy.seen(seen, now)
            if len(out) == 0:
                return None
            offer = Arrivals(now, self.block_size, OCCASIONS[occasion], free, total, columns)
            told: object = self.policy.admit(offer, tier, out)  # type: ignore[func-returns-value]
            return told


def _wrong_reasons(reasons: object) -> str | None:
    texts = isinstance(reasons, tuple | list) and all(isinstance(each, str) for each in reasons)
    return None if texts else f"reasons = {reasons!r}: must be a tuple of strings"


def driver(loaded: Loaded[AdmissionPolicy], terms: Terms) -> AdmissionDriver | None:
    """The driver of a policy in Python, made anew; None for a built-in one."""
    return None if loaded.descriptor.make is None else AdmissionDriver(loaded, terms)
