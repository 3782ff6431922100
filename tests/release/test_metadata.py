"""What the packages say of themselves: versions that agree, licences that are all there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from release.licences import FILE, crates, document

import kvframe

ROOT = Path(__file__).parents[2]
VERSION = kvframe.__version__
PLUGINS = sorted((ROOT / "plugins").iterdir())


def toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text("utf-8"))


def test_the_licence_of_every_crate_that_is_compiled_in_is_there() -> None:
    assert FILE.read_text("utf-8") == document(crates()), "run: make licences"
    assert FILE.name in toml(ROOT / "pyproject.toml")["project"]["license-files"]


def test_versions_agree() -> None:
    workspace = toml(ROOT / "Cargo.toml")["workspace"]
    assert workspace["package"]["version"] == VERSION
    assert {crate["version"] for crate in workspace["dependencies"].values()} == {VERSION}
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert re.findall(r"^version: (.*)$", citation, re.M) == [VERSION]
    readme = (ROOT / "README.md").read_text("utf-8")
    assert re.findall(r"^ +version = \{(.*)\},$", readme, re.M) == [VERSION]


def test_a_release_has_the_same_day_everywhere() -> None:
    """And before a release there is none."""
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    released = re.findall(rf"^## \[{re.escape(VERSION)}\] - (\S+)$", changes, re.M)
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert re.findall(r"^date-released: (.*)$", citation, re.M) == released


def test_crates_say_what_a_registry_asks_for() -> None:
    for manifest in ROOT.glob("rust/*/Cargo.toml"):
        package = toml(manifest)["package"]
        assert {"description", "license"} <= set(package), manifest
        if package.get("publish", True) is not False:
            assert (manifest.parent / package["readme"]).is_file()


@pytest.mark.parametrize("folder", PLUGINS, ids=lambda folder: folder.name)
def test_a_plugin_says_what_it_is(folder: Path) -> None:
    project = toml(folder / "pyproject.toml")["project"]
    own = toml(ROOT / "pyproject.toml")["project"]
    assert project["name"] == folder.name
    assert project["license"] == own["license"]
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert project["requires-python"] == own["requires-python"]
    assert any(text.startswith("kvframe>=") for text in project["dependencies"])
    assert "Operating System :: POSIX :: Linux" in project["classifiers"]


def test_no_address_is_made_up() -> None:
    """A repository's address is filled in by `make dist HOME_URL=…`, and stands nowhere before."""
    for path in (ROOT / "pyproject.toml", *(folder / "pyproject.toml" for folder in PLUGINS)):
        assert "urls" not in toml(path)["project"]
    assert "repository-code" not in (ROOT / "CITATION.cff").read_text("utf-8")
