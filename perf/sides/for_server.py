"""kvframe's simulated server, in a process of its own. Run by `perf.peers.Peer`."""

from __future__ import annotations

import resource
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from _serve import serve

from kvframe import _core
from kvframe.bench.server.profiles import read_table
from kvframe.bench.server.summary import FINISHED, quantiles

traces: dict[str, _core.Trace] = {}
tables: dict[str, _core.StepProfile] = {}


def trace_of(path: str, block_size: int) -> _core.Trace:
    """A trace, read once."""
    if path not in traces:
        traces.clear()
        traces[path] = _core.Trace.load(Path(path), block_size)
    return traces[path]


def profile_of(request: dict[str, Any]) -> _core.StepProfile:
    """Fixed rates, or a table that is read once."""
    if "fixed" in request:
        return _core.StepProfile.fixed(**request["fixed"])
    table = request["table"]
    if table not in tables:
        tables[table] = read_table(Path(table))
    return tables[table]


def replayed(trace: _core.Trace, request: dict[str, Any]) -> dict[str, Any]:
    """One request after the other: the tokens that were found."""
    start, cpu = time.perf_counter(), time.process_time()
    got = _core.replay(trace, request["policy"], request["blocks"], "engine")
    return {
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - cpu,
        "reused_tokens": got["hit_tokens"],
    }


def served(trace: _core.Trace, request: dict[str, Any]) -> dict[str, Any]:
    """A server of steps: what its users felt."""
    profile = profile_of(request)
    start, cpu = time.perf_counter(), time.process_time()
    raw = _core.serve(
        trace,
        [{"policy": request["policy"]}],
        request["blocks"],
        profile,
        every_step=request.get("every_step", False),
        **request.get("server", {}),
    )
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    done = raw["fate"] == FINISHED
    ttft = quantiles((raw["first_token"] - raw["arrival"])[done])
    span = float(raw["end"][done].max() - raw["arrival"].min())
    return {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "steps": raw["steps"],
        "completed_requests": int(done.sum()),
        "reused_tokens": int(raw["cached_tokens"].sum(dtype="int64")) + raw["found_on_return"],
        "first_reused_tokens": int(raw["cached_tokens"].sum(dtype="int64")),
        "preemptions": int(raw["preemptions"].sum()),
        "mean_ttft_ms": (ttft.mean or 0.0) * 1e3,
        "median_ttft_ms": (ttft.p50 or 0.0) * 1e3,
        "p90_ttft_ms": (ttft.p90 or 0.0) * 1e3,
        "p99_ttft_ms": (ttft.p99 or 0.0) * 1e3,
        "mean_itl_ms": (quantiles(raw["gaps"], raw["gap_counts"]).mean or 0.0) * 1e3,
        "request_throughput_rps": int(done.sum()) / span,
        "total_input_tokens": int(trace.columns()["input_tokens"].sum(dtype="int64")),
    }


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """``{"trace": FILE, "block_size": N, "policy": NAME, "blocks": N}``, and for a server of steps
    ``"table": FILE`` or ``"fixed": {...}``, ``"every_step": BOOL`` and ``"server": {...}``. Without
    a policy the trace is only read.
    """
    trace = trace_of(request["trace"], request["block_size"])
    if "policy" not in request:
        got: dict[str, Any] = {"requests": trace.requests}
    elif "table" in request or "fixed" in request:
        got = served(trace, request)
    else:
        got = replayed(trace, request)
    return {**got, "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


serve(f"kvframe {version('kvframe')}", answer)
