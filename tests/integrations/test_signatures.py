"""The plug points are as they were when the adapters were written, or it is said what changed.

Where a variable names an engine's interpreter (VLLM_PYTHON, SGLANG_PYTHON, LMCACHE_PYTHON), what is
installed there is read and compared; nothing of it is imported.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .peer import Peer
from .signatures import POINTS, changes, read, record

FAKE = """
from abc import ABC, abstractmethod

class EvictionStrategy(ABC):
    @abstractmethod
    def get_priority(self, node: {node}) -> float: ...
{more}
"""


def drift(engine: str, version: str, found: dict[str, str]) -> list[str]:
    """What an installed version has otherwise than the newest that is recorded."""
    known = record()[engine]
    newest = list(known)[-1]
    compared = version if version in known else newest
    since = f"{engine} {version}" if version == compared else f"{engine} {version} since {compared}"
    return [f"{since}: {line}" for line in changes(known[compared], found)]


@pytest.mark.parametrize("engine", POINTS)
def test_the_installed_version_is_one_that_is_known(engine: str, tmp_path: Path) -> None:
    peer = Peer(engine, tmp_path)
    told = peer.run(
        "-c",
        f"import importlib.metadata as m; d = m.distribution('{engine}'); "
        "print(d.version); print(d.locate_file(''))",
    )
    version, site = told.stdout.split()
    assert not drift(engine, version, read(Path(site), engine))


@pytest.mark.parametrize("engine", POINTS)
def test_every_point_is_recorded_for_every_version(engine: str) -> None:
    for version, found in record()[engine].items():
        missing = [point for point in POINTS[engine] if point.replace(":", ".") not in found]
        assert not missing, f"{engine} {version}"


def test_what_changed_between_versions_is_said() -> None:
    vllm, lmcache, sglang = (record()[engine] for engine in ("vllm", "lmcache", "sglang"))
    policy = "vllm.v1.kv_offload.cpu.policies.base.CachePolicy"
    before = "@abstractmethod (self, key: OffloadKey, chunk: ChunkStatus"
    assert changes(vllm["0.32.0"], vllm["0.33.0"]) == [
        f"new: {policy}.on_request_access"
        "(self, keys: Iterable[OffloadKey], req_context: ReqContext) -> None",
        f"changed: {policy}.insert{before}) -> None is now "
        f"{before}, req_context: ReqContext) -> None",
    ]
    policy = "lmcache.v1.distributed.eviction.EvictionPolicy"
    assert changes(lmcache["0.5.5"], lmcache["0.5.6"]) == [
        f"new: {policy}.on_keys_reserved(self, keys: list[ObjectKey]) -> None"
    ]
    assert not changes(sglang["0.5.22"], sglang["0.5.23"])


def test_a_version_that_changes_a_point_is_named_with_the_change(tmp_path: Path) -> None:
    def installed(version: str, node: str = "TreeNode", more: str = "") -> list[str]:
        file = tmp_path / "sglang" / "srt" / "mem_cache" / "evict_policy.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(FAKE.format(node=node, more=more))
        return drift("sglang", version, read(tmp_path, "sglang"))

    newest = list(record()["sglang"])[-1]
    first = f"sglang 99.0.0 since {newest}: "
    point = "sglang.srt.mem_cache.evict_policy.EvictionStrategy"
    told = installed("99.0.0", "int", "    def on_insert(self, node): ...")
    assert f"{first}new: {point}.on_insert(self, node)" in told
    assert (
        f"{first}changed: {point}.get_priority@abstractmethod (self, node: TreeNode) -> "
        "Union[float, Tuple] is now @abstractmethod (self, node: int) -> float"
    ) in told
    gone = "sglang.srt.mem_cache.utils.get_eviction_strategy"
    assert any(line.startswith(f"{first}gone: {gone}(") for line in told)
