"""A folder as a tier: names that appear once a file is whole, an index found again, limits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvframe import CacheConfig, Config, ConfigError, KVCacheManager, TierError
from kvframe.pages import LAYER_FIRST, Layout, NumpyPool, PageShape
from kvframe.tiers import Disk, DiskOptions, Inline, Tiers

from .helpers import BLOCK, Engine, below, host, text


def engine(
    folder: Path, pages: int = 64, *, options: Any = None, config: Any = None, **more: Any
) -> Engine:
    given = {"path": str(folder / "pages"), "fsync": False, **(options or {})}
    return Engine([host(16), below(pages, "disk", options=given)], options=config, **more)


def files(folder: Path) -> list[Path]:
    return sorted((folder / "pages").glob("??/*"))


@pytest.mark.scenario("T19", "S28")
@pytest.mark.parametrize("direct", [False, True])
def test_what_is_on_disk_is_there_after_a_restart(tmp_path: Path, direct: bool) -> None:
    options = {"direct": direct, "fsync": True}
    try:
        made = engine(tmp_path, parts=2, options=options)
    except TierError as error:
        assert direct
        pytest.skip(f"this file system has no O_DIRECT: {error}")
    for seed in range(3):
        made.run(text(seed, 17))
    made.tiers.close()
    assert len(files(tmp_path)) == 3 * 4 * 2
    again = engine(tmp_path, parts=2, options=options)
    assert again.tiers.stats()["below"]["recovered"] == 12
    for seed in range(3):
        assert again.run(text(seed, 17)).external_tokens == 16
    again.tiers.close()


@pytest.mark.scenario("T19")
def test_what_is_not_whole_or_not_ours_is_left_out(tmp_path: Path) -> None:
    made = engine(tmp_path)
    made.run(text(1, 17))
    made.tiers.close()
    first = files(tmp_path)[0]
    unfinished = first.with_suffix(".part")
    unfinished.write_bytes(b"half a page")
    (first.parent / "film.part").write_bytes(b"mine, and half of it")
    (first.parent / "folder.part").mkdir()
    (first.parent / "notes.txt").write_text("mine")
    (first.parent / "notes.kv").write_text("mine, too")
    other = engine(tmp_path, model="another")
    assert other.tiers.stats()["below"]["recovered"] == 0
    assert other.tiers.below[0].foreign == 4
    other.tiers.close()
    again = engine(tmp_path)
    assert again.tiers.stats()["below"]["recovered"] == 4
    names = {path.name for path in files(tmp_path)}
    assert unfinished.name not in names
    assert {"notes.txt", "notes.kv", "film.part", "folder.part"} < names
    again.tiers.close()


@pytest.mark.scenario("T19", "T20")
def test_what_is_ours_and_broken_is_removed_at_the_next_start(tmp_path: Path) -> None:
    """A power failure without fsync leaves empty files: they would take room for ever."""
    made = engine(tmp_path)
    one = text(1, 17)
    made.run(one)
    keys = [(low, high) for low, high in made.kv.blocks.hash_blocks(one).tolist()]
    store, codec = made.tiers.below[0].store, made.tiers.below[0].codec
    assert isinstance(store, Disk)
    paths = [store._path(codec.name(key, 0)) for key in keys]
    made.tiers.close()
    paths[3].write_bytes(b"")
    # A page of the middle says that it is a first one: nothing before it would be asked for.
    data = bytearray(paths[2].read_bytes())
    data[56:60] = bytes(4)
    paths[2].write_bytes(data)
    again = engine(tmp_path)
    again.settle()
    told = again.tiers.stats()["below"]
    assert (told["recovered"], told["corrupt"], again.tiers.below[0].foreign) == (2, 2, 0)
    assert [path.exists() for path in paths] == [True, True, False, False]
    assert again.tiers.lookup(one).tiers["below"] == 2 * BLOCK
    again.run(one)
    again.tiers.check_integrity()
    again.tiers.close()


@pytest.mark.scenario("T19")
def test_a_relative_folder_stays_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = engine(Path())
    made.run(text(1, 17))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    made.only_below()
    grant = made.start(text(1, 17))
    made.settle()
    assert made.compute(grant.seq) == 1
    made.tiers.close()
    assert len(files(tmp_path)) == 4


@pytest.mark.scenario("T20", "T1")
def test_a_changed_or_shortened_file_is_a_miss(tmp_path: Path) -> None:
    made = engine(tmp_path)
    one = text(1, 17)
    made.run(one)
    made.only_below()
    keys = [(low, high) for low, high in made.kv.blocks.hash_blocks(one).tolist()]
    store, codec = made.tiers.below[0].store, made.tiers.below[0].codec
    assert isinstance(store, Disk)
    path = store._path(codec.name(keys[2], 0))
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    grant = made.start(one)
    made.settle()
    assert made.compute(grant.seq) == 17 - 2 * BLOCK
    assert not path.exists()
    made.kv.release(grant.seq)
    made.only_below()
    path = store._path(codec.name(keys[1], 0))
    os.truncate(path, 80)
    assert made.run(one).external_tokens == 8
    assert made.tiers.below[0].corrupt == 2
    made.tiers.close()


@pytest.mark.scenario("T5")
def test_the_folder_keeps_to_its_size_and_forgets_by_its_policy(tmp_path: Path) -> None:
    made = engine(tmp_path, pages=8)
    for seed in range(4):
        made.run(text(seed, 17))
    made.settle()
    assert len(files(tmp_path)) == 8
    assert made.tiers.lookup(text(3, 17)).tiers["below"] == 16
    assert made.tiers.lookup(text(0, 17)).tiers["below"] == 0
    made.tiers.close()
    # A smaller folder after a restart takes in so many, and lets the rest go.
    again = engine(tmp_path, pages=3)
    again.settle()
    assert len(files(tmp_path)) == 3
    again.tiers.check_integrity()
    again.tiers.close()


@pytest.mark.scenario("VT63")
def test_a_full_disk_leaves_no_page_behind(tmp_path: Path, monkeypatch: Any) -> None:
    made = engine(tmp_path)
    store = made.tiers.below[0].store
    assert isinstance(store, Disk)
    fill, left = store._fill, [2]

    def some(file: int, data: bytes) -> None:
        left[0] -= 1
        if left[0] < 0:
            os.write(file, data[:50])
            raise OSError(28, "No space left on device")
        fill(file, data)

    monkeypatch.setattr(store, "_fill", some)
    made.run(text(1, 17))
    assert len(files(tmp_path)) == 2
    assert made.tiers.lookup(text(1, 17)).tiers["below"] == 8
    assert made.tiers.stats()["below"]["failed_stores"] == 2
    made.tiers.close()


def test_two_processes_do_not_share_a_folder(tmp_path: Path) -> None:
    first = Disk(DiskOptions(path=str(tmp_path / "pages")))
    with pytest.raises(TierError, match="another process has this folder"):
        Disk(DiskOptions(path=str(tmp_path / "pages")))
    first.close()
    Disk(DiskOptions(path=str(tmp_path / "pages"))).close()
    (tmp_path / "file").write_text("")
    with pytest.raises(TierError, match="file"):
        Disk(DiskOptions(path=str(tmp_path / "file")))
    with pytest.raises(ConfigError, match=r"tiers\[1\]\.options\.path"):
        Engine([host(), below(store="disk")])


@pytest.mark.scenario("T19", "S17")
def test_a_store_needs_a_name_of_the_model_or_of_its_weights(tmp_path: Path) -> None:
    """Without one, the second of two models of one shape would read the first one's pages."""
    with pytest.raises(
        ConfigError, match=r'cache\.weight_version: missing; tier below \(store = "disk"'
    ):
        engine(tmp_path, model="")
    assert not (tmp_path / "pages").exists()
    Engine([host(8)], model="").tiers.close()
    named: tuple[dict[str, Any], ...] = (
        {"model": "a"},
        {"model": "", "config": {"weight_version": "a@1"}},
        {"model": "b"},
        {"model": "", "config": {"weight_version": "b@1"}},
    )
    for one in named:
        made = engine(tmp_path, **one)
        assert made.run(text(1, 17)).external_tokens == 0
        made.tiers.close()
    made = engine(tmp_path, **named[1], ranks=np.int64(1))
    with pytest.raises(ConfigError, match=r"cache\.weight_version"):
        made.tiers.set_weight_version("")
    assert made.run(text(1, 17)).external_tokens == 16
    made.tiers.close()


