"""Pages of a store under AES-256-GCM: a key for each tenant, and a miss for all that is not its."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

from kvframe import CacheConfig, Config, ConfigError, TenantConfig, UsageError
from kvframe.config import SecurityConfig
from kvframe.tiers.codec import HEAD_BYTES, Codec, CorruptError
from kvframe.tiers.encryption import NONCE_BYTES, Vault
from kvframe.tiers.object_keys import Space

from .helpers import (
    REGISTRY,
    SHAPE,
    Engine,
    Known,
    Shelf,
    below,
    host,
    key_file,
    kv_of,
    text,
)
from .servers import RedisServer

PAGE = np.arange(SHAPE.page_bytes, dtype=np.uint8)
SECRET = b"k" * 32
TEXT = text(1, 17)
KNOWN = Known()


def codec(compression: Any = "none", key: bytes = SECRET, space: Space | None = None) -> Codec:
    chosen = space or Space()
    return Codec(chosen, [SHAPE], encryption="aes-256-gcm", compression=compression, key=key)


def file_of(folder: Path, secret: bytes = SECRET, name: str = "pages.key") -> str:
    return key_file(folder / name, secret)


def sealed(folder: Path, store: str = "shared", secret: bytes = SECRET, **more: Any) -> Any:
    return below(64, store, encryption="aes-256-gcm", key_file=file_of(folder, secret), **more)


def found(engine: Engine, tenant: str) -> int:
    """Tokens of the text that came back from the store, bytes compared."""
    engine.only_below()
    ahead = engine.tiers.prefetch(TEXT, tenant=tenant)
    engine.settle()
    grant = engine.run(TEXT, tenant=tenant)
    assert grant.external_tokens <= 4 * ahead.loaded
    return int(grant.external_tokens)


# --- objects ------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", ["none", "zlib"])
def test_every_byte_is_under_the_tag(compression: Any) -> None:
    one = codec(compression)
    data = one.encode(PAGE, (1, 2), 0, (3, 4), 5, "a")
    assert np.array_equal(one.decode(data, (1, 2), 0, "a"), PAGE)
    assert np.array_equal(one.decode(data, (1, 2), 0, None), PAGE)
    assert len(data) <= one.largest
    assert PAGE.tobytes()[:16] not in data
    for at in range(len(data)):
        for bit in (1, 128):
            changed = bytearray(data)
            changed[at] ^= bit
            for tenant in ("a", None):
                with pytest.raises(CorruptError):
                    one.decode(bytes(changed), (1, 2), 0, tenant)
    for cut in range(len(data)):
        with pytest.raises(CorruptError):
            one.decode(data[:cut], (1, 2), 0, "a")
    with pytest.raises(CorruptError):
        one.decode(data + b"\0", (1, 2), 0, "a")


def test_no_other_tenant_key_place_or_model_opens_it() -> None:
    one = codec()
    data = one.encode(PAGE, (1, 2), 0, None, 0, "a")
    for tenant in ("", "b", "a ", "A"):
        with pytest.raises(CorruptError, match="was not written by who has the key"):
            one.decode(data, (1, 2), 0, tenant)
    # Moved under another page's name, and its head written anew to say so.
    other = one.encode(PAGE, (5, 6), 0, None, 0, "a")
    moved = other[:HEAD_BYTES] + data[HEAD_BYTES:]
    with pytest.raises(CorruptError, match="was not written by who has the key"):
        one.decode(moved, (5, 6), 0, "a")
    with pytest.raises(CorruptError, match="it is another"):
        one.decode(data, (5, 6), 0, "a")
    # Another tenant's id before what the first one's key sealed.
    theirs = one.encode(PAGE, (1, 2), 0, None, 0, "b")
    mixed = data[:HEAD_BYTES] + theirs[HEAD_BYTES:][:16] + data[HEAD_BYTES + 16 :]
    with pytest.raises(CorruptError):
        one.decode(mixed, (1, 2), 0, "b")
    for wrong in (
        codec(key=b"j" * 32),
        codec(space=Space(model="another")),
        codec(space=Space(parts=((1, 2, 3, 4),))),
    ):
        with pytest.raises(CorruptError):
            wrong.decode(data, (1, 2), 0, "a")
        # Even where the space's digest is made to agree, the key is another, or the head is.
        wrong._digest = one._digest
        if wrong.space.checksum != one.space.checksum:
            with pytest.raises(CorruptError, match="was not written by who has the key"):
                wrong.decode(data, (1, 2), 0, "a")


def test_each_object_has_a_nonce_of_its_own() -> None:
    one = codec()
    objects = [one.encode(PAGE, (1, 2), 0, None, 0, "a") for _ in range(500)]
    nonces = {data[HEAD_BYTES + 16 :][:NONCE_BYTES] for data in objects}
    assert len(nonces) == len({data[HEAD_BYTES + 16 + NONCE_BYTES :] for data in objects}) == 500


def test_keys_of_tenants_follow_from_secret_and_name() -> None:
    names = ["", "a", "b", "aa", "é", "a" * 300]
    head = b"head"
    vaults = [Vault(SECRET, {}), Vault(b"j" * 32, {}), Vault(SECRET, {"a": b"own" * 11})]
    made = [(vault, name, vault.seal(head, b"page", name)) for vault in vaults for name in names]
    ids = {data[:16] for _, _, data in made}
    assert len(ids) == 2 * len(names) + 1  # the third differs from the first in its "a" alone
    assert vaults[0].name == vaults[2].name != vaults[1].name
    for vault, name, data in made:
        fresh = Vault(vault._secret, vault._own)
        assert fresh.open(head, memoryview(data), name) == b"page"
        assert fresh.open(head, memoryview(data), None) == b"page"
        assert fresh.open(b"Head", memoryview(data), name) is None
        others = [one for one in names if one != name]
        assert not any(fresh.open(head, memoryview(data), other) for other in others)


def test_a_page_whose_tenant_nobody_knows_is_not_written() -> None:
    with pytest.raises(UsageError, match="no request has said whose page it is"):
        codec().encode(PAGE, (1, 2), 0, None, 0, None)


# --- tiers --------------------------------------------------------------------------------------


@pytest.fixture(params=["shelf", "shared", "disk", "redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A function that makes an engine over one store, again and again."""
    objects: dict[str, bytes] = {}
    server = RedisServer(tmp_path) if request.param == "redis" else None

    def engine(tenants: Any = (), **more: Any) -> Engine:
        given: dict[str, Any] = {"compression": "zlib", **more}
        if server is not None:
            given["options"] = {**server.options(), "timeout_ms": 30_000}
        elif request.param == "disk":
            given["options"] = {"path": str(tmp_path / "pages"), "fsync": False}
        stores = [Shelf(objects=objects)]
        tiers = [host(16), sealed(tmp_path, request.param, **given)]
        known = KNOWN if server is not None else None
        return Engine(tiers, stores=stores, blocks=24, tenants=tenants, registry=known)

    yield engine
    if server is not None:
        server.stop()


