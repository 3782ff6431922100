"""A scheduler for perf.steps: as little of one as makes a manager do all that it can in a step."""

from __future__ import annotations

import time
from collections import Counter, deque
from typing import Any

import numpy as np
import numpy.typing as npt

from kvframe import KVCacheManager, Request
from perf.work import manager

BLOCK = 16
LONGEST = 4_096
DRAFTS = 3
BATCH_TOKENS = 2_048
FAMILIES, VOCABULARY = 20, 128_256
IDLE, PREFILL, DECODE = 0, 1, 2


class Scheduler:
    """A persistent batch of ``running`` places over a manager short of room at times.

    Args:
        running: Places, of which each holds one sequence.
        seed: Of the arrivals, their lengths, and what is accepted of drafts.
    """

    def __init__(self, running: int, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        # Of about 1,000 tokens a sequence, half are its own: some have to give way now and then.
        self.kv: KVCacheManager = manager(running * 34)
        self.families = self.rng.integers(VOCABULARY, size=(FAMILIES, LONGEST), dtype=np.uint32)
        self.waiting: deque[Request] = deque()
        self.state = np.full(running, IDLE)
        self.seqs = np.zeros(running, np.uint64)
        self.slots, self.known, self.end = (np.zeros(running, np.int64) for _ in range(3))
        self.grown = np.zeros(running, np.int64)  # tokens appended by the last step
        self.admitted = np.zeros(running, np.int64)
        self.speculates = np.arange(running) % 4 == 0
        self.tables = np.full((running, 2 * LONGEST // BLOCK), -1, np.int32)
        self.mapping = np.empty(running * (DRAFTS + 1), np.int64)
        self.ids = self.rng.integers(VOCABULARY, size=running * (DRAFTS + 1), dtype=np.uint32)
        self.tickets: list[int] = []
        self.short_of_room = 0
        self.now = 0
        self.spent: list[float] = []
        self.since = time.perf_counter()
        self.did: Counter[str] = Counter()

    def measured(self) -> tuple[list[float], float, Counter[str]]:
        """Since the last call: seconds in the manager by step, seconds in all, what was done."""
        spent, seconds, did = self.spent, time.perf_counter() - self.since, self.did
        self.spent, self.since, self.did = [], time.perf_counter(), Counter()
        return spent, seconds, did

    def step(self) -> None:
        """One scheduler step, as one call of the manager's `step`."""
        self.now += 1
        self._arrive()
        cut, ended = self._verify()
        victims = self._victims()
        forked = self._fork_source()
        decoding = np.flatnonzero(self.state == DECODE)
        counts = np.where(self.speculates[decoding], DRAFTS + 1, 1)
        prefilling = np.flatnonzero(self.state == PREFILL)
        computed = np.flatnonzero((self.state != IDLE) | ended)
        room = min(int((self.state == IDLE).sum()) - len(forked), len(self.waiting), 8)
        asking = [self.waiting[i] for i in range(max(room, 0))]
        step: dict[str, Any] = {
            "truncate": (self.seqs[cut], self.slots[cut]),
            "commit": (self.seqs[computed], self.slots[computed]),
            "fork": self.seqs[forked],
            "release": self.seqs[ended],
            "preempt": self.seqs[victims],
            "append": self.seqs[decoding],
            "counts": counts,
            "tokens": self.ids[: counts.sum()],
            "extend": (self.seqs[prefilling], self.known[prefilling]),
            "allocate": asking,
            "batch_tokens": max(BATCH_TOKENS, int(counts.sum())),
            "rows": decoding,
        }
        start = time.perf_counter()
        out = self.kv.step(**step, done=self.tickets, tables=self.tables, slots=self.mapping)
        took = time.perf_counter() - start
        self.tickets = [] if not out.plan else [out.plan.ticket]
        granted = out.reasons[: len(decoding)] == 0
        self.grown[:] = 0
        self.grown[decoding] = np.where(granted, counts, 0)
        self.slots[decoding] += self.grown[decoding]
        self.slots[prefilling] = out.extended
        self.short_of_room = len(decoding) - int(granted.sum())
        ready = [int(row) for row in prefilling if self.slots[row] == self.known[row]]
        for grant in out.allocations:
            if grant is None:
                break
            self.waiting.popleft()
            row = self._enter(grant.seq, PREFILL, grant.granted_tokens, grant.prompt_tokens)
            if grant.granted_tokens == grant.prompt_tokens:
                ready.append(row)
        self.waiting.extendleft(out.preempted[::-1])
        for parent, seq in zip(forked, out.forks, strict=True):
            row = self._enter(seq, DECODE, int(self.slots[parent] - self.grown[parent]), 0)
            self.end[row] = self.end[parent]
            ready.append(row)
        seqs = self.seqs[ready]
        fresh = np.empty((len(ready), self.tables.shape[1]), np.int32)
        start = time.perf_counter()
        self.kv.block_tables(seqs, fresh)
        self.spent.append(took + time.perf_counter() - start)
        self.tables[ready] = fresh
        self.state[ready] = DECODE
        self.did.update(
            sequences=len(computed),
            appended=int(self.grown.sum()),
            cut=len(cut),
            ended=int(ended.sum()),
            admitted=sum(grant is not None for grant in out.allocations),
            chunks=len(prefilling),
            preempted=len(victims),
            forked=len(forked),
            copies=0 if not out.plan else len(out.plan.copies),
        )

    def _arrive(self) -> None:
        """Requests of about 900 tokens, two thirds of them their family's, while few wait."""
        while len(self.waiting) < 4:
            length = int(np.clip(self.rng.lognormal(6.6, 0.7), 32, LONGEST - 1))
            shared = int(length * 0.7)
            own = self.rng.integers(VOCABULARY, size=length - shared, dtype=np.uint32)
            family = self.families[self.rng.integers(FAMILIES)]
            self.waiting.append(Request(np.concatenate([family[:shared], own])))

    def _verify(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Rows whose drafts are not all accepted; which rows have all their tokens."""
        drafted = np.flatnonzero(self.grown > 1)
        refused = self.rng.integers(DRAFTS + 1, size=len(drafted))
        self.slots[drafted] -= refused
        ended = (self.state == DECODE) & (self.slots >= self.end)
        self.state[ended] = IDLE
        return drafted[refused > 0], ended

    def _victims(self) -> npt.NDArray[np.int64]:
        """As many of the last admitted as were short of room."""
        if not self.short_of_room:
            return np.empty(0, np.int64)
        rows = np.flatnonzero(self.state == DECODE)
        last = rows[np.argsort(self.admitted[rows])][-max(1, self.short_of_room // 8) :]
        self.state[last] = IDLE
        return last

    def _fork_source(self) -> npt.NDArray[np.int64]:
        """Now and then a row that is sampled twice from here on, if a place is free."""
        rows = np.flatnonzero(self.state == DECODE)
        if self.now % 16 or not (self.state == IDLE).any():
            return rows[:0]
        return rows[:1]

    def _enter(self, seq: int, state: int, slots: int, known: int) -> int:
        row = int(np.flatnonzero(self.state == IDLE)[0])
        self.seqs[row], self.state[row] = seq, state
        self.slots[row], self.known[row] = slots, known
        # Answers of about 200 tokens.
        self.end[row] = known + int(np.clip(self.rng.lognormal(5.0, 0.7), 8, LONGEST))
        self.admitted[row], self.grown[row] = self.now, 0
        return row
