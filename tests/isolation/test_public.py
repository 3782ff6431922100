"""A public prefix is found by all; what comes behind it, by its own namespace alone."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any
from weakref import ref

import pytest

from kvframe import (
    CapacityError,
    ConfigError,
    KVCacheManager,
    Request,
    TenantConfig,
    TierConfig,
)
from kvframe.public import PublicPrefixes
from kvframe.router import RouterIndex
from kvframe.shadow import ShadowSet
from kvframe.shadow.follow import followed
from kvframe.stats import EventLog, redrive

from ..amounts import ALL
from ..tiers.helpers import Shelf, below, host, key_file
from .pool_paths import PROMPT, UNSETTLED, WAYS
from .spaces import SPACES
from .test_beside import events_of
from .test_pool import POOLS, question_all, writers
from .world import World, common

PUBLIC = PROMPT[:10]
"""Two blocks of it are whole; the third of a prompt is private, although it begins alike."""

TENANTS = [
    TenantConfig(name="all", floor=4, public=True),
    TenantConfig(name="a", floor=8),
    TenantConfig(name="b", quota=20),
]
POOLS_HERE = {name: {**pool} for name, pool in POOLS.items()}
POOLS_HERE["floors"]["tenants"] = TENANTS
PLAIN = [
    name for name, space in SPACES.items() if not {"lora_name", "encoder", "mm_items"} & {*space}
]


@pytest.fixture
def public(tmp_path: Path) -> Path:
    file = tmp_path / "public.jsonl"
    file.write_text(json.dumps(PUBLIC))
    return file


@pytest.mark.parametrize("pool", POOLS)
def test_all_find_the_public_blocks_and_nobody_another_ones_private_blocks(
    pool: str, public: Path
) -> None:
    pairs = set()
    for way, leave in WAYS.items():
        for writer in writers(pool, way):
            world = World(public=public, **POOLS_HERE[pool])
            leave(world, writer)
            for reader in SPACES:
                told = question_all(world, way, writer, reader)
                own = told.pop("join") if way in UNSETTLED else max(told.values())
                assert reader != writer or own, (way, writer)
                pairs.add((writer, reader))
            for seq in world.running:
                world.check(seq)
            world.kv.check_integrity()
    assert len(pairs) > 100


@pytest.mark.parametrize("pool", ["sha256", "xxh3", "radix", "a window", "floors"])
def test_what_one_computed_all_find(pool: str, public: Path) -> None:
    for writer in PLAIN:
        world = World(public=public, **POOLS_HERE[pool])
        world.serve(writer, PROMPT)
        for reader in PLAIN:
            found = world.kv.lookup([*PROMPT, 3], **SPACES[reader]).tokens
            assert found == 8, (writer, reader)
            world.serve(reader, PROMPT)
        world.kv.check_integrity()


def test_adapters_images_and_other_inputs_share_nothing_more(public: Path) -> None:
    world = World(public=public)
    world.serve("tenant a", PROMPT)
    for reader in SPACES.keys() - set(PLAIN):
        assert world.kv.lookup([*PROMPT, 3], **SPACES[reader]).tokens == 0, reader
    world.serve("adapter a", PROMPT)
    assert world.kv.lookup([*PROMPT, 3], **SPACES["tenant a, adapter a"]).tokens == 8
    assert world.kv.lookup([*PROMPT, 3], **SPACES["adapter b"]).tokens == 0


def test_a_client_makes_nothing_public(public: Path) -> None:
    """Whatever it sends, decodes, cuts or brings back: what is not in the list is its own."""
    world = World(public=public)
    kv, mine, other = world.kv, list(range(900, 920)), "tenant b"
    world.serve("tenant a", mine)
    assert kv.lookup(mine, **SPACES[other]).tokens == 0
    for cut in (0, 2, 4, 5, 8, 9):  # other text in the place of what was public
        seq = world.start("tenant a", PROMPT).seq
        world.compute(seq)
        kv.truncate(seq, cut)
        text = [*PROMPT[:cut], *range(500, 500 + 16)]
        kv.append(seq, text[cut:])
        world.know(seq, "tenant a", text)
        world.compute(seq)
        request = kv.preempt(seq)
        del world.running[seq]
        back = kv.allocate(request)
        assert back.cached_tokens >= 8
        assert kv.lookup([*text, 1], tenant="a").tokens == len(text) // 4 * 4
        assert kv.lookup([*text, 1], **SPACES[other]).tokens == min(cut // 4 * 4, 8)
        kv.abort(back.seq)
        kv.check_integrity()
    # A request that was marked, with another prompt, salt or tenant.
    seq = world.start("tenant a", PROMPT).seq
    request = kv.preempt(seq)
    assert (request.public, request.replace(chunk=4).public) == (2, 2)
    changes: list[dict[str, Any]] = [
        {"prompt": mine},
        {"tenant": "b"},
        {"cache_salt": "x"},
        {"mm_items": []},
    ]
    for change in changes:
        assert request.replace(**change).public == 0


def test_what_no_operator_listed_is_private_with_a_list_too(public: Path) -> None:
    with_list, without = World(public=public), World()
    for world in (with_list, without):
        world.serve("tenant a", [1, *PROMPT])
        assert world.kv.lookup([1, *PROMPT, 3], **SPACES["tenant b"]).tokens == 0
    keys = [
        w.kv.blocks.hash_blocks([1, *PROMPT], tenant="a").tolist() for w in (with_list, without)
    ]
    assert keys[0] == keys[1]


def test_resets_and_erasures_reach_what_is_theirs(public: Path) -> None:
    world = World(public=public)
    for space in ("tenant a", "tenant b", "tenant a, salt a", "adapter a"):
        world.serve(space, PROMPT)
    kv = world.kv

    def found(**space: Any) -> int:
        return kv.lookup([*PROMPT[:8], 1], **space).tokens

    longer = [*PROMPT, *range(5)]
    for space in ("tenant a", "tenant b"):
        world.serve(space, longer)
    assert kv.lookup([*longer, 1], tenant="a").tokens == 16
    kv.tenants.erase("a")
    assert kv.lookup([*longer, 1], tenant="a").tokens == 8
    assert kv.lookup([*longer, 1], tenant="b").tokens == 16
    kv.reset_prefix_cache(lora_name="a")
    assert (found(lora_name="a"), found()) == (0, 8)
    kv.reset_prefix_cache()
    assert found() == 0


# --- tenants ------------------------------------------------------------------------------------


def rows(kv: KVCacheManager) -> dict[str, tuple[int, int]]:
    return {row.tenant: (row.used, row.used - row.cached) for row in kv.tenants.rows()}


def test_public_blocks_count_for_the_public_tenant(public: Path) -> None:
    world = World(public=public, tenants=TENANTS)
    seqs = [world.start(space, PROMPT).seq for space in ("tenant a", "tenant b", "nobody")]
    assert rows(world.kv) == {"": (3, 3), "all": (0, 0), "a": (3, 3), "b": (3, 3)}
    for seq in seqs:
        world.compute(seq)
        world.kv.check_integrity()
    # The first one's went over; the others keep the copies that they computed, found by nobody.
    assert rows(world.kv) == {"": (3, 3), "all": (2, 2), "a": (1, 1), "b": (3, 3)}
    for seq in seqs:
        world.end(seq)
    assert rows(world.kv) == {"": (0, 0), "all": (2, 0), "a": (0, 0), "b": (0, 0)}
    # A request named as the public tenant is like any other that is not configured.
    world.kv.allocate(list(range(8)), tenant="all")
    assert rows(world.kv)[""] == (2, 2)
    world.kv.check_integrity()


@pytest.mark.parametrize("policy", ["lru", "lfu", "arc", "s3-fifo", "gdsf", "lirs", "sieve"])
def test_what_a_tenant_finds_of_its_own_does_not_depend_on_others(
    policy: str, public: Path
) -> None:
    """Once the public blocks are there. With floor and quota equal, call by call."""

    def run(greedy: int) -> list[int]:
        tenants = [
            TenantConfig(name="all", floor=2, public=True),
            TenantConfig(name="b", floor=10, quota=10),
        ]
        kv = KVCacheManager(
            block_size=4,
            capacity=40,
            eviction=policy,
            tenants=[{"name": t.name, "floor": t.floor, "public": t.public} for t in tenants[:1]]
            + [{"name": "b", "floor": 10, "quota": 10}],
            prefix={"public": str(public)},
        )
        dice, other, found = Random(7), Random(greedy), []

        def serve(tokens: list[int], tenant: str) -> int:
            grant = kv.allocate(Request(tokens, tenant=tenant))
            kv.commit(grant.seq, len(tokens))
            kv.release(grant.seq)
            return int(grant.cached_tokens)

        serve(PROMPT, "")
        for _ in range(150):
            for _ in range(other.randrange(4) if greedy else 0):
                serve([*PROMPT[:8], *([other.randrange(9)] * other.randrange(30)), 1], "x")
            tail = [dice.randrange(6)] * 4 + [dice.randrange(3)] * dice.randrange(14)
            found.append(serve([*PROMPT[:8], *tail, 2], "b"))
        kv.check_integrity()
        return found

    alone = run(0)
    assert all(tokens >= 8 for tokens in alone)
    assert max(alone) > 8
    assert run(1) == run(2) == alone


@pytest.mark.parametrize("seed", range(6))
def test_random_traffic_beside_floors_keeps_its_books(seed: int, public: Path) -> None:
    dice = Random(seed)
    pool: dict[str, Any] = {
        "remap_duplicates": dice.random() < 0.5,
        "partial_hits": dice.random() < 0.5,
    }
    world = World(public=public, tenants=TENANTS, blocks=32, **pool)
    kv, found = world.kv, 0
    for _ in range(300):
        if world.running and dice.random() < 0.5:
            seq = dice.choice([*world.running])
            turn = dice.randrange(5)
            if turn == 0 and kv.lengths(seq).committed == kv.lengths(seq).slots:
                fork = kv.fork(seq)
                world.running[fork] = world.running[seq]
            elif turn == 1:
                del world.running[seq]
                kv.preempt(seq)
            else:
                world.end(seq)
        else:
            space = dice.choice(PLAIN)
            tokens = [*PUBLIC[: dice.randrange(11)], *[dice.randrange(2)] * dice.randrange(1, 9)]
            try:
                grant = world.start(space, tokens, join=dice.random() < 0.5)
            except CapacityError:
                continue
            found += grant.cached_tokens
            world.copy()
            if not grant.joined_tokens:
                world.compute(grant.seq)
        if dice.random() < 0.03:
            kv.tenants.erase(dice.choice("ab"))
        if dice.random() < 0.02:
            kv.reset_prefix_cache()
        kv.check_integrity()
    assert found > 200


def test_a_request_that_shares_nothing_is_not_kept(public: Path) -> None:
    """Nor one that does: what is known of a request goes with it."""
    known = PublicPrefixes.read(public, 4)
    for tokens in (PROMPT, [1, *PROMPT]):
        request = Request(tokens)
        for _ in range(2):
            assert known.shared(request).public == (2 if tokens is PROMPT else 0)
        gone = ref(request)
        del request
        assert gone() is None


def test_a_request_has_the_origin_of_its_sequence(public: Path) -> None:
    kv = World(public=public).kv
    request = Request([*PROMPT, 1], tenant="a", cache_salt="s", lora_name="l")
    grant = kv.allocate(request)
    asked = kv.inspect.origin(request)
    assert asked == kv.inspect.origin(grant.seq)
    assert asked.public == 2


@pytest.mark.parametrize("tenants", [(), TENANTS], ids=["alone", "with tenants"])
def test_a_reset_of_public_blocks_reaches_whoever_has_them(
    tenants: list[TenantConfig], public: Path
) -> None:
    """They are of no salt. What a sequence of another salt has of them is not published again."""
    world = World(public=public, tenants=tenants)
    kv, text = world.kv, [*PROMPT, *range(10)]
    seq = world.start("salt a", text).seq
    world.write(seq, 0, 9)
    kv.commit(seq, 9)
    kv.reset_prefix_cache(cache_salt="")
    world.compute(seq)
    kv.check_integrity()
    assert not kv.inspect.is_current(seq)
    assert kv.lookup([*text, 1], cache_salt="a").tokens == 0


def test_a_public_block_follows_the_one_that_is_found(public: Path) -> None:
    """Where another one's copy of the block before it was first, it stays with who computed it."""
    world = World(public=public, tenants=TENANTS)
    slow = world.start("tenant a", PROMPT).seq
    world.serve("tenant b", PROMPT[:4])
    world.compute(slow)
    world.kv.check_integrity()
    assert rows(world.kv)["all"] == (1, 0)
    assert world.kv.lookup(PROMPT, tenant="a").tokens == 4
    world.end(slow)
    world.serve("tenant b", PROMPT)
    world.kv.check_integrity()
    assert world.kv.lookup(PROMPT, tenant="a").tokens == 8


