"""``[security]``: what a deployment must not use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kvframe.config.origins import Origins, join
from kvframe.errors import ConfigError

if TYPE_CHECKING:
    from kvframe.config.tree import Config


def check_security(config: Config, origins: Origins) -> Iterator[ConfigError]:
    """With ``security.fips_hashes``, keys and pages have no hash that FIPS does not approve.

    SHA-256 is of FIPS 180-4, HMAC of FIPS 198-1.
    """
    if not config.security.fips_hashes:
        return
    why = "security.fips_hashes allows"
    if config.cache.hash != "sha256":
        yield origins.error("cache.hash", config.cache.hash, f'{why} "sha256" alone')
    for index, tier in enumerate(config.tiers):
        if tier.capacity != 0 and tier.checksum == "xxh3" and tier.encryption == "none":
            others = '"crc32c" or "none"' if not index else '"hmac-sha256", "crc32c" or "none"'
            path = join(join("tiers", index), "checksum")
            yield origins.error(path, tier.checksum, f"{why} {others}")
