"""What can happen to a store that runs: the right pages or a miss, never wrong bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvframe.tiers import Thread

from .helpers import BLOCK, Engine, Known, below, host, text
from .servers import SERVERS, Server

KNOWN = Known()


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    started = SERVERS[request.param](tmp_path)
    yield started
    started.stop()


def engine(server: Server, pages: int = 64, **more: Any) -> Engine:
    tier = below(pages, server.name, options=server.options(), **more.pop("tier", {}))
    return Engine([host(32), tier], registry=KNOWN, blocks=40, **more)


def name_of(made: Engine, tokens: list[int], at: int, part: int = 0) -> str:
    low, high = made.kv.blocks.hash_blocks(tokens)[at].tolist()
    return made.tiers.below[0].codec.name((low, high), part)


@pytest.mark.scenario("T20", "T23", "T1", "T7", "T5")
def test_put_get_evict_lose_and_corrupt(server: Server) -> None:
    made = engine(server, pages=12, parts=2, verify=True, tier={"compression": "zlib"})
    store: Any = made.tiers.below[0].store
    texts = [text(seed, 17) for seed in range(3)]
    for one in texts:
        made.run(one)
    made.only_below()
    for one in texts:
        assert made.tiers.lookup(one).tiers["below"] == 16
        assert made.run(one).external_tokens == 16
    # The tier is full: the oldest prefix makes room, and the store has it no more.
    assert store.contains([name_of(made, texts[0], 3)]) == [True]
    made.run(text(3, 17))
    made.settle()
    assert store.contains([name_of(made, texts[0], 3)]) == [False]
    made.only_below()
    server.lose(store, name_of(made, texts[1], 3, part=1))
    server.flip(store, name_of(made, texts[2], 1), 100)
    for one, good in ((texts[1], 12), (texts[2], BLOCK), (text(3, 17), 16)):
        grant = made.start(one)
        made.settle()
        assert made.compute(grant.seq) == 17 - good
        made.kv.release(grant.seq)
    told = made.tiers.stats()["below"]
    assert (told["corrupt"], told["missing"]) == (1, 1)
    assert made.tiers.verify() == []
    made.tiers.check_integrity()
    made.tiers.close()


@pytest.mark.scenario("VT63", "T25")
def test_a_store_that_is_full_keeps_nothing_and_says_so(server: Server) -> None:
    made = engine(server)
    made.run(text(1, 17))
    server.fill(made.tiers.below[0].store)
    made.run(text(2, 17))
    assert made.tiers.stats()["below"]["failed_stores"] == 4
    assert made.tiers.lookup(text(2, 17)).tiers["below"] == 0
    made.only_below()
    assert made.run(text(2, 17)).external_tokens == 0
    made.tiers.check_integrity()
    made.tiers.close()


@pytest.mark.scenario("T19", "T40")
def test_what_was_written_is_found_after_a_restart(server: Server) -> None:
    made = engine(server)
    made.run(text(1, 17))
    made.settle()
    if server.lists:
        made.tiers.close()
        server.kill()
        server.restart()
    again = engine(server)
    if server.lists:
        assert again.tiers.stats()["below"]["recovered"] == 4
    else:
        # Its pages live in the memory of whoever lent it; another engine asks.
        loading = again.tiers.prefetch(text(1, 17))
        again.settle()
        assert loading.loaded == 4
    assert again.run(text(1, 17)).external_tokens == 16
    again.tiers.close()


@pytest.mark.scenario("T1", "T2")
def test_a_store_that_is_killed_in_the_middle_is_a_miss(server: Server) -> None:
    made = engine(server)
    made.run(text(1, 17))
    made.only_below()
    grant = made.start(text(1, 17))
    assert grant.external_tokens == 16
    if server.name == "disk":
        server.fill(None)
    server.kill()
    made.settle()
    assert made.compute(grant.seq) == 17
    made.tiers.offload(grant.seq)
    made.settle()
    made.kv.release(grant.seq)
    made.tiers.check_integrity()
    server.restart()
    if server.name == "redis":
        made.now += 10_000
        made.only_below()
        made.tiers.prefetch(text(1, 17))
        made.settle()
        assert made.run(text(1, 17)).external_tokens == 16
    made.tiers.close()


@pytest.mark.scenario("T1")
def test_a_store_that_is_slow_is_a_miss_and_nobody_waits(server: Server) -> None:
    made = engine(server, worker=Thread, tier={"timeout_ms": 40})
    made.run(text(1, 9))
    made.only_below()
    go_on = server.stall()
    grant = made.start(text(1, 9))
    assert made.tiers.poll().rewound == []
    made.now += 40
    assert made.tiers.poll().rewound == [grant.seq]
    assert made.compute(grant.seq) == 9
    # Its places come back when the answer has come, and not before.
    assert made.tiers.host.index.counts()[3] == 2
    go_on()
    made.settle()
    assert made.tiers.host.index.counts()[3] == 0
    assert made.tiers.stats()["below"]["late"] == 1
    made.tiers.check_integrity()
    made.tiers.close()
