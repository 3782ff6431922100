"""A policy that stands between the core and the policy on trial, and records its inputs and
answers.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from kvframe.policies import BatchedEviction, Candidates
from kvframe.registry.raised import one_line
from kvframe.testing.report import PromiseError

Array = npt.NDArray[Any]

_EVENTS = ("insert", "insert_keyed", "on_miss", "hit", "acquire", "release", "remove")
_COPIES = 3
_JUNK = 0x5A
"""What arrays are filled with once the call that they were made for is over."""


@dataclass
class Watch:
    """What a spy has to do, and what it recorded.

    Attributes:
        twice: Ask for each decision twice and use the second answer.
        spoil: Overwrite each array after the call that it was made for.
        copies: Tell it that others hold blocks too, which a manager alone is never told.
        spent: Nanoseconds of each decision, the events before it included.
    """

    twice: bool = False
    spoil: bool = False
    copies: bool = False
    spent: list[int] = field(default_factory=list)


def spied(policy: BatchedEviction, watch: Watch) -> BatchedEviction:
    """A policy that calls ``policy``, and checks each answer before the core does."""
    kind = type(policy)
    spy = _Spy(policy, watch)
    own = dict.fromkeys((*kind.columns, "block", "parent"))
    body: dict[str, Any] = {
        "columns": tuple(own),
        "window": kind.window,
        "floats": kind.floats,
    }
    if kind.victims is not BatchedEviction.victims:
        body["victims"] = lambda _, n, offer, out: spy.victims(n, offer, out)
    else:
        body["score"] = lambda _, offer, out: spy.score(offer, out)
    for event in _EVENTS:
        if getattr(kind, event) is not getattr(BatchedEviction, event):
            body[event] = _telling(spy, event)
    made: BatchedEviction = type(kind.__name__, (BatchedEviction,), body)()
    return made


def _telling(spy: _Spy, event: str) -> Callable[..., None]:
    return lambda _, first, *rest: spy.tell(event, first, *rest)


class _Spy:
    def __init__(self, policy: BatchedEviction, watch: Watch) -> None:
        self.policy, self.watch = policy, watch
        self._events_ns = 0
        kind = type(policy)
        names = kind.victims is not BatchedEviction.victims
        self._columns = (*kind.columns, "block") if names else kind.columns

    def tell(self, event: str, first: Array, *rest: Any) -> None:
        given = first.copy()
        start = time.perf_counter_ns()
        try:
            getattr(self.policy, event)(given, *rest)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise PromiseError("answers", f"{event} raised {one_line(error)}") from error
        self._events_ns += time.perf_counter_ns() - start
        self._after(event, "keys" if event == "on_miss" else "blocks", first, given)

    def score(self, offer: Candidates, out: npt.NDArray[np.float64]) -> None:
        for _ in range(1 + self.watch.twice):
            own = np.full(len(out), np.nan)
            self._ask("score", offer, own)
            unset = np.flatnonzero(np.isnan(own))
            if len(unset):
                raise PromiseError(
                    "answers",
                    f"score {unset[0]} of {len(own)} is NaN or was never written "
                    f"({len(unset)} such)",
                )
            out[:] = own
            self._spoil(own)

    def victims(self, n: int, offer: Candidates, out: npt.NDArray[np.int64]) -> None:
        for _ in range(1 + self.watch.twice):
            own = np.full(len(out), -1, np.int64)
            self._ask("victims", offer, own, n)
            _check_victims(offer, own)
            out[:] = own
            self._spoil(own)

    def _ask(self, verb: str, offer: Candidates, out: Array, *n: int) -> None:
        shown = {name: self._shown(name, offer) for name in self._columns}
        columns = {name: array.copy() for name, array in shown.items()}
        mine = msgspec.structs.replace(offer, columns=columns)
        shape, dtype = out.shape, out.dtype
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            start = time.perf_counter_ns()
            try:
                answer = getattr(self.policy, verb)(*n, mine, out)
            except KeyError as error:
                name = error.args[0] if error.args else None
                if isinstance(name, str) and name not in columns:
                    raise PromiseError(
                        "columns", f"{verb} reads {error}, which it does not name"
                    ) from error
                raise PromiseError("answers", f"{verb} raised {one_line(error)}") from error
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                raise PromiseError("answers", f"{verb} raised {one_line(error)}") from error
            self.watch.spent.append(time.perf_counter_ns() - start + self._events_ns)
            self._events_ns = 0
        if told:
            raise PromiseError("answers", f"{verb} warned: {told[0].message}")
        if answer is not None:
            raise PromiseError(
                "answers", f"{verb} answered with a {type(answer).__name__}, not in out"
            )
        if out.shape != shape or out.dtype != dtype:
            raise PromiseError("inputs", f"{verb} changed the type or the shape of out")
        for name, given in columns.items():
            self._after(verb, f'candidates["{name}"]', shown[name], given)

    def _shown(self, name: str, offer: Candidates) -> Array:
        if name == "copies" and self.watch.copies:
            return (offer["block"] % _COPIES).astype(offer[name].dtype)
        return offer[name]

    def _after(self, verb: str, name: str, was: Array, given: Array) -> None:
        if was.shape != given.shape or was.dtype != given.dtype or not np.array_equal(was, given):
            raise PromiseError("inputs", f"{verb} wrote into {name}")
        self._spoil(given)

    def _spoil(self, array: Array) -> None:
        if self.watch.spoil:
            array.setflags(write=True)
            array.view(np.uint8)[:] = _JUNK


def _check_victims(offer: Candidates, named: npt.NDArray[np.int64]) -> None:
    ids = offer["block"].tolist()
    parents = offer["parent"].tolist()
    places = {block: place for place, block in enumerate(ids)}
    waiting: dict[int, int] = {}
    for parent in parents:
        waiting[parent] = waiting.get(parent, 0) + 1
    seen: set[int] = set()
    for count, block in enumerate(named.tolist()):
        if block == -1:
            raise PromiseError("answers", f"victims named {count} of {len(named)} blocks")
        if block in seen:
            raise PromiseError("answers", f"victims named block {block} twice")
        if block not in places:
            raise PromiseError("eligible", f"victims named block {block}, which was not offered")
        place = places[block]
        if waiting.get(place):
            raise PromiseError(
                "eligible", f"victims named block {block} before one that follows it"
            )
        seen.add(block)
        waiting[parents[place]] -= 1