def test_new_weights_and_a_cut_publish_nothing_old(public: Path) -> None:
    """What is left of a public block, and no more, goes down and up again as of the old weights."""
    world = World(public=public, tiers=[host(24)])
    seq = world.start("tenant a", PROMPT).seq
    world.compute(seq)
    assert world.tiers is not None
    world.tiers.set_weight_version("w2")
    world.kv.truncate(seq, 3)
    assert not world.kv.inspect.is_current(seq)
    swapped = world.tiers.swap_out(seq)
    world.settle()
    back = world.tiers.swap_in(swapped)
    assert (back.cached_tokens, back.external_tokens) == (0, 0)
    assert world.kv.lengths(back.seq).committed == 0


# --- beside the pool ----------------------------------------------------------------------------


@pytest.mark.parametrize("tenants", [(), TENANTS], ids=["alone", "with tenants"])
@pytest.mark.parametrize("store", ["shelf", "shared"])
def test_tiers_share_what_is_public_and_no_page_more(
    store: str, tenants: list[TenantConfig], public: Path
) -> None:
    text = [*PROMPT, 110, 111, 112, 113, 114]
    for writer in PLAIN[:: 1 if ALL else 4]:
        objects: dict[str, bytes] = {}
        make: dict[str, Any] = {
            "tiers": [host(24), below(64, store)],
            "tenants": tenants,
            "public": public,
        }
        world = World(stores=[Shelf(objects=objects)], options={"model": "t"}, **make)
        world.serve(writer, text)
        assert world.tiers is not None
        for reader in [*SPACES]:
            world.forget_pool()
            grant = world.start(reader, [*text, 3])
            world.settle()
            there = world.check(grant.seq)
            if reader == writer:
                assert there == 16
            else:
                assert there <= common(writer, reader, text, PUBLIC)
                if reader in PLAIN:
                    assert there == 8
            world.kv.abort(grant.seq)
            world.settle()
            del world.running[grant.seq]
        if "tenant" in SPACES[writer]:
            world.tiers.erase_tenant(SPACES[writer]["tenant"])
            assert world.tiers.lookup([*text, 3], **SPACES[writer]).best <= 8
        world.tiers.check_integrity()
        world.close()