def test_a_store_serves_each_tenant_its_own_after_a_restart_too(place: Any) -> None:
    engine = place()
    for tenant in ("a", "b", ""):
        engine.run(TEXT, tenant=tenant)
    assert [found(engine, tenant) for tenant in ("a", "b", "", "c")] == [16, 16, 16, 0]
    assert engine.tiers.verify() == []
    engine.tiers.close()
    again = place()
    assert again.tiers.verify() == []
    assert [found(again, tenant) for tenant in ("a", "b", "", "d")] == [16, 16, 16, 0]
    told = again.tiers.stats()["below"]
    assert (told["corrupt"], told["foreign"]) == (0, 0)
    again.tiers.close()
    # Under another secret they are another name space.
    other = place(secret=b"j" * 32)
    assert found(other, "a") == 0
    told = other.tiers.stats()["below"]
    assert told["corrupt"] == 0
    other.tiers.close()


def test_random_damage_is_a_miss_and_never_bytes(tmp_path: Path) -> None:
    """`Engine.run` compares every byte that comes back with what was computed."""
    dice = Random(23)
    shelf = Shelf()
    engine = Engine([host(16), sealed(tmp_path, compression="zlib")], stores=[shelf], blocks=24)
    served = 0
    for turn in range(60):
        tenant = dice.choice("abc")
        engine.run(TEXT, tenant=tenant)
        names = list(shelf.objects)
        name, other = dice.choice(names), dice.choice(names)
        kind = turn % 4
        if kind == 0:
            shelf.flip(name, dice.randrange(1 << 16))
        elif kind == 1:
            shelf.objects[name] = shelf.objects[name][: dice.randrange(len(shelf.objects[name]))]
        elif kind == 2:
            shelf.objects[name] = shelf.objects[other]
        else:  # moved, with a head that fits
            head, body = shelf.objects[name][:HEAD_BYTES], shelf.objects[other][HEAD_BYTES:]
            shelf.objects[name] = head + body
        engine.only_below()
        for tenant in "abc":
            served += engine.run(TEXT, tenant=tenant).external_tokens
        engine.only_below()
    told = engine.tiers.stats()["below"]
    assert told["corrupt"] > 20
    assert served > 1000


