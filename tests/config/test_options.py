"""Options of policies: each table is checked by the schema of the policy it belongs to."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from kvframe import (
    CacheConfig,
    Config,
    EvictionConfig,
    EvictionPolicy,
    KVCacheManager,
    PressureConfig,
    Registry,
    TierConfig,
    hookimpl,
)
from kvframe.config import Resolved
from kvframe.errors import ConfigError, PluginError

Install = Callable[..., object]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("kvframe.toml")


def test_defaults_are_filled_in(file: Path) -> None:
    file.write_text("[eviction]\npolicy = 'slru'\n")
    resolved = Resolved.load(file, env={})
    assert resolved.eviction.values == {"protected_uses": 2}
    assert resolved.provenance["eviction.options.protected_uses"] == "default"


def test_numbers_of_numpy_are_numbers() -> None:
    """A size is often computed: what the array library makes of it is taken as it is meant."""
    cache: Any = {"block_size": np.uint8(8), "capacity": np.int64(100), "null_block": np.True_}
    marks: Any = {"low": np.float32(0.5), "high": np.float64(0.75)}
    eviction: Any = {"policy": "slru", "options": {"protected_uses": np.int16(3)}}
    built = Config(
        cache=CacheConfig(**cache),
        pressure=PressureConfig(**marks),
        eviction=EvictionConfig(**eviction),
        tiers=[TierConfig(name="host", capacity=np.int32(4))],  # type: ignore[arg-type]
    )
    loaded = Resolved.load(
        env={},
        cache=cache,
        pressure=marks,
        eviction=eviction,
        tiers=[{"name": "host", "capacity": 4}],
    )
    for resolved in (built.resolve(), loaded):
        config = resolved.config
        assert (config.cache.block_size, config.cache.null_block) == (8, True)
        assert (resolved.capacity_blocks, resolved.tiers[0].pages) == (100, 4)
        assert (config.pressure.low, config.pressure.high) == (0.5, 0.75)
        assert resolved.eviction.values == {"protected_uses": 3}
    assert loaded.config == built.resolve().config


@pytest.mark.parametrize("size", [np.float64(16), np.True_, 16.0, True])
def test_no_other_number_is_a_whole_one(size: Any) -> None:
    for make in (
        lambda: Config(cache=CacheConfig(block_size=size)).resolve(),
        lambda: Config.load(env={}, cache={"block_size": size}),
    ):
        with pytest.raises(ConfigError, match=r"block_size = .*: must be a whole number"):
            make()


def test_another_policy_of_a_later_layer_has_options_of_its_own(file: Path) -> None:
    file.write_text("[eviction]\npolicy = 'slru'\n[eviction.options]\nprotected_uses = 3\n")
    assert Resolved.load(file, env={}, eviction={"policy": "slru"}).eviction.values == {
        "protected_uses": 3
    }
    for policy, values in (
        ("lru", {}),
        ("ttl", {"session_ticks": 100_000, "one_shot_ticks": 1000}),
    ):
        env = {"KVFRAME_EVICTION__POLICY": policy}
        resolved = Resolved.load(file, env=env)
        assert (resolved.eviction.name, resolved.eviction.values) == (policy, values)
        assert resolved.provenance["eviction.policy"] == "env KVFRAME_EVICTION__POLICY"


def test_a_text_may_hold_the_options_too(file: Path) -> None:
    """As the bench names a policy: a later layer's go over those of a table before it."""
    file.write_text("[eviction]\npolicy = 'ttl'\n[eviction.options]\nsession_ticks = 3\n")
    env = {"KVFRAME_EVICTION__POLICY": "ttl:one_shot_ticks=7"}
    resolved = Resolved.load(file, env=env)
    assert resolved.eviction.values == {"session_ticks": 3, "one_shot_ticks": 7}
    assert resolved.provenance["eviction.options.one_shot_ticks"] == f"env {next(iter(env))}"
    resolved = Resolved.load(
        file, env=env, eviction={"policy": "ttl:session_ticks=1,one_shot_ticks=2"}
    )
    assert resolved.eviction.values == {"session_ticks": 1, "one_shot_ticks": 2}
    assert resolved.config.eviction.policy == "ttl"
    named = Resolved.load(file, env=env, eviction="lru", admission="second-use", prefix="min-hit")
    assert named.eviction.values == {}
    assert (named.config.eviction.policy, named.admission.name) == ("lru", "second-use")
    kv = KVCacheManager.from_toml(file, eviction="slru:protected_uses=4")
    assert kv.inspect.resolved.eviction.values == {"protected_uses": 4}
    built = Config(eviction=EvictionConfig(policy="slru:protected_uses=5")).resolve()
    assert built.eviction.values == {"protected_uses": 5}
    assert built.provenance["eviction.options.protected_uses"] == "keyword"


