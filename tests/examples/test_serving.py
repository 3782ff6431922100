"""The serving example gives the same answers whatever its cache does."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from examples.serving.model import Batch
from examples.serving.pages import Floats, Pages
from examples.serving.run import Answers, Outcome, build, model, policies, reference, serve
from examples.serving.workload import Turn, sessions

from kvframe import ConfigError, NeverFitsError

from ..amounts import ALL

CHATS = sessions(4)
CAPACITIES = SMALLEST, _, LARGEST = 24, 40, 72
"""Blocks: too few for what runs at once; too few to keep all that was said; enough."""


@cache
def right() -> Answers:
    return reference(CHATS)


@cache
def cold(capacity: int) -> Outcome:
    return serve(build(capacity=capacity, reuse=False), CHATS)


@cache
def warm(eviction: str, capacity: int) -> Outcome:
    return serve(build(eviction, capacity), CHATS)


def check_end(run: Outcome) -> None:
    run.kv.check_integrity()
    counts = run.kv.counts()
    assert (counts.referenced, counts.free + counts.cached) == (0, counts.total)


SIX = ("lru", "fifo", "lfu", "lfuda", "slru", "deepest-first")


def test_there_are_six_policies() -> None:
    assert set(SIX) <= set(policies())
    assert not {"opt", "opt-forced", "infinite"} & set(policies())


@pytest.mark.parametrize(
    ("eviction", "capacity"),
    [*((name, CAPACITIES[0]) for name in policies()), *(("lru", n) for n in CAPACITIES[1:])],
)
def test_reuse_changes_no_token_and_computes_less(eviction: str, capacity: int) -> None:
    run = warm(eviction, capacity)
    assert run.answers == right()
    assert run.counters.prefill < cold(capacity).counters.prefill
    check_end(run)


@pytest.mark.parametrize("eviction", policies() if ALL else SIX)
def test_without_reuse_no_policy_decides_anything(eviction: str) -> None:
    capacity = CAPACITIES[0]
    run = serve(build(eviction, capacity, reuse=False), CHATS)
    assert run.answers == right()
    assert run.counters == cold(capacity).counters
    assert run.kv.stats.counters()["evictions"] == 0
    check_end(run)


def test_capacity_decides_what_happens() -> None:
    assert cold(SMALLEST).counters.preemptions > 0
    assert cold(LARGEST).counters.preemptions == 0
    assert warm("lru", SMALLEST).counters.preemptions > 0
    assert warm("lru", SMALLEST).kv.stats.counters()["resumed_hit_tokens"] > 0
    assert warm("lru", LARGEST).counters.preemptions == 0
    assert all(warm("lru", capacity).counters.copies > 0 for capacity in CAPACITIES)


def test_the_smallest_cache_that_can_serve_does() -> None:
    longest = max(
        len(CHATS[session].system)
        + sum(len(words) for words in CHATS[session].questions[: turn + 1])
        + (turn + 1) * CHATS[session].max_new
        for session, turn in right()
    )
    engine = build(capacity=-(-longest // 8))
    assert serve(engine, CHATS).answers == right()
    with pytest.raises(NeverFitsError, match=r"blocks needed, but the cache has"):
        serve(build(capacity=-(-longest // 8) - 1), CHATS)


def test_a_prompt_longer_than_the_model_reads_is_refused() -> None:
    with pytest.raises(ValueError, match="but the model reads 144"):
        build().submit(Turn(0, 0, tuple(range(100)), max_new=45))


def test_a_follow_up_finds_what_was_generated() -> None:
    (chat,), engine = sessions(1), build()
    asked = chat.first()
    engine.submit(asked)
    (finished,) = [done for _ in range(20) for done in engine.step()]
    follow_up = chat.follow_up(asked, finished[1][0])
    assert follow_up is not None
    # The last token of an answer is never computed: nothing comes after it.
    computed = len(asked.prompt) + asked.max_new - 1
    hit = engine.kv.lookup(follow_up.prompt).tokens
    assert hit == computed // 8 * 8
    assert hit > len(asked.prompt)


@pytest.mark.parametrize("chunk", [1, 5, 12, 60])
def test_logits_are_the_same_bits_in_any_chunking(chunk: int) -> None:
    whole, parts = forward([60]), forward([chunk] * (60 // chunk))
    assert np.array_equal(whole, parts)


def forward(chunks: list[int]) -> Floats:
    """Logits after a 60-token prompt computed in chunks, beside another sequence."""
    shape = model().shape
    pages = Pages(40, 8, shape)
    tables = np.arange(36, dtype=np.int32).reshape(2, 18)
    tokens = np.random.default_rng(1).integers(shape.vocab, size=60)
    done = 0
    for size in chunks:
        places = np.concatenate([np.arange(done, done + size), [0]])
        slots = np.concatenate([places[:-1], [18 * 8]])
        batch = Batch(
            np.append(tokens[done : done + size], 7), places, slots, tables, [size, size + 1]
        )
        logits = model().forward(batch, pages)
        done += size
    return logits


def test_the_engine_is_built_from_kvframe_toml() -> None:
    options = build().kv.inspect.options()
    assert (options["block_size"], options["blocks"], options["policy"]) == (8, 120, "lru")
    assert options["weight_version"] == "tiny-transformer seed 0"
    with pytest.raises(ConfigError, match=r"cache\.capacity = 0"):
        build(capacity=0)
