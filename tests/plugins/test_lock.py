"""``kvframe plugins lock``: a package that has changed since does not load."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from kvframe import Registry
from kvframe.cli import main
from kvframe.config import Resolved
from kvframe.errors import ConfigError, PluginError
from kvframe.registry import Lock


def lock(folder: Path) -> Path:
    file = folder / "plugins.lock"
    done = CliRunner().invoke(main, ["plugins", "lock", str(file)])
    assert done.exit_code == 0, done.output
    assert done.output.startswith(f"{file}: ")
    return file


def test_what_is_as_it_was_loads_and_what_has_changed_does_not(
    install: Callable[..., Path], tmp_path: Path
) -> None:
    site = install("good")
    known = Lock.read(lock(tmp_path))
    assert Registry(lock=known).admission("good").distribution == "kvframe-good"
    module = site / "kvframe_good.py"
    before = module.read_text()
    module.write_text(f"{before}\nraise SystemExit('it was imported')\n")
    with pytest.raises(PluginError, match=r"blocked: the files of kvframe_good are not those"):
        Registry(lock=known).admission("good")
    module.write_text(before)
    assert Registry(lock=known).admission("good").version == "1.2.0"
    (info,) = site.glob("*.dist-info/METADATA")
    info.write_text(info.read_text().replace("1.2.0", "1.2.1"))
    with pytest.raises(PluginError, match=r"blocked: plugins.lock has version 1.2.0"):
        Registry(lock=known).admission("good")


def test_what_came_later_does_not_load_and_is_listed_as_blocked(
    install: Callable[..., Path], tmp_path: Path
) -> None:
    file = lock(tmp_path)
    install("good")
    config = tmp_path / "kvframe.toml"
    config.write_text(
        '[cache]\ncapacity = 8\n[plugins]\nlock = "plugins.lock"\n[admission]\npolicy = "good"\n'
    )
    with pytest.raises(PluginError, match=r"kvframe.toml:6: .*plugins.lock does not name it"):
        Resolved.load(config)
    states = [row.state for row in Registry(lock=Lock.read(file)).list() if row.name == "good"]
    assert set(states) == {"blocked: plugins.lock does not name it"}
    assert Registry(lock=Lock({})).eviction("lru").distribution == "kvframe"  # built in
    lock(tmp_path)
    assert Resolved.load(config).admission.name == "good"


def test_a_lock_that_is_none_is_told_with_its_line(tmp_path: Path) -> None:
    config = tmp_path / "kvframe.toml"
    config.write_text('[cache]\ncapacity = 8\n[plugins]\nlock = "plugins.lock"\n')
    with pytest.raises(ConfigError, match=r"kvframe.toml:4: plugins.lock = .*cannot be read"):
        Resolved.load(config)
    for text in ("packages = 1", "[packages.a]\nversion = 1", "\x00", "other = 1"):
        (tmp_path / "plugins.lock").write_text(text)
        with pytest.raises(ConfigError, match="kvframe plugins lock writes one"):
            Resolved.load(config)
