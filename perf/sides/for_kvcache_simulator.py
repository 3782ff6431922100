"""kvcache-simulator (PyPI): parses a trace, sweeps capacities. Run by `perf.peers.Peer`."""

from __future__ import annotations

import time
from importlib.metadata import version
from typing import Any

from _serve import serve
from kvcache_sim.cpp_backend import ensure_cpp_simulator, run_cpp_sweep
from kvcache_sim.trace import parse_trace_file

trace: Any = None


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """``{"parse": FILE, "block_size": N}`` or ``{"policy": NAME, "capacities": [...]}``."""
    global trace
    start = time.perf_counter()
    if "parse" in request:
        trace = parse_trace_file(request["parse"], block_size=request["block_size"])
        return {"seconds": time.perf_counter() - start, "block_accesses": len(trace.ids)}
    swept = run_cpp_sweep(
        trace,
        capacities=request["capacities"],
        policies=[request["policy"]],
        warmup_requests=trace.request_count // 2,
    )
    seconds = time.perf_counter() - start
    hits = {
        str(capacity): result.hitTokens if result.measurementMode == "fixed_window" else None
        for (_, capacity), result in swept.results.items()
    }
    return {"seconds": seconds, "hit_tokens_last_half": hits}


# Compiles its C++ now, at its first use on this machine, and not inside a measurement.
ensure_cpp_simulator()
serve(f"kvcache-simulator {version('kvcache-simulator')}", answer)