def test_a_router_routes_by_the_public_part_and_by_ones_own(public: Path) -> None:
    for writer in PLAIN:
        world = World(public=public, blocks=64, event_log=True)
        text = [*PROMPT, 111, 112, 113]
        known = PublicPrefixes.read(public, 4)
        index = RouterIndex(4, public=known)
        index.add_worker(1)
        world.serve(writer, text)
        seq = world.start(writer, PROMPT).seq  # cut within what was public, and on with other
        world.compute(seq)
        world.kv.truncate(seq, 5)
        other = [*PROMPT[:5], *[9] * 8]
        world.kv.append(seq, other[5:])
        world.know(seq, writer, other)
        world.compute(seq)
        events_of(world.kv, 1, index, token_ids=True)
        for reader in SPACES:
            for tokens in (text, other):
                reach = index.match_tokens(tokens, **SPACES[reader])
                found = max((one.gpu for one in reach.values()), default=0) * 4
                if reader == writer:
                    assert found >= 12
                else:
                    assert found <= common(writer, reader, tokens, PUBLIC), (writer, reader)
                    assert reader not in PLAIN or found == (4 if tokens is other else 8)


def test_a_log_is_redriven_and_shadowed_as_it_was(public: Path, tmp_path: Path) -> None:
    dice = Random(3)

    def made() -> KVCacheManager:
        cache = {"capacity": 24, "block_size": 4, "event_log": True}
        return KVCacheManager(cache=cache, prefix={"public": str(public)})

    kv, parts = made(), []
    with ShadowSet(["lru"], [24], 4, actual=("lru", 24), chained=True) as shadows:
        for _ in range(120):
            space = SPACES[dice.choice(PLAIN)]
            tokens = [*PUBLIC[: dice.randrange(11)], *[dice.randrange(2)] * dice.randrange(4, 9)]
            grant = kv.allocate(tokens, **space)
            kv.commit(grant.seq, len(tokens))
            if dice.random() < 0.3:
                grant = kv.allocate(kv.preempt(grant.seq))
            kv.release(grant.seq)
            parts.append(kv.log.take())
        log = EventLog.joined(parts)
        report = followed(log, shadows)
    assert report.actual is not None
    assert report.actual.found_tokens == kv.stats.counters()["hit_tokens"] > 200
    assert report.difference == 0
    log.save(tmp_path / "run.kvlog")
    again = made()
    redrive(EventLog.load(tmp_path / "run.kvlog"), again)
    assert again.stats.counters() == kv.stats.counters()
    again.check_integrity()


