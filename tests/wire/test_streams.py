"""A publisher and a subscriber on loopback: whatever is lost, the router knows what is cached."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest
import zmq

from kvframe import RouterIndex, UsageError
from kvframe.wire import Announcer, Publisher, Subscriber, hashes_of
from kvframe.wire.decode import decode

from .lossy import Lossy
from .traffic import BLOCK, Traffic

ANY = "tcp://127.0.0.1:*"


@pytest.fixture
def reader() -> Iterator[Subscriber]:
    with Subscriber(RouterIndex(block_size=BLOCK)) as subscriber:
        yield subscriber


def until_read(subscriber: Subscriber, announcer: Announcer, traffic: Traffic) -> None:
    """Publish until the first batch arrives: a subscription takes a moment."""
    for _ in range(500):
        traffic.serve()
        announcer.flush()
        if subscriber.poll(0.02):
            return
    raise AssertionError(f"nothing arrives from {announcer}")


def test_a_router_answers_as_the_manager_finds_under_eviction(reader: Subscriber) -> None:
    traffic = Traffic()
    with Publisher(ANY, ANY) as publisher:
        announcer = Announcer(traffic.kv, publisher)
        reader.add(7, publisher.endpoint, publisher.replay)
        for _ in range(30):
            for _ in range(10):
                traffic.serve()
                announcer.flush()
            assert reader.sync()
            assert traffic.differing(reader.index, 7) == []
        assert traffic.kv.stats.counters()["evictions"] > 100
        traffic.kv.reset_prefix_cache()
        announcer.flush()
        assert reader.sync()
        assert len(reader.index) == 0
    assert reader.counts().missed == reader.counts().refused == reader.counts().resets == 0


@pytest.mark.parametrize("loses", [0.05, 0.5, 1.0])
def test_lost_batches_are_noticed_and_come_with_the_replay(
    reader: Subscriber, loses: float
) -> None:
    traffic = Traffic()
    with Publisher(ANY, ANY) as publisher:
        lossy = Lossy(publisher.endpoint)
        try:
            announcer = Announcer(traffic.kv, publisher)
            reader.add(7, lossy.endpoint, publisher.replay)
            until_read(reader, announcer, traffic)
            lossy.loses = loses
            for _ in range(20):
                for _ in range(15):
                    traffic.serve()
                    announcer.flush()
                    reader.poll(0)
                assert reader.sync()
                assert traffic.differing(reader.index, 7) == []
        finally:
            lossy.close()
    counts = reader.counts()
    assert counts.replayed > 0
    assert counts.missed == counts.resets == 0


def test_fourteen_first_batches_that_were_lost_are_noticed_and_healed(reader: Subscriber) -> None:
    """A reader that comes late has lost the first batches for good, unless it asks for them."""
    traffic = Traffic()
    deaf = Subscriber(RouterIndex(block_size=BLOCK))
    with deaf, Publisher(ANY, ANY) as publisher:
        announcer = Announcer(traffic.kv, publisher)
        while publisher.counts().published < 14:
            traffic.serve()
            announcer.flush()
        while publisher.backlog:  # what still waits would find its reader
            time.sleep(0.001)
        deaf.add(7, publisher.endpoint)
        reader.add(7, publisher.endpoint, publisher.replay)
        until_read(deaf, announcer, traffic)
        assert reader.sync()
        assert traffic.differing(reader.index, 7) == []
        assert reader.counts().missed == 0
        # Without a replay the loss stays, and shows.
        assert deaf.counts().missed >= 14
        assert traffic.differing(deaf.index, 7) != []


def test_a_publisher_that_starts_again_clears_its_worker(reader: Subscriber) -> None:
    traffic = Traffic()
    reader.index.add_worker(8)
    reader.index.stored(8, [1], None, [1, 2, 3, 4])
    with Publisher(ANY, ANY) as first:
        endpoint, replay = first.endpoint, first.replay
        announcer = Announcer(traffic.kv, first)
        reader.add(7, endpoint, replay)
        for _ in range(40):
            traffic.serve()
            announcer.flush()
        assert reader.sync()
    # More batches than before the restart, so that no number runs backwards; then fewer.
    for served in (80, 3):
        traffic.kv = traffic.manager()
        with Publisher(endpoint, replay) as again:
            announcer = Announcer(traffic.kv, again)
            for _ in range(served):
                traffic.serve()
                announcer.flush()
            assert reader.sync()
            assert traffic.differing(reader.index, 7) == []
    assert reader.counts().resets >= 2
    assert reader.index.match_tokens([1, 2, 3, 4, 5])[8].gpu == 1


def test_numbers_that_run_backwards_clear_without_a_replay(reader: Subscriber) -> None:
    traffic = Traffic()
    with Publisher(ANY, None) as first:
        endpoint = first.endpoint
        announcer = Announcer(traffic.kv, first)
        reader.add(7, endpoint)
        until_read(reader, announcer, traffic)
        assert len(reader.index) > 0
        for _ in range(1_000):
            first.publish([])
        while reader.poll(5):
            pass
        assert not reader.sync()
    with Publisher(endpoint, None) as again:
        for _ in range(500):
            again.publish([])
            if reader.poll(0.02):
                break
    assert (reader.counts().resets, len(reader.index)) == (1, 0)


def test_what_is_no_longer_kept_is_told_anew(reader: Subscriber) -> None:
    traffic = Traffic()
    with Publisher(ANY, ANY, buffer=4) as publisher:
        announcer = Announcer(traffic.kv, publisher)
        for _ in range(100):
            traffic.serve()
            announcer.flush()
        reader.add(7, publisher.endpoint, publisher.replay)
        assert reader.sync()
        assert traffic.differing(reader.index, 7) != []
        announcer.flush()
        assert reader.sync()
        assert traffic.differing(reader.index, 7) == []
        assert not publisher.is_behind


def test_a_full_queue_drops_batches_and_tells_all_anew(reader: Subscriber) -> None:
    """The caller never waits: batches are given up, and their numbers show it."""
    traffic = Traffic()
    with Publisher(ANY, ANY, queue=2) as publisher:
        announcer = Announcer(traffic.kv, publisher)
        reader.add(7, publisher.endpoint, publisher.replay)
        for _ in range(1_000_000):
            publisher.publish([])
            if publisher.counts().dropped > 20:
                break
        assert publisher.counts().dropped > 20
        for _ in range(60):
            traffic.serve()
            announcer.flush()
        for _ in range(100):
            reader.sync()
            announcer.flush()
            reader.sync()
            if not traffic.differing(reader.index, 7):
                break
        assert traffic.differing(reader.index, 7) == []
        assert reader.counts().missed > 0


def test_a_rank_needs_a_port_to_be_added_to() -> None:
    said = r"endpoint = 'tcp://127.0.0.1:\*': rank 1 is added to the port, which must be a number"
    with pytest.raises(UsageError, match=said):
        Publisher("tcp://127.0.0.1:*", "tcp://127.0.0.1:*", rank=1)


def test_each_data_parallel_rank_has_a_publisher_of_its_own(reader: Subscriber) -> None:
    ranks = [Traffic(seed) for seed in (0, 1)]
    ports = random.Random()
    for _ in range(50):
        base = ports.randrange(20_000, 60_000)
        opened: list[Publisher] = []
        try:
            for rank in (0, 1):
                ends = [f"tcp://127.0.0.1:{base + shift}" for shift in (0, 100)]
                opened.append(Publisher(*ends, rank=rank))
            break
        except UsageError:
            for publisher in opened:
                publisher.close()
    try:
        assert opened[1].endpoint == f"tcp://127.0.0.1:{base + 1}"
        for rank, publisher in enumerate(opened):
            reader.add(7, ends[0], ends[1], rank=rank)
            announcer = Announcer(ranks[rank].kv, publisher)
            for _ in range(30):
                ranks[rank].serve()
                announcer.flush()
        assert reader.sync()
        for rank, traffic in enumerate(ranks):
            for prompt in traffic.prompts:
                reach = reader.index.match_tokens(prompt, ranks=True).get((7, rank))
                has = traffic.kv.lookup([*prompt, 1_000_000]).tokens // BLOCK
                assert (reach.gpu if reach else 0) == has
        with pytest.raises(UsageError, match="rank 1 is read already"):
            reader.add(7, ends[0], rank=1)
        reader.remove(7)
        assert len(reader.index) == 0
    finally:
        for publisher in opened:
            publisher.close()


def test_hashes_alone_tell_a_router_as_much_and_no_token() -> None:
    traffic = Traffic()
    index = RouterIndex()
    with Publisher(ANY, ANY) as publisher, Subscriber(index) as reader:
        announcer = Announcer(traffic.kv, publisher, token_ids=False)
        reader.add(7, publisher.endpoint, publisher.replay)
        for _ in range(100):
            traffic.serve(cache_salt="tenant")
            announcer.flush()
        assert reader.sync()
        for prompt in traffic.prompts:
            keys = traffic.kv.blocks.hash_blocks(prompt, cache_salt="tenant")
            reach = index.match_hashes(hashes_of(keys)).get(7)
            has = traffic.kv.lookup([*prompt, 1_000_000], cache_salt="tenant").tokens // BLOCK
            assert (reach.gpu if reach else 0) == has
        seen = asked_again(publisher)
    assert len(seen) > 10
    for payload in seen:
        assert b"tenant" not in payload
        assert not any(event.token_ids for event in decode(payload).events if len(event) > 4)


def asked_again(publisher: Publisher, first: bytes = bytes(8)) -> list[bytes]:
    """The payloads of a replay, as any client asks for it."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as asker:
        asker.connect(str(publisher.replay))
        asker.send_multipart([b"", first])
        found: list[bytes] = []
        while asker.poll(5000):
            empty, topic, number, payload = asker.recv_multipart()
            assert (empty, topic) == (b"", b"")
            if number == b"\xff" * 8:
                return found
            assert int.from_bytes(number, "big") == int.from_bytes(first, "big") + len(found)
            found.append(payload)
    raise AssertionError("the replay has no end")


