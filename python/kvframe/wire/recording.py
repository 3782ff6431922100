"""A recorded stream: a header line, then each batch with its worker and number, gzip or plain.

    #kvframe-events 1

A batch is a length of 4 bytes, the highest first, and as many bytes of MessagePack:
``[worker, number, payload]``. A file that ends within one, as when its recorder was killed, is read
up to there.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from os import PathLike
from typing import BinaryIO, Literal, NamedTuple, Self

import msgspec

from kvframe.errors import TraceError, UsageError
from kvframe.wire.decode import Batch, decode
from kvframe.wire.events import MAX_BYTES

MAGIC, VERSION = b"#kvframe-events ", 1
_GZIP = b"\x1f\x8b"
_MAX_ROW = MAX_BYTES + 64


class Recorded(NamedTuple):
    """A batch of a recording."""

    worker: int
    number: int
    batch: Batch


class _Row(msgspec.Struct, array_like=True):
    worker: int
    number: int
    payload: bytes


class Recorder:
    """Writes batches to a file that only its owner may read, since it holds the prompts.

    Args:
        path: The file, which must not exist; compressed if its name ends with ``.gz``.

    Raises:
        TraceError: It exists, or cannot be written.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise TraceError(f"{path}: cannot be written: {error.strerror}", str(path)) from None
        self._file = os.fdopen(handle, "wb")
        is_packed = os.fspath(path).endswith(".gz")
        self._out: BinaryIO | gzip.GzipFile = self._file
        if is_packed:
            self._out = gzip.GzipFile(fileobj=self._file, mode="wb", filename="", mtime=0)
        self._out.write(MAGIC + b"%d\n" % VERSION)

    def write(self, worker: int, number: int, payload: bytes) -> None:
        """Add a batch."""
        row = msgspec.msgpack.encode(_Row(worker, number, payload))
        self._out.write(len(row).to_bytes(4, "big") + row)

    def close(self) -> None:
        """Write what is left, and close the file."""
        self._out.close()
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> Literal[False]:
        self.close()
        return False


def is_recording(data: bytes) -> bool:
    """Whether these are the bytes of a recording, by their first ones."""
    if data[:2] != _GZIP:
        return data.startswith(MAGIC)
    try:
        return zlib.decompressobj(wbits=31).decompress(data[:4096], len(MAGIC)) == MAGIC
    except zlib.error:
        return False


def recorded(data: bytes, name: str) -> Iterator[Recorded]:
    """The batches of a recording, in order; ``name`` stands for it in messages.

    Raises:
        TraceError: It is no recording, of another version, or damaged.
    """
    plain = _unpacked(data, name)
    first, end, _ = plain.partition(b"\n")
    if not end or not first.startswith(MAGIC):
        raise TraceError(f"{name}: is no recording of KV events", name)
    if first != MAGIC + b"%d" % VERSION:
        told = first[len(MAGIC) :][:20].decode(errors="replace")
        raise TraceError(f"{name}: recording of version {told!r}: must be {VERSION}", name)
    at = len(first) + 1
    while at + 4 <= len(plain):
        size = int.from_bytes(plain[at : at + 4], "big")
        row = plain[at + 4 : at + 4 + size]
        at += 4 + size
        if size > _MAX_ROW:
            raise TraceError(f"{name}: damaged: a batch of {size} bytes", name)
        if len(row) < size:
            return
        try:
            read = msgspec.msgpack.decode(row, type=_Row)
            yield Recorded(read.worker, read.number, decode(read.payload))
        except (msgspec.DecodeError, UsageError, RecursionError) as error:
            raise TraceError(f"{name}: damaged: {error}", name) from None


def _unpacked(data: bytes, name: str) -> bytes:
    if data[:2] != _GZIP:
        return data
    unpacker = zlib.decompressobj(wbits=31)
    try:
        return unpacker.decompress(data) + unpacker.flush()
    except zlib.error as error:
        raise TraceError(f"{name}: the gzip data is damaged: {error}", name) from None
