"""AISimulate (PyPI): replays a trace through its engine. Run by `perf.peers.Peer`."""

from __future__ import annotations

import json
import resource
import time
from importlib.metadata import version
from typing import Any

import aisimulate._runtime as runtime
from _serve import serve
from aisimulate.compiler import prediction_to_replay_spec
from aisimulate.config.cli import CorePredictionConfig
from aisimulate.runner import _materialize_engine_execution_spec

KEPT = (
    "completed_requests",
    "committed_prefill_tokens",
    "total_input_tokens",
    "mean_ttft_ms",
    "median_ttft_ms",
    "p90_ttft_ms",
    "p99_ttft_ms",
    "mean_itl_ms",
    "mean_e2e_latency_ms",
    "duration_ms",
    "request_throughput_rps",
)


def config(request: dict[str, Any]) -> dict[str, Any]:
    """One worker of one card, without a null block fewer."""
    cache = {
        "block_size": request["block_size"],
        # Block 0 is reserved there.
        "capacity": {"type": "fixed", "blocks": request["blocks"] + 1},
    }
    return {
        "traffic": {
            "source": {
                "type": "trace",
                "paths": [request["replay"]],
                "format": "mooncake",
                "block_size": request["block_size"],
            },
            "load": {"type": "trace_timestamps"},
        },
        "engine": {
            "mode": "aggregated",
            "model": "meta-llama/Meta-Llama-3.1-8B",
            "hardware": "h200_sxm",
            "backend": "vllm",
            "workers": {"aggregated": {"kv_cache": cache}},
        },
    }


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """``{"replay": FILE, "block_size": N, "blocks": N, "policy": NAME, "rank": {...}}``."""
    prediction = CorePredictionConfig.model_validate(config(request))
    spec = prediction_to_replay_spec(prediction)
    made = _materialize_engine_execution_spec(
        spec, trace_block_size=request["block_size"], record_per_request=False
    )
    execution = made if "spec" in made else {"spec": made}
    engine = execution["spec"]["engine"]
    engine["kv_eviction_policy"] = request["policy"]
    engine["rank"].update(request.get("rank", {}))
    text = json.dumps(execution)
    start, cpu = time.perf_counter(), time.process_time()
    result = json.loads(runtime.run_replay_json(text))
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    summary = result.get("summary", result)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    kept = {name: summary.get(name) for name in KEPT}
    took = {"seconds": seconds, "cpu_seconds": cpu_seconds}
    return {**took, "peak_mib": peak, "rank": engine["rank"], **kept}


serve(f"AISimulate {version('aisimulate')}", answer)