def test_salts_adapters_and_items_set_prompts_apart(reader: Subscriber) -> None:
    traffic = Traffic()
    with Publisher(ANY, ANY, form="array", topic="kv@pod@model") as publisher:
        announcer = Announcer(traffic.kv, publisher)
        reader.add(7, publisher.endpoint, publisher.replay, topic="kv@")
        names: list[dict[str, str]] = [
            {},
            {"cache_salt": "s"},
            {"lora_name": "L"},
            {"cache_salt": "s", "lora_name": "L"},
        ]
        for at in range(60):
            traffic.serve(**names[at % 4])
            announcer.flush()
        assert reader.sync()
        for apart in names:
            assert traffic.differing(reader.index, 7, **apart) == []


def test_replays_that_make_no_sense_are_counted() -> None:
    with Publisher(ANY, ANY) as publisher:
        publisher.publish([])
        with zmq.Context() as context, context.socket(zmq.DEALER) as asker:
            asker.connect(str(publisher.replay))
            for frames in ([b""], [b"", b"1234"], [b"", b"12345678", b""]):
                asker.send_multipart(frames)
            asker.send_multipart([b"", bytes(8)])
            assert asker.poll(5000)
        assert publisher.counts() == (1, 0, 1, 3)
    publisher.close()
    with pytest.raises(UsageError, match="is closed"):
        publisher.publish([])
