"""llm-d's and AIBrix's rules: a reader that keeps to them answers as the caches do."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from kvframe.wire import Announcer, Publisher
from kvframe.wire.events import Form
from tests.tiers.helpers import BLOCK, Engine, Shelf, below, host, text

from .consumers import Consumer
from .traffic import Traffic

ANY = "tcp://127.0.0.1:*"


@pytest.fixture(params=["map", "array"])
def publisher(request: pytest.FixtureRequest) -> Iterator[Publisher]:
    form: Form = request.param
    with Publisher(ANY, None, topic="kv@pod-1@tiny", form=form, rank=0) as made:
        yield made


@pytest.fixture
def consumer(publisher: Publisher) -> Iterator[Consumer]:
    made = Consumer(publisher.endpoint, BLOCK)
    try:
        for _ in range(500):  # a subscription takes a moment
            publisher.publish([])
            made.read(20)
            if made.batches:
                break
        yield made
    finally:
        made.close()


def test_prompts_reach_as_far_under_eviction_and_a_reset(
    publisher: Publisher, consumer: Consumer
) -> None:
    traffic = Traffic()
    announcer = Announcer(traffic.kv, publisher)
    for at in range(200):
        traffic.serve()
        announcer.flush()
        if at == 120:
            traffic.kv.reset_prefix_cache()
            announcer.flush()
        if at % 20:
            continue
        consumer.read()
        for prompt in traffic.prompts:
            has = traffic.kv.lookup([*prompt, 1_000_000]).tokens // BLOCK
            assert consumer.reach("pod-1", prompt, "gpu") == has
    assert traffic.kv.stats.counters()["evictions"] > 50
    assert consumer.unknown == 0


def test_each_medium_reaches_as_far_as_its_tier(publisher: Publisher, consumer: Consumer) -> None:
    draw = random.Random(3)
    engine = Engine([host(12), below(24)], stores=[Shelf()], options={"event_log": True})
    announcer = Announcer(engine.kv, publisher, tiers=engine.tiers)
    prompts = [text(stem, 4 * draw.randrange(1, 8) + 1) for stem in range(8)]
    for at in range(60):
        engine.run(draw.choice(prompts))
        announcer.flush()
        if at % 10:
            continue
        consumer.read()
        for prompt in prompts:
            hit = engine.tiers.lookup([*prompt, 1 << 20])
            reaches = {"gpu": hit.pool, "cpu": hit.tiers["host"], "disk": hit.tiers["below"]}
            for medium, tokens in reaches.items():
                assert consumer.reach("pod-1", prompt, medium) == tokens // BLOCK
    assert consumer.unknown == 0
