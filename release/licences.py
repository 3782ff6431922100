"""Gathers the licences of the Rust crates that are compiled into the extension module.

`make licences` writes LICENSES-RUST.txt, which every wheel and the source distribution carry.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FILE = ROOT / "LICENSES-RUST.txt"
TARGETS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")
"""Targets of the wheels: a crate of any of them is named."""

CHOICE = ("LICENSE-MIT", "LICENSE-MIT0", "LICENSE_CC0", "LICENSE")
"""Files of a crate that leaves a choice of licences, the one that is taken first."""

HEAD = """\
Licences of the Rust crates that are compiled into kvframe's extension module.

kvframe itself is under Apache-2.0, see LICENSE. The Rust standard library, which is compiled in as
well, is MIT OR Apache-2.0, and used under Apache-2.0 (https://github.com/rust-lang/rust). Where a
crate leaves a choice of licences, the text of one of them is here. Written by `make licences`; not
edited by hand.
"""


@dataclass(frozen=True, order=True)
class Crate:
    """A crate from a registry, with its licence as its Cargo.toml has it, and the text."""

    name: str
    version: str
    licence: str
    text: str


def crates() -> list[Crate]:
    """Every foreign crate that is linked into the extension module of some target.

    Build scripts' and macros' crates run at build time and are not in it.

    Raises:
        LookupError: A crate brings no text of a licence.
    """
    found = {crate for target in TARGETS for crate in _linked(_metadata(target))}
    return sorted(found)


def document(found: Iterable[Crate]) -> str:
    """What LICENSES-RUST.txt says of these crates: each text once, under those it is of."""
    by_text: dict[str, list[Crate]] = {}
    for crate in found:
        by_text.setdefault(crate.text, []).append(crate)
    parts = [HEAD]
    for text, users in by_text.items():
        names = "\n".join(f"{one.name} {one.version}: {one.licence}" for one in users)
        parts.append(f"{'-' * 80}\n{names}\n\n{text}\n")
    return "\n".join(parts)


def _metadata(target: str) -> dict[str, Any]:
    command = ["cargo", "metadata", "--format-version=1", "--locked", f"--filter-platform={target}"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    metadata: dict[str, Any] = json.loads(done.stdout)
    return metadata


def _linked(metadata: dict[str, Any]) -> Iterator[Crate]:
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    waiting = [key for key, package in packages.items() if package["name"] == "kvframe-python"]
    seen = set[str]()
    while waiting:
        key = waiting.pop()
        package = packages[key]
        is_macro = any("proc-macro" in target["kind"] for target in package["targets"])
        if key in seen or is_macro:
            continue
        seen.add(key)
        if package["source"] is not None:  # the workspace's own have none
            licence = package["license"].replace("/", " OR ")
            yield Crate(package["name"], package["version"], licence, _text(package))
        waiting += [
            dependency["pkg"]
            for dependency in nodes[key]["deps"]
            if any(kind["kind"] is None for kind in dependency["dep_kinds"])
        ]


def _text(package: dict[str, Any]) -> str:
    folder = Path(package["manifest_path"]).parent
    for name in CHOICE:
        if (folder / name).is_file():
            lines = (folder / name).read_text("utf-8").splitlines()
            return "\n".join(line.rstrip() for line in lines).strip()
    raise LookupError(f"{package['name']} {package['version']}: none of {', '.join(CHOICE)}")


if __name__ == "__main__":
    FILE.write_text(document(crates()), encoding="utf-8")
