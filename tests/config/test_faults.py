"""Every fault gives one line: where, the key's path, the value, the limit, the right spelling."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvframe.config import CacheConfig, Config, PressureConfig, Resolved
from kvframe.errors import ConfigError, KVFrameError, PluginError

from .cases import FAULTS, IN_A_FILE


def complaint(path: Path, **sections: Any) -> str:
    with pytest.raises(KVFrameError) as caught:
        Resolved.load(path, env={}, **sections)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("kvframe.toml")


@pytest.mark.parametrize(("text", "message"), FAULTS)
def test_fault(file: Path, text: str, message: str) -> None:
    file.write_text(text)
    place, said = complaint(file).split(": ", 1)
    assert said == message
    assert re.fullmatch(r"kvframe\.toml:\d+", place)


@pytest.mark.parametrize(("text", "message"), [one for one in FAULTS if one != IN_A_FILE])
def test_fault_by_keyword(tmp_path: Path, text: str, message: str) -> None:
    """The same values as keywords give the same message, without a place."""
    empty = tmp_path / "kvframe.toml"
    empty.write_text("")
    assert complaint(empty, **tomllib.loads(text)) == message


class Mute:
    def __repr__(self) -> str:
        raise RuntimeError("says nothing")


@pytest.mark.scenario("IL-B10", "CB-B15")
@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("\ud800", '"\\ud800"'),
        (np.longdouble(4), "np.longdouble('4.0')"),
        (Mute(), '"a Mute that cannot be shown"'),
        ([["\udfff"]], '[["\\udfff"]]'),
    ],
)
@pytest.mark.parametrize("key", ["reserve", "low"])
def test_a_value_that_is_not_even_text(key: str, value: Any, told: str) -> None:
    pressure: Any = {key: value}
    with pytest.raises(ConfigError) as caught:
        Config(pressure=PressureConfig(**pressure)).resolve()
    assert str(caught.value).startswith(f"pressure.{key} = ")
    assert told.strip('"') in str(caught.value)
    str(caught.value).encode()


@pytest.mark.parametrize("options", [np.array([1, 2]), np.array([[1, 2]])])
def test_an_array_is_no_table(tmp_path: Path, options: Any) -> None:
    (tmp_path / "kvframe.toml").touch()
    said = complaint(tmp_path / "kvframe.toml", eviction={"options": options})
    assert said.endswith("must be a table, not a ndarray")


def test_table_of_values_in_the_place_of_a_file() -> None:
    with pytest.raises(ConfigError, match="a mapping is no file: values go by keyword"):
        Resolved.load({"cache": {}})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"path": 3}, "path = 3: must be a file's name, or None"),
        ({"path": b"kvframe.toml"}, "path = b'kvframe.toml': must be a file's name, or None"),
        ({"path": "a\0b"}, "'a\\x00b': no file has such a name: embedded null byte"),
        ({"env": 3}, "env = 3: must be a mapping of names to texts, or None"),
        ({"registry": "lru"}, "registry = 'lru': must be a Registry, or None"),
    ],
)
def test_a_source_of_another_type(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Resolved.load(**{"path": os.devnull, "env": {3: "x"}, **given})
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[cache\n", "kvframe.toml:1: is not TOML: Expected ']' at the end of a table declar"),
        (b"a = 1\nb", "kvframe.toml:2: is not TOML: Expected '=' after a key"),
        (b"a = 1\n\nb = '\xff'", "kvframe.toml:3: is not UTF-8 (byte 12)"),
        (b"a = 1\na = 2\n", "kvframe.toml:2: is not TOML: Cannot overwrite a value: a"),
        (
            b"[a]\nb.c = 1\nb.c = 2\n",
            "kvframe.toml:3: is not TOML: Cannot overwrite a value: b.c",
        ),
        (b"[a]\n[a]\n", "kvframe.toml:2: is not TOML: Cannot declare a twice"),
        (b"[a.b]\n[a.b]\n", "kvframe.toml:2: is not TOML: Cannot declare a.b twice"),
        (
            b"a = " + b"9" * 5000,
            "kvframe.toml:1: a number of 5000 characters: must have at most 128",
        ),
        (b"a = " + b"[" * 100_000, "kvframe.toml:1: tables and arrays more than 32 deep"),
    ],
)
def test_unreadable_file(file: Path, content: bytes, message: str) -> None:
    file.write_bytes(content)
    assert complaint(file).startswith(message)


def test_file_that_is_not_there(file: Path) -> None:
    assert complaint(file) == "kvframe.toml: no such file"
    assert complaint(Path()) == ".: is a directory: must be a regular file"


def test_pyproject_without_the_table(file: Path) -> None:
    pyproject = file.with_name("pyproject.toml")
    pyproject.write_text("[tool.other]\n")
    assert complaint(pyproject) == "pyproject.toml: has no [tool.kvframe] table"
    pyproject.write_text("[tool]\nkvframe = { cach = 1 }\n")
    assert complaint(pyproject) == "pyproject.toml:2: cach = 1: unknown key; did you mean cache?"


def test_unknown_policy_says_what_was_found(file: Path) -> None:
    file.write_text("[eviction]\npolicy = 'slur'\n")
    with pytest.raises(PluginError) as caught:
        Resolved.load(file, env={})
    start = 'kvframe.toml:2: eviction.policy = "slur": no eviction policy slur; did you mean slru?'
    assert str(caught.value).startswith(f"{start} Found: lru, fifo, lfu, lfuda, slru,")


def test_a_config_built_by_hand_is_checked_too() -> None:
    with pytest.raises(ConfigError) as caught:
        Config(cache=CacheConfig(block_size=0)).resolve()
    assert str(caught.value) == "cache.block_size = 0: must be between 1 and 65536"
    with pytest.raises(ConfigError, match=r"^cache = 3: must be a table of block_size,"):
        Config(cache=3).resolve()  # type: ignore[arg-type]


def test_long_values_are_cut(file: Path) -> None:
    file.write_text(f"[cache]\nhash = '{'x' * 500}'\n")
    assert len(complaint(file)) < 150
    file.write_text(f"[plugins]\n{'x' * 5_000} = 1\n")
    assert len(complaint(file)) < 300
