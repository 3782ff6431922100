"""A keyed MAC over each object of a store: a checksum finds damage, this finds forgery."""

from __future__ import annotations

import hmac
from typing import Final

from kvframe.config.tiers import KeyFile, ResolvedTier
from kvframe.files import read_secret, why_unread

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

    extra = TAG_BYTES
    """Bytes that an object grows by."""

    def __init__(self, key: bytes) -> None:
        self._keyed = hmac.new(key, digestmod="sha256")
        named = self._keyed.copy()
        named.update(b"kvframe: the name of a key")
        self.name = named.hexdigest()[:32]

    def seal(self, head: bytes, body: bytes | memoryview, tenant: str) -> bytes:
        """An object's bytes, and their tag; one secret stands for all tenants."""
        return b"".join([body, self._of(head, body)])

    def open(self, head: bytes, sealed: memoryview, tenant: str | None) -> memoryview | None:
        """The bytes without their tag; None if it is not theirs. The time it takes does not say
        where it differs.
        """
        body, tag = sealed[:-TAG_BYTES], sealed[-TAG_BYTES:]
        return body if hmac.compare_digest(self._of(head, body), bytes(tag)) else None

    def _of(self, head: bytes, body: bytes | memoryview) -> bytes:
        told = self._keyed.copy()
        told.update(b"page" + head)
        told.update(body)
        return told.digest()


def secrets_of(tier: ResolvedTier) -> tuple[bytes, dict[str, bytes]]:
    """The secret of a tier's pages, empty if it has none, and those of tenants, by their names.

    Raises:
        ConfigError: A file of one cannot be read, or is too short.
    """
    own = tier.own_keys if tier.config.encryption != "none" else ()
    key = _read(tier.key_file) if tier.key_file is not None else b""
    return key, {name: _read(file) for name, file in own}


def _read(file: KeyFile) -> bytes:
    try:
        key = read_secret(file.path, MOST_BYTES)
    except (OSError, ValueError) as error:
        raise file.error(why_unread(error, file.path)) from error
    if len(key) < LEAST_BYTES:
        raise file.error(f"has {len(key)} bytes: must be at least {LEAST_BYTES}, drawn at random")
    return key