def test_a_configuration_of_keywords() -> None:
    config = Config.of(
        block_size=8,
        capacity={"max_seq_len": 64, "max_requests": 2},
        eviction="w-tinylfu:window_percent=2",
        admission={"policy": "second-use", "on_error": "raise"},
        prefix="min-hit:min_tokens=8",
        observe={"statistics": False},
        tiers=[TierConfig(name="host", capacity=4)],
    )
    resolved = config.resolve()
    assert (resolved.capacity_blocks, resolved.config.cache.block_size) == (16, 8)
    assert resolved.eviction.values == {"window_percent": 2}
    assert resolved.config.admission.on_error == "raise"
    assert resolved.prefix.values == {"min_tokens": 8}
    assert (resolved.config.observe.statistics, resolved.tiers[0].pages) == (False, 4)
    assert Config.of() == Config()
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"evicton": "lru"}, 'evicton = "lru": unknown key; did you mean eviction?'),
        ({"block_size": "x"}, 'cache.block_size = "x": must be a whole number between 1 and 65536'),
        ({"block_size": 4, "cache": {"block_size": 4}}, "cache.block_size = 4: is given twice"),
        ({"eviction": 3}, "eviction = 3: must be a table of policy, options"),
        ({"cache": 3, "capacity": 4}, "cache = 3: must be a table of block_size"),
    ]
    for keywords, told in wrong:
        with pytest.raises(ConfigError) as caught:
            Config.of(**keywords)
        assert str(caught.value).startswith(told)


def test_the_environment_reaches_the_items_of_lists(file: Path) -> None:
    file.write_text("[[tiers]]\nname = 'host'\ncapacity = 8\n[tiers.eviction]\npolicy = 'arc'\n")
    env = {
        "KVFRAME_TIERS__0__CAPACITY": "16",
        "KVFRAME_TIERS__0__ADMISSION__POLICY": "selective:uses=3",
        "KVFRAME_TIERS__1__NAME": "below",
        "KVFRAME_TIERS__1__STORE": "disk",
        "KVFRAME_TIERS__1__CAPACITY": "32",
        "KVFRAME_TIERS__1__OPTIONS__PATH": "pages",
        "KVFRAME_GROUPS__1__NAME": "local",
        "KVFRAME_GROUPS__1__KIND": "sliding_window",
        "KVFRAME_GROUPS__1__WINDOW": "64",
    }
    resolved = Resolved.load(file, env=env)
    first, second = resolved.tiers
    assert (first.pages, first.eviction.name, first.admission.values) == (16, "arc", {"uses": 3})
    assert second.store is not None
    assert (second.pages, second.store.name, second.store.values["path"]) == (32, "disk", "pages")
    assert [group.name for group in resolved.config.groups] == ["full", "local"]
    origin = resolved.provenance
    assert origin["tiers[0].capacity"] == "env KVFRAME_TIERS__0__CAPACITY"
    assert origin["tiers[0].eviction.policy"] == "kvframe.toml:5"
    assert origin["groups[0].name"] == "default"
    assert origin["groups[1].window"] == "env KVFRAME_GROUPS__1__WINDOW"
    given = [{"name": "host", "capacity": 4}]
    Resolved.load(os.devnull, env={"KVFRAME_TIERS__0__CAPACITY": "5"}, tiers=given)
    assert given == [{"name": "host", "capacity": 4}]


