"""vLLM's block pool, block hashing and KV cache manager, on a CPU. Run by `perf.peers.Peer`.

Needs a Python that can import vLLM and torch; no GPU. Written against 0.33.0.
"""

from __future__ import annotations

import gc
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import vllm
import workload
from _serve import serve
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import get_hash_fn_by_name
from vllm.v1.core import kv_cache_utils
from vllm.v1.core.block_pool import BlockPool
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.request import Request, RequestStatus

BLOCK, TAKEN, MICRO = 16, 64, 1e6


def manager(blocks: int, events: bool = False) -> Any:
    """A KV cache manager of one full-attention group."""
    spec = FullAttentionSpec(block_size=BLOCK, num_kv_heads=8, head_size=128, dtype=torch.float16)
    config = KVCacheConfig(
        num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)]
    )
    return KVCacheManager(
        config,
        max_model_len=131_072,
        scheduler_block_size=BLOCK,
        hash_block_size=BLOCK,
        enable_caching=True,
        enable_kv_cache_events=events,
        log_stats=True,
    )


def hasher(algorithm: str) -> Any:
    """What computes a request's block hashes."""
    function = get_hash_fn_by_name(algorithm)
    kv_cache_utils.init_none_hash(function)
    return kv_cache_utils.get_request_block_hasher(BLOCK, function)


def request(name: str, tokens: list[int], block_hasher: Any) -> Any:
    """A request with its block hashes, if a hasher is given."""
    sampling = SamplingParams(max_tokens=64)
    return Request(
        request_id=name,
        prompt_token_ids=tokens,
        sampling_params=sampling,
        pooling_params=None,
        block_hasher=block_hasher,
    )


def get_free(quick: bool) -> float:
    """Get 64 blocks, free them: µs a pair."""
    pool = BlockPool(20_000, True, BLOCK)
    pairs = 50 if quick else 2_000
    start = time.perf_counter()
    for _ in range(pairs):
        pool.free_blocks(reversed(pool.get_new_blocks(TAKEN)))
    return (time.perf_counter() - start) / pairs * MICRO


def get_evicting(quick: bool) -> float:
    """Get 64 blocks, each of which is evicted: µs a call."""
    blocks = 1 << (10 if quick else 16)
    pool = BlockPool(blocks + 1, True, BLOCK)
    taken = pool.get_new_blocks(blocks)
    for block in taken:
        key = kv_cache_utils.BlockHash(os.urandom(32))
        hashed = kv_cache_utils.make_block_hash_with_group_id(key, 0)
        pool._insert_block_hash(hashed, block, num_tokens=BLOCK)
    pool.free_blocks(reversed(taken))
    gc.collect()
    held = []
    start = time.perf_counter()
    for _ in range(blocks // TAKEN):
        held.append(pool.get_new_blocks(TAKEN))
    return (time.perf_counter() - start) / (blocks // TAKEN) * MICRO


def hashing(algorithm: str) -> Callable[[bool], float]:
    """Hash a 32,768-token prompt: µs."""

    def measured(quick: bool) -> float:
        tokens = workload.long_prompt(2_048 if quick else 32_768).tolist()
        make = hasher(algorithm)
        asked = request("r", tokens, None)
        start = time.perf_counter()
        asked.block_hashes = []
        asked.block_hashes.extend(make(asked))
        return (time.perf_counter() - start) * MICRO

    return measured


def serving(hashed: bool, events: bool) -> Callable[[bool], float]:
    """The stream of `workload.prompts` through the manager: µs a request."""

    def measured(quick: bool) -> float:
        stream = [p.tolist() for p in workload.prompts(60 if quick else 2_000)]
        make = hasher("sha256")
        kv = manager(workload.POOL, events)
        asked = [request(f"r{i}", tokens, None) for i, tokens in enumerate(stream)]
        for each in asked:
            each._block_hasher = make
            if not hashed:
                each.update_block_hashes()
        live: list[Any] = []
        gc.collect()
        start = time.perf_counter()
        for each in asked:
            if hashed:
                each.update_block_hashes()
            if len(live) == workload.LIVE:
                kv.free(live.pop(0))
            found, tokens, *_ = kv.get_computed_blocks(each)
            granted = kv.allocate_slots(each, each.num_tokens - tokens, tokens, found)
            assert granted is not None
            live.append(each)
            if events:
                kv.take_events()
        return (time.perf_counter() - start) / len(asked) * MICRO

    return measured


def decode(quick: bool) -> float:
    """256 running requests get a slot for one token each: mean µs a step of allocate_slots."""
    running, steps = (8, 20) if quick else (workload.RUNNING, 320)
    make = hasher("sha256")
    kv = manager(running * ((workload.PROMPT + steps) // BLOCK + 3) + 10)
    requests = []
    for i, tokens in enumerate(workload.running_prompts(running)):
        each = request(f"r{i}", tokens.tolist(), make)
        assert kv.allocate_slots(each, each.num_tokens) is not None
        each.num_computed_tokens = each.num_tokens
        each.status = RequestStatus.RUNNING
        requests.append(each)
    gc.collect()
    took = 0.0
    for _ in range(steps):
        for each in requests:
            each.append_output_token_ids(7)
        start = time.perf_counter()
        kv.new_step_starts()
        for each in requests:
            assert kv.allocate_slots(each, 1) is not None
        took += time.perf_counter() - start
        for each in requests:
            each.num_computed_tokens += 1
    return took / steps * MICRO


def resident() -> int:
    """Bytes of this process in memory."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))


def memory(quick: bool) -> float:
    """A pool whose blocks are all cached: bytes a block. In a child, whose memory is its own."""
    blocks = 1 << (12 if quick else 18)
    end, start = os.pipe()
    child = os.fork()
    if child == 0:
        before = resident()
        pool = BlockPool(blocks + 1, True, BLOCK)
        taken = pool.get_new_blocks(blocks)
        for block in taken:
            key = kv_cache_utils.BlockHash(os.urandom(32))
            hashed = kv_cache_utils.make_block_hash_with_group_id(key, 0)
            pool._insert_block_hash(hashed, block, num_tokens=BLOCK)
        pool.free_blocks(reversed(taken))
        os.write(start, str((resident() - before) / blocks).encode())
        os._exit(0)
    os.close(start)
    value = float(os.read(end, 64))
    os.close(end)
    os.waitpid(child, 0)
    return value


WORKS: dict[str, Callable[[bool], float]] = {
    "get_free_64": get_free,
    "get_free_64_evicting": get_evicting,
    "hash_32k_sha256": hashing("sha256"),
    "hash_32k_fast": hashing("xxhash"),
    "admit_commit_free": serving(hashed=False, events=False),
    "admit_commit_free_events": serving(hashed=False, events=True),
    "admit_commit_free_sha256": serving(hashed=True, events=False),
    "admit_commit_free_sha256_events": serving(hashed=True, events=True),
    "decode_step_256": decode,
    "bytes_per_block": memory,
}


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    """``{"work": NAME, "quick": BOOL}`` → ``{"value": ...}``."""
    gc.collect()
    gc.disable()
    try:
        return {"value": WORKS[asked["work"]](asked["quick"])}
    finally:
        gc.enable()


logging.disable(logging.WARNING)
serve(f"vllm {vllm.__version__}", answer)
