"""Builds what a release uploads into ``dist``: ``make dist``.

Everything is built from the files of a commit, in target/dist/tree. There the addresses that are
known only at a release are filled in.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from release.licences import ROOT, TARGETS
from release.page import absolute

DIST = ROOT / "dist"
WORK = ROOT / "target" / "dist"
TREE = WORK / "tree"
CRATES = ("core", "native", "trace", "server")
"""Crates that can be packaged by themselves, each after those that it needs."""

PLATFORM = "manylinux_2_28"
"""The oldest glibc that the wheels run on: 2.28, as with NumPy's."""


def main() -> int:
    """Builds all that can be built here; 1 if a wheel is missing."""
    options = _options()
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    home = options.home_url and options.home_url.rstrip("/")
    files = options.files_url or (home and f"{home}/blob/v{version}")
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    _export()
    packages = [".", *sorted(f"plugins/{path.name}" for path in (TREE / "plugins").iterdir())]
    for package in packages:
        fill(TREE, package, home, files)
    for crate in CRATES:
        name_home(TREE / "rust" / crate / "Cargo.toml", home)
    missing = [target for target in TARGETS if not _wheel(target)]
    _run("maturin", "sdist", "--out", DIST, cwd=TREE)
    for package in packages[1:]:
        _run(
            "python", "-m", "build", "--no-isolation", "--outdir", DIST, TREE / package, quiet=True
        )
    named = [option for crate in CRATES for option in ("--package", f"kvframe-{crate}")]
    _run("cargo", "package", "--locked", "--no-verify", *named, cwd=TREE, quiet=True)
    made = sorted(path for path in DIST.iterdir() if path.is_file())
    _run("twine", "check", "--strict", *made, quiet=True)
    (DIST / "crates").mkdir()
    for crate in CRATES:
        shutil.copy(
            ROOT / "target" / "package" / f"kvframe-{crate}-{version}.crate", DIST / "crates"
        )
    for path in [*made, *sorted((DIST / "crates").iterdir())]:
        print(f"{path.stat().st_size / 1e6:8.3f} MB  {path.name}")
    if home is None:
        print(
            "dist: without HOME_URL=… the packages name no address, and their pages link to no file"
        )
    for target in missing:
        print(f"dist: no wheel of {target}: rustup cannot add its standard library here")
    return 1 if missing else 0


def fill(tree: Path, package: str, home: str | None, files: str | None) -> None:
    """Write addresses into the metadata and the README of a package below ``tree``.

    Args:
        tree: A copy of the repository, which is changed.
        package: The package's folder in it, ``.`` for kvframe.
        home: The repository's address; None if it has none yet: then none is named.
        files: The address below which it shows the files of this release.
    """
    folder = tree / package
    readme = folder / "README.md"
    where = "" if package == "." else package
    readme.write_text(absolute(readme.read_text("utf-8"), where, files), "utf-8")
    if home is None:
        return
    urls = {
        "Repository": home,
        "Documentation": f"{files}/docs",
        "Changelog": f"{files}/CHANGELOG.md",
        "Security": f"{files}/SECURITY.md",
    }
    lines = [f'{name} = "{url}"\n' for name, url in urls.items()]
    with (folder / "pyproject.toml").open("a", encoding="utf-8") as project:
        project.write("".join(["\n[project.urls]\n", *lines]))


def name_home(manifest: Path, home: str | None) -> None:
    """Write the repository's address into a crate's Cargo.toml, if there is one."""
    if home is not None:
        after = "license.workspace = true\n"
        text = manifest.read_text("utf-8").replace(after, f'{after}repository = "{home}"\n', 1)
        manifest.write_text(text, "utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make dist")
    parser.add_argument("--home-url", help="the repository's address: make dist HOME_URL=…")
    parser.add_argument("--files-url", help="where it shows the release's files: FILES_URL=…")
    options = parser.parse_args()
    for url in (options.home_url, options.files_url):
        if url is not None and not re.fullmatch(r"https://[^\s\"\\]+", url):
            parser.error(f"{url!r}: must be an https:// address")
    return options


def _export() -> None:
    shutil.rmtree(TREE, ignore_errors=True)
    TREE.mkdir(parents=True)
    if subprocess.run(["git", "diff", "--quiet", "HEAD"], cwd=ROOT, check=False).returncode:
        print("dist: what is not committed is left out", file=sys.stderr)
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True)
    subprocess.run(["tar", "-x"], cwd=TREE, check=True, input=archive.stdout)


def _wheel(target: str) -> bool:
    libraries = subprocess.run(
        ["rustc", "--print", "target-libdir", "--target", target],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    if not Path(libraries).is_dir():
        added = subprocess.run(["rustup", "target", "add", target], check=False)
        if added.returncode:
            return False
    options = ["--release", "--locked", "--strip", "--zig", "--compatibility", PLATFORM]
    _run("maturin", "build", "--quiet", *options, "--target", target, "--out", DIST, cwd=TREE)
    return True


def _no_paths() -> list[str]:
    """Flags by which panics name files of crates, and not where they lie on this machine."""
    registry = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo")) / "registry" / "src"
    return [f"--remap-path-prefix={registry}=crates", f"--remap-path-prefix={TREE}=kvframe"]


def _run(*command: object, cwd: Path = ROOT, quiet: bool = False) -> None:
    tools = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "VIRTUAL_ENV": str(tools.parent),
        "CARGO_TARGET_DIR": str(ROOT / "target"),
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(_no_paths()),
    }
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        check=False,
        stdout=subprocess.PIPE if quiet else None,
        stderr=subprocess.STDOUT if quiet else None,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{done.stdout or ''}dist: {command[0]} failed")


if __name__ == "__main__":
    sys.exit(main())
