"""What the core calls to ask an eviction policy written in Python, or takes from a compiled one."""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from kvframe.drivers.asker import Asker, Terms
from kvframe.errors import AbiError
from kvframe.native import NativePolicy
from kvframe.policies.batched import COLUMNS, DEFAULT_WINDOW, NOTHING, BatchedEviction, Candidates
from kvframe.policies.columns import wrong_columns
from kvframe.registry import Loaded
from kvframe.registry.descriptors import EvictionPolicy

_EVENTS = ("insert", "hit", "acquire", "release", "remove", "remove", "on_miss")
_INSERT, _MISSED = 0, 6
_WHY = {4: "evicted", 5: "invalidated"}

Run = tuple[int, npt.NDArray[Any], npt.NDArray[Any], int]
"""(kind, blocks, their keys if they are wanted, tick): events of one kind at one tick, in a row."""

INSTEAD = "the built-in order takes this decision"


class EvictionDriver(Asker[BatchedEviction]):
    """Declares what a policy wants, and passes events on.

    Attributes:
        policy: The core calls its ``score`` or ``victims`` itself, one call a decision.
        candidates: Makes the candidates that the policy is offered.
        nothing: What is found where nothing is.
        handled: A bit for each kind of event that a method of the policy handles.
    """

    base = BatchedEviction
    instead = INSTEAD
    passes_over = False

    def __init__(self, loaded: Loaded[EvictionPolicy], terms: Terms) -> None:
        super().__init__(loaded, terms)
        policy, kind = self.policy, type(self.policy)
        self.refuse(
            wrong_columns(policy.columns, COLUMNS)
            or _wrong_window(policy.window)
            or _wrong_floats(policy.floats)
        )
        self.names_victims = kind.victims is not BatchedEviction.victims
        self.candidates, self.nothing = Candidates, NOTHING
        asked = DEFAULT_WINDOW if policy.window is None else policy.window
        self.window = asked if terms.window is None else terms.window
        handled = [number for number, event in enumerate(_EVENTS) if _overrides(kind, event)]
        self.wants_events = any(number != _MISSED for number in handled)
        self.wants_keys = _overrides(kind, "insert_keyed") or "key" in policy.columns
        self.wants_missed = _MISSED in handled
        if _overrides(kind, "insert_keyed"):
            handled.append(_INSERT)
        self.handled = sum(1 << number for number in set(handled))
        self.floats = bool(policy.floats)
        needs_ids = self.names_victims and "block" not in policy.columns
        self.columns = [*policy.columns, *(["block"] if needs_ids else [])]
        # What an interrupt, or a policy that asks its manager, has left.
        self._waiting: deque[Run] = deque()

    def deliver(self, runs: list[Run]) -> None:
        """Hand the policy its events, a run a call; first those that were held back last time."""
        if self._lost is None:
            self._waiting.extend(runs)
        self.tell("events", "its books are", self._tell_waiting)

    def _tell_waiting(self) -> None:
        while self._waiting:
            self._tell_of(*self._waiting.popleft())

    def _tell_of(
        self, kind: int, blocks: npt.NDArray[Any], keys: npt.NDArray[Any], now: int
    ) -> None:
        if kind == _MISSED:
            self.policy.on_miss(keys, now)
        elif kind in _WHY:
            self.policy.remove(blocks, _WHY[kind], now)
        else:
            getattr(self.policy, _EVENTS[kind])(blocks, now)
        if kind == _INSERT and self.wants_keys:
            self.policy.insert_keyed(blocks, keys, now)


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


class NativeDriver(Asker[NativePolicy]):
    """Brings a compiled policy to the core, which calls it itself.

    Attributes:
        native: The policy.
        window: Candidates offered at a time in place of what the policy asks for.
    """

    base = NativePolicy
    instead = INSTEAD

    def __init__(self, loaded: Loaded[EvictionPolicy], terms: Terms) -> None:
        super().__init__(loaded, msgspec.structs.replace(terms, budget_ms=None))
        self.native, self.version, self.window = self.policy, loaded.version, terms.window

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


def driver(loaded: Loaded[EvictionPolicy], terms: Terms) -> EvictionDriver | NativeDriver | None:
    """The driver of a batched or native policy, made anew; None for a built-in one."""
    if loaded.descriptor.make is None:
        return None
    if loaded.descriptor.way == "native":
        return NativeDriver(loaded, terms)
    return EvictionDriver(loaded, terms)
