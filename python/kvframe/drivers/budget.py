"""The time that a decision in Python may take, and the watchdog for one that does not end."""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from typing import ClassVar

from kvframe.drivers.report import Warner
from kvframe.errors import PolicyError

OVERDUE_S = 1.0
"""Seconds, besides ten budgets, after which a decision that has not returned is reported."""


class Budget:
    """The time that a policy's decision may take. No decision follows one that takes longer.

    Used as a context around each decision. One that has not returned after ten budgets, and a
    second, is named in a warning by a thread beside it: nothing can end it.

    Args:
        milliseconds: The time.
        origin: The policy with its package and version, for the warning.
        passes_over: Whether a policy whose time is spent is passed over without an error.
        warner: Takes the warning.

    Attributes:
        decisions: Decisions that have returned.
        seconds: What they took, together.
    """

    def __init__(self, milliseconds: float, origin: str, passes_over: bool, warner: Warner) -> None:
        self._seconds = milliseconds / 1000
        self._origin, self._passes_over, self._warner = origin, passes_over, warner
        # By thread: a policy may call its manager, which may ask it again.
        self._starts: dict[int, list[float]] = {}
        self.is_spent = False
        self.decisions, self.seconds = 0, 0.0
        _Watchdog.watch(self)

    def __enter__(self) -> None:
        self._starts.setdefault(threading.get_ident(), []).append(time.perf_counter())

    def __exit__(self, kind: type[BaseException] | None = None, *_: object) -> None:
        took = time.perf_counter() - self._starts[threading.get_ident()].pop()
        self.decisions += 1
        self.seconds += took
        if took > self._seconds:
            self.is_spent = True
            if kind is not None and issubclass(kind, KeyboardInterrupt):
                return  # the user's interrupt goes before the policy's error
            raise self.error(f"a decision took {took * 1000:.0f} ms")

    def start(self) -> bool:
        """Start timing a decision; False if the policy is passed over, so that there is none.

        Raises:
            PolicyError: One before took too long.
        """
        if self.is_spent:
            if self._passes_over:
                return False
            raise self.error("a decision before took too long")
        self.__enter__()
        return True

    def stop(self) -> None:
        """Stop timing the decision, which has returned.

        Raises:
            PolicyError: It took too long.
        """
        self.__exit__()

    def error(self, found: str) -> PolicyError:
        """The error for a policy that took too long."""
        budget = f"its budget is {self._seconds * 1000:g} ms"
        return PolicyError(f"{found}, {budget}: it is asked no more")

    def tell_if_overdue(self) -> None:
        """Warn, once a policy, if a decision should have ended long ago."""
        starts = [start for stack in list(self._starts.values()) for start in stack]
        limit = self._seconds
        if not starts:
            return
        took = time.perf_counter() - min(starts)
        if took > OVERDUE_S + 10 * limit:
            self._warner.warn(
                "overdue",
                f"{self._origin} has not returned from a decision for {took:.0f} s, its budget is "
                f"{limit * 1000:g} ms: the engine waits for it",
            )


class _Watchdog(threading.Thread):
    """Checks every budget, as long as there are any."""

    _lock = threading.Lock()
    _budgets: ClassVar[weakref.WeakSet[Budget]] = weakref.WeakSet()
    _one: ClassVar[_Watchdog | None] = None

    def __init__(self) -> None:
        super().__init__(name="kvframe-watchdog", daemon=True)
        self._exits = threading.Event()

    @classmethod
    def watch(cls, budget: Budget) -> None:
        with cls._lock:
            cls._budgets.add(budget)
            # In the child of a fork it is not alive.
            if cls._one is None or not cls._one.is_alive():
                cls._one = cls()
                cls._one.start()

    def run(self) -> None:
        while not self._exits.wait(OVERDUE_S / 2):
            with self._lock:
                budgets = list(self._budgets)
                if not budgets:
                    type(self)._one = None
                    return
            for budget in budgets:
                budget.tell_if_overdue()
            del budgets, budget

    @classmethod
    def end(cls) -> None:
        """Called where the process ends."""
        if (one := cls._one) is not None:
            one._exits.set()
            one.join(OVERDUE_S)


atexit.register(_Watchdog.end)
