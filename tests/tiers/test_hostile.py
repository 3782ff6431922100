"""Whatever lies in a store or a folder: no engine is stopped, held up, flooded or fooled by it."""

from __future__ import annotations

import os
import socket
import stat
import struct
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import zstandard

from kvframe import TierError
from kvframe.pages import PageShape
from kvframe.tiers import Codec, CorruptError, Disk, DiskOptions, Space
from kvframe.tiers.census import census, remove, remove_orphans
from kvframe.tiers.codec import HEAD_BYTES, head_of
from kvframe.tiers.object_keys import FORMAT, LONGEST_NAME, parse

from .helpers import SHAPE, Engine, Known, Shelf, below, host, text
from .servers import RedisServer

KNOWN = Known()
DIGITS, KEY = "0" * 32, "f" * 32
ARABIC, WIDE = "\u0664" * 32, "\uff10" * 32

NAMES = [
    "",
    "kv",
    "kv2",
    "kv2-",
    f"kv2-{DIGITS}-raw-{KEY}-" + "7" * 5000,
    f"kv2-{DIGITS}-raw-{KEY}-99999",
    f"kv2-{DIGITS}-raw-{KEY}-65536",
    f"kv2-{DIGITS}-raw-{KEY}-00",
    f"kv2-{DIGITS}-raw-{KEY}-\u0661",
    f"kv2-{DIGITS}-raw-{KEY}--1",
    f"kv2-{DIGITS}-raw-{KEY}-0\n",
    f"kv2-{DIGITS}-{'a' * 4000}-{KEY}-0",
    f"kv2-{DIGITS}-raw-{ARABIC}-0",
    f"kv2-{WIDE}-raw-{KEY}-0",
    f"kv{'9' * 5000}-{DIGITS}-raw-{KEY}-0",
    f"kv99999-{DIGITS}-raw-{KEY}-0",
    f"kv0-{DIGITS}-raw-{KEY}-0",
    f"kv1-{DIGITS}-raw-{KEY}-" + "1" * 5000,
    "kv1-\udcff\udcfe",
    "../../etc/passwd",
    "kv2-\x00",
    "\u00e4" * 300,
    "x" * 1_000_000,
]


@pytest.mark.scenario("F17")
@pytest.mark.parametrize(
    "name", [*NAMES, b"kv2-bytes", None, 7, ("a", 1)], ids=lambda n: repr(n)[:40]
)
def test_a_name_of_any_form_is_no_page_and_no_fault(name: Any) -> None:
    named = parse(name)
    assert named is None or len(name) <= LONGEST_NAME
    shelf = Shelf()
    made = Engine([host(16), below()], stores=[shelf])
    made.run(text(1, 17))
    shelf.objects[name] = b"KVF2" + bytes(200)
    again = Engine([host(16), below()], stores=[Shelf(objects=shelf.objects)])
    told = again.tiers.stats()["below"]
    assert (told["recovered"], told["foreign"]) == (4, 1)
    assert again.run(text(1, 17)).external_tokens == 16
    again.settle()
    assert name in shelf.objects
    found = census(shelf)
    assert found.foreign + sum(len(lot.names) for lot in found.lots) == 5