def below_sealed(folder: Path, name: str, store: str, **more: Any) -> TierConfig:
    key = key_file(folder / "pages.key", b"k" * 32)
    return below(64, store, name, encryption="aes-256-gcm", key_file=key, **more)


@pytest.mark.parametrize(
    "tenants",
    [(), TENANTS, [TENANTS[0], TenantConfig(name="a", floor=0.2)]],
    ids=["alone", "with floors", "with shares"],
)
def test_encrypted_public_pages_are_found_by_all(
    tenants: list[TenantConfig], public: Path, tmp_path: Path
) -> None:
    objects: dict[str, bytes] = {}
    tiers = [host(24), below_sealed(tmp_path, "below", "shared")]
    world = World(
        public=public,
        tenants=tenants,
        tiers=tiers,
        stores=[Shelf(objects=objects)],
        options={"model": "t"},
    )
    assert world.tiers is not None
    apart = world.tiers._levels.tells_tenants
    text = [*PROMPT, *range(500, 505)]
    for reader in ("tenant a", "tenant b", "nobody", "tenant a"):
        world.serve(reader, text)
        world.forget_pool()
        world.tiers.host.index.clear()
        grant = world.start(reader, [*text, 3])
        world.settle()
        assert world.check(grant.seq) == 16, reader
        world.kv.abort(grant.seq)
        world.settle()
        del world.running[grant.seq]
        world.forget_pool()
    apart = world.tiers._levels.tells_tenants  # where each has public pages of its own
    there = world.tiers.lookup([*text, 3], tenant="c").best
    assert there == (0 if apart else 8)
    assert world.tiers.stats()["below"]["corrupt"] == 0
    world.tiers.check_integrity()
    world.close()


