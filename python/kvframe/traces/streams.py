"""The bytes of a trace, unpacked: gzip, zstd, bz2, xz and zip are told by their first bytes."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import os
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from kvframe.errors import TraceError
from kvframe.files import TRACE_BYTES, check_stream, read_open

HEAD = 1 << 16
LONGEST_LINE = 1 << 26
"""Most bytes of a line, after decompression."""


class Stream(io.RawIOBase):
    """A file that is read once from its start, with a look ahead.

    Args:
        name: For messages.
        file: Has `read`.
        hashed: Whether to keep the hash of all that is read.
        is_many: Whether it is many files, each one JSON object.
        parts: The files, where it is a folder's.
    """

    def __init__(
        self,
        name: str,
        file: Any,
        hashed: bool = False,
        *,
        is_many: bool = False,
        parts: Sequence[Path] = (),
    ) -> None:
        self.name = name
        self.is_many = is_many
        self.parts = parts
        self._file = file
        self._ahead = b""
        self._sha256 = hashlib.sha256() if hashed else None

    def peek(self, size: int) -> bytes:
        """The next ``size`` bytes, or all that are left, without taking them."""
        while len(self._ahead) < size:
            part = self._take(max(size - len(self._ahead), HEAD))
            if not part:
                break
            self._ahead += part
        return self._ahead[:size]

    def read(self, size: int = -1) -> bytes:
        """At most ``size`` bytes; none at the end."""
        if size < 0:
            parts = [self._ahead]
            self._ahead = b""
            while part := self._take(1 << 20):
                parts.append(part)
            return b"".join(parts)
        if not self._ahead:
            self._ahead = self._take(size)
        part, self._ahead = self._ahead[:size], self._ahead[size:]
        return part

    def readinto(self, buffer: Any) -> int:
        """As `read`, into a buffer."""
        part = self.read(len(buffer))
        buffer[: len(part)] = part
        return len(part)

    def readable(self) -> bool:
        return True

    def sha256(self) -> str:
        """The hash of the whole file; what is left is read for it."""
        while self._take(1 << 20):
            pass
        return self._sha256.hexdigest() if self._sha256 else ""

    def close(self) -> None:
        """Do nothing; `release` closes the file.

        A wrapper closes its stream when it is garbage-collected, while others may still read it.
        """

    def release(self) -> None:
        """Closes the file."""
        if sys.stdin is None or self._file is not sys.stdin.buffer:
            self._file.close()

    def _take(self, size: int) -> bytes:
        try:
            part: bytes = self._file.read(size)
        except TraceError:
            raise
        except (OSError, EOFError, lzma.LZMAError, zlib.error, zipfile.BadZipFile) as error:
            raise TraceError(f"{self.name}: {_broken(error)}", self.name) from None
        except Exception as error:  # zstandard has an error of its own, and is an extra
            raise TraceError(f"{self.name}: the data is damaged: {error}", self.name) from None
        if self._sha256 is not None:
            self._sha256.update(part)
        return part


def opened(name: str) -> Stream:
    """The file as it lies there; ``-`` is standard input.

    Raises:
        TraceError: It cannot be opened, or is something that has no end.
    """
    label = label_of(name)
    if name == "-":
        if sys.stdin is None:  # `<&-`
            raise TraceError("<stdin>: closed")
        check_stream(sys.stdin.buffer, label)
        return Stream(label, sys.stdin.buffer, hashed=True)
    file = open(name, "rb")  # noqa: SIM115 # the stream closes it
    try:
        check_stream(file, name)
    except BaseException:
        file.close()
        raise
    return Stream(label, file, hashed=True)


def label_of(name: str) -> str:
    """What messages and results call the file: a name need not be UTF-8, and they must."""
    return "<stdin>" if name == "-" else os.fsencode(name).decode(errors="replace")


def unpacked(stream: Stream) -> Stream:
    """What is inside, however often it is packed; the stream itself if it is not packed.

    Raises:
        TraceError: The packing needs an extra that is not installed, or is none that is read.
    """
    for magic, unpack in _PACKINGS.items():
        if stream.peek(len(magic)) == magic:
            return unpacked(Stream(stream.name, unpack(stream)))
    return stream


def whole(stream: Stream) -> BinaryIO:
    """All of it in memory, for what has to be read from its end.

    Raises:
        TraceError: It is larger than 4 GiB.
    """
    data = read_open(io.BufferedReader(stream), stream.name, TRACE_BYTES)
    return io.BytesIO(data)


def _zstd(stream: Stream) -> Any:
    try:
        import zstandard
    except ImportError:
        what = "is packed with zstd: pip install 'kvframe[trace]' to read it, or unpack it first"
        raise TraceError(f"{stream.name}: {what}", stream.name) from None
    return _Zstd(stream, zstandard.ZstdDecompressor)


class _Zstd:
    """Frames one after the other. zstandard's own reader takes a truncated file for a whole one."""

    def __init__(self, stream: Stream, decompressor: Callable[[], Any]) -> None:
        self._stream = stream
        self._decompressor = decompressor
        self._frame: Any = None
        self._rest = b""

    def read(self, size: int) -> bytes:
        """Some bytes, perhaps more than ``size``; none at the end."""
        while True:
            packed = self._rest or self._stream.read(1 << 14)
            self._rest = b""
            if not packed and self._frame is not None:
                raise EOFError
            if not packed:
                return b""
            if self._frame is None:
                self._frame = self._decompressor().decompressobj()
            part: bytes = self._frame.decompress(packed)
            if self._frame.eof:
                self._rest, self._frame = self._frame.unused_data, None
            if part:
                return part

    def close(self) -> None:
        """Nothing: the stream below closes its file."""


