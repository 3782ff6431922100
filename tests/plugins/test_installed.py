"""Which packages are found: what a folder has is read once, and again when it has changed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

from kvframe.registry.discovery import installed

LONG_AGO = 1_600_000_000
Install = Callable[..., Path]


def put(site: Path, name: str, policy: str, at: int = LONG_AGO) -> Path:
    """A package's description in ``site``, as if all of it had been written ``at``, in seconds."""
    info = site / f"{name}-1.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[kvframe.eviction]\n{policy} = {name}\n")
    for path in (info / "METADATA", info / "entry_points.txt", info, site):
        os.utime(path, (at, at))
    return info


def of(*packages: str) -> list[tuple[str, str]]:
    """The package and policy of what is installed of these."""
    return [(one.distribution, one.name) for one in installed() if one.distribution in packages]


def test_a_folder_that_has_not_changed_is_not_read_again(install: Install) -> None:
    site = install()
    put(site, "first", "p-1")
    assert of("first") == [("first", "p-1")]
    put(site, "first", "p-2")
    assert of("first") == [("first", "p-1")], "all its times are as they were"


def test_whatever_changes_is_seen(install: Install) -> None:
    site = install()
    info = put(site, "first", "p-1")
    assert of("first", "second") == [("first", "p-1")]
    put(site, "second", "q", LONG_AGO + 10)
    assert of("first", "second") == [("first", "p-1"), ("second", "q")], "the folder is another"
    put(site, "first", "p-2", LONG_AGO + 10)
    (info / "entry_points.txt").write_text("[kvframe.eviction]\np-3 = first\n")
    os.utime(site, (LONG_AGO + 10, LONG_AGO + 10))
    assert of("first") == [("first", "p-3")], "only the entry points are"
    (info / "entry_points.txt").unlink()
    assert of("first", "second") == [("second", "q")]


def test_what_has_just_changed_is_read_each_time(install: Install) -> None:
    """The next change could have the same time, where clocks of files are coarse."""
    site = install()
    info = put(site, "first", "p-1")
    now = info.stat().st_ctime
    os.utime(site, (now, now))
    assert of("first") == [("first", "p-1")]
    put(site, "first", "p-2")
    os.utime(site, (now, now))
    assert of("first") == [("first", "p-2")]


def test_the_current_folder_is_the_one_of_now(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = install()
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    for name in ("here", "there"):
        (site / name).mkdir()
        put(site / name, name, "p")
        monkeypatch.chdir(site / name)
        assert of("here", "there") == [(name, "p")]


def test_importers_of_other_kinds_are_asked_each_time(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = install() / "elsewhere"
    elsewhere.mkdir()

    class Importer:
        def find_spec(self, *_: object) -> None:
            return None

        def find_distributions(self, _: object) -> Iterable[metadata.Distribution]:
            return [metadata.Distribution.at(info) for info in elsewhere.iterdir()]

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Importer()])
    assert of("theirs") == []
    put(elsewhere, "theirs", "p")
    assert of("theirs") == [("theirs", "p")]


def test_packages_are_found_beside_the_backport_of_importlib_metadata(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where importlib_metadata is imported (OpenTelemetry does), PathFinder finds no packages."""

    class MetadataPathFinder:
        __module__ = "importlib_metadata"

        def find_spec(self, *_: object) -> None:
            return None

        def find_distributions(self, _: object) -> Iterable[metadata.Distribution]:
            raise AssertionError("sys.path is read twice")

    monkeypatch.delattr(PathFinder, "find_distributions")
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, MetadataPathFinder()])
    put(install(), "theirs", "p")
    assert of("theirs") == [("theirs", "p")]
