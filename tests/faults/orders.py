"""Every order in which the jobs of tiers can run and be heard of, between the calls of a history.

`orders` runs a history again and again: at each point the next thing is the engine's next call, or
the first job of a tier's worker, which does its work, fails before it, or fails behind it; or what
has ended is heard of. The choices of a run are counted like digits, until all have been made.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

from kvframe import Allocation, BusyError, CapacityError, TenantConfig
from kvframe.tiers import Swapped

from ..amounts import first_seed
from ..tiers.helpers import BLOCK, Engine, Shelf, below, host, text
from .seams import InjectedError

Job = Callable[[], Any]
Then = Callable[[Any], None]

A, B = text(1, 9), text(2, 9)
"""Two blocks each, and a token behind them."""


class Gate:
    """A tier's worker, whose jobs run when they are told to, one after the other.

    Attributes:
        waiting: Jobs that have not run.
        ended: What ended, and has not been heard of.
        open: Whether a poll runs what waits.
    """

    def __init__(self) -> None:
        self.waiting: deque[tuple[Job, Then]] = deque()
        self.ended: deque[tuple[Then, Any]] = deque()
        self.open = True

    def submit(self, job: Job, then: Then) -> None:
        self.waiting.append((job, then))

    def run(self, how: str) -> None:
        """Run the first job: ``done``, ``before`` (it raises instead), ``behind`` (after it)."""
        job, then = self.waiting.popleft()
        outcome: Any = InjectedError(how)
        if how != "before":
            try:
                done = job()
            except Exception as error:
                done = error
            outcome = done if how == "done" else outcome
        self.ended.append((then, outcome))

    def poll(self, timeout: float = 0) -> int:
        heard = 0
        while self.ended or (self.open and self.waiting):
            if not self.ended:
                self.run("done")
            then, outcome = self.ended.popleft()
            heard += 1
            then(outcome)
        return heard

    @property
    def busy(self) -> int:
        return len(self.waiting) + len(self.ended)

    def close(self) -> None:
        self.poll()

    def leave(self) -> None:
        self.waiting.clear()


class Choices:
    """The choices of one run: those given, then the first each time or, with ``dice``, any."""

    def __init__(self, given: Sequence[int], dice: Random | None = None) -> None:
        self._given, self._dice, self.made = given, dice, list[tuple[int, int]]()

    def of(self, count: int) -> int:
        """One of so many."""
        place = len(self.made)
        chosen = self._dice.randrange(count) if self._dice else 0
        if place < len(self._given):
            chosen = self._given[place]
        self.made.append((chosen, count))
        return chosen

    def next(self) -> list[int] | None:
        """Those of the next run; None if this was the last."""
        made = self.made.copy()
        while made and made[-1][0] + 1 == made[-1][1]:
            made.pop()
        return [*(one for one, _ in made[:-1]), made[-1][0] + 1] if made else None


class Course:
    """An engine with host memory and a store, a tenant, and texts that run."""

    def __init__(self, pages: int, stored: int) -> None:
        self.gates = [Gate(), Gate()]
        gates = iter(self.gates)
        self.shelf = Shelf()
        self.engine = Engine(
            [host(pages), below(stored, timeout_ms=50)],
            blocks=8,
            stores=[self.shelf],
            tenants=[TenantConfig(name="t")],
            worker=lambda _: next(gates),
            poison=True,
        )
        self.tiers, self.kv = self.engine.tiers, self.engine.kv
        self.running: list[int] = []
        self.waiting: set[int] = set()
        self.swapped: list[tuple[Swapped, list[int]]] = []

    # --- calls, none of which waits ----------------------------------------------------------

    def start(self, tokens: list[int]) -> None:
        grant = self.engine.start(tokens, tenant="t")
        self._runs(grant)
        # What was there before would pass for what has been loaded.
        new = self.kv.block_table(grant.seq)[grant.cached_tokens // BLOCK :]
        self.engine.pools[0].poison(new)

    def _runs(self, grant: Allocation) -> None:
        self.running.append(grant.seq)
        if grant.load is not None:
            self.waiting.add(grant.seq)

    def hear(self) -> None:
        """Do what follows all that has ended."""
        polled = self.tiers.poll()
        self.waiting -= {*polled.landed, *polled.rewound}

    def finish(self) -> None:
        """Compute what is not there, back it up, and end; what waits for a load is cancelled."""
        if not self.running:
            return
        seq = self.running.pop(0)
        if seq in self.waiting:
            self.tiers.cancel(seq)
            self.waiting.discard(seq)
        else:
            self.engine.compute(seq)
            self.tiers.offload(seq)
        self.kv.release(seq)

    def serve(self, tokens: list[int]) -> None:
        self.start(tokens)
        self.running.insert(0, self.running.pop())
        self.finish()

    def forget(self) -> None:
        self.kv.reset_prefix_cache()

    def erase(self) -> None:
        self.tiers.erase_tenant("t")
        found = self.tiers.lookup(A, tenant="t")
        assert found.best == 0, found

    def away(self) -> None:
        (seq,) = self.running
        try:
            swapped = self.tiers.swap_out(seq)
        except (BusyError, CapacityError):
            return
        self.swapped.append((swapped, self.engine.texts[seq]))
        del self.running[0]

    def back(self) -> None:
        if self.swapped:
            swapped, tokens = self.swapped[0]
            try:
                grant = self.tiers.swap_in(swapped)
            except (BusyError, CapacityError):
                return
            self.engine.texts[grant.seq] = tokens
            self._runs(grant)
            del self.swapped[0]

    def change(self) -> None:
        """Other weights: nothing of before is found."""
        self.tiers.set_weight_version("w2")
        assert self.tiers.lookup(A, tenant="t").best == 0

    def only_below(self) -> None:
        self.engine.only_below()

    # --- what holds after it -------------------------------------------------------------------

    def settle(self) -> None:
        """All that waits runs; then nothing is held, and it serves as before."""
        for gate in self.gates:
            gate.open = True
        self.hear()
        while self.running:
            self.tiers.drain()
            self.waiting.clear()
            self.finish()
        for swapped, _ in self.swapped:
            self.tiers.drop_swapped(swapped)
        self.tiers.drain()
        self.tiers.check_integrity()
        assert self.kv.counts().referenced == 0
        assert self.kv.inspect.tickets() == []
        assert all(level.index.counts()[2:] == (0, 0) for level in self.tiers.levels)
        self.engine.now += 10_000
        self.tiers.poll()
        for tokens in (B, A):
            self.engine.run(tokens, tenant="t")
        self.engine.forget()
        assert self.engine.run(A, tenant="t").external_tokens == 8
        self.tiers.verify()
        assert self.tiers.verify() == []


Call = Callable[[Course], None]


def _served(tokens: list[int]) -> Call:
    return lambda course: course.serve(tokens)


def _started(tokens: list[int]) -> Call:
    return lambda course: course.start(tokens)


STORED: tuple[Call, ...] = (_served(A), Course.only_below)
"""Done and heard of before the history begins: what is found lies in the store."""

HISTORIES: dict[str, tuple[tuple[int, int], tuple[Call, ...], tuple[Call, ...]]] = {
    "a backup, asked for again": ((4, 8), (), (_served(A), Course.forget, _served(A))),
    "a backup that evicts": ((2, 8), (), (_served(A), _served(B), Course.forget, _started(A))),
    "a store that evicts": ((4, 2), STORED, (_served(B), _started(A), Course.finish)),
    "a promotion": ((4, 8), STORED, (_started(A), Course.finish)),
    "a promotion for two": ((4, 8), STORED, (_started(A), _started(A), Course.finish)),
    "a promotion that evicts": ((2, 2), STORED, (_started(A), _served(B), Course.finish)),
    "a backup, erased": ((4, 8), (), (_served(A), Course.erase, _served(A))),
    "a promotion, erased": ((4, 8), STORED, (_started(A), Course.erase, Course.finish)),
    "other weights": ((4, 8), STORED, (_started(A), Course.change, Course.finish)),
    "out and back": ((4, 8), (_started(A),), (Course.away, Course.back, Course.finish)),
}
"""Pages of the two tiers, what is before, and calls."""


def run(name: str, choices: Choices, told: Counter[str], failing: bool) -> None:
    """One order of a history; ``told`` counts what ran, and how."""
    pages, before, calls = HISTORIES[name]
    course = Course(*pages)
    for call in before:
        if call is Course.only_below:
            course.tiers.drain()
        call(course)
    for gate in course.gates:
        gate.open = False
    left, failed, most = deque(calls), not failing, 0
    for call in before[-1:]:
        if call is not Course.only_below:  # what runs has been computed
            course.engine.compute(course.running[0])
    while True:
        most = max(most, sum(gate.busy for gate in course.gates))
        turns: list[tuple[str, Callable[[], Any]]] = []
        if left:
            turns.append(("call", lambda: left.popleft()(course)))
        for gate in course.gates:
            if gate.waiting:
                hows = ("done",) if failed else ("done", "before", "behind")
                turns += [(how, partial(gate.run, how)) for how in hows]
        if any(gate.ended for gate in course.gates):
            turns.append(("heard", course.hear))
        if not turns:
            break
        kind, turn = turns[choices.of(len(turns))]
        failed = failed or kind in ("before", "behind")
        told[kind] += 1
        turn()
        course.tiers.check_integrity()
    told["most at once"] = max(told["most at once"], most)
    course.settle()


def orders(name: str, *, failing: bool) -> tuple[int, Counter[str]]:
    """Run a history in each order; with ``failing``, each job of each order fails in each way.

    Returns:
        Orders, and what happened in them.
    """
    given: list[int] | None = []
    told, count = Counter[str](), 0
    while given is not None:
        choices = Choices(given)
        _tried(name, choices, told, failing)
        count += 1
        given = choices.next()
    return count, told


def some_orders(name: str, count: int, *, failing: bool) -> Counter[str]:
    """The same in so many orders that are drawn."""
    dice, told = Random(first_seed()), Counter[str]()
    for _ in range(count):
        _tried(name, Choices([], dice), told, failing)
    return told


def _tried(name: str, choices: Choices, told: Counter[str], failing: bool) -> None:
    try:
        run(name, choices, told, failing)
    except BaseException as error:
        made = [one for one, _ in choices.made]
        error.add_note(f"run({name!r}, Choices({made}), Counter(), {failing})")
        raise
