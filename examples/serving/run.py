"""Runs the workload: through the engine, and without any cache for comparison."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from examples.serving import policy
from examples.serving.engine import Engine
from examples.serving.model import Batch, Transformer
from examples.serving.pages import Pages
from examples.serving.runner import Runner
from examples.serving.sequence import Counters, draw
from examples.serving.workload import Session, Turn

from kvframe import KVCacheManager, Registry

CONFIG = Path(__file__).with_name("kvframe.toml")

Answers = dict[tuple[int, int], list[list[int]]]
"""(session, turn) to the answers drawn there."""


@dataclass(frozen=True)
class Outcome:
    """What a run gave: the answers, what it cost, and the manager for a look inside."""

    answers: Answers
    counters: Counters
    kv: KVCacheManager


@cache
def model() -> Transformer:
    """The model: made once, for it never changes."""
    return Transformer()


@cache
def registry() -> Registry:
    """The policies that can be named here: kvframe's, those of installed packages, and our own."""
    found = Registry()
    found.register(policy, "examples.serving")
    return found


def policies() -> list[str]:
    """Names of the eviction policies that can run live; ``opt`` and its like need the future."""
    rows = [row for row in registry().list() if row.kind == "eviction" and row.state == "ok"]
    return [row.name for row in rows if not registry().eviction(row.name).descriptor.replay_only]


def build(
    eviction: str | None = None, capacity: int | None = None, *, reuse: bool = True
) -> Engine:
    """An engine as kvframe.toml describes it; what is given goes over the file."""
    cache = {} if capacity is None else {"capacity": capacity}
    kv = KVCacheManager.from_toml(
        CONFIG,
        registry=registry(),
        cache=cache if reuse else {**cache, "prefix_caching": False},
        eviction={} if eviction is None else {"policy": eviction},
    )
    return Engine(kv, Runner(kv, model(), Pages(kv.counts().total, kv.block_size, model().shape)))


def serve(engine: Engine, sessions: list[Session]) -> Outcome:
    """Serve every session to its end: a follow-up comes once the turn before it is answered."""
    by_id = {session.id: session for session in sessions}
    to_come = sorted(sessions, key=lambda session: (session.arrives, session.id))
    answers: Answers = {}
    step = 0
    while to_come or engine.busy:
        while to_come and to_come[0].arrives <= step:
            engine.submit(to_come.pop(0).first())
        for turn, drawn in engine.step():
            answers[turn.session, turn.index] = drawn
            follow_up = by_id[turn.session].follow_up(turn, drawn[0])
            if follow_up is not None:
                engine.submit(follow_up)
        step += 1
    return Outcome(answers, engine.counters, engine.kv)


def reference(sessions: list[Session]) -> Answers:
    """The answers as they must be: each turn alone, in memory of its own, without a manager."""
    answers: Answers = {}
    for session in sessions:
        turn: Turn | None = session.first()
        while turn is not None:
            drawn = [alone(turn, sample) for sample in range(turn.samples)]
            answers[session.id, turn.index] = drawn
            turn = session.follow_up(turn, drawn[0])
    return answers


def alone(turn: Turn, sample: int) -> list[int]:
    """One answer, computed over one page that is as long as any sequence gets."""
    shape, tokens, computed = model().shape, list(turn.prompt), 0
    pages, table = Pages(1, shape.max_tokens, shape), np.zeros((1, 1), np.int32)
    while len(tokens) < len(turn.prompt) + turn.max_new:
        places = np.arange(computed, len(tokens))
        batch = Batch(np.array(tokens)[places], places, places, table, ends=[len(places)])
        computed = len(tokens)
        tokens.append(draw(turn, sample, computed, model().forward(batch, pages)[0]))
    return tokens[len(turn.prompt) :]
