"""Runs an engine on a workload, and notes when requests came and what each step computed.

Time is the engine's own: a step takes what its clock says. Where nothing is to be done until the
next request arrives, the clock is set forward to that.
"""

from __future__ import annotations

import gc
import heapq
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import nan

from kvframe._core import StepProfile
from kvframe.bench.verify.engine import Done, Engine, Piece
from kvframe.bench.verify.workload import Chat
from kvframe.stats.log import EventLog


@dataclass
class Served:
    """A request that an engine served. Times are seconds from the start.

    Attributes:
        chat: The place of its chat in the workload.
        turn: Its place there.
        nominal: Milliseconds at which it would come if answers took no time.
        prompt: Token ids.
        answer: Tokens of the answer.
        arrival, first_token, end: When it came, had one token, and all.
        cached: Prompt tokens that were found when it first came in.
        computed: Tokens that have KV.
    """

    chat: int
    turn: int
    nominal: int
    prompt: tuple[int, ...]
    answer: int
    arrival: float
    first_token: float = nan
    end: float = nan
    cached: int | None = None
    computed: int = 0

    @property
    def ttft(self) -> float:
        """Seconds from its arrival to its first token."""
        return self.first_token - self.arrival


@dataclass
class StepRow:
    """A step, in the terms of `kvframe.calibrate`.

    Attributes:
        prefill: Tokens of prompts.
        pairs: Pairs of such a token and one that it attends to, with what short chunks cost.
        n_decode, kv_decode: Sequences that decoded, and tokens that they attended to.
        seconds: What it took.
    """

    prefill: int = 0
    pairs: int = 0
    n_decode: int = 0
    kv_decode: int = 0
    seconds: float = 0.0

    def add(self, piece: Piece) -> None:
        """A piece of the step."""
        if piece.decodes:
            self.n_decode += 1
            self.kv_decode += piece.start + 1
            return
        self.prefill += piece.tokens
        rows = max(piece.tokens, StepProfile.SHORT_CHUNK)
        self.pairs += rows * piece.start + piece.tokens * (piece.tokens + 1) // 2


@dataclass
class Recording:
    """What an engine did on a workload.

    Attributes:
        requests: In the order in which they came.
        steps: Those that computed something, in order.
        log: What its manager did.
        busy: Seconds in which it did something.
        preemptions: How often a request lost its blocks.
    """

    requests: list[Served] = field(default_factory=list)
    steps: list[StepRow] = field(default_factory=list)
    log: EventLog | None = None
    busy: float = 0.0
    preemptions: int = 0

    @property
    def hit_rate(self) -> float:
        """Prompt tokens found, over all."""
        found = sum(request.cached or 0 for request in self.requests)
        return found / max(sum(len(request.prompt) for request in self.requests), 1)


def record(
    engine: Engine, workload: Sequence[Chat], pace: Callable[[StepRow], float] | None = None
) -> Recording:
    """Serve every chat to its end, with the garbage collector off.

    Args:
        engine: It has served nothing yet.
        workload: The chats.
        pace: Seconds that a step counts as, in place of what it takes.
    """
    return record_all([engine], workload, pace)[0]


def record_all(
    engines: Sequence[Engine],
    workload: Sequence[Chat],
    pace: Callable[[StepRow], float] | None = None,
) -> list[Recording]:
    """As `record`, by several engines, each on its own clock.

    They take a step in turn: where a machine is now fast and now slow, it is so for all of them.
    """
    done = [Recording() for _ in engines]
    with _uncollected():
        serving = [
            _steps(engine, workload, pace, own) for engine, own in zip(engines, done, strict=True)
        ]
        while serving:
            serving = [each for each in serving if next(each, None)]
    return done


@contextmanager
def _uncollected() -> Iterator[None]:
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _steps(
    engine: Engine,
    workload: Sequence[Chat],
    pace: Callable[[StepRow], float] | None,
    done: Recording,
) -> Iterator[StepRow]:
    now = 0.0
    coming = [(chat.arrives / 1e3, at, 0) for at, chat in enumerate(workload)]
    heapq.heapify(coming)
    answers: dict[int, list[int]] = {}
    latest: dict[int, int] = {}
    while coming or engine.busy:
        while coming and coming[0][0] <= now:
            at, chat, turn = heapq.heappop(coming)
            request = _next(workload[chat], chat, turn, at, done.requests, latest, answers)
            number = latest[chat] = len(done.requests)
            done.requests.append(request)
            engine.submit(number, request.prompt, request.answer)
        if not engine.busy:
            now = coming[0][0]
            continue
        began = engine.clock()
        step = engine.step()
        row = StepRow(seconds=engine.clock() - began)
        for piece in step.pieces:
            row.add(piece)
        done.busy += row.seconds
        if pace is None:
            now += row.seconds
        elif step.pieces:
            now += pace(row)
        _note(done, step, row, now)
        for number, answer in step.ended.items():
            request = done.requests[number]
            request.end, answers[number] = now, answer
            pauses = workload[request.chat].pauses
            if request.turn < len(pauses):
                back = now + pauses[request.turn] / 1e3
                heapq.heappush(coming, (back, request.chat, request.turn + 1))
        yield row
    done.log = engine.kv.log.take()


def _next(
    chat: Chat,
    place: int,
    turn: int,
    arrival: float,
    served: list[Served],
    latest: dict[int, int],
    answers: dict[int, list[int]],
) -> Served:
    prompt, nominal = chat.system + chat.questions[0], chat.arrives
    if turn:
        before = served[latest[place]]
        prompt = before.prompt + tuple(answers[latest[place]]) + chat.questions[turn]
        nominal = before.nominal + chat.pauses[turn - 1]
    return Served(place, turn, nominal, prompt, chat.answer, arrival)


def _note(done: Recording, step: Done, row: StepRow, now: float) -> None:
    for piece in step.pieces:
        request = done.requests[piece.request]
        if request.cached is None:
            request.cached = piece.start
        done.preemptions += piece.start < request.computed
        request.computed = piece.start + piece.tokens
    if step.pieces:
        done.steps.append(row)
    for number in step.sampled:
        request = done.requests[number]
        if request.first_token != request.first_token:
            request.first_token = now