def _zip(stream: Stream) -> Any:
    try:
        archive = zipfile.ZipFile(whole(stream))
    except zipfile.BadZipFile as error:
        raise TraceError(f"{stream.name}: the zip data is damaged: {error}", stream.name) from None
    files = [one for one in archive.infolist() if not one.is_dir()]
    files = [one for one in files if not Path(one.filename).name.startswith(".")]
    if not files:
        raise TraceError(f"{stream.name}: no requests: the zip archive is empty", stream.name)
    return Joined(iter(files), lambda one: Stream(stream.name, archive.open(one)))


class Joined:
    """Files one after the other, with a line's end between them."""

    def __init__(self, files: Iterator[Any], open_one: Callable[[Any], Stream]) -> None:
        self._files = files
        self._open = open_one
        self._now: Stream | None = None
        self._inside: Any = None

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes; none after the last file."""
        while True:
            if self._now is None:
                one = next(self._files, None)
                if one is None:
                    return b""
                self._now = self._open(one)
                self._inside = unpacked(self._now)
            if part := self._inside.read(size):
                return bytes(part)
            self.close()
            return b"\n"

    def close(self) -> None:
        """Closes the file that is open."""
        if self._now is not None:
            self._now.release()
            self._now = None


def folder(name: str) -> Stream:
    """The files of a folder as one, in order of their names: a session a file, as some keep them.

    Raises:
        TraceError: There is none.
    """
    files = sorted(one for one in Path(name).iterdir() if one.is_file() and one.name[0] != ".")
    if not files:
        raise TraceError(f"{name}: no requests: the folder has no files", name)
    is_many = all(".json" in one.suffixes for one in files)
    joined = Joined(iter(files), lambda one: opened(str(one)))
    return Stream(label_of(name), joined, hashed=True, is_many=is_many, parts=files)


def _broken(error: Exception) -> str:
    text = str(getattr(error, "strerror", None) or error)
    if isinstance(error, EOFError) or "end-of-stream" in text:
        return "the packed data ends early: the file is truncated"
    if isinstance(error, OSError) and error.errno:
        return text
    return f"the packed data is damaged: {text}"


_PACKINGS: dict[bytes, Callable[[Stream], Any]] = {
    b"\x1f\x8b": lambda stream: gzip.GzipFile(fileobj=stream),
    b"\x28\xb5\x2f\xfd": _zstd,
    b"BZh": lambda stream: bz2.BZ2File(stream),
    b"\xfd7zXZ\x00": lambda stream: lzma.LZMAFile(stream),  # type: ignore[arg-type] # noqa: SIM115
    b"PK\x03\x04": _zip,
}
"""How each packing starts, and what reads it."""