def test_options_of_a_plugin(file: Path, install: Install) -> None:
    install("good")
    file.write_text("[eviction]\npolicy = 'good'\n[eviction.options]\nweight = 2\n")
    env = {"KVFRAME_EVICTION__OPTIONS__LABEL": "2"}
    resolved = Resolved.load(file, env=env)
    assert resolved.eviction.values == {"weight": 2.0, "label": "2"}
    assert resolved.provenance["eviction.options.label"] == f"env {next(iter(env))}"
    make = resolved.eviction.loaded.descriptor.make
    assert make is not None
    assert make(resolved.eviction.options).options.weight == 2.0  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("weight = 11", "eviction.options.weight = 11: must be between 0 and 10"),
        (
            "wait = 1",
            "eviction.options.wait = 1: unknown key; did you mean eviction.options.w",
        ),
        ("label = 'LOUD'", 'eviction.options = { label = "LOUD" }: label must not shout'),
    ],
)
def test_faults_of_a_plugins_options(file: Path, install: Install, line: str, message: str) -> None:
    install("good")
    file.write_text(f"[eviction]\npolicy = 'good'\n[eviction.options]\n{line}\n")
    with pytest.raises(ConfigError) as caught:
        Resolved.load(file, env={})
    assert str(caught.value).split(": ", 1)[1].startswith(message)


def test_a_policy_that_was_uninstalled(file: Path) -> None:
    file.write_text("[eviction]\npolicy = 'good'\n[eviction.options]\nweight = 2\n")
    with pytest.raises(PluginError) as caught:
        Resolved.load(file, env={})
    assert str(caught.value).startswith(
        'kvframe.toml:2: eviction.policy = "good": no eviction policy good. Found: lru, fifo,'
    )


def test_broken_plugin_keeps_its_cause(file: Path, install: Install) -> None:
    install("broken_import")
    file.write_text("[eviction]\npolicy = 'broken'\n")
    with pytest.raises(
        PluginError, match=r"^kvframe\.toml:2: eviction\.policy.*kvframe-broken-import"
    ) as caught:
        Resolved.load(file, env={})
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_lists_of_the_configuration_hold(file: Path, install: Install) -> None:
    install("good")
    file.write_text("[eviction]\npolicy = 'good'\n[plugins]\nblock = ['kvframe-good']\n")
    with pytest.raises(PluginError, match=r"is blocked: plugins\.block names it$"):
        Resolved.load(file, env={})


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Particular(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options with a check of their own, and types that kvframe's own have not."""

    least: int = 1
    colour: Colour = Colour.RED
    weights: dict[str, int] = msgspec.field(default_factory=dict)
    steps: list[int] = msgspec.field(default_factory=list)

    def __post_init__(self) -> None:
        if self.least < 1:
            raise AssertionError
        if self.least > 8:
            raise LookupError("least must be below 9")


class Plugin:
    @hookimpl
    def kvframe_eviction(self) -> list[EvictionPolicy]:
        return [
            EvictionPolicy(
                name="mine", way="batched", summary="", options=Particular, make=lambda _: None
            )
        ]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"least": 0}, " = { least = 0 }: AssertionError of its own check"),
        ({"least": 9}, " = { least = 9 }: least must be below 9"),
        ({"colour": "green"}, '.colour = "green": must be "red" or "blue"'),
        ({"colour": 3}, '.colour = 3: must be "red" or "blue", not a whole number'),
        ({"weights": {"a": "x"}}, '.weights = { a = "x" }: must be a table of whole numbers'),
        ({"steps": ["x"]}, '.steps = ["x"]: must be an array of whole numbers'),
    ],
)
def test_options_of_any_schema_are_refused_in_words(options: dict[str, Any], told: str) -> None:
    known = Registry()
    known.register(Plugin(), "mine")
    tables = {"policy": "mine", "options": options}
    with pytest.raises(ConfigError) as caught:
        Resolved.load(os.devnull, env={}, registry=known, eviction=tables)
    assert str(caught.value) == f"eviction.options{told}"