def test_the_type_of_the_pool_is_in_names_where_no_model_is_told(tmp_path: Path) -> None:
    shape = PageShape(layers=1, parts=2, block_size=4, heads=1, row_bytes=8)
    found = []
    for dtype in (np.float16, np.int16, np.float16):
        tiers = [host(8), below(store="disk", options={"path": str(tmp_path / "pages")})]
        kv = KVCacheManager(Config(cache=CacheConfig(block_size=4, capacity=8), tiers=tiers))
        pool = NumpyPool(Layout.of(LAYER_FIRST, shape, 8), dtype=dtype)
        with Tiers(kv, pool, model="m", worker=lambda _: Inline()) as made:
            found.append(made.lookup(text(1, 9)).best)
            seq = made.allocate(text(1, 9)).seq
            made.drain()
            kv.extend(seq, 9)
            kv.commit(seq, 9)
            made.offload(seq)
    assert found == [0, 0, 8]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_neither_keeps_a_folder_nor_gives_it_back(tmp_path: Path) -> None:
    options = DiskOptions(path=str(tmp_path / "pages"))
    made = Disk(options)
    # One child closes what it never opened, the other holds its parent's files as long as it lives.
    closes = os.fork()
    if not closes:
        made.close()
        os._exit(0)
    os.waitpid(closes, 0)
    holds = os.fork()
    if not holds:
        time.sleep(60)
        os._exit(0)
    try:
        with pytest.raises(TierError, match="another process"):
            Disk(options)
        made.close()
        Disk(options).close()
    finally:
        os.kill(holds, signal.SIGKILL)
        os.waitpid(holds, 0)


