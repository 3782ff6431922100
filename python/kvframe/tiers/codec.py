"""How a page becomes an object of a store: a head that says what it is, then its bytes.

The head names the space, the key and the part, the page before it, and a checksum over everything.
What does not agree with what was asked for is never given out.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from kvframe.errors import TierError
from kvframe.pages.layout import PageShape
from kvframe.tiers.compress import Compression, Sizes, compressor
from kvframe.tiers.mac import TAG_BYTES, Mac
from kvframe.tiers.object_keys import FORMAT, Key, Named, Space, number, words
from kvframe.tiers.quantise import Fp8

Checksum = Literal["xxh3", "crc32c", "none", "hmac-sha256"]

# magic, checksum kind, part, parts, space, key, parent, depth, bytes that follow, checksum
_HEAD = struct.Struct("<4sBBH16s16s16sIQQ")
HEAD_BYTES = _HEAD.size
_MAGIC = b"KVF2"
Buffer = bytes | memoryview
_KINDS: tuple[Checksum, ...] = ("none", "xxh3", "crc32c", "hmac-sha256")
_ROOT = bytes(16)


class CorruptError(TierError):
    """An object is not what was stored under its name: a miss."""


class Head(NamedTuple):
    """What an object says of itself.

    Attributes:
        space: Digest of the space.
        key: Of the page.
        parent: Key of the page before it; None for a first one.
        depth: Its place in the prefix.
        part: Which part of the page, of ``parts``.
        parts: How many there are.
    """

    space: bytes
    key: Key
    parent: Key | None
    depth: int
    part: int
    parts: int


class Codec:
    """Objects of one tier.

    Args:
        space: Of its pages; ``codec`` is set by what is done to them.
        shapes: Of each part of a page.
        checksum: Over head and bytes.
        compression: Reversible; ``zstd`` needs the package zstandard.
        quantise: ``fp8`` is lossy, and declared in every name.
        key: The secret of ``hmac-sha256``: what was not written by who has it is no page.

    Raises:
        ConfigError: The dtype cannot be quantised.
        ImportError: A package is not there.
    """

    def __init__(
        self,
        space: Space,
        shapes: Sequence[PageShape],
        *,
        checksum: Checksum = "xxh3",
        compression: Compression = "none",
        quantise: Literal["none", "fp8"] = "none",
        key: bytes = b"",
    ) -> None:
        done = [word for word in (quantise, compression) if word != "none"]
        codec = "+".join(done) or "raw"
        self._mac = Mac(key) if checksum == "hmac-sha256" else None
        kind = checksum if self._mac is None else f"{checksum}:{self._mac.name}"
        self.space = msgspec.structs.replace(space, codec=codec, checksum=kind)
        self.shapes = tuple(shapes)
        self._digest = self.space.digest
        self._fp8 = [Fp8(s, space.dtype) for s in shapes] if quantise == "fp8" else None
        self._packer = compressor(compression)
        self._sizes = self._sizes_of_parts()
        self._kind = _KINDS.index(checksum)
        self._sum = _summer(checksum)

    @property
    def largest(self) -> int:
        """Bytes of the largest object that can be a part of a page."""
        return HEAD_BYTES + max(sizes.packed for sizes in self._sizes) + self._tag

    def name(self, key: Key, part: int) -> str:
        """The object's name."""
        return Named(self._digest, self.space.codec, key, part, FORMAT).name

    def owns(self, named: Named) -> bool:
        """Whether a name is of this space: one that `name` gives."""
        same = (named.format, named.space, named.codec)
        whole = same == (FORMAT, self._digest, self.space.codec)
        return whole and named.part < len(self.shapes)

    def encode(
        self, page: npt.NDArray[np.uint8], key: Key, part: int, parent: Key | None, depth: int
    ) -> bytes:
        """A part of a page, uint8 [page bytes], as an object."""
        raw = page.data if self._fp8 is None else self._fp8[part].encode(page)
        return self._whole(self._packer.pack(raw), key, part, parent, depth)

    def decode(self, data: bytes, key: Key, part: int) -> npt.NDArray[np.uint8]:
        """The part of a page again.

        Raises:
            CorruptError: It is another object, cut short, or a byte has changed.
        """
        head = self.head(data)
        if (head.key, head.part) != (key, part):
            raise CorruptError(f"asked for part {part} of {number(key):032x}: it is another")
        *fields, size, told = _HEAD.unpack_from(data)
        body, sizes = memoryview(data)[HEAD_BYTES : len(data) - self._tag], self._sizes[part]
        if len(body) != size or size > sizes.packed:
            most = f"{sizes.packed} at the most"
            raise CorruptError(f"{len(body)} bytes follow the head: it says {size}, {most}")
        kind = fields[1]
        if kind != self._kind:
            raise CorruptError(f"checksum kind {kind}: this tier's is {self._kind}")
        plain = _HEAD.pack(*fields, size, 0)
        if self._mac is not None and not self._mac.agrees(
            plain, body, data[len(body) + HEAD_BYTES :]
        ):
            raise CorruptError(f"{number(key):032x} was not written by who has the key")
        if self._sum(plain, body) != told:
            raise CorruptError(f"checksum of {number(key):032x} differs")
        try:
            raw = self._packer.unpack(body, sizes.plain)
            page = (
                np.frombuffer(raw, np.uint8) if self._fp8 is None else self._fp8[part].decode(raw)
            )
        except Exception as error:  # whatever a decompressor raises at garbage
            raise CorruptError(f"{number(key):032x} cannot be read: {error}") from error
        if len(page) != self.shapes[part].page_bytes:
            raise CorruptError(f"{len(page)} bytes: a page has {self.shapes[part].page_bytes}")
        return page

    def head(self, data: bytes) -> Head:
        """What an object, or its first `HEAD_BYTES` bytes, says of itself.

        Raises:
            CorruptError: It is no object of this space.
        """
        head = head_of(data)
        if head.space != self._digest or head.parts != len(self.shapes):
            raise CorruptError(f"a page of another space: {head.space.hex()}")
        return head

    def _whole(self, data: Buffer, key: Key, part: int, parent: Key | None, depth: int) -> bytes:
        """Bytes with their head and checksum."""
        before = _ROOT if parent is None else _bytes(parent)
        fields = (_MAGIC, self._kind, part, len(self.shapes), self._digest, _bytes(key), before)
        head = _HEAD.pack(*fields, depth, len(data), 0)
        tag = b"" if self._mac is None else self._mac.of(head, data)
        return b"".join([_HEAD.pack(*fields, depth, len(data), self._sum(head, data)), data, tag])

    @property
    def _tag(self) -> int:
        return 0 if self._mac is None else TAG_BYTES

    def _sizes_of_parts(self) -> list[Sizes]:
        plain = [shape.page_bytes for shape in self.shapes]
        if self._fp8 is not None:
            plain = [fp8.nbytes for fp8 in self._fp8]
        return [Sizes(size, self._packer.most(size)) for size in plain]


