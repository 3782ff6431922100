"""Options of policies: each table is checked by the schema of the policy it belongs to."""

from __future__ import annotations

import enum
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from kvframe import (
    CacheConfig,
    Config,
    EvictionPolicy,
    PolicyConfig,
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
    file.write_text("[policy]\neviction = 'slru'\n")
    resolved = Resolved.load(file, env={})
    assert resolved.policy_options == {"protected_uses": 2}
    assert resolved.provenance["policy.options.slru.protected_uses"] == "default"


def test_numbers_of_numpy_are_numbers() -> None:
    """A size is often computed: what the array library makes of it is taken as it is meant."""
    cache: Any = {"block_size": np.uint8(8), "capacity": np.int64(100), "null_block": np.True_}
    marks: Any = {"low": np.float32(0.5), "high": np.float64(0.75)}
    policy: Any = {"eviction": "slru", "options": {"slru": {"protected_uses": np.int16(3)}}}
    built = Config(
        cache=CacheConfig(**cache),
        pressure=PressureConfig(**marks),
        policy=PolicyConfig(**policy),
        tiers=[TierConfig(name="host", capacity=np.int32(4))],  # type: ignore[arg-type]
    )
    loaded = Resolved.load(
        env={}, cache=cache, pressure=marks, policy=policy, tiers=[{"name": "host", "capacity": 4}]
    )
    for resolved in (built.resolve(), loaded):
        config = resolved.config
        assert (config.cache.block_size, config.cache.null_block) == (8, True)
        assert (resolved.capacity_blocks, resolved.tiers[0].pages) == (100, 4)
        assert (config.pressure.low, config.pressure.high) == (0.5, 0.75)
        assert resolved.policy_options == {"protected_uses": 3}
    assert loaded.config == built.resolve().config


@pytest.mark.parametrize("size", [np.float64(16), np.True_, 16.0, True])
def test_no_other_number_is_a_whole_one(size: Any) -> None:
    for make in (
        lambda: Config(cache=CacheConfig(block_size=size)).resolve(),
        lambda: Config.load(env={}, cache={"block_size": size}),
    ):
        with pytest.raises(ConfigError, match=r"block_size = .*: must be a whole number"):
            make()


def test_only_the_chosen_table_is_passed_on(file: Path) -> None:
    file.write_text("[policy.options.slru]\nprotected_uses = 3\n")
    resolved = Resolved.load(file, env={})
    assert (resolved.options, resolved.policy_options, resolved.unchecked) == (None, {}, ())
    assert resolved.config.policy.options == {"slru": {"protected_uses": 3}}


def test_options_of_a_plugin(file: Path, install: Install) -> None:
    install("good")
    file.write_text("[policy]\neviction = 'good'\n[policy.options.good]\nweight = 2\n")
    env = {"KVFRAME_POLICY__OPTIONS__GOOD__LABEL": "2"}
    resolved = Resolved.load(file, env=env)
    assert resolved.policy_options == {"weight": 2.0, "label": "2"}
    assert resolved.provenance["policy.options.good.label"] == f"env {next(iter(env))}"
    make = resolved.policy.descriptor.make
    assert make is not None
    assert make(resolved.options).options.weight == 2.0  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("weight = 11", "policy.options.good.weight = 11: must be between 0 and 10"),
        (
            "wait = 1",
            "policy.options.good.wait = 1: unknown key; did you mean policy.options.good.w",
        ),
        ("label = 'LOUD'", 'policy.options.good = { label = "LOUD" }: label must not shout'),
    ],
)
def test_faults_of_a_plugins_options(file: Path, install: Install, line: str, message: str) -> None:
    install("good")
    file.write_text(f"[policy]\neviction = 'good'\n[policy.options.good]\n{line}\n")
    with pytest.raises(ConfigError) as caught:
        Resolved.load(file, env={})
    assert str(caught.value).split(": ", 1)[1].startswith(message)


def test_tables_of_others_are_kept_but_import_nothing(file: Path, install: Install) -> None:
    install("good")
    file.write_text("[policy.options.good]\nanything = 1\n[policy.options.absent-one]\nx = 1\n")
    resolved = Resolved.load(file, env={"KVFRAME_POLICY__OPTIONS__ABSENT_ONE__Y": "2"})
    assert resolved.unchecked == ("policy.options.good", "policy.options.absent-one")
    assert resolved.config.policy.options["absent-one"] == {"x": 1, "y": 2}
    assert "kvframe_good" not in sys.modules


def test_a_policy_that_was_uninstalled(file: Path) -> None:
    file.write_text("[policy]\neviction = 'good'\n[policy.options.good]\nweight = 2\n")
    with pytest.raises(PluginError) as caught:
        Resolved.load(file, env={})
    assert str(caught.value).startswith(
        'kvframe.toml:2: policy.eviction = "good": no eviction policy good. Found: lru, fifo,'
    )


def test_broken_plugin_keeps_its_cause(file: Path, install: Install) -> None:
    install("broken_import")
    file.write_text("[policy]\neviction = 'broken'\n")
    with pytest.raises(
        PluginError, match=r"^kvframe\.toml:2: policy\.eviction.*kvframe-broken-import"
    ) as caught:
        Resolved.load(file, env={})
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_lists_of_the_configuration_hold(file: Path, install: Install) -> None:
    install("good")
    file.write_text("[policy]\neviction = 'good'\n[plugins]\nblock = ['kvframe-good']\n")
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
    tables = {"eviction": "mine", "options": {"mine": options}}
    with pytest.raises(ConfigError) as caught:
        Resolved.load(os.devnull, env={}, registry=known, policy=tables)
    assert str(caught.value) == f"policy.options.mine{told}"