KILLED = """
import sys
from kvframe.tiers import Disk, DiskOptions
from kvframe.tiers.codec import Codec
from kvframe.tiers.object_keys import Space
import numpy as np
from tests.tiers.helpers import SHAPE

store = Disk(DiskOptions(path=sys.argv[1]))
codec = Codec(Space(), [SHAPE])
parent = None
for at in range(100000):
    page = np.full(SHAPE.page_bytes, at % 251, np.uint8)
    key = (at + 1, 7)
    assert all(store.put([(codec.name(key, 0), codec.encode(page, key, 0, parent, at))]))
    parent = key
    if at == 20:
        print("writing", flush=True)
"""


@pytest.mark.scenario("T19")
def test_a_kill_in_the_middle_leaves_whole_pages(tmp_path: Path) -> None:
    from kvframe.tiers.codec import Codec
    from kvframe.tiers.object_keys import Space, parse

    from .helpers import SHAPE

    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path / "pages")]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])
    assert child.stdout is not None
    assert child.stdout.readline() == b"writing\n"
    time.sleep(0.05)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    store, codec = Disk(DiskOptions(path=str(tmp_path / "pages"))), Codec(Space(), [SHAPE])
    names = [name for name, _ in store.recover(0)]
    assert len(names) > 20
    for name, data in zip(names, store.get(names), strict=True):
        named = parse(name)
        assert named is not None
        assert data is not None
        page = codec.decode(data, named.key, 0)
        assert np.array_equal(page, np.full(SHAPE.page_bytes, (named.key[0] - 1) % 251, np.uint8))
    assert not list((tmp_path / "pages").glob("??/*.part"))
    store.close()
