"""Pages of a store under AES-256-GCM, each tenant's under a key of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from kvframe.tiers.mac import Mac

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NONCE_BYTES: Final = 12
"""Drawn at random for each object. NIST SP 800-38D, 8.3, allows 2**32 of them under one key."""

TAG_BYTES: Final = 16

ID_BYTES: Final = 16

REMEMBERED = 4096
"""Tenants whose keys are kept at hand."""


class Vault:
    """Seals objects for tenants, and opens them.

    A tenant's key follows from a secret and the tenant's name by HKDF-SHA-256 (RFC 5869), in two
    steps: the name gives an id, which each sealed object begins with, and the id gives the key. So
    who has the secret can check an object without knowing whose it is.

    Attributes:
        name: Tells objects of this secret from those of another, and says nothing of it.

    Args:
        secret: Of all tenants that have none of their own.
        own: Secrets of tenants, by name.

    Raises:
        ImportError: The package cryptography is not there.
    """

    extra = ID_BYTES + NONCE_BYTES + TAG_BYTES
    """Bytes that an object grows by."""

    def __init__(self, secret: bytes, own: Mapping[str, bytes]) -> None:
        self._derive, self._cipher = _primitives()
        self.name = Mac(secret).name
        self._secret, self._own = secret, own
        self._ids: dict[str, bytes] = {}
        self._ciphers: dict[bytes, AESGCM] = {}
        self._secrets = {self._id(tenant): other for tenant, other in own.items()}

    def seal(self, head: bytes, body: bytes | memoryview, tenant: str) -> bytes:
        """A tenant's object: the id of its key, the nonce, what is sealed, the tag."""
        name, nonce = self._id(tenant), os.urandom(NONCE_BYTES)
        return b"".join([name, nonce, self._of(name).encrypt(nonce, body, head + name)])

    def open(self, head: bytes, sealed: memoryview, tenant: str | None) -> bytes | None:
        """What was sealed under this head for a tenant, or for any if None; None if nothing was."""
        from cryptography.exceptions import InvalidTag

        name, rest = bytes(sealed[:ID_BYTES]), sealed[ID_BYTES:]
        if tenant is not None and name != self._id(tenant):
            return None
        try:
            return self._of(name).decrypt(
                bytes(rest[:NONCE_BYTES]), rest[NONCE_BYTES:], head + name
            )
        except InvalidTag:
            return None

    def _id(self, tenant: str) -> bytes:
        found = self._ids.get(tenant)
        if found is None:
            if len(self._ids) >= REMEMBERED:
                self._ids.clear()
            secret = self._own.get(tenant, self._secret)
            info = b"kvframe: the id of a tenant's key: " + tenant.encode()
            found = self._ids[tenant] = self._derive(secret, info, ID_BYTES)
        return found

    def _of(self, name: bytes) -> AESGCM:
        found = self._ciphers.get(name)
        if found is None:
            if len(self._ciphers) >= REMEMBERED:
                self._ciphers.clear()
            secret = self._secrets.get(name, self._secret)
            found = self._cipher(self._derive(secret, b"kvframe: a tenant's key: " + name, 32))
            self._ciphers[name] = found
        return found


def _primitives() -> tuple[Callable[[bytes, bytes, int], bytes], type[AESGCM]]:
    """HKDF-SHA-256 of a secret, for a purpose, of so many bytes; and AES-GCM."""
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    except ImportError as error:
        raise ImportError(
            "encryption = \"aes-256-gcm\" needs cryptography: pip install 'kvframe[encryption]'"
        ) from error

    def derive(secret: bytes, info: bytes, length: int) -> bytes:
        return HKDF(algorithm=SHA256(), length=length, salt=None, info=info).derive(secret)

    return derive, AESGCM
