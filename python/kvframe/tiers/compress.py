"""Reversible compression of pages. What comes back is never larger than was asked for."""

from __future__ import annotations

import zlib
from typing import Any, Literal, NamedTuple, Protocol

Compression = Literal["none", "zstd", "zlib"]
Buffer = bytes | memoryview

_LEAST_WINDOW = 1 << 20
"""Bytes that a zstd frame may ask a decoder to keep, however small the page is."""


class Sizes(NamedTuple):
    """Bytes of a part of a page.

    Attributes:
        plain: Before compression, exactly.
        packed: After it, at the most.
    """

    plain: int
    packed: int


class TooLargeError(ValueError):
    """An object says that it holds more bytes than a page has."""


class Packer(Protocol):
    """Compresses one page at a time."""

    def pack(self, data: Buffer) -> Buffer:
        """The bytes, smaller as a rule."""

    def unpack(self, data: Buffer, most: int) -> Buffer:
        """The bytes again.

        Raises:
            Exception: They are not what `pack` gave, or more than ``most``, of which no more are
                ever in memory.
        """

    def most(self, plain: int) -> int:
        """The most bytes that `pack` makes of so many."""


class _AsItIs:
    def pack(self, data: Buffer) -> Buffer:
        return data

    def unpack(self, data: Buffer, most: int) -> Buffer:
        return data

    def most(self, plain: int) -> int:
        return plain


class _Zlib:
    def pack(self, data: Buffer) -> Buffer:
        return zlib.compress(data, 1)

    def unpack(self, data: Buffer, most: int) -> Buffer:
        decoder = zlib.decompressobj()
        found = decoder.decompress(data, most + 1)
        if len(found) > most or not decoder.eof:
            raise TooLargeError(f"more than {most} bytes, or cut short")
        return found

    def most(self, plain: int) -> int:
        # 5 bytes for each stored block of 16 KiB, and the head (RFC 1950, 1951).
        return plain + plain // 1000 + 64


class _Zstd:
    def __init__(self) -> None:
        try:
            import zstandard
        except ImportError as error:
            raise ImportError("compression = 'zstd' needs: pip install 'kvframe[tiers]'") from error
        self._zstandard: Any = zstandard
        self._packer = zstandard.ZstdCompressor(1)
        self._unpacker = zstandard.ZstdDecompressor()

    def pack(self, data: Buffer) -> Buffer:
        return self._packer.compress(data)

    def unpack(self, data: Buffer, most: int) -> Buffer:
        # The decoder allocates the size that a frame claims, even beyond the limit that it is
        # given.
        frame = self._zstandard.get_frame_parameters(data)
        unknown = frame.content_size == self._zstandard.CONTENTSIZE_UNKNOWN
        if (frame.content_size > most and not unknown) or frame.window_size > max(
            most, _LEAST_WINDOW
        ):
            raise TooLargeError(f"a frame of {frame.content_size} bytes: {most} at the most")
        return self._unpacker.decompress(data, max_output_size=most)

    def most(self, plain: int) -> int:
        return plain + plain // 256 + 128


def compressor(kind: Compression) -> Packer:
    """What compresses pages in this way.

    Raises:
        ImportError: A package is not there.
    """
    if kind == "none":
        return _AsItIs()
    return _Zlib() if kind == "zlib" else _Zstd()
