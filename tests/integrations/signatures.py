"""The plug points of other engines as their sources state them, and what differs between versions.

``python -m tests.integrations.signatures ENGINE SITE_PACKAGES VERSION`` records a version in
signatures.json. Sources are read, not imported: an unpacked wheel will do.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

RECORD = Path(__file__).with_name("signatures.json")

POINTS: Mapping[str, tuple[str, ...]] = {
    "vllm": (
        "vllm.v1.kv_offload.cpu.policies.base:CachePolicy",
        "vllm.v1.kv_offload.cpu.policies.base:ChunkStatus",
        "vllm.v1.kv_offload.cpu.policies.base:order_request_keys",
        "vllm.v1.kv_offload.cpu.policies.factory:CachePolicyFactory",
        "vllm.v1.kv_offload.base:ReqContext",
    ),
    "sglang": (
        "sglang.srt.mem_cache.evict_policy:EvictionStrategy",
        "sglang.srt.mem_cache.radix_cache:TreeNode",
        "sglang.srt.mem_cache.utils:_EVICTION_POLICY_FACTORIES",
        "sglang.srt.mem_cache.utils:get_eviction_strategy",
    ),
    "lmcache": (
        "lmcache.v1.storage_backend.cache_policy.base_policy:BaseCachePolicy",
        "lmcache.v1.storage_backend.cache_policy:POLICY_MAPPING",
        "lmcache.v1.storage_backend.cache_policy:get_cache_policy",
        "lmcache.v1.distributed.eviction:EvictionPolicy",
        "lmcache.v1.distributed.internal_api:EvictionAction",
        "lmcache.v1.distributed.internal_api:EvictionDestination",
        "lmcache.v1.distributed.api:ObjectKey",
    ),
}
"""What the adapters build on, as ``module:name``."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def read(site: Path, engine: str) -> dict[str, str]:
    """Each point, and each method and field of those that are classes, with its signature.

    A point that is not there is missing from the answer.
    """
    found: dict[str, str] = {}
    for point in POINTS[engine]:
        module, name = point.split(":")
        path = site.joinpath(*module.split("."))
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if not file.is_file():
            continue
        for node in ast.parse(file.read_text("utf-8")).body:
            found.update((f"{module}.{key}", text) for key, text in _told(node, name))
    return found


def _told(node: ast.stmt, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, Function) and node.name == name:
        yield name, _signature(node)
    elif isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name:
        yield name, ast.unparse(node.annotation)
    elif isinstance(node, ast.Assign) and name in map(ast.unparse, node.targets):
        yield name, type(node.value).__name__
    elif isinstance(node, ast.ClassDef) and node.name == name:
        yield name, f"({', '.join(map(ast.unparse, node.bases))})"
        for below in node.body:
            if isinstance(below, Function):
                yield f"{name}.{below.name}", _signature(below)
                if below.name == "__init__":
                    yield from _attributes(below, name)
            elif isinstance(below, ast.AnnAssign):
                yield f"{name}.{ast.unparse(below.target)}", ast.unparse(below.annotation)
            elif isinstance(below, ast.Assign):
                yield from ((f"{name}.{ast.unparse(target)}", "") for target in below.targets)


def _signature(node: Function) -> str:
    decorators = "".join(f"@{ast.unparse(one)} " for one in node.decorator_list)
    answer = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{decorators}({ast.unparse(node.args)}){answer}"


def _attributes(init: Function, name: str) -> Iterator[tuple[str, str]]:
    for node in ast.walk(init):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
                    yield f"{name}.{target.attr}", ""


def changes(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """What the new one has not, has besides, and has otherwise; a line each."""
    lines = [f"gone: {key}{old[key]}" for key in old if key not in new]
    lines += [f"new: {key}{new[key]}" for key in new if key not in old]
    lines += [
        f"changed: {key}{old[key]} is now {new[key]}"
        for key in old
        if key in new and old[key] != new[key]
    ]
    return lines


def record() -> dict[str, dict[str, dict[str, str]]]:
    """Signatures by engine and version, oldest first."""
    known: dict[str, dict[str, dict[str, str]]] = json.loads(RECORD.read_text("utf-8"))
    return known


def main(engine: str, site: str, version: str) -> None:
    """Records one version."""
    known = record() if RECORD.exists() else {}
    of_engine = {**known.get(engine, {}), version: read(Path(site), engine)}
    order = sorted(of_engine, key=lambda text: [int(part) for part in text.split(".")])
    known[engine] = {number: of_engine[number] for number in order}
    RECORD.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
