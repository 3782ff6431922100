"""A log as a file: a header line of JSON, then what the log holds as MessagePack, gzip or plain.

    #kvframe-log 2 {"bytes": ..., "crc32": ..., "block_size": ...}

The rest is ``bytes`` long: the columns of the events, the token ids, and the arguments of each
request. Numbers are little-endian.
"""

from __future__ import annotations

import gzip
import os
import tempfile
import zlib
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from kvframe.errors import KVFrameError, TraceError
from kvframe.events import EventKind
from kvframe.request import Request
from kvframe.retention import Retention

if TYPE_CHECKING:
    from kvframe.stats.log import EventLog

MAGIC, VERSION = b"#kvframe-log ", 2
GZIP = b"\x1f\x8b"
COLUMNS = ("tick", "kind", "group", "block", "seq", "key", "parent", "value", "other", "ids")
Contents = tuple[
    dict[str, npt.NDArray[Any]], npt.NDArray[np.uint32], dict[int, Request], int | None
]


class _Header(msgspec.Struct):
    bytes: int
    crc32: int
    block_size: int | None


class _Array(msgspec.Struct, array_like=True):
    dtype: str
    shape: tuple[int, ...]
    data: bytes

    @classmethod
    def of(cls, array: npt.NDArray[Any]) -> _Array:
        little = array.astype(array.dtype.newbyteorder("<"))
        return cls(little.dtype.str, array.shape, little.tobytes())

    def array(self) -> npt.NDArray[Any]:
        kind = np.dtype(self.dtype)
        if kind.kind not in "iu":
            raise ValueError(f"an array of {self.dtype}")
        return np.frombuffer(self.data, kind).reshape(self.shape).astype(kind.newbyteorder("="))


class _Asked(msgspec.Struct, array_like=True):
    seq: int
    prompt: _Array | None
    arrays: dict[str, _Array]
    options: dict[str, Any]


class _Body(msgspec.Struct):
    events: dict[str, _Array]
    ids: _Array
    requests: list[_Asked]


def is_log(data: bytes) -> bool:
    """Whether these are the bytes of a saved log, by their first ones."""
    if data[:2] != GZIP:
        return data.startswith(MAGIC)
    try:
        # Unpacks only the first bytes, because the file may be a large trace.
        return zlib.decompressobj(wbits=31).decompress(data[:4096], len(MAGIC)) == MAGIC
    except zlib.error:
        return False


def write(log: EventLog, path: str | PathLike[str]) -> None:
    """Write a log to a file.

    Raises:
        TraceError: It cannot be written.
    """
    target = Path(path)
    data = encode(log)
    if target.name.endswith(".gz"):
        data = gzip.compress(data, mtime=0)
    try:
        # The file is created for its owner alone and then renamed, so readers see all of it or
        # none.
        handle, part = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(part).replace(target)
        except BaseException:
            Path(part).unlink(missing_ok=True)
            raise
    except (OSError, ValueError) as error:
        raise _refused(str(path), f"cannot be written: {_plain(error)}") from None


def read(path: str | PathLike[str]) -> bytes:
    """The bytes of a file.

    Raises:
        TraceError: It cannot be read.
    """
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise _refused(str(path), _plain(error)) from None


def encode(log: EventLog) -> bytes:
    """A log as the bytes of a plain file; the same log gives the same bytes."""
    requests = [_asked(seq, request) for seq, request in log.requests.items()]
    events = {name: _Array.of(column) for name, column in log.events.items()}
    body = msgspec.msgpack.encode(_Body(events, _Array.of(log.ids), requests))
    header = msgspec.json.encode(_Header(len(body), zlib.crc32(body), log.block_size))
    return MAGIC + b"%d " % VERSION + header + b"\n" + body


def _asked(seq: int, request: Request) -> _Asked:
    prompt, options = request.prompt, request.options
    arrays = {k: _Array.of(options.pop(k)) for k in ("keys", "next_use") if k in options}
    if request.retention is not None:
        options["retention"] = request.retention.of_core()
    if request.public:
        options["public"] = request.public
    return _Asked(seq, None if prompt is None else _Array.of(prompt), arrays, options)


def decode(data: bytes, name: str) -> Contents:
    """What a saved log holds: events, token ids, requests by sequence, block size.

    Raises:
        TraceError: It is no log, of another version, or damaged; ``name`` is that of the file.
    """
    try:
        plain = gzip.decompress(data) if data[:2] == GZIP else data
    except (OSError, EOFError, zlib.error) as error:
        raise _refused(name, f"the gzip data is damaged: {error}") from None
    first, _, body = plain.partition(b"\n")
    if not first.startswith(MAGIC):
        raise _refused(name, "is no saved event log")
    version, _, rest = first[len(MAGIC) :].partition(b" ")
    if version != b"%d" % VERSION:
        told = version[:20].decode(errors="replace")
        raise _refused(name, f"event log of version {told!r}: this kvframe reads version {VERSION}")
    try:
        header = msgspec.json.decode(rest, type=_Header)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _refused(name, f"damaged header: {error}") from None
    if len(body) != header.bytes:
        what = f"the log ends after {len(body)} bytes, but its header says {header.bytes}"
        raise _refused(name, what)
    if zlib.crc32(body) != header.crc32:
        raise _refused(name, "damaged: its checksum is another")
    try:
        return _contents(msgspec.msgpack.decode(body, type=_Body), header.block_size)
    except (msgspec.DecodeError, KVFrameError, ValueError, TypeError, OverflowError) as error:
        raise _refused(name, f"cannot be read as an event log: {error}") from None


def _contents(body: _Body, block_size: int | None) -> Contents:
    events = {name: array.array() for name, array in body.events.items()}
    if events and tuple(events) != COLUMNS:
        raise ValueError(f"its columns are {', '.join(events)}")
    if len({len(column) for column in events.values()}) > 1:
        raise ValueError("its columns differ in length")
    ids = body.ids.array().astype(np.uint32)
    requests = {asked.seq: _request(asked) for asked in body.requests}
    if events:
        kinds = events["kind"]
        if not np.isin(kinds, list(EventKind)).all():
            raise ValueError("its events are of kinds that are not known")
        if int(events["ids"].sum()) != len(ids):
            raise ValueError("its token ids are not those of its events")
        admitted = np.isin(kinds, [EventKind.ALLOCATE, EventKind.RESUME])
        if not requests.keys() >= set(events["seq"][admitted].tolist()):
            raise ValueError("an admission of it has no request")
    return events, ids, requests, block_size


def _request(asked: _Asked) -> Request:
    options: dict[str, Any] = {name: one.array() for name, one in asked.arrays.items()}
    options |= asked.options
    if "retention" in options:
        options["retention"] = Retention.from_core(*options["retention"])
    public = int(options.pop("public", 0))
    prompt = None if asked.prompt is None else asked.prompt.array()
    return Request(prompt, **options).rewrite(public=public)


def _plain(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


def _refused(name: str, what: str) -> TraceError:
    return TraceError(f"{name}: {what}", name)
