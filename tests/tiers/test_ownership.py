"""Shared stores: who removes what, who tells what was used, and what a restart keeps."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from kvframe import TierConfig
from kvframe.tiers.codec import Codec
from kvframe.tiers.object_keys import Space
from kvframe.tiers.tier_index import as_keys

from .helpers import BLOCK, SHAPE, Engine, Known, Shelf, below, host, text
from .servers import RedisServer

KNOWN = Known()


class Common(Shelf):
    """One engine's view of a store that several share; says what this engine did to it.

    Attributes:
        put_names: Names given to `put`.
        removed: Names given to `remove`.
        kept: Names given to `keep`, the last ones last.
    """

    def __init__(self, objects: dict[str, bytes]) -> None:
        super().__init__(objects=objects)
        self.put_names: list[str] = []
        self.removed: list[str] = []
        self.kept: list[str] = []

    def put(self, objects: Sequence[tuple[str, bytes]]) -> Sequence[bool]:
        self.put_names += [name for name, _ in objects]
        return super().put(objects)

    def remove(self, names: Sequence[str]) -> None:
        self.removed += names
        super().remove(names)

    def contains(self, names: Sequence[str]) -> list[bool]:
        return [name in self.objects for name in names]

    def keep(self, names: Sequence[str]) -> None:
        self.kept += names


def engine(shelf: Shelf, pages: int = 64, store: str = "shared", **more: Any) -> Engine:
    return Engine([host(16), below(pages, store)], stores=[shelf], blocks=24, **more)


def names_of(made: Engine, tokens: list[int]) -> list[str]:
    keys = made.kv.blocks.hash_blocks(tokens).tolist()
    return [made.tiers.below[0].codec.name((low, high), 0) for low, high in keys]


@pytest.mark.scenario("F14")
@pytest.mark.parametrize("pages", [1, 2, 3, 5])
def test_a_small_engine_removes_nothing_of_another(pages: int) -> None:
    objects: dict[str, bytes] = {}
    large = engine(Common(objects))
    for seed in range(4):
        large.run(text(seed, 17))
    before = set(objects)
    shelf = Common(objects)
    small = engine(shelf, pages)
    assert small.tiers.stats()["below"]["recovered"] == pages
    # Its own prompts, those of the other, and some of both by prefetch.
    for seed in (9, 0, 10, 1, 11):
        small.run(text(seed, 17))
        small.tiers.prefetch(text(2, 17))
        small.settle()
    small.tiers.close()
    assert before <= set(objects)
    assert set(shelf.removed) <= set(shelf.put_names)
    assert not set(shelf.put_names) & before
    assert len(set(objects) - before) <= pages
    for seed in range(4):
        large.only_below()
        assert large.run(text(seed, 17)).external_tokens == 16
    # What it wrote itself, an engine removes: this is how it keeps to its size.
    assert len(shelf.removed) >= 2


@pytest.mark.scenario("F14")
def test_what_another_has_put_meanwhile_is_neither_sent_nor_removed() -> None:
    objects: dict[str, bytes] = {}
    first, second = Common(objects), Common(objects)
    one, two = engine(first, 4), engine(second)
    two.run(text(1, 17))
    one.run(text(1, 17))  # it started before that was there
    assert first.put_names == []
    assert one.tiers.lookup(text(1, 17)).tiers["below"] == 16
    one.run(text(2, 17))  # pushes the other out of its index
    one.settle()
    assert first.removed == []
    assert len(objects) == 8
    two.only_below()
    assert two.run(text(1, 17)).external_tokens == 16


@pytest.mark.scenario("F14", "F15")
def test_a_wrong_page_of_another_is_replaced_and_not_removed() -> None:
    objects: dict[str, bytes] = {}
    first, second = Common(objects), Common(objects)
    one = engine(first)
    one.run(text(1, 17))
    two = engine(second)
    second.flip(names_of(two, text(1, 17))[1], 130)
    two.run(text(1, 17))
    two.settle()
    assert second.removed == []
    assert set(second.put_names) == {names_of(two, text(1, 17))[1]}
    one.only_below()
    assert one.run(text(1, 17)).external_tokens == 16
    assert one.tiers.stats()["below"]["corrupt"] == 0


@pytest.mark.scenario("F14")
def test_after_new_weights_only_its_own_pages_are_removed() -> None:
    objects: dict[str, bytes] = {}
    engine(Common(objects), options={"weight_version": "one"}).run(text(1, 17))
    before = set(objects)
    shelf = Common(objects)
    made = engine(shelf, options={"weight_version": "one"})
    made.run(text(2, 17))
    made.tiers.set_weight_version("two")
    made.settle()
    assert set(objects) == before


@pytest.mark.scenario("F14")
def test_orphans_are_counted_and_left_for_the_command() -> None:
    for store in ("shared", "shelf"):
        objects: dict[str, bytes] = {}
        made = engine(Common(objects), store=store)
        made.run(text(1, 17))
        made.run(text(2, 17))
        del objects[names_of(made, text(1, 17))[0]]
        shelf = Common(objects)
        again = engine(shelf, store=store)
        told = again.tiers.stats()["below"]
        assert (told["recovered"], told["orphans"], told["corrupt"]) == (4, 3, 0)
        again.settle()
        assert (shelf.removed, len(objects)) == ([], 7)
        # They serve again once the head is there again.
        again.run(text(1, 17))
        assert len(objects) == 8
        assert engine(Common(objects), store=store).tiers.stats()["below"]["orphans"] == 0


class Ordered(Shelf):
    """A store that knows what was used last."""

    def put(self, objects: Sequence[tuple[str, bytes]]) -> Sequence[bool]:
        for name, _ in objects:
            self.objects.pop(name, None)
        return super().put(objects)

    def keep(self, names: Sequence[str]) -> None:
        for name in names:
            if name in self.objects:
                self.objects[name] = self.objects.pop(name)


@pytest.mark.scenario("F14")
@pytest.mark.parametrize("store", ["shelf", "shared", "disk", "redis"])
@pytest.mark.parametrize("where", ["pool", "host", "store"])
def test_the_prompt_that_was_used_last_survives_a_restart(
    store: str, where: str, tmp_path: Path
) -> None:
    server = RedisServer(tmp_path) if store == "redis" else None
    options: dict[str, Any] = {"path": str(tmp_path / "pages"), "fsync": False}
    given = (
        {**server.options(), "timeout_ms": 30_000} if server else options if store == "disk" else {}
    )
    objects: dict[str, bytes] = {}

    def start(pages: int) -> Engine:
        tiers = [host(40), below(pages, store, options=given)]
        return Engine(tiers, stores=[Ordered(objects=objects)], blocks=48, registry=_known(store))

    try:
        made = start(64)
        for seed in range(6):
            made.run(text(seed, 17))
        if where == "host":
            made.forget()
        elif where == "store":
            made.only_below()
        if server is not None:
            time.sleep(1.1)  # Redis tells when a key was used last in whole seconds
        for seed in (4, 1):
            made.run(text(seed, 17))
        made.tiers.close()
        again = start(9)
        assert again.tiers.stats()["below"]["recovered"] == 9
        found = [again.tiers.lookup(text(seed, 17)).tiers["below"] for seed in range(6)]
        assert (found[1], found[4], sum(found)) == (16, 16, 36)
        # The next ones push out what was used before.
        again.run(text(7, 9))
        found = [again.tiers.lookup(text(seed, 17)).tiers["below"] for seed in range(6)]
        assert (found[1], found[4] >= 12) == (16, True)
        again.tiers.close()
    finally:
        if server is not None:
            server.stop()


def _known(store: str) -> Any:
    return KNOWN if store == "redis" else None


@pytest.mark.scenario("F14")
@pytest.mark.parametrize("seed", range(8))
def test_what_is_taken_in_is_closed_under_prefix_and_the_latest(seed: int) -> None:
    """Random trees in random orders of use, against what a sort by hand says."""
    dice = Random(seed)
    codec, objects = Codec(Space(model="tiny", **_space()), [SHAPE]), {}
    page = np.zeros(SHAPE.page_bytes, np.uint8)
    depth: dict[tuple[int, int], int] = {}
    parents: dict[tuple[int, int], tuple[int, int] | None] = {}
    for _ in range(60):
        parent = dice.choice([None, *depth]) if depth else None
        key = (dice.getrandbits(64), dice.getrandbits(64))
        depth[key] = 0 if parent is None else depth[parent] + 1
        parents[key] = parent
    order = list(depth)
    dice.shuffle(order)
    for key in order:
        name = codec.name(key, 0)
        objects[name] = codec.encode(page, key, 0, parents[key], depth[key])
    room = dice.randrange(1, 60)
    made = engine(Shelf(objects=dict(objects)), room)
    assert made.tiers.below[0].codec.name((1, 2), 0) == codec.name((1, 2), 0)
    latest = {key: place for place, key in enumerate(order)}
    for key in sorted(depth, key=lambda key: -depth[key]):
        parent = parents[key]
        if parent is not None:
            latest[parent] = max(latest[parent], latest[key])
    wanted = sorted(depth, key=lambda key: (-latest[key], depth[key]))[:room]
    index = made.tiers.below[0].index
    assert {key for key, _ in index.stored()} == set(wanted)
    # And they go in that order: the page that is used last is evicted last.
    gone = [key for _ in range(room) for key, _ in index.evict_until(index.counts()[0] + 1)]
    assert sorted(gone) == sorted(wanted)
    assert latest[gone[-1]] == max(latest[key] for key in wanted)
    index.check_integrity()


def _space() -> dict[str, Any]:
    parts = ((SHAPE.layers, SHAPE.parts, SHAPE.heads, SHAPE.row_bytes),)
    return {"dtype": "float16", "block_size": BLOCK, "parts": parts}


@pytest.mark.scenario("F14")
def test_a_store_is_told_once_a_second_what_was_used() -> None:
    shelf = Common({})
    made = engine(shelf)
    made.run(text(1, 17))
    assert shelf.kept == []
    made.run(text(1, 17))
    assert shelf.kept == names_of(made, text(1, 17))[:4]
    for _ in range(5):
        made.run(text(1, 17))
    assert len(shelf.kept) == 4
    made.now += 1000
    made.tiers.poll()
    made.tiers.poll()
    assert len(shelf.kept) == 8
    made.now += 1000
    for _ in range(5):
        made.tiers.poll()
    assert len(shelf.kept) == 8
    made.run(text(1, 17))
    made.run(text(1, 17))
    made.tiers.close()
    assert len(shelf.kept) == 16


@pytest.mark.scenario("F14")
def test_a_use_renews_the_time_that_a_redis_keeps_a_page(tmp_path: Path) -> None:
    server = RedisServer(tmp_path)
    try:
        options = {**server.options(), "expire_s": 1000, "timeout_ms": 30_000}
        tiers: list[TierConfig] = [host(32), below(64, "redis", options=options)]
        made = Engine(tiers, registry=KNOWN, blocks=40)
        made.run(text(1, 17))
        client = made.tiers.below[0].store._server  # type: ignore[attr-defined]
        names = names_of(made, text(1, 17))[:4]
        for where in ("pool", "store"):
            for name in names:
                assert client.expire(name, 10)
            if where == "store":
                made.only_below()
            made.now += 1000
            made.run(text(1, 17))
            made.tiers.poll()
            made.settle()
            assert all(900 < client.ttl(name) <= 1000 for name in names)
        made.tiers.close()
    finally:
        server.stop()


@pytest.mark.scenario("F14")
def test_a_redis_that_evicts_by_itself_is_a_miss_and_no_fault(tmp_path: Path) -> None:
    server = RedisServer(tmp_path)
    try:
        options = {**server.options(), "timeout_ms": 30_000}
        tiers = [host(32), below(64, "redis", options=options)]
        made = Engine(tiers, registry=KNOWN, blocks=40)
        for seed in range(3):
            made.run(text(seed, 17))
        client = made.tiers.below[0].store._server  # type: ignore[attr-defined]
        client.delete(names_of(made, text(1, 17))[0])
        made.only_below()
        assert made.run(text(1, 17)).external_tokens == 16
        told = made.tiers.stats()["below"]
        assert (told["missing"], told["corrupt"], told["errors"]) == (1, 0, 0)
        made.only_below()
        assert made.tiers.lookup(text(1, 17)).tiers["below"] == 16  # put again
        index = made.tiers.below[0].index
        assert index.find(as_keys([])) == 0
        made.tiers.close()
    finally:
        server.stop()


class Plain(Shelf):
    """A shared store without verbs of its own beyond the least, which says what it removes."""

    def __init__(self, objects: dict[str, bytes]) -> None:
        super().__init__(objects=objects)
        self.removed: set[str] = set()

    def remove(self, names: Sequence[str]) -> None:
        self.removed.update(names)
        super().remove(names)


@pytest.mark.scenario("F14")
@pytest.mark.parametrize("seed", range(4))
def test_engines_of_any_size_that_serve_the_same_prompts_remove_what_is_their_own(
    seed: int,
) -> None:
    dice = Random(seed)
    objects: dict[str, bytes] = {}
    engines, shelves, before = [], [], set[str]()
    for pages in (64, 3, 7):
        shelves.append(Plain(objects))
        engines.append(engine(shelves[-1], pages))
        if pages == 64:
            for at in range(4):
                engines[0].run(text(at, 17))
            before = set(objects)
    for _ in range(40):
        engines[dice.randrange(1, 3)].run(text(dice.randrange(8), 17))
    for made in engines[1:]:
        made.tiers.close()
    assert before <= set(objects)
    assert not (shelves[1].removed | shelves[2].removed) & before


class NoKeep(Common):
    """A server that lets this user read and write, and renew nothing."""

    def keep(self, names: Sequence[str]) -> None:
        raise PermissionError("no permission to run the command")


@pytest.mark.scenario("F14", "F13")
def test_a_store_that_cannot_be_told_what_is_used_serves_all_the_same() -> None:
    shelf = NoKeep({})
    made = engine(shelf)
    for seed in (1, 1, 2, 1):
        made.run(text(seed, 17))
    made.only_below()
    assert made.run(text(1, 17)).external_tokens == 16
    for _ in range(50):
        made.tiers.poll()
    assert made.tiers.stats()["below"]["errors"] == 1


@pytest.mark.scenario("F14")
@pytest.mark.parametrize("count", [1, 40, 1000])
def test_a_redis_remembers_the_order_in_which_pages_of_one_call_were_used(
    count: int, tmp_path: Path
) -> None:
    server = RedisServer(tmp_path)
    try:
        made = engine_on(server)
        store = made.tiers.below[0].store
        codec = made.tiers.below[0].codec
        names = [codec.name((key, 7), 0) for key in range(count)]
        Random(1).shuffle(names)
        store.put([(name, b"x") for name in names])
        store.keep(names[::-1])
        found = [name for name, _ in store.recover(1)]
        # Of a thousand, one pair shares a millisecond.
        place = {name: at for at, name in enumerate(names[::-1])}
        assert max(abs(place[name] - at) for at, name in enumerate(found)) <= count // 1000
        made.tiers.close()
    finally:
        server.stop()


def engine_on(server: RedisServer) -> Engine:
    options = {**server.options(), "timeout_ms": 30_000}
    tiers: list[TierConfig] = [host(32), below(64, "redis", options=options)]
    return Engine(tiers, registry=KNOWN, blocks=40)
