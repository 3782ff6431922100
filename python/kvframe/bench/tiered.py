"""A cell with tiers below the pool: one request at a time, each when nothing moves any more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from kvframe import _core
from kvframe.bench.cells import Cell, Plan
from kvframe.bench.server.shape import DEFAULT, parse_server_shape
from kvframe.bench.server.summary import REJECTED
from kvframe.bench.server.tiers import ServedTiers
from kvframe.config.sizes import token_bytes

AT_ONCE = (1e30, 1e30, 0.0, None)
"""A link that takes no time: no request waits for one here."""


def replay(plan: Plan, tiers: ServedTiers) -> dict[str, Any]:
    """What `kvframe._core.replay` answers, and ``tier_hit_tokens``.

    Raises:
        KVFrameError: The policy misbehaved, or the core refused the cell.
    """
    trace, size = plan.source.trace, plan.source.trace.block_size
    policy, options = plan.policy.engine_policy(size)
    gate, gate_options = plan.admission.engine_policy(size) if plan.admission else (None, None)
    configured = plan.configured
    model = configured.resolved.config.model if configured else None
    kept = token_bytes(model) if model else parse_server_shape(DEFAULT).token_bytes
    tables = tiers.tables(kept * size, size)
    engine = {
        "policy": policy,
        "options": options,
        "admission": gate,
        "admission_options": gate_options,
        "matcher": plan.matcher.engine_policy(size) if plan.matcher else None,
        "tiers": tables,
        "links": [AT_ONCE] * len(tables),
    }
    raw = _core.serve(
        trace,
        [engine],
        plan.capacity,
        _core.StepProfile.roofline(host=1e-9, weights=0.0, token=0.0, kv_token=0.0, pair=0.0),
        core=configured.core(size) if configured else None,
        max_num_seqs=1,
        max_num_batched_tokens=2**31 - 1,
        one_at_a_time=True,
    )
    inputs = trace.columns()["input_tokens"].astype(np.int64)
    sources = [raw["cached_tokens"], *(tier["loaded"] for tier in raw["tiers"])]
    by_tier = {
        name: int(tokens.sum(dtype=np.int64))
        for name, tokens in zip(("pool", *tiers.names), sources, strict=True)
    }
    hits: npt.NDArray[np.int64] = np.stack(sources).sum(axis=0, dtype=np.int64)
    half = len(inputs) // 2
    prepared = trace.prepare(plan.mode)
    return {
        "requests": len(inputs),
        "input_tokens": int(inputs.sum()),
        "hit_tokens": int(hits.sum()),
        "input_tokens_last_half": int(inputs[half:].sum()),
        "hit_tokens_last_half": int(hits[half:].sum()),
        "after_gap_hit_tokens": 0,
        "evictions": raw["evictions"],
        "block_accesses": prepared["block_accesses"],
        "block_hits": int(hits.sum()) // size,
        "mean_request_hit_rate": float(np.mean(hits / np.maximum(inputs, 1))),
        "seconds": raw["seconds"],
        "prepare_seconds": 0.0,
        "admission_dropped": 0,
        "rejected": int((raw["fate"] == REJECTED).sum()),
        "mean_ttft_seconds": 0.0,
        "p95_ttft_seconds": 0.0,
        "request_hit_tokens": hits.astype(np.uint32),
        "request_after_gap_tokens": np.zeros(len(hits), np.uint32),
        "tier_hit_tokens": by_tier,
    }


def sentences(cells: Mapping[Plan, Cell]) -> list[str]:
    """What was found in each tier, and what would have been without them."""
    alone = {
        (plan.group, plan.above, plan.capacity): cell
        for plan, cell in cells.items()
        if plan.tiers is None
    }
    said = []
    for plan, cell in cells.items():
        if plan.tiers is None:
            continue
        parts = ", ".join(
            f"{tokens / max(cell.input_tokens, 1):.2%} {name}"
            for name, tokens in cell.tier_hit_tokens.items()
        )
        without = alone.get((plan.group, plan.above, plan.capacity))
        beside = "" if without is None else f"; {without.token_hit_rate:.2%} without tiers"
        lost = f"; {cell.rejected:,} requests rejected" if cell.rejected else ""
        said.append(
            f"{plan.source.name}, {plan.capacity} blocks: {plan.label} finds "
            f"{cell.token_hit_rate:.2%} of the prompt tokens ({parts}){beside}{lost}."
        )
    return said
