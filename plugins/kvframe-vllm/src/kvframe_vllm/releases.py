"""What of vLLM this package builds on, release by release.

``releases.json`` holds, for each known minor release, the names and parameters of the classes that
the pool face meets; ``manager/releases.json`` of those that the whole manager stands in for. At
start they are read from the installed sources; outside the table vLLM stays as it is. Sources are
parsed, not imported: an unpacked wheel can be recorded with
``python -m kvframe_vllm.releases FOLDER VERSION``.
"""

from __future__ import annotations

import ast
import functools
import importlib.metadata
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

TABLE = Path(__file__).with_name("releases.json")

POINTS: Mapping[str, tuple[str, ...]] = {
    "v1/core/block_pool.py": ("BlockPool",),
    "v1/core/kv_cache_utils.py": ("FreeKVCacheBlockQueue", "KVCacheBlock"),
    "distributed/kv_transfer/kv_connector/v1/base.py": ("KVConnectorBase_V1", "SupportsHMA"),
}
"""Classes by file, below the package ``vllm``."""

MANAGER_TABLE = Path(__file__).parent / "manager" / "releases.json"

MANAGER_POINTS: Mapping[str, tuple[str, ...]] = {
    "v1/core/kv_cache_manager.py": ("KVCacheManager", "KVCacheBlocks"),
    "v1/core/kv_cache_coordinator.py": (
        *("KVCacheCoordinator", "UnitaryKVCacheCoordinator", "HybridKVCacheCoordinator"),
    ),
    "v1/core/single_type_kv_cache_manager.py": (
        *("SingleTypeKVCacheManager", "FullAttentionManager", "SlidingWindowManager"),
    ),
    "v1/core/block_pool.py": ("BlockPool",),
    "v1/core/sched/scheduler.py": ("Scheduler",),
    "v1/request.py": ("Request",),
}
"""The same for the whole manager, which vLLM's scheduler calls by other names."""


@functools.cache
def unknown() -> str | None:
    """Why the installed vLLM is not one that is known, in one sentence; None if it is."""
    return difference(*_installed())


@functools.cache
def unknown_to_manager() -> str | None:
    """The same of what the whole manager builds on."""
    return difference(*_installed(), MANAGER_TABLE, MANAGER_POINTS)


def _installed() -> tuple[Path, str]:
    distribution = importlib.metadata.distribution("vllm")
    return Path(str(distribution.locate_file(""))), distribution.version


def difference(
    site: Path,
    version: str,
    known_by: Path = TABLE,
    points: Mapping[str, tuple[str, ...]] = POINTS,
) -> str | None:
    """The same of the vLLM of that version in the folder ``site``, by a table of its own."""
    table = recorded(known_by)
    known = table.get(minor(version))
    if known is None:
        return f"vLLM {version} is not one of the known releases, {', '.join(table)}"
    found = signatures(site, points)
    changed = sorted(key for key in known.keys() | found if known.get(key) != found.get(key))
    if not changed:
        return None
    more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
    was, now = known.get(changed[0], "absent"), found.get(changed[0], "absent")
    return f"vLLM {version} differs from {minor(version)}: {changed[0]} was {was}, is {now}{more}"


def minor(version: str) -> str:
    """``0.33`` of ``0.33.1``."""
    return ".".join(version.split(".")[:2])


def recorded(table: Path = TABLE) -> dict[str, dict[str, str]]:
    """The table in a file."""
    rows: dict[str, dict[str, str]] = json.loads(table.read_text(encoding="utf-8"))
    return rows


def signatures(site: Path, points: Mapping[str, tuple[str, ...]] = POINTS) -> dict[str, str]:
    """Parameters of each method, and each field, of the classes in ``points`` that are there."""
    found: dict[str, str] = {}
    for file, classes in points.items():
        path = site / "vllm" / file
        if path.is_file():
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and node.name in classes:
                    found.update(_members(node))
    return found


def _members(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for member in node.body:
        if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{node.name}.{member.name}", _parameters(member.args)
        elif isinstance(member, ast.AnnAssign):
            yield f"{node.name}.{ast.unparse(member.target)}", "a field"


def _parameters(given: ast.arguments) -> str:
    """Names and defaults, without annotations, which say nothing about how it is called."""
    for one in ast.walk(given):
        if isinstance(one, ast.arg):
            one.annotation = None
    return f"({ast.unparse(given)})"


def record(
    site: Path,
    version: str,
    file: Path = TABLE,
    points: Mapping[str, tuple[str, ...]] = POINTS,
) -> None:
    """Enter the vLLM of that version in the folder ``site`` into a table."""
    table = recorded(file) if file.is_file() else {}
    table[minor(version)] = signatures(site, points)
    ordered = dict(sorted(table.items(), key=lambda row: [int(part) for part in row[0].split(".")]))
    file.write_text(json.dumps(ordered, indent=1, sort_keys=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    record(Path(sys.argv[1]), sys.argv[2])
    record(Path(sys.argv[1]), sys.argv[2], MANAGER_TABLE, MANAGER_POINTS)
