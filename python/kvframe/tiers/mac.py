"""A keyed MAC over each object of a store: a checksum finds damage, this finds forgery."""

from __future__ import annotations

import hmac
from typing import Final

from kvframe.errors import ConfigError
from kvframe.files import read_regular

TAG_BYTES: Final = 32
"""Of HMAC-SHA-256 (RFC 2104, FIPS 198-1)."""

LEAST_BYTES = 32
"""Of a secret: what SHA-256 cannot be searched for."""

MOST_BYTES = 4096


class Mac:
    """Tags of objects by one secret.

    Attributes:
        name: Tells pages of this secret from those of another, and says nothing of it.

    Args:
        key: The secret.
    """

    def __init__(self, key: bytes) -> None:
        self._keyed = hmac.new(key, digestmod="sha256")
        named = self._keyed.copy()
        named.update(b"kvframe: the name of a key")
        self.name = named.hexdigest()[:32]

    def of(self, head: bytes, body: bytes | memoryview) -> bytes:
        """The tag of an object."""
        told = self._keyed.copy()
        told.update(b"page" + head)
        told.update(body)
        return told.digest()

    def agrees(self, head: bytes, body: bytes | memoryview, tag: bytes) -> bool:
        """Whether a tag is that of an object, in a time that does not say where it differs."""
        return hmac.compare_digest(self.of(head, body), bytes(tag))


def read_key(tier: str, path: str | None) -> bytes:
    """The secret of a tier's pages; empty if it has none.

    Raises:
        ConfigError: The file cannot be read, or is too short.
    """
    if path is None:
        return b""
    try:
        key = read_regular(path, MOST_BYTES)
    except (OSError, ValueError) as error:
        raise ConfigError(f"tier {tier}: key_file = {path!r}: cannot be read: {error}") from error
    if len(key) < LEAST_BYTES:
        reason = f"has {len(key)} bytes: must be at least {LEAST_BYTES}, drawn at random"
        raise ConfigError(f"tier {tier}: key_file = {path!r}: {reason}")
    return key
