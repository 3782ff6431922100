"""Blocks in lower tiers are announced with their medium, and a router tells them apart."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from kvframe import RouterIndex, UsageError
from kvframe.router import Reach
from kvframe.wire import Announcer, Publisher, Subscriber, hashes_of
from kvframe.wire.decode import Batch, Stored, decode
from tests.tiers.helpers import BLOCK, Engine, Shelf, below, host, text

ANY = "tcp://127.0.0.1:*"
FULL = {"event_log": True}


def levels() -> list[Any]:
    return [host(12), below(24), below(48, store="shared", name="far")]


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    with Publisher(ANY, ANY) as made:
        yield made


def batches(publisher: Publisher, index: RouterIndex) -> list[Batch]:
    """Everything that was published, as a reader gets it."""
    seen: list[Batch] = []
    with Subscriber(index) as reader:
        reader.watch(lambda worker, number, payload: seen.append(decode(payload)))
        reader.add(7, publisher.endpoint, publisher.replay)
        assert reader.sync()
        assert (reader.counts().missed, reader.counts().refused) == (0, 0)
    return seen


def held(engine: Engine, prompt: list[int], **names: Any) -> Reach:
    """How far the caches themselves reach."""
    hit = engine.tiers.lookup([*prompt, 1 << 20], **names)
    blocks = [tokens // BLOCK for tokens in (hit.pool, *hit.tiers.values())]
    return Reach(*(max(blocks[: at + 1]) for at in range(4)))


NONE = Reach(0, 0, 0, 0)


def test_each_tier_is_told_by_its_medium(publisher: Publisher) -> None:
    engine = Engine(levels(), stores=[Shelf(), Shelf()], options=FULL)
    announcer = Announcer(engine.kv, publisher, tiers=engine.tiers)
    prompt = text(1, 17)
    engine.run(prompt)
    announcer.flush()
    index = RouterIndex(BLOCK)
    (batch,) = batches(publisher, index)
    told = [(event.medium, event.token_ids) for event in batch.events if isinstance(event, Stored)]
    assert told == [(medium, prompt[:16]) for medium in ("GPU", "CPU", "DISK", "EXTERNAL")]
    assert index.match_tokens(prompt) == {7: Reach(4, 4, 4, 4)}
    for forget, reach in (
        (engine.kv.reset_prefix_cache, Reach(0, 4, 4, 4)),
        (engine.only_below, Reach(0, 0, 4, 4)),
    ):
        forget()
        announcer.flush()
        index = RouterIndex(BLOCK)
        batches(publisher, index)
        assert index.match_tokens(prompt) == {7: reach}


@pytest.mark.parametrize("seed", range(3))
def test_a_router_reaches_as_far_as_each_tier_under_eviction(
    publisher: Publisher, seed: int
) -> None:
    draw = random.Random(seed)
    engine = Engine(levels(), blocks=16, stores=[Shelf(), Shelf()], options=FULL, dice=draw)
    announcer = Announcer(engine.kv, publisher, tiers=engine.tiers)
    prompts = [
        text(stem, 4 * draw.randrange(1, 6)) + text(100 + at, draw.randrange(1, 14))
        for at, stem in enumerate(draw.choices(range(6), k=30))
    ]
    index, reaches = RouterIndex(BLOCK), set[Reach]()
    with Subscriber(index) as reader:
        reader.add(7, publisher.endpoint, publisher.replay)
        for at in range(120):
            salted = {"cache_salt": "s"} if draw.random() < 0.3 else {}
            engine.run(draw.choice(prompts), **salted)
            announcer.flush()
            if at % 40 == 39:
                engine.kv.reset_prefix_cache()
                announcer.flush()
            if at % 10:
                continue
            assert reader.sync()
            for prompt in prompts:
                for salt in ("", "s"):
                    reach = index.match_tokens(prompt, cache_salt=salt).get(7, NONE)
                    assert reach == held(engine, prompt, cache_salt=salt)
                    reaches.add(reach)
        assert (reader.counts().refused, index.counts().unplaced) == (0, 0)
    assert len({reach for reach in reaches if reach.gpu < reach.host < reach.disk}) > 0
    assert any(reach.disk < reach.anywhere for reach in reaches)


def test_pages_of_an_earlier_run_are_told_once_their_tokens_are_known(publisher: Publisher) -> None:
    objects: dict[str, bytes] = {}
    tiers, prompt = [host(), below()], text(1, 17)
    Engine(tiers, stores=[Shelf(objects=objects)]).run(prompt)
    engine = Engine(tiers, stores=[Shelf(objects=objects)], options=FULL)
    announcer = Announcer(engine.kv, publisher, tiers=engine.tiers)
    announcer.flush()
    assert engine.tiers.lookup(prompt).tiers["below"] == 16
    assert batches(publisher, RouterIndex(BLOCK)) == []
    engine.run(prompt)
    announcer.flush()
    engine.only_below()
    announcer.flush()
    index = RouterIndex(BLOCK)
    batches(publisher, index)
    assert index.match_tokens(prompt) == {7: Reach(0, 0, 4, 4)}


def test_hashes_alone_tell_of_tiers_too_and_of_an_earlier_run(publisher: Publisher) -> None:
    objects: dict[str, bytes] = {}
    tiers, prompt = [host(), below()], text(1, 17)
    Engine(tiers, stores=[Shelf(objects=objects)]).run(prompt)
    engine = Engine(tiers, stores=[Shelf(objects=objects)], options=FULL)
    announcer = Announcer(engine.kv, publisher, tiers=engine.tiers, token_ids=False)
    announcer.flush()
    index = RouterIndex()
    (batch,) = batches(publisher, index)
    assert not any(event.token_ids for event in batch.events if isinstance(event, Stored))
    hashes = hashes_of(engine.kv.blocks.hash_blocks(prompt))
    assert index.match_hashes(hashes) == {7: Reach(0, 0, 4, 4)}


def test_what_was_dropped_is_told_anew_for_every_tier() -> None:
    engine = Engine([host(), below()], stores=[Shelf()], options=FULL)
    with Publisher(ANY, ANY, queue=2) as publisher:
        announcer = Announcer(engine.kv, publisher, tiers=engine.tiers)
        engine.run(text(1, 17))
        announcer.flush()
        for _ in range(1_000_000):
            publisher.publish([])
            if publisher.counts().dropped > 20:
                break
        engine.only_below()
        engine.run(text(2, 9))
        index = RouterIndex(BLOCK)
        with Subscriber(index) as reader:
            reader.add(7, publisher.endpoint, publisher.replay)
            for _ in range(200):
                reader.sync()
                announcer.flush()
                reader.sync()
                if index.match_tokens(text(2, 9)):
                    break
        for prompt in (text(1, 17), text(2, 9)):
            assert index.match_tokens(prompt).get(7, NONE) == held(engine, prompt)


def test_a_manager_whose_tiers_go_by_a_window_is_refused(publisher: Publisher) -> None:
    engine = Engine([host()], options=FULL)

    class Windowed:
        log = engine.kv.log

        class inspect:  # noqa: N801 - stands for an attribute
            @staticmethod
            def options() -> dict[str, Any]:
                window = {"name": "near", "kind": "sliding_window", "block_size": BLOCK}
                full = {"name": "far", "kind": "full", "block_size": BLOCK}
                return {"event_log": True, "groups": [window, full]}

    with pytest.raises(UsageError, match="first layer group, near, which is not full"):
        Announcer(Windowed(), publisher, tiers=engine.tiers)  # type: ignore[arg-type]
