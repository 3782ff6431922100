"""Defaults, file, environment, keywords: which wins, and what each value says of its origin."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvframe.config import CacheConfig, Config, Resolved, SequenceCapacity
from kvframe.config.origins import Origins
from kvframe.errors import ConfigError


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("kvframe.toml")


def given(resolved: Resolved) -> dict[str, str]:
    """The origins other than ``default``."""
    return {key: origin for key, origin in resolved.provenance.items() if origin != "default"}


def test_each_layer_wins_over_those_before_it(file: Path) -> None:
    file.write_text("[cache]\nblock_size = 8\ncapacity = 100\nhash = 'blake3'\n")
    env = {"KVFRAME_CACHE__CAPACITY": "200", "KVFRAME_CACHE__HASH": "xxh3-128"}
    resolved = Resolved.load(file, env=env, cache={"hash": "sha256"})
    cache = resolved.config.cache
    assert (cache.block_size, cache.capacity, cache.hash) == (8, 200, "sha256")
    assert given(resolved) == {
        "cache.block_size": "kvframe.toml:2",
        "cache.capacity": "env KVFRAME_CACHE__CAPACITY",
        "cache.hash": "keyword",
    }
    assert resolved.provenance["cache.event_log"] == "default"


def test_the_environment_is_read_by_type(file: Path) -> None:
    file.write_text("")
    env = {
        "KVFRAME_CACHE__WEIGHT_VERSION": "123",
        "KVFRAME_CACHE__NULL_BLOCK": "true",
        "KVFRAME_CACHE__CAPACITY": "1 MiB",
        "KVFRAME_MODEL__LAYERS": "2",
        "KVFRAME_MODEL__KV_HEADS": "1",
        "KVFRAME_MODEL__HEAD_DIM": "64",
        "KVFRAME_PLUGINS__BLOCK": "one, two",
        "KVFRAME_PLUGINS__ALLOW": '["three"]',
        "KVFRAME_UNRELATED": "ignored, for it has no double underscore",
    }
    config = Resolved.load(file, env=env).config
    assert config.cache.weight_version == "123"
    assert config.cache.null_block is True
    assert config.cache.capacity == "1 MiB"
    assert config.plugins.block == ["one", "two"]
    assert config.plugins.allow == ["three"]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("CACHE__BLOK_SIZE", "1", 'cache.blok_size = "1": unknown key; did you mean cache.bl'),
        ("CACHE__BLOCK_SIZE", "many", 'cache.block_size = "many": must be a whole number'),
        ("CACHE__BLOCK_SIZE", "0", "cache.block_size = 0: must be between 1 and 65536"),
        ("CACHE__BLOCK_SIZE", "", 'cache.block_size = "": must be a whole number'),
        ("CACHE__BLOCK_SIZE", "1\nx = 2", 'cache.block_size = "1\\nx = 2": must be a whole'),
        ("CACHE__BLOCK_SIZE", "9" * 5000, 'cache.block_size = "99999'),
        ("PLUGINS__ALLOW", "[" * 50_000, 'plugins.allow = "[[['),
        ("EVICTION__OPTIONS", "1", "eviction.options = 1: must be a table, not a whole number"),
        ("ENGINE__X", "1", 'engine = { x = "1" }: unknown key; a configuration has cache, m'),
        ("CACHE_BLOCK_SIZE", "1", "names no key; did you mean KVFRAME_CACHE__BLOCK_SIZE?"),
        ("CACHE_BLOK_SIZE", "1", "names no key; did you mean KVFRAME_CACHE__BLOCK_SIZE?"),
        ("CAPACITY", "5", "names no key; did you mean KVFRAME_CACHE__CAPACITY?"),
        (
            "POLICY",
            "lru",
            "names no key; did you mean KVFRAME_EVICTION__POLICY or KVFRAME_ADMISSION__POLICY or "
            "KVFRAME_PREFIX__POLICY?",
        ),
        ("__BLOCK_SIZE", "1", "names no key; KVFRAME_CACHE__BLOCK_SIZE is how one is named"),
        ("GROUPS__0__WINDOW", "4", "groups[0].window = 4: only valid with kind = "),
        ("EVICTION__POLICY", "slru:protected_uses=0", "eviction.options.protected_uses = 0"),
        ("POLICY__EVICTION", "lru", 'policy.eviction = "lru": is now eviction.policy'),
        ("TIERS__HOST__CAPACITY", "1", "an item goes by its number, from 0: KVFRAME_TIERS__0"),
        ("TIERS__1__CAPACITY", "1", "tiers[1]: there is no item before it: tiers has 0, numb"),
    ],
)
def test_faults_name_the_variable(file: Path, name: str, value: str, message: str) -> None:
    file.write_text("")
    with pytest.raises(ConfigError) as caught:
        Resolved.load(file, env={f"KVFRAME_{name}": value})
    assert str(caught.value).startswith(f"KVFRAME_{name}: {message}")
    assert "\n" not in str(caught.value)


def test_tables_merge_and_all_else_is_replaced(file: Path) -> None:
    file.write_text("[cache.capacity]\nmax_seq_len = 64\nmax_requests = 2\n")
    resolved = Resolved.load(file, env={"KVFRAME_CACHE__CAPACITY__MAX_REQUESTS": "3"})
    assert resolved.config.cache.capacity == SequenceCapacity(max_seq_len=64, max_requests=3)
    assert given(resolved) == {
        "cache.capacity.max_seq_len": "kvframe.toml:2",
        "cache.capacity.max_requests": "env KVFRAME_CACHE__CAPACITY__MAX_REQUESTS",
    }
    replaced = Resolved.load(file, env={}, cache={"capacity": 10})
    assert replaced.capacity_blocks == 10
    assert given(replaced) == {"cache.capacity": "keyword"}


def test_a_long_list_takes_no_longer_than_it_is(file: Path) -> None:
    names = [f"name-{i}" for i in range(20_000)]  # each looked at for each took minutes
    file.write_text(f"[plugins]\nblock = {names}\n")
    resolved = Resolved.load(file, env={}, plugins={"allow": names})
    assert resolved.config.plugins.block == resolved.config.plugins.allow == names
    assert given(resolved) == {"plugins.block": "kvframe.toml:2", "plugins.allow": "keyword"}


def test_what_lies_below_a_value_is_forgotten_with_it() -> None:
    origins = Origins({"a.b[0].c": "file:1", "a.b[0]": "file:2", "a.bc": "file:3"})
    assert [origins.near(path) for path in ("a.b[0].c", "a.bc")] == ["file:2", "file:3"]
    origins.set("a.b", "keyword")
    assert [origins.of(path) for path in ("a.b[0]", "a.b", "a.bc")] == [
        "default",
        "keyword",
        "file:3",
    ]
    origins.set("a", "env X")
    assert [origins.near(path) for path in ("a.b[0].c", "a.bc", "ab")] == [
        "env X",
        "env X",
        "default",
    ]


def test_a_byte_order_mark_is_no_key(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbf[cache]\r\nblock_size = 8\r\n")
    assert given(Resolved.load(file, env={})) == {"cache.block_size": "kvframe.toml:2"}


def test_groups_are_replaced_as_a_whole(file: Path) -> None:
    file.write_text("[[groups]]\nname = 'a'\n\n[[groups]]\nname = 'b'\n")
    resolved = Resolved.load(file, env={})
    assert given(resolved) == {
        "groups[0].name": "kvframe.toml:2",
        "groups[1].name": "kvframe.toml:5",
    }
    one = Resolved.load(file, env={}, groups=[{"name": "c"}])
    assert [group.name for group in one.config.groups] == ["c"]
    assert given(one) == {"groups[0].name": "keyword"}


def test_pyproject_gives_its_table(file: Path) -> None:
    pyproject = file.with_name("pyproject.toml")
    pyproject.write_text("[project]\nname = 'x'\n\n[tool.kvframe.cache]\nblock_size = 4\n")
    resolved = Resolved.load(pyproject, env={})
    assert given(resolved) == {"cache.block_size": "pyproject.toml:5"}
    assert resolved.file == pyproject


def test_without_a_path_the_current_directory_is_looked_at(file: Path) -> None:
    assert Resolved.load(env={}).file is None
    file.with_name("pyproject.toml").write_text("[tool.other]\n")
    assert Resolved.load(env={}).file is None
    file.with_name("pyproject.toml").write_text("[tool.kvframe.cache]\nblock_size = 4\n")
    assert Resolved.load(env={}).config.cache.block_size == 4
    file.write_text("[cache]\nblock_size = 2\n")
    assert Resolved.load(env={}).config.cache.block_size == 2
    assert Config.load(env={}) == Resolved.load(env={}).config


def test_a_config_built_by_hand_tells_what_it_changed() -> None:
    resolved = Config(cache=CacheConfig(block_size=32, capacity=4096)).resolve()
    assert given(resolved) == {"cache.block_size": "keyword"}
    assert resolved.config.resolve().config == resolved.config


def test_inline_tables_have_the_line_around_them(file: Path) -> None:
    file.write_text("\ncache = { block_size = 4 }\neviction.window = 0\n")
    assert given(Resolved.load(file, env={})) == {
        "cache.block_size": "kvframe.toml:2",
        "eviction.window": "kvframe.toml:3",
    }