@pytest.mark.scenario("F17")
def test_a_redis_full_of_other_things_holds_up_nothing(tmp_path: Path) -> None:
    server = RedisServer(tmp_path)
    try:
        options = {**server.options(), "timeout_ms": 30_000}
        made = Engine([host(32), below(64, "redis", options=options)], registry=KNOWN)
        made.run(text(1, 17))
        store: Any = made.tiers.below[0].store
        client, codec = store._server, made.tiers.below[0].codec
        pages = [
            codec.name((low, high), 0)
            for low, high in made.kv.blocks.hash_blocks(text(1, 17)).tolist()
        ]
        for name in NAMES:
            client.set(name.encode("utf-8", "surrogateescape"), b"KVF2" + bytes(200))
        client.hset(codec.name((1, 1), 0), "a", "b")
        client.rpush(codec.name((2, 2), 0), "a")
        client.set(codec.name((3, 3), 0), bytes(1 << 20))
        client.set(pages[3], bytes(1 << 20))  # a page's own name: a MiB of nothing
        client.delete(pages[2])
        client.hset(pages[2], "a", "b")
        names = [pages[0], codec.name((1, 1), 0), codec.name((2, 2), 0), pages[3]]
        _, *others = store.get(names)
        assert others[:2] == [None, None]
        assert len(others[2]) == store.largest + 1
        store.keep(names)
        assert list(store.contains(names)) == [True] * 4
        made.only_below()
        grant = made.start(text(1, 17))
        made.settle()
        assert made.compute(grant.seq) == 9  # the first two pages are good
        told = made.tiers.stats()["below"]
        assert (told["errors"], told["missing"]) == (0, 1)
        made.tiers.close()
        again = Engine([host(32), below(64, "redis", options=options)], registry=KNOWN)
        told = again.tiers.stats()["below"]
        assert (told["recovered"], told["errors"]) == (2, 0)
        again.run(text(1, 17))
        again.tiers.close()
    finally:
        server.stop()


# --- what an object holds -------------------------------------------------------------------------


def bombs(codec: Codec, size: int) -> Iterator[bytes]:
    """What inflates to ``size`` bytes."""
    if "zlib" in codec.space.codec:
        packer = zlib.compressobj(9)
        yield b"".join(
            [*(packer.compress(bytes(1 << 20)) for _ in range(size >> 20)), packer.flush()]
        )
        yield zlib.compress(bytes(size >> 20))[:-3]
    else:
        for told in (True, False):
            chunker = zstandard.ZstdCompressor(1, write_content_size=told).compressobj(
                size if told else -1
            )
            parts = [chunker.compress(bytes(1 << 20)) for _ in range(size >> 20)]
            yield b"".join([*parts, chunker.flush()])
        # A frame that asks for a window of 2 GiB, and one that says that it holds 2^62 bytes.
        yield b"\x28\xb5\x2f\xfd\x00\xa8" + b"\x01\x00\x00"
        yield b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 1 << 62) + b"\x01\x00\x00"


def forged(codec: Codec, body: bytes, key: tuple[int, int], **more: Any) -> bytes:
    """An object with a valid head and checksum over any bytes."""
    return codec._whole(body, key, 0, None, 0, **more)


