"""Synthetic traffic from a seed: all that an engine asks of a manager, audited after each call."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence

import numpy as np

from kvframe.errors import CapacityError, KVFrameError, NeverFitsError, PolicyError
from kvframe.manager import KVCacheManager
from kvframe.results import Pin
from kvframe.testing.books import Books
from kvframe.testing.report import PromiseError

Tokens = list[int]

_LETTERS = 3
"""Kinds of blocks: few, so that prefixes are shared and branch."""

_UNTOLD = 40
"""Calls before the engine tells a time: a policy is to cope with none as well."""

_EPOCH_MS = 1_760_000_000_000
_STEPS_MS = (0, 0, 1, 30, 4_000)
"""What passes from call to call: several calls share a time, and there are pauses."""


class Traffic:
    """Requests that share prefixes, run at once, grow, fork, are cut and end; pins; refusals.

    The engine's clock stands at 0 at first, then shows milliseconds since 1970.

    One seed over one kind of manager makes the same calls under every policy, as long as the same
    calls are refused.

    Args:
        manager: Strict (``on_error = "raise"``), its event log on.
        seed: Of the random choices.
        upheaval: Whether the calls include resets of the cache and resizes of the pool.
        tenants: Whose the requests are, each of one of them or of none.
    """

    def __init__(
        self,
        manager: KVCacheManager,
        seed: int,
        *,
        upheaval: bool = False,
        tenants: Sequence[str] = (),
    ) -> None:
        self.manager = manager
        self.books = Books()
        self._dice = random.Random(seed)
        self._digest = hashlib.sha256()
        # Dice of their own, so that a seed goes on making the same calls.
        self._pauses, self._hints = random.Random(seed), random.Random(seed)
        self._tenants, self._whose = ["", *tenants], random.Random(seed)
        self._calls = self._now = 0
        self._running: dict[int, Tokens] = {}
        self._pins: list[tuple[Pin, list[int]]] = []
        self._known: list[Tokens] = [[]]
        self._blocks = manager.counts().total
        self._verbs: list[tuple[int, Callable[[], None]]] = [
            (8, self._admit),
            (5, self._grow),
            (6, self._end),
            (1, self._fork),
            (1, self._preempt),
            (1, self._pin),
            (1, self._unpin),
            (1, self._collect),
            (1, self._too_long),
        ]
        if upheaval:
            self._verbs += [(1, self._forget), (1, self._resize)]

    def run(self, calls: int) -> str:
        """Make ``calls`` calls; returns the digest of everything that happened."""
        for _ in range(calls):
            self.call()
        return self.digest()

    def digest(self) -> str:
        """Equal for runs whose logs are equal."""
        return self._digest.hexdigest()

    def call(self) -> None:
        """Make one call.

        Raises:
            PromiseError: The call broke a promise of the policy.
        """
        weights = [weight for weight, _ in self._verbs]
        (verb,) = self._dice.choices([verb for _, verb in self._verbs], weights)
        held = self._held()
        try:
            self._tell_time()
            verb()
        except PolicyError as error:
            raise blame(error) from error
        except (CapacityError, NeverFitsError):
            self._digest.update(b"refused")
        events = self.manager.log.take_events()
        for name in ("kind", "block", "seq", "value"):
            self._digest.update(events[name].tobytes())
        self.books.read(events, held)
        try:
            self.manager.check_integrity()
        except KVFrameError as error:
            raise PromiseError("eligible", f"the pool is broken: {error}") from error
        counts = self.manager.counts()
        if counts.free + counts.cached + counts.referenced != counts.total:
            raise PromiseError("eligible", f"the pool's counts do not add up: {counts}")

    def _tell_time(self) -> None:
        self._calls += 1
        if self._calls > _UNTOLD:
            self._now = (self._now or _EPOCH_MS) + self._pauses.choice(_STEPS_MS)
            self.manager.expire_until(self._now)

    def _held(self) -> set[int]:
        tables = [self.manager.block_table(seq).tolist() for seq in self._running]
        return {block for table in (*tables, *(held for _, held in self._pins)) for block in table}

    def _word(self, blocks: int) -> Tokens:
        size = self.manager.block_size
        return [letter for _ in range(blocks) for letter in [self._dice.randrange(_LETTERS)] * size]

    def _prompt(self) -> Tokens:
        size = self.manager.block_size
        start = self._dice.choice(self._known)
        start = start[: self._dice.randint(0, len(start)) // size * size]
        return [*start, *self._word(self._dice.randint(1, 3)), 0][: self._blocks * size]

    def _pick(self) -> int | None:
        return self._dice.choice(list(self._running)) if self._running else None

    def _admit(self) -> None:
        prompt, dice = self._prompt(), self._dice
        meta = (dice.randrange(4), dice.randrange(3), dice.randrange(3), dice.randint(-1, 2))
        session, turn, request_class, priority = meta
        # An engine that expects uses knows them of some requests.
        expected = self._calls + self._hints.randrange(50) if self._hints.randrange(2) else None
        blocks = len(prompt) // self.manager.block_size
        grant = self.manager.allocate(
            prompt,
            tenant=self._whose.choice(self._tenants),
            session=session,
            turn=turn,
            request_class=request_class,
            priority=priority,
            next_use=None if expected is None else np.full(blocks, expected, np.uint32),
        )
        # A prefix matcher may have rewritten it.
        self._running[grant.seq] = prompt if grant.prompt is None else grant.prompt.tolist()
        self.manager.commit(grant.seq, grant.prompt_tokens)
        self._known = [*self._known[-15:], prompt]

    def _grow(self) -> None:
        seq = self._pick()
        if seq is not None:
            more = self._word(1)[: self._dice.randint(1, self.manager.block_size)]
            self.manager.append(seq, more)
            tokens = self._running[seq] = self._running[seq] + more
            self.manager.commit(seq, len(tokens))
            self._known = [*self._known[-15:], tokens]

    def _end(self) -> None:
        seq = self._pick()
        if seq is not None:
            self.manager.release(seq)
            del self._running[seq]

    def _fork(self) -> None:
        seq = self._pick()
        if seq is not None:
            self._running[self.manager.fork(seq)] = self._running[seq]

    def _preempt(self) -> None:
        seq = self._pick()
        if seq is not None:
            self.manager.preempt(seq)
            del self._running[seq]

    def _pin(self) -> None:
        prompt = self._prompt()
        pin = self.manager.pins.pin(prompt, tenant=self._whose.choice(self._tenants))
        if pin is not None:
            self._pins.append((pin, [pin.block]))

    def _unpin(self) -> None:
        if self._pins:
            pin, _ = self._pins.pop(self._dice.randrange(len(self._pins)))
            self.manager.pins.unpin(pin)

    def _collect(self) -> None:
        counts = self.manager.counts()
        self.manager.evict_until(self._dice.randint(0, counts.free + counts.cached))

    def _too_long(self) -> None:
        """Ask for more than the pool has, which must be refused before the policy is asked."""
        tokens = np.zeros(self._blocks * self.manager.block_size + 1, np.uint32)
        try:
            self.manager.allocate(tokens)
        except NeverFitsError:
            return
        raise PromiseError("eligible", "a request that can never fit was admitted")

    def _forget(self) -> None:
        if self._dice.random() < 0.5:
            self.manager.reset_prefix_cache()
        else:
            self.manager.set_weight_version(str(self._dice.random()))

    def _resize(self) -> None:
        blocks = max(1, self._blocks + self._dice.randint(-3, 3))
        self.manager.resize(blocks)
        self._blocks = blocks


def blame(error: PolicyError) -> PromiseError:
    """The promise that a strict policy broke, from the error that stopped it."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, PromiseError):
            return cause
        cause = cause.__cause__
    return PromiseError("answers", str(error))
