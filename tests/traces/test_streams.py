"""Packed files, and files that are none: told by their first bytes, never by their names."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
import zstandard

from kvframe.bench.traces import ReadOptions, read
from kvframe.errors import TraceError

from .conftest import lines, row

ROWS = lines(row(0, 1100, [1, 2, 3]), row(9, 1030, [1, 2, 4]))


def zipped(*members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for at, data in enumerate(members):
            archive.writestr(f"folder/{at}.jsonl", data)
    return file.getvalue()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "plain": lambda data: data,
    "gzip": gzip.compress,
    "gzip-twice": lambda data: gzip.compress(data[:50]) + gzip.compress(data[50:]),
    "zstd": zstandard.compress,
    "zstd-twice": lambda data: zstandard.compress(data[:50]) + zstandard.compress(data[50:]),
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zip": zipped,
    "gzip-in-zip": lambda data: zipped(gzip.compress(data)),
    "bom": lambda data: b"\xef\xbb\xbf" + data,
}


@pytest.mark.parametrize("packer", PACKERS)
def test_a_packed_trace_is_read(tmp_path: Path, packer: str) -> None:
    path = tmp_path / "trace.txt"
    path.write_bytes(PACKERS[packer](ROWS))
    source = read(str(path), ReadOptions())
    assert (source.trace.requests, source.trace.input_tokens) == (2, 2_130)
    import hashlib

    assert source.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("packer", ["gzip", "zstd", "bz2", "xz", "zip"])
def test_a_truncated_file_is_named(tmp_path: Path, packer: str) -> None:
    path = tmp_path / "trace"
    big = ROWS + b"".join(lines(row(10 + at, 512, [at])) for at in range(3_000))
    packed = PACKERS[packer](big)
    path.write_bytes(packed[: len(packed) * 2 // 3])
    with pytest.raises(TraceError, match=r"trace: .*(truncated|damaged)"):
        read(str(path), ReadOptions())


def test_a_folder_and_a_zip_are_their_files_in_turn(tmp_path: Path) -> None:
    later = lines(row(20, 512, [7]))
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "1").write_bytes(ROWS)
    (folder / "2.gz").write_bytes(gzip.compress(later))
    (tmp_path / "both.zip").write_bytes(zipped(ROWS, later))
    for path in (folder, tmp_path / "both.zip"):
        assert read(str(path), ReadOptions()).trace.requests == 3


def test_a_folder_names_the_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "1").write_bytes(ROWS)
    (tmp_path / "2").write_bytes(b"x\0y")
    with pytest.raises(TraceError, match=r"/2: seems to be binary data"):
        read(str(tmp_path), ReadOptions())


def test_parquet_has_the_same_rows(tmp_path: Path) -> None:
    table = pyarrow.Table.from_pylist([row(0, 1100, [1, 2, 3]), row(9, 1030, [1, 2, 4])])
    pyarrow.parquet.write_table(table, tmp_path / "t")
    source = read(str(tmp_path / "t"), ReadOptions())
    assert (source.form, source.trace.requests) == ("mooncake", 2)
    assert source.trace.request(1)[4] == [0, 1, 3]
    data = (tmp_path / "t").read_bytes()
    (tmp_path / "t").write_bytes(data[: len(data) // 2])
    with pytest.raises(TraceError, match="not Parquet"):
        read(str(tmp_path / "t"), ReadOptions())


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no requests: the file is empty"),
        (b" \n\n", "no requests: only blank lines"),
        (b"SQLite format 3\0" + bytes(100), "is an SQLite database: export"),
        (b"\x80\x04\x95" + bytes(9), "is a pickle, which is not read"),
        (b"7z\xbc\xaf" + bytes(9), "is a 7z archive: unpack it first"),
        (bytes(257) + b"ustar" + bytes(250), "is a tar archive"),
        (bytes(range(256)), "seems to be binary data"),
        (b"dear diary,\nnothing today\n", "seems to be lines of text such as 'dear diary,'"),
        (b"a,b\n1,2\n", "seems to be CSV with 'a', 'b', which no reader knows"),
        (b'{"a": 1}\n', "seems to be JSON lines with 'a', which no reader knows"),
        (b'[{"a": 1}]', "seems to be JSON with 'a', which no reader knows"),
        (b"[1, 2]", "no requests: JSON without objects"),
        (b"pcl\0" + bytes(60), None),
        (b"lcp1" + bytes(60), "libCacheSim's lcp: its layout is not published"),
        (
            lines({"type": "BlockStored", "block_hashes": [1], "token_ids": [1]}),
            "recorded KV events: they say which blocks an engine stored",
        ),
        (lines([0.5, [["BlockStored", [1]]], 0]), None),
    ],
)
def test_what_is_no_trace_is_told(tmp_path: Path, data: bytes, words: str | None) -> None:
    (tmp_path / "t").write_bytes(data)
    with pytest.raises(TraceError) as refusal:
        read(str(tmp_path / "t"), ReadOptions())
    assert str(refusal.value).startswith(f"{tmp_path}/t: ")
    assert "\n" not in str(refusal.value)
    if words is not None:
        assert words in str(refusal.value)