@pytest.mark.scenario("F17")
@pytest.mark.parametrize("checksum", ["xxh3", "none"])
@pytest.mark.parametrize("quantise", ["none", "fp8"])
@pytest.mark.parametrize("compression", ["zlib", "zstd"])
def test_no_object_inflates_beyond_a_page(compression: Any, quantise: Any, checksum: Any) -> None:
    shape = PageShape(layers=2, parts=2, block_size=16, heads=4, row_bytes=128)
    way = {"compression": compression, "quantise": quantise, "checksum": checksum}
    codec = Codec(Space(dtype="float16"), [shape], **way)
    objects = [forged(codec, bomb, (1, 2)) for bomb in bombs(codec, 1 << 26)]
    tracemalloc.start()
    for data in objects:
        with pytest.raises(CorruptError):
            codec.decode(data, (1, 2), 0)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 40 * shape.page_bytes
    page = np.random.default_rng(0).normal(0, 1, shape.page_bytes // 2).astype(np.float16)
    data = codec.encode(page.view(np.uint8), (1, 2), 0, None, 0)
    assert len(data) <= codec.largest
    assert len(codec.decode(data, (1, 2), 0)) == shape.page_bytes


@pytest.mark.scenario("F17")
@pytest.mark.parametrize("compression", ["none", "zlib", "zstd"])
@pytest.mark.parametrize("shape", [PageShape(1, 1, 1, 1, 1), SHAPE, PageShape(2, 2, 16, 8, 256)])
def test_every_page_fits_into_the_largest_object(shape: PageShape, compression: Any) -> None:
    codec = Codec(Space(), [shape], compression=compression)
    noise = np.random.default_rng(1).integers(0, 256, shape.page_bytes, np.uint8)
    for page in (noise, np.zeros(shape.page_bytes, np.uint8)):
        data = codec.encode(page, (1, 2), 0, None, 0)
        assert len(data) <= codec.largest
        assert np.array_equal(codec.decode(data, (1, 2), 0), page)


@pytest.mark.scenario("F17")
@pytest.mark.parametrize("compression", ["none", "zlib", "zstd"])
def test_random_changes_of_an_object_give_the_page_or_a_typed_error(compression: Any) -> None:
    dice = Random(7)
    codec = Codec(Space(), [SHAPE, SHAPE], compression=compression)
    page = np.arange(SHAPE.page_bytes, dtype=np.uint8)
    whole = codec.encode(page, (1, 2), 1, (3, 4), 5)
    wrong: list[Any] = [None, "text", 7, b"", b"KVF2", whole[: HEAD_BYTES - 1], whole[:HEAD_BYTES]]
    for _ in range(1500):
        data = bytearray(whole)
        for _ in range(dice.randrange(1, 4)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        cut = dice.randrange(len(data)) if dice.random() < 0.2 else len(data)
        wrong.append(bytes(data[:cut]) + bytes(dice.choice([0, 0, 0, 1, 100])))
    for data in wrong:
        try:
            found = codec.decode(data, (1, 2), 1)
        except CorruptError:
            continue
        assert np.array_equal(found, page)
        head_of(data)


@pytest.mark.scenario("F17")
@pytest.mark.parametrize("store", ["shelf", "shared"])
def test_heads_that_lie_about_what_is_before_them_are_taken_for_no_prefix(store: str) -> None:
    """Loops, gaps, parents of another depth, parts that disagree: adoption ends, and finds none."""
    made = Engine([host(16), below(64, store)], stores=[Shelf()], parts=2)
    codec = made.tiers.below[0].codec
    page = np.zeros(SHAPE.page_bytes, np.uint8)
    objects: dict[str, bytes] = {}

    def put(key: int, parent: int | None, depth: int, parts: tuple[int, ...] = (0, 1)) -> None:
        for part in parts:
            before = None if parent is None else (parent, 1)
            data = codec.encode(page, (key, 1), part, before, depth)
            objects[codec.name((key, 1), part)] = data

    put(1, 2, 1)
    put(2, 1, 1)  # before each other
    put(3, 3, 7)  # before itself
    put(4, 9, 4)  # behind nothing
    put(5, None, 0)
    put(6, 5, 2)  # not one behind the other
    put(7, 5, 1, (0,))
    put(7, 8, 1, (1,))  # parts that disagree
    put(10, 5, 1, (0,))  # a part that is not there
    put(11, 5, 1)
    put(12, 11, 2**32 - 1)
    again = Engine([host(16), below(64, store)], stores=[Shelf(objects=objects)], parts=2)
    told = again.tiers.stats()["below"]
    assert (told["recovered"], told["orphans"], told["corrupt"]) == (2, 8, 0)
    again.tiers.check_integrity()
    again.settle()
    (lot,) = census(Shelf(objects=objects)).lots
    assert lot.pages == 2
    shelf = Shelf(objects=objects)
    assert remove_orphans(shelf, lot) + remove(shelf, []) == 15
    assert len(objects) == 4


# --- what stands in a folder ----------------------------------------------------------------------


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # a socket's path is short
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(path.name)
    finally:
        os.chdir(here)


def _device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero
    except OSError:
        path.symlink_to("/dev/zero")


def _link_to_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _link_to_nothing(path: Path) -> None:
    path.symlink_to(path.parent / "nothing")


def _link_to_itself(path: Path) -> None:
    path.symlink_to(path)


def _link_to_file(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b"another's secret")
    path.symlink_to(other)


def _folder(path: Path) -> None:
    path.mkdir()
    (path / "inside").write_text("mine")


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 42)


def _unreadable(path: Path) -> None:
    path.write_bytes(b"x")
    path.chmod(0)


THINGS: tuple[Callable[[Path], None], ...] = (
    _fifo,
    _socket,
    _device,
    _link_to_device,
    _link_to_nothing,
    _link_to_itself,
    _link_to_file,
    _folder,
    _empty,
    _huge,
    _unreadable,
)


def on_disk(folder: Path, **more: Any) -> Engine:
    options = {"path": str(folder / "pages"), "fsync": False, **more.pop("options", {})}
    return Engine([host(16), below(64, "disk", options=options)], **more)


@pytest.mark.scenario("F17")
@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("thing", THINGS, ids=lambda made: made.__name__)
def test_what_stands_at_a_pages_path_holds_up_no_verb(
    thing: Callable[[Path], None], direct: bool, tmp_path: Path
) -> None:
    try:
        made = on_disk(tmp_path, options={"direct": direct})
    except TierError:
        assert direct
        pytest.skip("this file system has no O_DIRECT")
    made.run(text(1, 17))
    store: Any = made.tiers.below[0].store
    codec = made.tiers.below[0].codec
    keys = [(low, high) for low, high in made.kv.blocks.hash_blocks(text(1, 17)).tolist()]
    paths = [store._path(codec.name(key, 0)) for key in keys]
    for path in (paths[1], paths[2].with_suffix(".part")):
        if path.exists():
            path.unlink()
        thing(path)
    name = codec.name(keys[1], 0)
    regular = thing in (_empty, _huge, _unreadable)
    assert list(store.contains([name])) == [regular]
    (found,) = store.get([name])
    assert found is None or (regular and len(found) <= store.largest + 1)
    store.keep([name])
    # A load, which meets it, then a new put over it.
    made.only_below()
    made.run(text(1, 17))
    made.settle()
    assert made.tiers.stats()["below"]["errors"] == 0
    made.only_below()
    made.run(text(1, 17))
    made.tiers.close()
    # Wherever it stands as an engine starts.
    for path in (paths[1], paths[2].with_suffix(".part"), paths[3]):
        if not os.path.lexists(path):
            thing(path)
    again = on_disk(tmp_path)
    again.run(text(1, 17))
    again.tiers.close()
    disk = Disk(DiskOptions(path=str(tmp_path / "pages")))
    disk.remove([codec.name(key, 0) for key in keys])
    assert len(list(disk.recover(HEAD_BYTES))) == 0
    disk.close()
    if thing is _link_to_file:
        assert (paths[1].parent / "other").read_bytes() == b"another's secret"


@pytest.mark.scenario("F17")
@pytest.mark.parametrize("thing", THINGS[:8], ids=lambda made: made.__name__)
@pytest.mark.parametrize("where", [".lock", ".direct.part", "ab", ""])
def test_what_stands_where_the_folder_keeps_its_own_is_an_error_or_no_matter(
    thing: Callable[[Path], None], where: str, tmp_path: Path
) -> None:
    folder = tmp_path / "pages"
    if where:
        folder.mkdir()
    thing(folder / where if where else folder)
    for direct in (False, True):
        try:
            disk = Disk(DiskOptions(path=str(folder), direct=direct, fsync=False))
        except TierError:
            continue
        name = Space().name((0xAB, 1), 0)
        kept = list(disk.put([(name, b"data")]))
        assert list(disk.contains([name])) == kept
        disk.close()


@pytest.mark.scenario("F17")
@pytest.mark.parametrize("umask", [0, 0o022, 0o077])
def test_pages_are_for_their_owner_alone(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        made = on_disk(tmp_path / "a" / "b")
        made.run(text(1, 17))
        made.tiers.close()
    finally:
        os.umask(before)
    for path in (tmp_path / "a").rglob("*"):
        mode = stat.S_IMODE(path.lstat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700
    # Folders of pages that an earlier version made are closed as well.
    for path in (tmp_path / "a" / "b" / "pages").glob("??"):
        path.chmod(0o755)
    on_disk(tmp_path / "a" / "b").tiers.close()
    modes = {stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "a" / "b" / "pages").glob("??")}
    assert modes == {0o700}


@pytest.mark.scenario("F17")
def test_the_format_is_two_and_every_form_of_name_is_short() -> None:
    assert FORMAT == 2
    longest = Space(codec="a" * 32, ranks=9).name((2**64 - 1, 2**64 - 1), 65535)
    assert len(longest) <= LONGEST_NAME
    assert parse(longest) is not None
