"""The loop of a serving engine: continuous batching, chunked prefill, preemption by recompute.

One `KVCacheManager.step` a scheduler step tells the manager what was computed and who ended, and
asks for room: for what runs first, then for who waits. `Runner` computes what got room.

Two rules keep it from getting stuck. Whoever came first goes first: only the youngest loses its
blocks, so the oldest can always go on. And a request that the cache could not hold alone is refused
when it comes.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from dataclasses import replace
from itertools import islice

from examples.serving.pages import Floats
from examples.serving.runner import Runner
from examples.serving.sequence import Counters, Sequence, Work
from examples.serving.workload import Turn

from kvframe import CapacityError, KVCacheManager, NeverFitsError, Request, StepResult

Finished = tuple[Turn, list[list[int]]]
"""A turn and its answers, one a sample."""


class Engine:
    """Serves turns of conversations over one KV cache.

    Args:
        kv: Decides which blocks hold what.
        runner: Computes.
        budget: Tokens computed in a step, at most (those that decode come first, and all of them).
        max_running: Nobody comes in while so many sequences run.
    """

    def __init__(
        self, kv: KVCacheManager, runner: Runner, *, budget: int = 24, max_running: int = 8
    ) -> None:
        self.kv, self.runner = kv, runner
        self.budget, self.max_running = budget, max_running
        self.counters = Counters()
        self.running: list[Sequence] = []  # by `order`, the oldest first; and all of them are
        self.waiting: deque[Sequence] = deque()  # older than these, which are by `order` too
        self.arrivals = 0
        self.ended: list[Sequence] = []  # finished sequences, and
        self.copied: list[int] = []  # tickets of plans carried out: for the manager's next step

    @property
    def busy(self) -> bool:
        """Whether there is anything to compute, or to tell the manager."""
        return bool(self.running or self.waiting or self.ended or self.copied)

    def submit(self, turn: Turn) -> None:
        """Queue a turn.

        Raises:
            NeverFitsError: The cache could not hold it even alone.
            ValueError: The model cannot read so far.
        """
        length, limit = len(turn.prompt) + turn.max_new, self.runner.model.shape.max_tokens
        if length > limit:
            raise ValueError(f"{length} tokens, but the model reads {limit}")
        # The manager knows prompts; only the engine knows how far an answer may go.
        needed, total = -(-length // self.kv.block_size), self.kv.counts().total
        if needed > total:
            raise NeverFitsError(f"{needed} blocks needed, but the cache has {total}")
        order, tokens = (self.arrivals, 0), list(turn.prompt)
        request = _request(turn, tokens)
        self.waiting.append(Sequence(turn, order, tokens, request, branches=turn.samples))
        self.arrivals += 1

    def step(self) -> list[Finished]:
        """One scheduler step; the turns whose answers are complete with it."""
        # Who has computed all it knows has one token more than that: it decodes. The others share
        # what is left of the budget, the oldest first, and who comes in gets the rest.
        grow = [Work(s, s.known, s.known + 1) for s in self.running if s.computed == s.known]
        budget = max(0, self.budget - len(grow))
        chunks = []
        for seq in self.running:
            if size := min(budget, seq.known - seq.computed):
                chunks.append(Work(seq, seq.computed, seq.computed + size, prefill=True))
                budget -= size
        comers = self._comers()
        # By age, in which policies hear of blocks: some evict what was computed first.
        held = sorted(self.running + self.ended, key=lambda seq: seq.order)
        stepped = self.kv.step(
            done=self.copied,
            commit=([seq.handle for seq in held], [seq.computed for seq in held]),
            release=[seq.handle for seq in self.ended],
            append=[work.seq.handle for work in grow],
            tokens=[work.seq.tokens[-1] for work in grow],
            extend=([work.seq.handle for work in chunks], [work.end for work in chunks]),
            allocate=[seq.request for seq in comers],
            token_budget=budget,
        )
        self.ended, self.copied = [], []
        self._copy(stepped)
        work = self._granted(stepped, grow, chunks, comers)
        return self._advance(work, self.runner.run(work)) if work else []

    def _copy(self, stepped: StepResult) -> None:
        """Copy-on-write, before anything of this step is written."""
        if stepped.plan:
            self.runner.pages.copy(stepped.plan)
            self.copied.append(stepped.plan.ticket)
            self.counters.copies += len(stepped.plan.copies)

    def _comers(self) -> list[Sequence]:
        """Who may come in."""
        return list(islice(self.waiting, max(0, self.max_running - len(self.running))))

    def _granted(
        self, stepped: StepResult, grow: list[Work], chunks: list[Work], comers: list[Sequence]
    ) -> list[Work]:
        """What of this got room. If something that runs got none, the youngest makes room."""
        work, short = _sorted_out(stepped, grow, chunks)
        preempted = bool(short)
        while short:
            seq = self.running.pop()
            self.kv.preempt(seq.handle)
            # What the manager would bring back lacks the token that was sampled last.
            seq.request = _request(seq.turn, seq.tokens, resumed=True)
            self.waiting.appendleft(seq)
            self.counters.preemptions += 1
            work = [item for item in work if item.seq is not seq]
            grow, chunks = (
                [item for item in short if item.seq is not seq and item.prefill == prefill]
                for prefill in (False, True)
            )
            again = self.kv.step(
                append=[item.seq.handle for item in grow],
                tokens=[item.seq.tokens[-1] for item in grow],
                extend=([item.seq.handle for item in chunks], [item.end for item in chunks]),
            )
            self._copy(again)
            more, short = _sorted_out(again, grow, chunks)
            work += more
        for item in work:
            item.seq.known = max(item.seq.known, item.end)
        if preempted:  # and then nobody came in
            return work
        for seq, grant in zip(comers, stepped.allocations, strict=True):
            if grant is None:  # and so are all behind it
                break
            self.running.append(self.waiting.popleft())
            seq.handle, seq.known = grant.seq, grant.prompt_tokens
            seq.computed = grant.cached_tokens
            work.append(Work(seq, grant.cached_tokens, grant.granted_tokens, prefill=True))
        return work

    def _advance(self, work: list[Work], logits: Floats) -> list[Finished]:
        """A token more for each sequence that has nothing left to compute."""
        self.counters.steps += 1
        finished = []
        for item, row in zip(work, logits, strict=True):
            seq = item.seq
            seq.computed = item.end
            self.counters.prefill += item.prefill * (item.end - item.start)
            if seq.computed < len(seq.tokens):
                continue
            for branch in self._branches(seq):
                branch.sample(row)
                if branch.finished:
                    self.running.remove(branch)
                    self.ended.append(branch)
                    branch.answers[branch.order[1]] = branch.answer
                    if len(branch.answers) == branch.turn.samples:
                        finished.append((seq.turn, [a for _, a in sorted(branch.answers.items())]))
        return finished

    def _branches(self, seq: Sequence) -> list[Sequence]:
        """A sequence and, once its prompt is computed, its other samples over the same blocks."""
        branches = [seq]
        for sample in range(1, seq.branches):
            order, handle = (seq.order[0], sample), self.kv.fork(seq.handle)
            branch = replace(seq, order=order, tokens=list(seq.tokens), handle=handle, branches=1)
            insort(self.running, branch, key=lambda other: other.order)
            branches.append(branch)
        seq.branches = 1
        return branches


def _request(turn: Turn, tokens: list[int], resumed: bool = False) -> Request:
    length = len(turn.prompt) + turn.max_new
    told = {"session": turn.session, "turn": turn.index, "max_seq_len": length}
    return Request(tokens, **told, resumed=resumed)


def _sorted_out(
    stepped: StepResult, grow: list[Work], chunks: list[Work]
) -> tuple[list[Work], list[Work]]:
    """What got room, and what did not."""
    short = set()
    for verb, place, why in stepped.refused:
        if not isinstance(why, CapacityError):
            raise why  # a policy that failed, not a want of room
        short.add((verb, place))
    asked = [("append", i, item) for i, item in enumerate(grow)]
    asked += [("extend", i, item) for i, item in enumerate(chunks)]
    work = [item for verb, i, item in asked if (verb, i) not in short]
    return work, [item for verb, i, item in asked if (verb, i) in short]