def head_of(data: object) -> Head:
    """What an object of any space, or its first `HEAD_BYTES` bytes, says of itself.

    Raises:
        CorruptError: It is no object of kvframe, or of another format.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise CorruptError(f"no page of kvframe: a {type(data).__name__}")
    if len(data) < HEAD_BYTES or data[:4] != _MAGIC:
        raise CorruptError(f"no page of kvframe: it starts with {bytes(data[:4])!r}")
    _, _, part, parts, space, key, parent, depth, _, _ = _HEAD.unpack_from(data)
    if part >= parts:
        raise CorruptError(f"part {part} of {parts}")
    if depth == 0 and parent != _ROOT:
        raise CorruptError(f"the first page of a prefix, and before it {parent.hex()}")
    before = None if depth == 0 else words(int.from_bytes(parent, "little"))
    return Head(space, words(int.from_bytes(key, "little")), before, depth, part, parts)


def _bytes(key: Key) -> bytes:
    return number(key).to_bytes(16, "little")


def _summer(kind: Checksum) -> Callable[[bytes, Buffer], int]:
    if kind in ("none", "hmac-sha256"):
        return lambda head, data: 0
    if kind == "xxh3":
        try:
            import xxhash
        except ImportError as error:
            raise ImportError("checksums need xxhash: pip install xxhash") from error

        def xxh3(head: bytes, data: Buffer) -> int:
            state = xxhash.xxh3_64(head)
            state.update(data)
            return state.intdigest()

        return xxh3
    try:
        from crc32c import crc32c
    except ImportError as error:
        raise ImportError("checksum = 'crc32c' needs: pip install crc32c") from error
    return lambda head, data: int(crc32c(data, crc32c(head)))
