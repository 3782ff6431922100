"""What of SGLang this package builds on, release by release.

``releases.json`` holds, for each known release, the names and parameters of the classes that the
tree core meets. At start they are read from the installed sources; outside the table SGLang stays
as it is. Sources are parsed, not imported: an unpacked wheel can be recorded with ``python -m
kvframe_sglang.releases FOLDER VERSION``.
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
    "mem_cache/unified_cache/unified_tree_core_interface.py": (
        *("BaseEvictionResult", "EvictDeviceNextNodeResult", "EvictDeviceLeafResult"),
        *("InsertStepResult", "TreePathNodeInfo", "RadixCacheWalkResult"),
        "UnifiedTreeCoreInterface",
    ),
    "mem_cache/unified_cache/tree_core_registry.py": (
        *("create_tree_core", "register_tree_core_backend", "registered_tree_core_backends"),
    ),
    "mem_cache/unified_cache/cache_action.py": ("FreeDeviceKV",),
    "mem_cache/base_prefix_cache.py": (
        *("MatchPrefixParams", "MatchResult", "InsertParams", "InsertResult"),
        *("IncLockRefResult", "DecLockRefParams", "DecLockRefResult"),
    ),
    "mem_cache/cache_init_params.py": ("CacheInitParams",),
    "mem_cache/radix_cache.py": ("RadixKey",),
    "mem_cache/events.py": ("KVCacheEventRecorder",),
    "mem_cache/utils.py": ("get_eviction_strategy", "split_node_hash_value"),
    "mem_cache/allocator/page_interleave.py": ("page_interleave_shard_size",),
    "environ.py": ("EnvField",),
}
"""Classes and functions by file, below the package ``sglang.srt``."""


@functools.cache
def unknown() -> str | None:
    """Why the installed SGLang is not one that is known, in one sentence; None if it is."""
    try:
        distribution = importlib.metadata.distribution("sglang")
        return difference(Path(str(distribution.locate_file(""))), distribution.version)
    except (importlib.metadata.PackageNotFoundError, OSError, SyntaxError) as error:
        return f"SGLang's sources cannot be read ({type(error).__name__}: {error})"


def difference(site: Path, version: str, known_by: Path = TABLE) -> str | None:
    """The same of the SGLang of that version in the folder ``site``."""
    table = recorded(known_by)
    known = table.get(version)
    if known is None:
        return f"SGLang {version} is not one of the known releases, {', '.join(table)}"
    found = signatures(site)
    changed = sorted(key for key in known.keys() | found if known.get(key) != found.get(key))
    if not changed:
        return None
    more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
    was, now = known.get(changed[0], "absent"), found.get(changed[0], "absent")
    return f"SGLang {version} is not as recorded: {changed[0]} was {was}, is {now}{more}"


def recorded(table: Path = TABLE) -> dict[str, dict[str, str]]:
    """The table in a file."""
    rows: dict[str, dict[str, str]] = json.loads(table.read_text(encoding="utf-8"))
    return rows


def signatures(site: Path) -> dict[str, str]:
    """Parameters of each function and method, and each field, of what `POINTS` names."""
    found: dict[str, str] = {}
    for file, names in POINTS.items():
        path = site / "sglang" / "srt" / file
        if path.is_file():
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and node.name in names:
                    found.update(_members(node))
                elif isinstance(node, ast.FunctionDef) and node.name in names:
                    found[node.name] = _parameters(node.args)
    return found


def _members(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for member in node.body:
        if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
            # An abstract method more is one that this package does not answer.
            kind = (
                "abstract " if "abstractmethod" in map(ast.unparse, member.decorator_list) else ""
            )
            yield f"{node.name}.{member.name}", kind + _parameters(member.args)
        elif isinstance(member, ast.AnnAssign):
            yield f"{node.name}.{ast.unparse(member.target)}", "a field"


def _parameters(given: ast.arguments) -> str:
    """Names and defaults, without annotations, which say nothing about how it is called."""
    for one in ast.walk(given):
        if isinstance(one, ast.arg):
            one.annotation = None
    return f"({ast.unparse(given)})"


def record(site: Path, version: str, file: Path = TABLE) -> None:
    """Enter the SGLang of that version in the folder ``site`` into a table."""
    table = recorded(file) if file.is_file() else {}
    table[version] = signatures(site)
    file.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    record(Path(sys.argv[1]), sys.argv[2])
