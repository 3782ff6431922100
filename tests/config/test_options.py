"""Options of policies: each table is checked by the schema of the policy it belongs to."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

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