@pytest.mark.parametrize("sealed", [False, True], ids=["plain", "sealed"])
def test_pages_from_before_behind_public_ones_are_nobodys_until_they_are_asked_for(
    sealed: bool, public: Path, tmp_path: Path
) -> None:
    """After a restart another tenant's request names public pages, and not what follows them."""
    options = {"path": str(tmp_path / "pages"), "fsync": False}
    disk = below(64, "disk", options=options)
    if sealed:
        disk = below_sealed(tmp_path, "below", "disk", options=options)
    text = [*PROMPT, *range(500, 505)]

    def world(*more: TierConfig, stores: list[Shelf]) -> World:
        tiers = [host(24), disk, *more]
        return World(public=public, tiers=tiers, stores=stores, options={"model": "t"})

    before = world(stores=[])
    before.serve("tenant a", text)
    before.close()
    shelf = Shelf()
    after = world(below_sealed(tmp_path, "last", "shared"), stores=[shelf])
    after.serve("tenant b", text)
    assert after.tiers is not None
    there = len(shelf.objects)
    after.tiers._demotion.write(1, after.kv.blocks.hash_blocks(text, tenant="a"))
    after.settle()
    assert len(shelf.objects) == there  # under whose key is not known
    assert after.tiers.stats()["below"]["corrupt"] == 0
    # What may be of any tenant goes with each.
    receipt = after.tiers.erase_tenant("a")
    assert {tier.tier: tier.pages for tier in receipt.tiers} == {"host": 0, "below": 2, "last": 0}
    after.settle()
    assert after.tiers.lookup([*text, 3], tenant="a").best == 8
    assert after.tiers.lookup([*text, 3], tenant="b").best == 16
    after.tiers.check_integrity()
    after.close()


