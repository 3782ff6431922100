"""What the core calls to ask an admission policy written in Python."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from kvframe.errors import PolicyError
from kvframe.policies.admission import (
    ADMISSION_COLUMNS,
    OCCASIONS,
    Arrivals,
    BatchedAdmission,
    Waiting,
)
from kvframe.policies.budget import Budget
from kvframe.policies.columns import Columns, wrong_columns
from kvframe.policies.making import made
from kvframe.policies.report import failure, origin_of
from kvframe.registry import Loaded
from kvframe.registry.descriptors import AdmissionPolicy

Keys = npt.NDArray[np.uint64] | None
"""uint64 (n, 2), or None."""


class AdmissionDriver:
    """Declares what a policy wants, passes blocks on, tells of failures.

    One driver belongs to one manager or replay, as the policy object does.
    """

    def __init__(
        self,
        policy: object,
        loaded: Loaded[AdmissionPolicy],
        block_size: int,
        budget_ms: float | None,
        strict: bool = True,
    ) -> None:
        self.name = loaded.descriptor.name
        self.origin = origin_of(loaded)
        if not isinstance(policy, BatchedAdmission):
            raise PolicyError(
                f"{self.origin}: make() gave a {type(policy).__name__}, "
                "not a kvframe.policies.BatchedAdmission"
            )
        kind = type(policy)
        wrong = wrong_columns(policy.columns, ADMISSION_COLUMNS) or _wrong_reasons(policy.reasons)
        if wrong is not None:
            raise PolicyError(f"{self.origin}: {wrong}")
        self.policy = policy
        self.block_size = block_size
        self.columns = list(policy.columns)
        self.wants_seen = kind.seen is not BatchedAdmission.seen
        self.holds = kind.start is not BatchedAdmission.start
        self.strict = strict
        self._budget = Budget(budget_ms, self.origin)

    def waits(self, about: Waiting) -> list[str | None]:
        """Why each request waits; None for one that starts."""
        count = len(about.tokens)
        if self._budget.is_spent:
            return [None] * count
        out = np.zeros(count, np.int64)
        for array in (about.tokens, about.sessions, about.turns):
            array.setflags(write=False)
        reasons = self.policy.reasons
        try:
            with self._budget, np.errstate(invalid="raise"):
                answer: object = self.policy.start(about, out)  # type: ignore[func-returns-value]
            if answer is not None:
                raise PolicyError("start must fill out and return None")
            if out.dtype != np.int64 or out.shape != (count,):
                raise PolicyError("start changed the type or the shape of out")
            wrong = np.flatnonzero((out < 0) | (out > len(reasons)))
            if len(wrong):
                i = int(wrong[0])
                raise PolicyError(
                    f"start: out[{i}] = {out[i]}: must be 0, or the number of one of "
                    f"{len(reasons)} reasons"
                )
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            told = failure(self.origin, error, self.strict, "every request may start")
            if self.strict:
                raise told from error
            return [None] * count
        return [
            f"{self.origin} lets it wait: {reasons[number - 1]}" if number else None
            for number in out.tolist()
        ]

    def admit(
        self,
        about: tuple[int, str, int, int, int],
        columns: Columns,
        seen: Keys,
        out: npt.NDArray[np.uint8],
    ) -> bool:
        """One decision: ``about`` is (tick, tier, occasion, free blocks, all blocks).

        False if the policy is not asked any more.
        """
        if self._budget.is_spent:
            return False
        now, tier, occasion, free, total = about
        # What is no number must not become 0, which is a verdict.
        with self._budget, np.errstate(invalid="raise"):
            if seen is not None:
                self.policy.seen(seen, now)
            if len(out) == 0:
                return True
            offer = Arrivals(now, self.block_size, OCCASIONS[occasion], free, total, columns)
            answer: object = self.policy.admit(offer, tier, out)  # type: ignore[func-returns-value]
        if answer is not None:
            raise PolicyError("admit must fill out and return None")
        return True

    def failed(self, error: BaseException, strict: bool) -> PolicyError:
        """The policy failed: the error to raise if it is strict, else warn once."""
        return failure(self.origin, error, strict, "everything is kept")


def _wrong_reasons(reasons: object) -> str | None:
    texts = isinstance(reasons, tuple | list) and all(isinstance(each, str) for each in reasons)
    return None if texts else f"reasons = {reasons!r}: must be a tuple of strings"


def gate_of(
    loaded: Loaded[AdmissionPolicy],
    options: msgspec.Struct | None,
    block_size: int,
    budget_ms: float | None = None,
    strict: bool = True,
) -> AdmissionDriver | str:
    """What the core takes as its admission policy: a driver, or the name of a built-in one."""
    if loaded.descriptor.make is None:
        return loaded.descriptor.name
    return AdmissionDriver(made(loaded, options), loaded, block_size, budget_ms, strict)
