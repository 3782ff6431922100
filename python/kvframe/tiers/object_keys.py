"""Names of pages in lower tiers: they carry all that the bytes depend on."""

from __future__ import annotations

import re
from hashlib import blake2b
from operator import index
from typing import NamedTuple

import msgspec

from kvframe.errors import ConfigError

Key = tuple[int, int]
"""128 bits of a prefix key, low word first: a row of `kvframe.blocks.BlockPool.hash_blocks`.

It covers the tokens, all tokens before them, the salt, the adapter, multimodal items and the
weights' fingerprint.
"""

FORMAT = 2
"""Version of names and objects. Pages of an earlier one are misses; they are counted, and
``kvframe tiers clear`` removes them."""

LONGEST_NAME = 128
"""Characters. No name of kvframe is longer; a store need not look at longer ones."""

_NAME = re.compile(
    r"kv(?P<format>[1-9][0-9]{0,3})-(?P<space>[0-9a-f]{32})-(?P<codec>[a-z0-9+]{1,32})"
    r"-(?P<key>[0-9a-f]{32})-(?P<part>0|[1-9][0-9]{0,4})"
)


class Space(msgspec.Struct, frozen=True, kw_only=True):
    """What pages of one tier have in common. Two spaces share no name.

    Attributes:
        model: The model's name.
        fingerprint: Names its weights.
        dtype: Type of the keys and values.
        block_size: Tokens of a page.
        parts: (layers, parts, heads, bytes of a row) of each part of a page, in order.
        hash: Hash of the prefix keys.
        rank: Whose part of the model's KV it is, of ``ranks``.
        ranks: How many there are.
        salt: A deployment's own; that of requests is in the keys.
        codec: What is done to the bytes: ``raw``, or ``fp8``, ``zstd``, ``zlib`` joined by ``+``.
        checksum: Kind of the checksum in each object.
    """

    model: str = ""
    fingerprint: str = ""
    dtype: str = ""
    block_size: int = 16
    parts: tuple[tuple[int, int, int, int], ...] = ()
    hash: str = "sha256"
    rank: int = 0
    ranks: int = 1
    salt: str = ""
    codec: str = "raw"
    checksum: str = "xxh3"

    @property
    def digest(self) -> bytes:
        """16 bytes that stand for all of it."""
        return blake2b(msgspec.json.encode(self, enc_hook=index), digest_size=16).digest()

    def check_weights(self, tier: str, store: str) -> None:
        """Check that names tell pages of these weights from others in the same store.

        Raises:
            ConfigError: Neither the model nor the weights have a name.
        """
        if not (self.model or self.fingerprint):
            raise ConfigError(
                f'cache.weight_version: missing; tier {tier} (store = "{store}") keeps pages for '
                "later processes and other engines, and nothing would tell this model's from "
                'another\'s: name its weights (weight_version = "my-model@2f1c"), or give '
                'Tiers(model="my-model")'
            )

    def name(self, key: Key, part: int) -> str:
        """The name of a part of a page."""
        return Named(self.digest, self.codec, key, part, FORMAT).name


class Named(NamedTuple):
    """A name taken apart.

    Attributes:
        space: Digest of the name space.
        codec: What was done to the bytes.
        key: Of the page.
        part: Which part of the page.
        format: Version of the name's form.
    """

    space: bytes
    codec: str
    key: Key
    part: int
    format: int

    @property
    def name(self) -> str:
        """The name again."""
        space, key = self.space.hex(), f"{number(self.key):032x}"
        return f"kv{self.format}-{space}-{self.codec}-{key}-{self.part}"


def parse(name: object) -> Named | None:
    """What a name says, of whichever format; None for one that is not of this form."""
    if not isinstance(name, str) or len(name) > LONGEST_NAME:
        return None
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    key, part = int(found["key"], 16), int(found["part"])
    space, codec = bytes.fromhex(found["space"]), found["codec"]
    return Named(space, codec, words(key), part, int(found["format"]))


def number(key: Key) -> int:
    """128 bits as one number."""
    return key[0] | key[1] << 64


def words(value: int) -> Key:
    """The other way round."""
    return value & (2**64 - 1), value >> 64
