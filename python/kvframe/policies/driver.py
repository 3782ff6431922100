"""What the core calls to ask a policy written in Python."""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from kvframe.errors import AbiError, PolicyError
from kvframe.native import NativePolicy
from kvframe.policies.batched import (
    COLUMNS,
    DEFAULT_WINDOW,
    BatchedEviction,
    Candidates,
)
from kvframe.policies.budget import Budget
from kvframe.policies.columns import wrong_columns
from kvframe.policies.making import made
from kvframe.policies.report import failure, origin_of
from kvframe.registry import Loaded
from kvframe.registry.descriptors import EvictionPolicy

_EVENTS = ("insert", "hit", "claim", "release", "remove", "remove")
_INSERT, _MISSED = 0, 6
_WHY = {4: "evicted", 5: "invalidated"}

Events = tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]] | None
"""(kinds, blocks, ticks, keys) in the order things happened, or None. Keys only if wanted."""


class Driver:
    """Declares what a policy wants, passes events on, tells of failures.

    One driver belongs to one manager or replay, as the policy object does.

    Attributes:
        policy: The core calls its ``score`` or ``victims`` itself, one call a decision.
        candidates: What it is offered is made with this.
        budget: Started before each decision and stopped after it; None if it may take its time.
    """

    def __init__(
        self,
        policy: object,
        loaded: Loaded[EvictionPolicy],
        window: int | None,
        block_size: int,
        budget_ms: float | None = None,
    ) -> None:
        self.name = loaded.descriptor.name
        self.origin = origin_of(loaded)
        if not isinstance(policy, BatchedEviction):
            raise PolicyError(
                f"{self.origin}: make() gave a {type(policy).__name__}, "
                "not a kvframe.policies.BatchedEviction"
            )
        kind = type(policy)
        wrong = (
            wrong_columns(policy.columns, COLUMNS)
            or _wrong_window(policy.window)
            or _wrong_floats(policy.floats)
        )
        if wrong is not None:
            raise PolicyError(f"{self.origin}: {wrong}")
        self.policy = policy
        self.block_size = block_size
        self.names_victims = kind.victims is not BatchedEviction.victims
        self.candidates = Candidates
        asked = DEFAULT_WINDOW if policy.window is None else policy.window
        self.window = asked if window is None else window
        self.wants_events = any(_overrides(kind, event) for event in _EVENTS)
        self.wants_keys = _overrides(kind, "insert_keyed") or "key" in policy.columns
        self.wants_missed = _overrides(kind, "missed")
        self.floats = bool(policy.floats)
        needs_ids = self.names_victims and "block" not in policy.columns
        self.columns = [*policy.columns, *(["block"] if needs_ids else [])]
        self._lost: BaseException | None = None
        # (event, blocks, keys, tick), left by an interrupt or a policy that asks its manager.
        self._waiting: deque[tuple[int, npt.NDArray[Any], npt.NDArray[Any], int]] = deque()
        self.budget = None if budget_ms is None else Budget(budget_ms, self.origin)

    def deliver(self, events: Events) -> None:
        """Hand the policy its events. One that fails here has lost some, and is not asked again.

        An interrupt is no failure: what it kept from the policy comes first the next time.
        """
        if self._lost is not None:
            raise PolicyError(f"it failed on events before, its books are not whole: {self._lost}")
        if events is not None:
            kinds, blocks, ticks, keys = events
            # Runs of one kind at one tick go out in one call.
            changed = (np.diff(kinds) != 0) | (np.diff(ticks) != 0)
            edges = [0, *(np.flatnonzero(changed) + 1).tolist(), len(kinds)]
            self._waiting.extend(
                (int(kinds[start]), blocks[start:end], keys[start:end], int(ticks[start]))
                for start, end in pairwise(edges)
            )
        try:
            while self._waiting:
                self._tell(*self._waiting.popleft())
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self._lost = error
            self._waiting.clear()
            raise

    def _tell(self, kind: int, blocks: npt.NDArray[Any], keys: npt.NDArray[Any], now: int) -> None:
        if kind == _MISSED:
            self.policy.missed(keys, now)
        elif kind in _WHY:
            self.policy.remove(blocks, _WHY[kind], now)
        else:
            getattr(self.policy, _EVENTS[kind])(blocks, now)
        if kind == _INSERT and self.wants_keys:
            self.policy.insert_keyed(blocks, keys, now)

    def failed(self, error: BaseException, strict: bool) -> PolicyError:
        """The policy failed: the error to raise if it is strict, else warn once."""
        return failure(self.origin, error, strict)


def _overrides(kind: type[BatchedEviction], event: str) -> bool:
    return getattr(kind, event) is not getattr(BatchedEviction, event)


def _wrong_window(window: object) -> str | None:
    fits = isinstance(window, int) and not isinstance(window, bool) and 0 <= window < 2**32
    if window is None or fits:
        return None
    return f"window = {window!r}: must be a whole number of candidates, 0 for all, or None"


def _wrong_floats(floats: object) -> str | None:
    if isinstance(floats, bool | np.bool_):
        return None
    return f"floats = {floats!r}: must be True or False"


class NativeDriver:
    """Brings a compiled policy to the core, which calls it itself; tells of failures.

    Attributes:
        window: Candidates offered at a time in place of what the policy asks for.
    """

    def __init__(self, policy: object, loaded: Loaded[EvictionPolicy], window: int | None) -> None:
        self.name, self.version = loaded.descriptor.name, loaded.version
        self.origin = origin_of(loaded)
        if not isinstance(policy, NativePolicy):
            raise PolicyError(
                f"{self.origin}: make() gave a {type(policy).__name__}, "
                "not a kvframe.native.NativePolicy"
            )
        self.native = policy
        self.window = window

    def failed(self, error: BaseException, strict: bool) -> PolicyError:
        """As `Driver.failed`."""
        return failure(self.origin, error, strict)

    def refused(self, found: str, needed: str) -> AbiError:
        """The error of a policy that speaks another version of the interface."""
        return AbiError(
            f"{self.origin}: it brings {found}; this kvframe needs {needed}: "
            "build it against kvframe.native.include_dir() of this kvframe",
            plugin=self.name,
            version=self.version,
            found=found,
            needed=needed,
        )


def driver(
    loaded: Loaded[EvictionPolicy],
    options: msgspec.Struct | None,
    window: int | None,
    block_size: int,
    budget_ms: float | None = None,
) -> Driver | NativeDriver | None:
    """The driver of a batched or native policy, made anew; None for a built-in one.

    The budget is for what is written in Python: a native policy runs inside the core.
    """
    if loaded.descriptor.make is None:
        return None
    policy = made(loaded, options)
    if loaded.descriptor.way == "native":
        return NativeDriver(policy, loaded, window)
    return Driver(policy, loaded, window, block_size, budget_ms)