def test_a_page_under_another_tenants_key_is_a_counted_miss(tmp_path: Path) -> None:
    """A holder of b's key alone cannot plant a page for a."""
    shelf = Shelf()
    engine = Engine([host(16), sealed(tmp_path)], stores=[shelf])
    engine.run(TEXT, tenant="a")
    one = engine.tiers.below[0].codec
    keys = [(low, high) for low, high in engine.kv.blocks.hash_blocks(TEXT, tenant="a").tolist()]
    for at, key in enumerate(keys):
        name = one.name(key, 0)
        assert name in shelf.objects
        shelf.objects[name] = one.encode(PAGE, key, 0, keys[at - 1] if at else None, at, "b")
    engine.only_below()
    grant = engine.start(TEXT, tenant="a")
    engine.settle()
    assert engine.compute(grant.seq) == 17
    assert engine.tiers.stats()["below"]["corrupt"] == 1


def test_nothing_of_a_page_lies_plain_in_a_store(tmp_path: Path) -> None:
    plain, shelf = Shelf(), Shelf()
    for tier, store in ((below(64, "shared"), plain), (sealed(tmp_path), shelf)):
        Engine([host(16), tier], stores=[store]).run(TEXT, tenant="a-tenants-name")
    piece = kv_of(TEXT[:1]).tobytes()[:8]
    assert any(piece in data for data in plain.objects.values())
    for name, data in shelf.objects.items():
        assert piece not in data
        assert b"a-tenants-name" not in name.encode() + data
        assert SECRET[:8] not in data


def test_a_tenant_with_a_key_file_of_its_own_is_rotated_and_erased_alone(tmp_path: Path) -> None:
    objects: dict[str, bytes] = {}
    tenants = [TenantConfig(name="a", key_file=file_of(tmp_path, b"1" * 32, "a.key"))]

    def engine() -> Engine:
        stores = [Shelf(objects=objects)]
        return Engine([host(16), sealed(tmp_path)], stores=stores, tenants=tenants, blocks=24)

    first = engine()
    for tenant in "ab":
        first.run(TEXT, tenant=tenant)
    assert [found(first, tenant) for tenant in "ab"] == [16, 16]
    first.tiers.close()
    file_of(tmp_path, b"2" * 32, "a.key")
    second = engine()
    assert [found(second, tenant) for tenant in "ba"] == [16, 0]
    assert second.tiers.stats()["below"]["corrupt"] == 1
    # What was read in vain was written again, under the new key.
    assert found(second, "a") == 16
    second.tiers.close()


