"""``security.fips_hashes``: keys and pages without hashes that FIPS does not approve."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kvframe import ConfigError, KVCacheManager

from ..tiers.helpers import key_file

MODEL = '[model]\nlayers = 1\nkv_heads = 1\nhead_dim = 8\ndtype = "float16"\n'
FIPS = "[security]\nfips_hashes = true\n"


def tiers(host: str, disk: str) -> str:
    store = (
        f'[[tiers]]\nname = "disk"\nstore = "disk"\ncapacity = 9\n{disk}options = {{path = "p"}}\n'
    )
    return f'[[tiers]]\nname = "host"\ncapacity = 9\n{host}{store}'


def made(folder: Path, text: str) -> KVCacheManager:
    path = folder / "kvframe.toml"
    path.write_text(text)
    return KVCacheManager.from_toml(path)


@pytest.mark.parametrize("name", ["blake3", "xxh3-128"])
def test_keys_of_another_hash_are_refused_by_name(name: str, tmp_path: Path) -> None:
    text = f'[cache]\nhash = "{name}"\n'
    made(tmp_path, text)
    told = re.escape(f'cache.hash = "{name}": security.fips_hashes allows "sha256" alone')
    with pytest.raises(ConfigError, match=told):
        made(tmp_path, text + FIPS)


def test_checksums_of_pages_are_refused_tier_by_tier(tmp_path: Path) -> None:
    base = '[cache]\nweight_version = "w"\n' + MODEL + FIPS
    crc = 'checksum = "crc32c"\n'
    with pytest.raises(ConfigError, match=r'tiers\[0\].checksum = "xxh3": .* "crc32c" or "none"'):
        made(tmp_path, base + tiers("", crc))
    with pytest.raises(ConfigError, match=r'tiers\[1\].checksum = "xxh3": .* "hmac-sha256", '):
        made(tmp_path, base + tiers(crc, ""))
    key_file(tmp_path / "key", bytes(range(32)))
    mac = f'checksum = "hmac-sha256"\nkey_file = "{tmp_path}/key"\n'
    made(tmp_path, base + tiers(crc, mac))
    made(tmp_path, base + tiers('checksum = "none"\n', crc))


def test_a_tier_that_is_off_and_the_defaults_are_no_fault(tmp_path: Path) -> None:
    made(tmp_path, FIPS)
    made(tmp_path, FIPS + MODEL + '[[tiers]]\nname = "host"\ncapacity = 0\n')
