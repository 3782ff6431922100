"""libcachesim (PyPI): misses of a stream of single blocks. Run by `perf.peers.Peer`."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import libcachesim
from _serve import serve


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """``{"file": ORACLE_GENERAL, "policy": NAME, "capacity": BLOCKS}``."""
    cache = getattr(libcachesim, request["policy"])(request["capacity"], hashpower=20)
    kind = libcachesim.TraceType.ORACLE_GENERAL_TRACE
    missed, _ = cache.process_trace(libcachesim.TraceReader(request["file"], kind))
    return {"miss_rate": missed}


serve(f"libcachesim {version('libcachesim')}", answer)