def test_engines_that_roll_a_tenants_key_one_by_one_mix_nothing_up(tmp_path: Path) -> None:
    """While one of two has the old key, each finds what its own key sealed, or nothing."""
    objects: dict[str, bytes] = {}

    def engine(key: str) -> Engine:
        tenants = [TenantConfig(name="a", key_file=str(tmp_path / key))]
        stores = [Shelf(objects=objects)]
        return Engine([host(16), sealed(tmp_path)], stores=stores, tenants=tenants, blocks=24)

    for key in ("old", "new"):
        key_file(tmp_path / key, key.encode() * 11)
    before, ahead = engine("old"), engine("old")
    for tenant in "ab":
        before.run(TEXT, tenant=tenant)
    assert [found(one, "a") for one in (before, ahead)] == [16, 16]
    ahead.tiers.close()
    ahead = engine("new")
    for _ in range(3):
        # What one of them writes, the other one misses, and writes anew.
        assert [found(one, "a") for one in (ahead, before)] == [0, 0]
        # Nobody else hears of it.
        assert [found(one, "b") for one in (ahead, before)] == [16, 16]
    for one in (ahead, before):
        told = one.tiers.stats()["below"]
        assert (told["corrupt"], told["errors"]) == (3, 0)
        one.tiers.check_integrity()
    # The last one has the new key, too: from the first miss on, both find all of it.
    before.tiers.close()
    before = engine("new")
    assert [found(before, "a"), found(ahead, "a"), found(before, "a")] == [0, 16, 16]
    for one in (ahead, before):
        one.tiers.close()


def test_pages_of_no_known_tenant_stay_where_they_are(tmp_path: Path) -> None:
    """What a disk has from before goes to no store below before a request has asked for it."""
    options = {"path": str(tmp_path / "pages"), "fsync": False}
    disk = sealed(tmp_path, "disk", options=options)
    first = Engine([host(16), disk])
    first.run(TEXT, tenant="a")
    first.tiers.close()
    shelf = Shelf()
    second = msgspec.structs.replace(sealed(tmp_path), name="last")
    again = Engine([host(16), disk, second], stores=[shelf])
    again.tiers._demotion.write(1, again.kv.blocks.hash_blocks(TEXT, tenant="a")[:4])
    again.settle()
    assert not shelf.objects
    again.run(TEXT, tenant="a")
    again.tiers._demotion.write(1, again.kv.blocks.hash_blocks(TEXT, tenant="a")[:4])
    again.settle()
    assert len(shelf.objects) == 4
    again.tiers.check_integrity()
    again.tiers.close()


# --- configuration ------------------------------------------------------------------------------


def test_what_does_not_go_together_is_told(tmp_path: Path) -> None:
    key = file_of(tmp_path)
    short = file_of(tmp_path, b"short", "short.key")
    gcm = {"encryption": "aes-256-gcm"}
    wrong: list[tuple[Any, Any, str]] = [
        (below(64, "shared", **gcm), (), "key_file"),
        (
            below(64, "shared", checksum="hmac-sha256", key_file=key, **gcm),
            (),
            'checksum = "hmac-sha256": encryption has a tag of its own',
        ),
        (below(64, "shared", key_file=short, **gcm), (), r"tiers\[1\]\.key_file = .* has 5 bytes"),
        (
            below(64, "shared", key_file=key, **gcm),
            [TenantConfig(name="a", key_file=short)],
            r"tenants\[0\]\.key_file = .* has 5 bytes",
        ),
        (
            below(64, "shared"),
            [TenantConfig(name="a", key_file=key)],
            r"tenants\[0\].key_file = .*: encrypts nothing",
        ),
    ]
    for tier, tenants, told in wrong:
        with pytest.raises(ConfigError, match=told):
            Engine([host(16), tier], stores=[Shelf()], tenants=tenants)
    with pytest.raises(ConfigError, match="host memory"):
        Engine([host(16, key_file=key, **gcm)])


def test_it_is_allowed_where_hashes_must_be_approved(tmp_path: Path) -> None:
    tiers = [host(4, checksum="crc32c"), sealed(tmp_path)]
    config = Config(
        cache=CacheConfig(capacity=8, block_size=4),
        security=SecurityConfig(fips_hashes=True),
        tiers=tiers,
    )
    assert [tier.config.encryption for tier in config.resolve(REGISTRY).tiers][1] == "aes-256-gcm"


def test_without_the_package_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.kdf.hkdf", None)
    with pytest.raises(ImportError, match=r"pip install 'kvframe\[encryption\]'"):
        Engine([host(16), sealed(tmp_path)], stores=[Shelf()])
