"""A README as a package page, and the addresses that a release fills in."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

import pytest
from release.dist import CRATES, fill, name_home
from release.page import absolute

ROOT = Path(__file__).parents[2]
PACKAGES = [".", *sorted(f"plugins/{path.name}" for path in (ROOT / "plugins").iterdir())]
HOME = "https://forge.example/team/kvframe"
FILES = f"{HOME}/blob/v1"
LINK = re.compile(r"\]\(([^()\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.M | re.S)


def outside_code(text: str) -> str:
    return FENCE.sub("", text)


def test_links_are_absolute_or_name_the_file() -> None:
    text = "[a](docs/a.md#b) [`c`](../../d.md) [e](https://e.example) [f](#g)\n```\n[h](i)\n```\n"
    there = absolute(text, "plugins/p", FILES)
    assert there == (
        f"[a]({FILES}/plugins/p/docs/a.md#b) [`c`]({FILES}/d.md) [e](https://e.example) "
        f"[f]({FILES}/plugins/p/README.md#g)\n```\n[h](i)\n```\n"
    )
    assert absolute(text, "plugins/p", None) == (
        "a (plugins/p/docs/a.md) `c` (d.md) [e](https://e.example) f\n```\n[h](i)\n```\n"
    )
    assert absolute("[x.md](y/x.md#z) [`x.md`](x.md)", "", None) == "x.md `x.md`"


@pytest.mark.parametrize("package", PACKAGES)
def test_no_page_has_a_link_that_leads_nowhere(package: str) -> None:
    text = (ROOT / package / "README.md").read_text("utf-8")
    folder = "" if package == "." else package
    for target in LINK.findall(outside_code(absolute(text, folder, FILES))):
        assert re.match(r"https?://", target), target
        if target.startswith(FILES):
            path = target.removeprefix(f"{FILES}/").partition("#")[0]
            assert (ROOT / path).exists(), target
    for target in LINK.findall(outside_code(absolute(text, folder, None))):
        assert re.match(r"https?://", target), target


@pytest.mark.parametrize("package", PACKAGES)
def test_a_home_is_named_where_there_is_one(package: str, tmp_path: Path) -> None:
    for home in (None, HOME):
        folder = tmp_path / str(home is None) / package
        folder.mkdir(parents=True)
        for name in ("README.md", "pyproject.toml"):
            shutil.copy(ROOT / package / name, folder)
        fill(tmp_path / str(home is None), package, home, home and FILES)
        project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
        urls = project.get("urls", {})
        assert (urls.get("Repository") == HOME) == (home is not None)
        assert all(url.startswith(HOME) for url in urls.values())


def test_a_crate_names_it_too(tmp_path: Path) -> None:
    for crate in CRATES:
        manifest = tmp_path / "Cargo.toml"
        shutil.copy(ROOT / "rust" / crate / "Cargo.toml", manifest)
        name_home(manifest, None)
        assert "repository" not in tomllib.loads(manifest.read_text())["package"]
        name_home(manifest, HOME)
        assert tomllib.loads(manifest.read_text())["package"]["repository"] == HOME
