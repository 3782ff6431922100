"""Random operations of many namespaces at once, in pools under eviction and over shared tiers.

KVFRAME_ISOLATION_STEPS says how many of each seed. Whatever counts as computed is compared with
what the reader would have computed itself.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kvframe import BusyError, CapacityError, TenantConfig, UsageError
from kvframe.tiers import Swapped

from ..amounts import amount, first_seed
from ..tiers.helpers import Shelf, below, host, key_file
from .spaces import SPACES
from .world import World

STEPS = amount(400, 20_000, "KVFRAME_ISOLATION_STEPS")
POOLS: dict[str, dict[str, Any]] = {
    "hash": {"partial_hits": True, "remap_duplicates": True},
    "xxh3": {"hash": "xxh3-128", "partial_hits": True},
    "radix": {"index": "radix", "hash": "xxh3-128", "partial_hits": True},
    "tiers": {},
    "public": {"partial_hits": True, "remap_duplicates": True},
    "public, floors": {"tenants": (4, 6), "partial_hits": True},
    "public, tiers": {},
    "public, floors, tiers": {"tenants": (4, 6)},
    "public, shares, tiers": {"tenants": (0.2, 0.2)},
}
PUBLIC = [*range(100, 108)]
ENCRYPTED = {"encryption": "aes-256-gcm"}


def tenants_of(floors: Sequence[float]) -> list[TenantConfig]:
    """The public tenant and another one, with floors in blocks or in shares."""
    public, other = floors
    return [
        TenantConfig(name="all", floor=public, public=True),
        TenantConfig(name="a", floor=other),
        TenantConfig(name="b", quota=other + other),
    ]


class Walk:
    """One engine, or two over a common store, and their requests."""

    def __init__(self, pool: str, seed: int, folder: Path) -> None:
        self.dice, self.counts, self.version = Random(f"{pool}{seed}"), Counter[str](), 1
        self.pool, self.folder = pool, folder
        self.has_tiers = pool.endswith("tiers")
        self.is_public = pool.startswith("public")
        self.spaces = self.dice.sample([*SPACES], 7)  # few, so that each finds its own again
        self.common: dict[str, bytes] = {}
        self.disks: list[dict[str, bytes]] = [{}, {}]
        (folder / "public.jsonl").write_text(json.dumps(PUBLIC))
        key_file(folder / "pages.key", b"k" * 32)
        self.read = 0
        self.worlds = [self.world(place) for place in range(2 if self.has_tiers else 1)]
        self.swapped: list[tuple[World, Swapped, tuple[str, list[int], str]]] = []

    def world(self, place: int) -> World:
        """An engine, over what its stores have."""
        more = {**POOLS[self.pool]}
        if "tenants" in more:
            more["tenants"] = tenants_of(more["tenants"])
        if self.is_public:
            more["public"] = self.folder / "public.jsonl"
        if self.has_tiers:
            sealed = {**ENCRYPTED, "key_file": str(self.folder / "pages.key")}
            sealed = sealed if self.is_public else {}
            more["tiers"] = [
                host(10),
                below(20, **sealed),
                below(30, "shared", "common", **sealed),
            ]
            more["stores"] = [Shelf(objects=self.disks[place]), Shelf(objects=self.common)]
            more["options"] = {"model": "tiny", "poison": True}
        return World(blocks=20, version=f"w{self.version}", **more)

    def restart(self, place: int) -> None:
        """An engine stops, and another one begins over what its stores have."""
        world = self.worlds[place]
        self.check_books(world)
        self.swapped = [one for one in self.swapped if one[0] is not world]
        self.read += world.read
        world.close()
        self.worlds[place] = self.world(place)
        self.counts["restarted"] += 1

    def check_books(self, world: World) -> None:
        """All is consistent, and no page was taken for a forgery: nobody has damaged any."""
        world.kv.check_integrity()
        if world.tiers is not None:
            world.settle()
            world.tiers.check_integrity()
            told = world.tiers.stats()
            assert [told[tier]["corrupt"] for tier in ("below", "common")] == [0, 0]

    def step(self) -> None:
        """One operation of one engine."""
        if self.has_tiers and self.is_public and self.dice.random() < 0.01:
            self.restart(self.dice.randrange(len(self.worlds)))
        world, dice = self.dice.choice(self.worlds), self.dice
        world.now += dice.randrange(5)
        if len(world.running) < 3 and dice.random() < 0.5:
            self.start(world)
            return
        turns = ["end", "end", "compute", "compute", "grow", "fork", "swap", "forget"]
        turn = dice.choice([*turns, "cut", "preempt"] if self.is_public else turns)
        if turn == "forget" and dice.random() < 0.8:
            turn = "poll"
        if world.running and turn not in ("forget", "poll"):
            getattr(self, turn)(world, dice.choice([*world.running]))
            self.counts[turn] += 1
        elif turn == "forget":
            self.forget(world)
        elif world.tiers is not None:
            world.tiers.poll()

    def start(self, world: World) -> None:
        space, length = self.dice.choice(self.spaces), self.dice.randrange(4, 14)
        tokens = [*range(100, 100 + length)]
        if self.dice.random() < 0.3:
            tokens[self.dice.randrange(length)] = 7
        with suppress(CapacityError):
            grant = world.start(space, tokens, join=self.dice.random() < 0.5)
            world.copy()
            world.check(grant.seq)
            self.counts["found"] += grant.cached_tokens > 0
            self.counts["loaded"] += grant.load is not None
            self.counts["joined"] += grant.joined_tokens > 0

    def end(self, world: World, seq: int) -> None:
        world.check(seq)
        if world.tiers is not None and self.dice.random() < 0.7 and self.ready(world, seq):
            world.tiers.offload(seq)
        if self.dice.random() < 0.2:
            world.kv.abort(seq)
            del world.running[seq]
        else:
            world.end(seq)

    def ready(self, world: World, seq: int) -> bool:
        """Whether it waits for nothing."""
        lengths = world.kv.lengths(seq)
        return bool(world.kv.inspect.num_readable_tokens(seq) >= lengths.committed)

    def compute(self, world: World, seq: int) -> None:
        world.settle()
        world.check(seq)
        if self.ready(world, seq):
            with suppress(CapacityError):
                world.compute(seq)

    def grow(self, world: World, seq: int) -> None:
        space, tokens, version = world.running[seq]
        if world.kv.lengths(seq).slots == len(tokens) < 24:
            token = self.dice.randrange(3)
            with suppress(CapacityError):
                world.kv.append(seq, [token])
                world.running[seq] = space, [*tokens, token], version
                world.copy()

    def fork(self, world: World, seq: int) -> None:
        there = world.kv.lengths(seq).committed
        if there == world.kv.lengths(seq).slots and len(world.running) < 4:
            with suppress(CapacityError, UsageError):
                fork = world.kv.fork(seq)
                world.running[fork] = world.running[seq]

    def cut(self, world: World, seq: int) -> None:
        """Other tokens in the place of some."""
        space, tokens, version = world.running[seq]
        items = SPACES[space].get("mm_items", [])
        least = max((item.end for item in items), default=0)  # a cut item would be another one
        if least > len(tokens) or not self.ready(world, seq):
            return
        length = self.dice.randrange(least, len(tokens) + 1)
        with suppress(CapacityError, UsageError):
            world.kv.truncate(seq, length)
            world.running[seq] = space, tokens[:length], version
            other = [7] * self.dice.randrange(6)
            world.kv.append(seq, other)
            world.running[seq] = space, [*tokens[:length], *other], version
            world.copy()
            world.check(seq)

    def preempt(self, world: World, seq: int) -> None:
        if not self.ready(world, seq):
            return
        world.settle()
        request = world.kv.preempt(seq)
        space, tokens, _ = world.running.pop(seq)
        front = world.kv if world.tiers is None else world.tiers
        with suppress(CapacityError):
            grant = front.allocate(request)
            world.know(grant.seq, space, tokens)
            world.copy()
            world.check(grant.seq)

    def swap(self, world: World, seq: int) -> None:
        if world.tiers is None:
            return
        if self.swapped and self.dice.random() < 0.6:
            home, swapped, what = self.swapped.pop(self.dice.randrange(len(self.swapped)))
            assert home.tiers is not None
            try:
                grant = home.tiers.swap_in(swapped)
            except (BusyError, CapacityError):
                self.swapped.append((home, swapped, what))
                return
            home.running[grant.seq] = (*what[:2], home.version)  # other weights compute it anew
            home.settle()
            home.check(grant.seq)
        elif self.ready(world, seq):
            with suppress(CapacityError):
                swapped = world.tiers.swap_out(seq)
                self.swapped.append((world, swapped, world.running.pop(seq)))

    def forget(self, world: World) -> None:
        """A reset of one namespace, a tenant erased, or new weights for all engines."""
        space = SPACES[self.dice.choice(self.spaces)]
        front = world.kv if world.tiers is None else world.tiers
        turn = self.dice.randrange(4)
        if turn == 0:
            self.version += 1
            for one in self.worlds:
                end = one.kv if one.tiers is None else one.tiers
                end.set_weight_version(f"w{self.version}")
                one.version = f"w{self.version}"
        elif turn == 1 and "tenant" in space and world.tiers is not None:
            world.tiers.erase_tenant(space["tenant"])
        elif turn == 2:
            front.reset_prefix_cache(cache_salt=space.get("cache_salt", ""))
        else:
            world.kv.evict_until(20)
        self.counts["forgotten"] += 1


@pytest.mark.parametrize("pool", POOLS)
def test_whatever_happens_nobody_reads_what_another_namespace_computed(
    pool: str, tmp_path: Path
) -> None:
    seeds = max(1, STEPS // 2_000)
    told = Counter[str]()
    for seed in range(first_seed(), first_seed() + seeds):
        walk = Walk(pool, seed, tmp_path)
        for step in range(min(STEPS, 2_000)):
            walk.step()
            if step % 50 == 0:
                for world in walk.worlds:
                    world.kv.check_integrity()
        for world in walk.worlds:
            walk.check_books(world)
        told += walk.counts
        told["read"] += walk.read + sum(world.read for world in walk.worlds)
    assert told["found"] > 0
    print(f"{pool}: {STEPS} steps, {dict(told)}")
