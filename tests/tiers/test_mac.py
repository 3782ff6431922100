"""A keyed MAC: what was written to a store without the key is no page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvframe import ConfigError
from kvframe.tiers.codec import Codec, CorruptError
from kvframe.tiers.mac import TAG_BYTES
from kvframe.tiers.object_keys import Space

from .helpers import SHAPE, Engine, Shelf, below, host, key_file, text

PAGE = np.arange(SHAPE.page_bytes, dtype=np.uint8)


def keyed(folder: Path, byte: bytes = b"k", **more: Any) -> Any:
    file = key_file(folder / f"{byte.hex()}.key", byte * 32)
    return below(64, "shared", checksum="hmac-sha256", key_file=file, **more)


@pytest.mark.parametrize("compression", ["none", "zlib"])
def test_every_byte_is_under_the_mac(compression: Any) -> None:
    codec = Codec(Space(), [SHAPE], checksum="hmac-sha256", compression=compression, key=b"k" * 32)
    data = codec.encode(PAGE, (1, 2), 0, (3, 4), 5)
    assert np.array_equal(codec.decode(data, (1, 2), 0), PAGE)
    assert len(data) <= codec.largest
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1
        with pytest.raises(CorruptError):
            codec.decode(bytes(changed), (1, 2), 0)
    for cut in (0, 1, TAG_BYTES, len(data) - 1):
        with pytest.raises(CorruptError):
            codec.decode(data[:cut], (1, 2), 0)


def test_a_writer_without_the_key_plants_no_page(tmp_path: Path) -> None:
    objects: dict[str, bytes] = {}
    engine = Engine([host(16), keyed(tmp_path)], stores=[Shelf(objects=objects)])
    engine.run(text(1, 17))
    engine.only_below()
    codec = engine.tiers.below[0].codec
    forger = Codec(Space(), [SHAPE], checksum="hmac-sha256", key=b"guess" * 8)
    forger._digest = codec._digest  # it knows the name space, which is in every name
    for at, (low, high) in enumerate(engine.kv.blocks.hash_blocks(text(1, 17)).tolist()):
        name = codec.name((low, high), 0)
        assert name in objects
        objects[name] = forger.encode(PAGE, (low, high), 0, None if at == 0 else (1, 1), at)
    grant = engine.start(text(1, 17))
    engine.settle()
    assert engine.compute(grant.seq) == 17
    assert engine.tiers.stats()["below"]["corrupt"] == 1


def test_engines_of_one_key_share_and_of_two_do_not(tmp_path: Path) -> None:
    objects: dict[str, bytes] = {}
    found = []
    for byte in (b"k", b"k", b"j"):
        engine = Engine([host(16), keyed(tmp_path, byte)], stores=[Shelf(objects=objects)])
        ahead = engine.tiers.prefetch(text(1, 17))
        engine.settle()
        engine.run(text(1, 17))
        found.append(ahead.loaded)
        engine.tiers.close()
    assert found == [0, 4, 0]
    assert len(objects) == 8
    assert not any(b"kkkk" in name.encode() + data for name, data in objects.items())


def test_a_key_that_is_none_is_told(tmp_path: Path) -> None:
    short = key_file(tmp_path / "short.key", b"short")
    wrong = [
        (below(64, "shared", checksum="hmac-sha256"), "key_file"),
        (below(64, "shared", key_file="k"), 'key_file = "k": goes with'),
        (below(64, "shared", checksum="hmac-sha256", key_file=short), "has 5 bytes"),
        (below(64, "shared", checksum="hmac-sha256", key_file="/none"), "looked for /none"),
        (below(64, "shared", checksum="hmac-sha256", key_file=str(tmp_path)), "is a directory"),
    ]
    for tier, told in wrong:
        with pytest.raises(ConfigError, match=told):
            Engine([host(16), tier], stores=[Shelf()])
    with pytest.raises(ConfigError, match="host memory is this process's own"):
        Engine([host(16, checksum="hmac-sha256", key_file=short)])


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o620, 0o666, 0o601])
def test_a_secret_that_others_may_read_or_change_is_refused(mode: int, tmp_path: Path) -> None:
    (tmp_path / "a folder").mkdir()
    tier = keyed(tmp_path / "a folder")
    file = Path(tier.key_file)
    file.chmod(mode)
    told = rf"tiers\[1\]\.key_file = .*: mode {mode:04o}: .*: chmod 600 '{file}'$"
    with pytest.raises(ConfigError, match=told):
        Engine([host(16), tier], stores=[Shelf()])
    file.chmod(0o440 if file.stat().st_uid == 0 else 0o600)
    Engine([host(16), tier], stores=[Shelf()]).tiers.close()
