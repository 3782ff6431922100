"""Through tiers: host memory, a folder, Redis and other shared stores, by every way down and up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kvframe import Request
from kvframe.tiers.tier_index import as_keys

from ..amounts import ALL
from ..tiers.helpers import Shelf, below, host
from ..tiers.servers import RedisServer
from .spaces import SPACES
from .world import World, common

PROMPT = list(range(100, 114))
STORES = ("host", "shelf", "shared", "disk", "redis")
RARE = 1 if ALL else 29
"""One writer in so many, another one by each way and store."""


class Place:
    """Where pages lie, and engines over it."""

    def __init__(self, store: str, folder: Path) -> None:
        self.store, self.folder, self.objects = store, folder, dict[str, bytes]()
        self.redis = RedisServer(folder) if store == "redis" else None

    def world(self, **more: Any) -> World:
        """An engine over the pages that are there."""
        tiers, stores = [host(16)], []
        options = {"model": "tiny", **more.pop("options", {})}
        if self.store in ("shelf", "shared"):
            tiers, stores = [host(16), below(64, self.store)], [Shelf(objects=self.objects)]
        elif self.redis is not None:
            tiers = [host(16), below(64, "redis", options=self.redis.options())]
        elif self.store == "disk":
            place = {"path": str(self.folder / "pages"), "fsync": False}
            tiers = [host(16), below(64, "disk", options=place)]
        return World(tiers=tiers, stores=stores, options=options, **more)

    def empty(self, world: World) -> None:
        """All pages are gone; the engine stops."""
        world.kv.reset_prefix_cache()
        for seq in [*world.running]:
            world.end(seq)
        world.settle()
        assert world.tiers is not None
        world.tiers.reset_prefix_cache()
        world.close()
        self.objects.clear()
        if self.redis is not None:
            import redis

            with redis.Redis(port=self.redis.port) as client:
                client.flushall()

    def stop(self) -> None:
        if self.redis is not None:
            self.redis.stop()


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    made = Place(request.param, tmp_path)
    yield made
    made.stop()


# --- ways down, and up again ----------------------------------------------------------------------


def _served(place: Place, writer: str) -> World:
    world = place.world()
    world.serve(writer, PROMPT)
    world.forget_pool()
    return world


def _only_below(place: Place, writer: str) -> World:
    world = _served(place, writer)
    assert world.tiers is not None
    index = world.tiers.host.index
    if place.store != "host":
        for key, _ in index.stored():
            index.forget(as_keys([key]))
    return world


def _loading(place: Place, writer: str) -> World:
    world = _only_below(place, writer)
    world.start(writer, PROMPT)  # its load is under way, and can be joined
    return world


def _swapped(place: Place, writer: str) -> World:
    world = place.world()
    seq = world.start(writer, PROMPT).seq
    world.compute(seq)
    assert world.tiers is not None
    swapped = world.tiers.swap_out(seq)
    world.settle()
    world.forget_pool()
    back = world.tiers.swap_in(swapped).seq
    del world.running[seq]
    world.know(back, writer, PROMPT)
    return world


def _restarted(place: Place, writer: str) -> World:
    world = _served(place, writer)
    world.close()
    again = place.world()
    again.read += world.read
    return again


def _beside(place: Place, writer: str) -> World:
    """Another engine over the same store."""
    world = _served(place, writer)
    if place.store == "disk":
        world.close()  # a folder has one engine at a time
    return place.world()


def _evicted(place: Place, writer: str) -> World:
    world = place.world(blocks=12)
    world.serve(writer, PROMPT)
    world.kv.evict_until(12)
    return world


WAYS: dict[str, Callable[[Place, str], World]] = {
    "backed up": _served,
    "only below": _only_below,
    "being loaded": _loading,
    "swapped": _swapped,
    "restarted": _restarted,
    "another engine": _beside,
    "evicted from the pool": _evicted,
}


def _given(world: World, reader: str) -> int:
    """All that another namespace is given of the prompt, whichever way it asks; bytes compared."""
    tiers, tokens = world.tiers, [*PROMPT, 3]
    assert tiers is not None
    found = tiers.lookup(tokens, **SPACES[reader])
    most = max(found.best, found.in_flight)
    most = max(most, len(tokens) if found.leader is not None else 0)
    ahead = tiers.prefetch(tokens, **SPACES[reader])
    grant = world.start(reader, tokens, join=True)
    world.settle()
    world.copy()
    most = max(most, ahead.loaded * world.block, grant.cached_tokens + grant.external_tokens)
    most = max(most, grant.joined_tokens, world.check(grant.seq))
    world.kv.abort(grant.seq)
    del world.running[grant.seq]
    return int(most)


@pytest.mark.scenario("V16", "V18", "F15")
def test_no_tier_gives_a_page_of_another_namespace(place: Place) -> None:
    pairs, read = set(), 0
    first = len(WAYS) * STORES.index(place.store)
    for turn, (way, leave) in enumerate(WAYS.items(), first):
        for writer in [*SPACES][turn % RARE :: RARE]:
            world = leave(place, writer)
            for reader in [*(one for one in SPACES if one != writer), writer]:
                given = _given(world, reader)
                if reader != writer:
                    assert given <= common(writer, reader, PROMPT), (way, writer, reader)
                else:  # host memory is one engine's
                    new = way in ("restarted", "another engine")
                    assert given > 0 or (new and place.store == "host"), (way, writer)
                pairs.add((writer, reader))
            assert world.tiers is not None
            world.tiers.check_integrity()
            read += world.read
            place.empty(world)
    print(f"{place.store}: {len(pairs)} pairs, {len(WAYS)} ways, {read} tokens read")


OTHERS: dict[str, dict[str, Any]] = {
    "other weights": {"version": "w2"},
    "another model": {"options": {"model": "large"}},
    "another rank": {"options": {"rank": 1, "ranks": 2}},
    "another deployment": {"options": {"salt": "other"}},
    "another hash": {"hash": "blake3"},
}


@pytest.mark.scenario("F15", "V29")
def test_engines_of_other_weights_models_and_ranks_find_nothing(place: Place) -> None:
    plain = ["nobody", "tenant a", "salt a", "image a"] if ALL else ["nobody", "tenant a"]
    for other in OTHERS.values():
        for writer in plain:
            world = _served(place, writer)
            if place.store == "disk":
                world.close()
            again = place.world(**other)
            for reader in plain:
                assert _given(again, reader) == 0, (other, writer, reader)
            again.close()
            place.empty(place.world() if place.store == "disk" else world)


@pytest.mark.scenario("F15", "V29")
def test_nothing_comes_back_after_new_weights_or_a_reset(place: Place) -> None:
    """New weights in a running engine, a reset (which renames pages), a tenant erased."""
    for writer in [*SPACES][:: 1 if ALL else 9]:
        for forget in ("weights", "reset", "erase", "all"):
            world = _served(place, writer)
            running = world.start(writer, PROMPT).seq  # computed before, committed after
            tiers, space = world.tiers, SPACES[writer]
            assert tiers is not None
            if forget == "weights":
                tiers.set_weight_version("w2")
                world.version = "w2"
            elif forget == "erase" and "tenant" in space:
                tiers.erase_tenant(space["tenant"])
            elif forget == "reset":
                names = {key: space.get(key, "") for key in ("cache_salt", "lora_name")}
                tiers.reset_prefix_cache(**names)
            else:
                tiers.reset_prefix_cache()
            before = Request([*PROMPT, 3], **space)
            assert tiers.lookup(before).best == 0, (writer, forget)
            world.settle()
            there = world.kv.lengths(running).committed
            world.kv.extend(running, len(PROMPT))
            world.write(running, there, len(PROMPT))
            world.kv.commit(running, len(PROMPT))
            tiers.offload(running)
            world.settle()
            world.end(running)
            if forget == "weights":
                assert tiers.lookup(before).best == 0, writer
            _given(world, writer)
            # What is computed from now on is found, and is right.
            world.serve(writer, PROMPT)
            assert _given(world, writer) > 0
            place.empty(world)
