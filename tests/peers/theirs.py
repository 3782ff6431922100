"""The suite's operations over vLLM's KVCacheManager; run by vLLM's Python, asked in JSON.

Written against 0.33.0. No GPU is used.
"""

from __future__ import annotations

import logging
from typing import Any

import torch
import vllm
from _serve import serve
from vllm.distributed.kv_events import AllBlocksCleared, BlockStored
from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core import kv_cache_utils
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    SlidingWindowSpec,
)
from vllm.v1.request import Request, RequestStatus

SHAPE = {"num_kv_heads": 1, "head_size": 8, "dtype": torch.float16}


class Theirs:
    """Requests by name. A request counts as computed once it has its slots."""

    def make(
        self,
        blocks: int,
        block_size: int,
        window: int = 0,
        caching: bool = True,
        at_once: bool = False,
    ) -> None:
        self.leave_windows_at_once = at_once
        specs = [FullAttentionSpec(block_size=block_size, **SHAPE)]
        if window:
            specs.append(SlidingWindowSpec(block_size=block_size, sliding_window=window, **SHAPE))
        groups = [KVCacheGroupSpec([f"layer{i}"], spec) for i, spec in enumerate(specs)]
        config = KVCacheConfig(num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=groups)
        kv_cache_utils.init_none_hash(sha256)
        self.hasher = kv_cache_utils.get_request_block_hasher(block_size, sha256)
        self.kv = KVCacheManager(
            config,
            max_model_len=8192,
            scheduler_block_size=block_size,
            hash_block_size=block_size,
            enable_caching=caching,
            enable_kv_cache_events=True,
        )
        self.pool = self.kv.block_pool
        self.live: dict[str, Any] = {}
        self.deferred: list[Any] = []

    def request(
        self,
        name: str,
        tokens: list[int],
        read: bool = True,
        salt: str = "",
        image: list[Any] | None = None,
    ) -> Any:
        features = []
        if image is not None:
            place = PlaceholderRange(offset=image[0], length=image[1])
            features.append(MultiModalFeatureSpec(None, "image", image[2], place))
        request = Request(
            request_id=name,
            prompt_token_ids=tokens,
            sampling_params=SamplingParams(max_tokens=64),
            pooling_params=None,
            mm_features=features,
            cache_salt=salt or None,
            block_hasher=self.hasher,
        )
        request.skip_reading_prefix_cache = not read
        return request

    def alloc(
        self,
        name: str,
        tokens: list[int],
        lookahead: int = 0,
        external: int = 0,
        **apart: Any,
    ) -> Any:
        request = self.request(name, tokens, **apart)
        found, hit, *_ = self.kv.get_computed_blocks(request)
        granted = self.kv.allocate_slots(
            request,
            len(tokens) - hit - external,
            hit,
            found,
            num_lookahead_tokens=lookahead,
            num_external_computed_tokens=external,
        )
        if granted is None:
            return None
        request.status = RequestStatus.RUNNING
        self.live[name] = request
        self._computed(request)
        return {"hit": hit, "table": self.table(name)}

    def append(self, name: str, tokens: list[int]) -> Any:
        request = self.live[name]
        request.append_output_token_ids(tokens)
        if self.kv.allocate_slots(request, len(tokens)) is None:
            # Its scheduler preempts somebody, this one at the last; the suite frees it.
            return None
        self._computed(request)
        return self.table(name)

    def _computed(self, request: Any) -> None:
        request.num_computed_tokens = request.num_tokens
        if self.leave_windows_at_once:
            self.kv.remove_skipped_blocks(request.request_id, request.num_tokens)

    def free(self, name: str) -> None:
        self.kv.free(self.live.pop(name))

    def defer(self, name: str) -> None:
        self.deferred.append(self.kv.pop_blocks_for_free(self.live.pop(name)))

    def drain(self) -> None:
        for blocks in self.deferred:
            self.pool.free_blocks(reversed(blocks))
        self.deferred = []

    def table(self, name: str) -> list[list[int]]:
        return [list(ids) for ids in self.kv.get_block_ids(name)]

    def hit(self, tokens: list[int], **apart: Any) -> int:
        return int(self.kv.get_computed_blocks(self.request("lookup", tokens, **apart))[1])

    def refs(self, block: int) -> int:
        return int(self.pool.blocks[block].ref_cnt)

    def room(self) -> int:
        return int(self.pool.get_num_free_blocks())

    def cached(self, block: int) -> bool:
        return self.pool.blocks[block].block_hash is not None

    def take(self, count: int) -> list[int] | None:
        if count > self.room():
            return None
        return [block.block_id for block in self.pool.get_new_blocks(count)]

    def give(self, blocks: list[int]) -> None:
        self.pool.free_blocks([self.pool.blocks[block] for block in blocks])

    def reset(self) -> bool:
        return bool(self.kv.reset_prefix_cache())

    def events(self) -> list[list[Any]]:
        log: list[list[Any]] = []
        for event in self.kv.take_events():
            if isinstance(event, AllBlocksCleared):
                log.append(["cleared", 0])
                continue
            word = "stored" if isinstance(event, BlockStored) else "removed"
            if log and log[-1][0] == word:
                log[-1][1] += len(event.block_hashes)
            else:
                log.append([word, len(event.block_hashes)])
        return log

    def keys(self, tokens: list[int]) -> list[str]:
        return [key.hex() for key in self.request("keys", tokens).block_hashes]


theirs = Theirs()


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    """``{"op": NAME, ...}`` → ``{"value": ...}``."""
    return {"value": getattr(theirs, asked.pop("op"))(**asked)}


logging.disable(logging.WARNING)
serve(f"vllm {vllm.__version__}", answer)
