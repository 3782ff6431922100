"""How a page becomes an object of a store: a head that says what it is, then its bytes.

The head names the space, the key and the part, the page before it, and a checksum over everything.
What does not agree with what was asked for is never given out.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from kvframe.errors import TierError, UsageError
from kvframe.pages.layout import PageShape
from kvframe.tiers.compress import Compression, Sizes, compressor
from kvframe.tiers.encryption import Vault
from kvframe.tiers.mac import Mac
from kvframe.tiers.object_keys import FORMAT, Key, Named, Space, number, words
from kvframe.tiers.quantise import Fp8

Checksum = Literal["xxh3", "crc32c", "none", "hmac-sha256"]
Encryption = Literal["none", "aes-256-gcm"]

# magic, checksum kind, part, parts, space, key, parent, depth, bytes that follow, checksum
_HEAD = struct.Struct("<4sBBH16s16s16sIQQ")
HEAD_BYTES = _HEAD.size
_MAGIC = b"KVF2"
Buffer = bytes | memoryview
_KINDS = ("none", "xxh3", "crc32c", "hmac-sha256", "aes-256-gcm")
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
        checksum: Over head and bytes; where they are encrypted, the cipher's tag takes its place.
        compression: Reversible; ``zstd`` needs the package zstandard.
        quantise: ``fp8`` is lossy, and declared in every name.
        encryption: Of the bytes, after compression, under a key for each tenant.
        key: The secret of ``hmac-sha256`` or of the encryption: what was not written by who has it
            is no page.
        own_keys: For the encryption: secrets of tenants that have one of their own, by name.

    Raises:
        ConfigError: The dtype cannot be quantised.
        ImportError: A package is not there.
    """

    _guard: Mac | Vault | None

    def __init__(
        self,
        space: Space,
        shapes: Sequence[PageShape],
        *,
        checksum: Checksum = "xxh3",
        compression: Compression = "none",
        quantise: Literal["none", "fp8"] = "none",
        encryption: Encryption = "none",
        key: bytes = b"",
        own_keys: Mapping[str, bytes] | None = None,
    ) -> None:
        done = [word for word in (quantise, compression) if word != "none"]
        codec = "+".join(done) or "raw"
        kind: str = checksum if encryption == "none" else encryption
        self._guard = None
        if kind == "aes-256-gcm":
            self._guard = Vault(key, own_keys or {})
        elif kind == "hmac-sha256":
            self._guard = Mac(key)
        told = kind if self._guard is None else f"{kind}:{self._guard.name}"
        self.space = msgspec.structs.replace(space, codec=codec, checksum=told)
        self.shapes = tuple(shapes)
        self._digest = self.space.digest
        self._fp8 = [Fp8(s, space.dtype) for s in shapes] if quantise == "fp8" else None
        self._packer = compressor(compression)
        self._sizes = self._sizes_of_parts()
        self._kind = _KINDS.index(kind)
        self._sum = _summer(kind)

    @property
    def largest(self) -> int:
        """Bytes of the largest object that can be a part of a page."""
        return HEAD_BYTES + max(sizes.packed for sizes in self._sizes) + self._extra

    @property
    def is_keyed(self) -> bool:
        """Whether a secret tells pages from forgeries."""
        return self._guard is not None

    def name(self, key: Key, part: int) -> str:
        """The object's name."""
        return Named(self._digest, self.space.codec, key, part, FORMAT).name

    def owns(self, named: Named) -> bool:
        """Whether a name is of this space: one that `name` gives."""
        same = (named.format, named.space, named.codec)
        whole = same == (FORMAT, self._digest, self.space.codec)
        return whole and named.part < len(self.shapes)

    def encode(
        self,
        page: npt.NDArray[np.uint8],
        key: Key,
        part: int,
        parent: Key | None,
        depth: int,
        tenant: str | None = "",
    ) -> bytes:
        """A part of a tenant's page, uint8 [page bytes], as an object.

        Raises:
            UsageError: The tenant is not known (None), so there is no key to encrypt it with; or
                fp8 has no such number.
        """
        raw = page.data if self._fp8 is None else self._fp8[part].encode(page)
        return self._whole(self._packer.pack(raw), key, part, parent, depth, tenant)

    def decode(
        self, data: bytes, key: Key, part: int, tenant: str | None = ""
    ) -> npt.NDArray[np.uint8]:
        """The part of a tenant's page again; of any tenant's, to check it, where that is None.

        Raises:
            CorruptError: It is another object, another tenant's, cut short, or a byte has changed.
        """
        head = self.head(data)
        if (head.key, head.part) != (key, part):
            raise CorruptError(f"asked for part {part} of {number(key):032x}: it is another")
        *fields, size, told = _HEAD.unpack_from(data)
        behind, sizes = memoryview(data)[HEAD_BYTES:], self._sizes[part]
        if len(behind) != size + self._extra or size > sizes.packed:
            most = f"{sizes.packed} at the most"
            raise CorruptError(f"{len(behind)} bytes follow the head: it says {size}, {most}")
        kind = fields[1]
        if kind != self._kind:
            raise CorruptError(f"checksum kind {kind}: this tier's is {self._kind}")
        plain = _HEAD.pack(*fields, size, 0)
        body = behind if self._guard is None else self._guard.open(plain, behind, tenant)
        if body is None:
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

    def reads(self, data: bytes, key: Key, part: int, tenant: str | None) -> bool:
        """Whether `decode` gives a page."""
        try:
            self.decode(data, key, part, tenant)
        except CorruptError:
            return False
        return True

    def head(self, data: bytes) -> Head:
        """What an object, or its first `HEAD_BYTES` bytes, says of itself.

        Raises:
            CorruptError: It is no object of this space.
        """
        head = head_of(data)
        if head.space != self._digest or head.parts != len(self.shapes):
            raise CorruptError(f"a page of another space: {head.space.hex()}")
        return head

    def _whole(
        self,
        data: Buffer,
        key: Key,
        part: int,
        parent: Key | None,
        depth: int,
        tenant: str | None = "",
    ) -> bytes:
        """Bytes with their head, and under a checksum or a key."""
        before = _ROOT if parent is None else _bytes(parent)
        fields = (_MAGIC, self._kind, part, len(self.shapes), self._digest, _bytes(key), before)
        head = _HEAD.pack(*fields, depth, len(data), 0)
        if self._guard is None:
            return b"".join([_HEAD.pack(*fields, depth, len(data), self._sum(head, data)), data])
        if tenant is None and isinstance(self._guard, Vault):
            raise UsageError(f"{number(key):032x}: no request has said whose page it is")
        return head + self._guard.seal(head, data, tenant or "")

    @property
    def _extra(self) -> int:
        return 0 if self._guard is None else self._guard.extra

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


def _summer(kind: str) -> Callable[[bytes, Buffer], int]:
    if kind in ("none", "hmac-sha256", "aes-256-gcm"):
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
