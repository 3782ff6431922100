"""The example as `kvframe bench verify --engine example` runs it: one step at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence

from examples.serving.engine import Engine
from examples.serving.pages import Floats, Pages
from examples.serving.run import CONFIG, model, registry
from examples.serving.runner import Runner
from examples.serving.sequence import Work
from examples.serving.workload import Turn

from kvframe import KVCacheManager
from kvframe.bench.verify.engine import Done, Piece


class Noting(Runner):
    """A runner that notes what it computed last."""

    def run(self, work: list[Work]) -> Floats:
        self.last = list(work)
        return super().run(work)


class Stepped:
    """The engine, a step at a time."""

    max_num_seqs, max_num_batched_tokens, answer = 4, 64, 9

    def __init__(self, policy: str, capacity: int) -> None:
        cache = {"capacity": capacity, "event_log": True}
        self.kv = KVCacheManager.from_toml(
            CONFIG, registry=registry(), cache=cache, eviction={"policy": policy}
        )
        shape = model().shape
        self.longest, self.vocab = shape.max_tokens, shape.vocab
        self._runner = Noting(self.kv, model(), Pages(capacity, self.kv.block_size, shape))
        self._engine = Engine(
            self.kv,
            self._runner,
            budget=self.max_num_batched_tokens,
            max_running=self.max_num_seqs,
        )

    @property
    def busy(self) -> bool:
        return self._engine.busy

    def clock(self) -> float:
        return time.process_time()  # it runs on one thread: other load disturbs this little

    def submit(self, request: int, prompt: Sequence[int], answer: int) -> None:
        self._engine.submit(Turn(request, 0, tuple(prompt), answer))

    def step(self) -> Done:
        self._runner.last = []
        finished = self._engine.step()
        pieces, sampled = [], []
        for work in self._runner.last:
            number = work.seq.turn.session
            count, is_answer = work.end - work.start, work.end >= len(work.seq.turn.prompt)
            decodes = count == 1 and work.start >= len(work.seq.turn.prompt)
            pieces.append(Piece(number, work.start, count, decodes))
            if is_answer and len(work.seq.tokens) == work.end + 1:
                sampled.append(number)
        return Done(pieces, sampled, {turn.session: answers[0] for turn, answers in finished})

    def close(self) -> None:
        """Nothing is held."""


def engine(policy: str, capacity: int | None) -> Stepped:
    """The example with a policy; by default it holds a small part of what 48 chats say."""
    return Stepped(policy, capacity or 96)