def test_a_list_that_is_none_is_told(tmp_path: Path) -> None:
    file = tmp_path / "public.jsonl"
    wrong = [
        ("[1, 2", "line 1"),
        ("[1, 2, 3, 4]\n\n[1, 2, 3]", "line 3: 3 tokens: must fill a block of 4 tokens"),
        ("[-1, 2, 3, 4]", "line 1: holds ids out of 0 to"),
        ('"text"', "must be token ids"),
    ]
    for text, told in wrong:
        file.write_text(text)
        with pytest.raises(ConfigError, match=rf"prefix\.public = .*{told}"):
            KVCacheManager(block_size=4, capacity=8, prefix={"public": str(file)})
    with pytest.raises(ConfigError, match=r"prefix\.public"):
        KVCacheManager(block_size=4, capacity=8, prefix={"public": str(tmp_path / "none")})
    file.write_text("[1, 2, 3, 4]\n\n[1, 2, 3, 4, 5, 6, 7, 8]\n[1, 2, 3, 4, 9, 9, 9, 9, 1]\n")
    assert PublicPrefixes.read(file, 4).blocks == 3
    given: dict[str, Any] = {"block_size": 4, "capacity": 8, "prefix": {"public": str(file)}}
    tenants = [
        ([{"name": "a"}], "needs a tenant with public = true"),
        ([{"name": "a", "public": True, "floor": 2}], "is 2 blocks: the prefixes of .* have 3"),
        ([{"name": "a", "public": True, "floor": 3, "quota": 4}], "its floor is its quota"),
        ([{"name": n, "public": True, "floor": 3} for n in "ab"], "is there twice"),
    ]
    for some, told in tenants:
        with pytest.raises(ConfigError, match=told):
            KVCacheManager(**given, tenants=some)
    alone = [{"name": "a", "public": True, "floor": 3}]
    with pytest.raises(ConfigError, match=r"prefix\.public names no prefixes"):
        KVCacheManager(block_size=4, capacity=8, tenants=alone)
    with pytest.raises(ConfigError, match=r"tenants\[0\]\.floor = 0: must be at least a block"):
        KVCacheManager(**given, tenants=[{"name": "a", "public": True}])
