"""A KV connector that changes nothing: it watches, for the shadows."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorMetadata, KVConnectorRole
from vllm.v1.kv_cache_interface import FullAttentionSpec

from kvframe.shadow import ShadowReport, ShadowSet
from kvframe_vllm.install import install
from kvframe_vllm.log import logger
from kvframe_vllm.passive import PassiveConnector
from kvframe_vllm.shadow.arrivals import Arrivals, batching_of
from kvframe_vllm.shadow.config import ShadowConfig
from kvframe_vllm.shadow.stats import ShadowMetrics, ShadowStats
from kvframe_vllm.shadow.traffic import Traffic

COARSER = 8
"""By how much the stride grows where the shadows' thread does not keep up."""

INTERVAL_S = 5.0
"""Seconds between two reports to vLLM's log and metrics."""

NOTHING = KVConnectorMetadata()
"""What workers are told of each step."""

STOCK = "lru"
"""The policy that is vLLM's own order, block for block."""


def ruling(pool: Any) -> str:
    """The policy that rules a pool now."""
    return str(getattr(pool.free_block_queue, "policy", STOCK))


class ShadowConnector(PassiveConnector):
    """Runs the policies and sizes of its extra configuration beside vLLM's prefix cache."""

    def __init__(self, vllm_config: Any, role: KVConnectorRole, kv_cache_config: Any) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        self.shadows: ShadowSet | None = None
        self._traffic: Traffic | Arrivals | None = None
        self._reported: ShadowReport | None = None
        self._doubt: str | None = None
        self._pool: Any = None
        self._config = ShadowConfig()
        # What really runs, as the shadows were told, and whether that is known to be so.
        self._actual, self._is_sure = STOCK, False
        self._due = 0.0
        # Whether the shadows were given something since the clock was looked at.
        self._fresh = False
        self._groups = getattr(kv_cache_config, "kv_cache_groups", None)

    def bind_gpu_block_pool(self, gpu_block_pool: Any) -> None:
        try:
            extra = self._kv_transfer_config.kv_connector_extra_config or {}
            config = ShadowConfig.of(extra)
            if config.policy is not None:
                install(gpu_block_pool, config.policy)
            self._actual = ruling(gpu_block_pool)
            if reason := self._unfit(gpu_block_pool):
                logger.warning("kvframe runs no shadows: %s", reason)
                return
            self._start(gpu_block_pool, config)
        except Exception as error:
            self._stop(error)

    def _start(self, pool: Any, config: ShadowConfig) -> None:
        # One block is the null block, which never holds a request's.
        blocks, size = pool.num_gpu_blocks - 1, pool.hash_block_size
        stride, batching = config.fitted(blocks), batching_of(self._vllm_config)
        capacities = config.capacities(blocks)
        actual = self._actual, blocks
        self.shadows = config.shadows(blocks, size, actual=actual, batching=batching)
        self._reported = self.shadows.report()
        self._due = time.monotonic() + INTERVAL_S
        self._pool, self._config = pool, config
        if batching is None:
            asynchronous = bool(self._vllm_config.scheduler_config.async_scheduling)
            self._traffic = Traffic(self.shadows, size, asynchronous=asynchronous)
        else:
            self._traffic = Arrivals(self.shadows, size)
        sampled = f"; one block in {stride} followed" if stride > 1 else ""
        told = ", ".join(config.policies), ", ".join(map(str, capacities)), sampled
        logger.info("kvframe's shadows: %s, each with %s blocks%s", *told)
        if stride < config.stride:
            logger.warning("kvframe's shadows follow one block in %d: the pools are small", stride)

    def _follow_less(self, lost: int) -> None:
        """Begin anew with a greater stride, where the pools are large enough for that."""
        assert self.shadows is not None
        config = replace(self._config, stride=self.shadows.stride * COARSER)
        if config.fitted(self._pool.num_gpu_blocks - 1) > self.shadows.stride:
            logger.warning(
                "kvframe's shadows fell behind and lost %d requests: they begin anew, and follow "
                "fewer blocks",
                lost,
            )
            # The old ones end by themselves; to close them would be to wait for them.
            self._start(self._pool, config)

    def _unfit(self, pool: Any) -> str | None:
        if not pool.enable_caching:
            return "prefix caching is off"
        groups = self._groups or []
        specs = [group.kv_cache_spec for group in groups]
        if len(specs) != 1 or not isinstance(specs[0], FullAttentionSpec):
            kinds = ", ".join(type(spec).__name__ for spec in specs) or "none"
            return f"they are for models with one group of full attention; here: {kinds}"
        if pool.hash_block_size != specs[0].block_size:
            return f"blocks of {specs[0].block_size} tokens are hashed by {pool.hash_block_size}"
        return None

    def _make_sure(self) -> None:
        """Begin anew if another policy rules the pool: a scheduler puts its own in after the
        connector is bound.
        """
        self._is_sure = True
        if self._pool is None:
            return
        if self._actual != (actual := ruling(self._pool)):
            self._actual = actual
            try:
                self._start(self._pool, self._config)
            except Exception as error:
                self._stop(error)

    def on_new_request(self, request: Any) -> None:
        if not self._is_sure:
            self._make_sure()
        if self._traffic is not None:
            self._traffic.came(request)

    def get_num_new_matched_tokens(
        self, request: Any, num_computed_tokens: int
    ) -> tuple[int, bool]:
        if not self._is_sure:
            self._make_sure()
        if self._traffic is not None:
            self._traffic.looked_up(num_computed_tokens)
        return 0, False

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        if self._traffic is not None:
            self._traffic.allocated(request)

    def build_connector_meta(self, scheduler_output: Any) -> KVConnectorMetadata:
        try:
            if self._traffic is not None and self._traffic.scheduled(scheduler_output):
                self._fresh = True
        except Exception as error:
            self._stop(error)
        return NOTHING

    def request_finished(self, request: Any, block_ids: list[int]) -> tuple[bool, None]:
        try:
            if self._traffic is not None:
                self._traffic.finished(request)
        except Exception as error:
            self._stop(error)
        return False, None

    def reset_cache(self) -> bool | None:
        try:
            if self._traffic is not None:
                self._traffic.reset()
        except Exception as error:
            self._stop(error)
        return None

    def report(self) -> ShadowReport | None:
        """What has been counted so far, of every step up to now; None without shadows.

        Raises:
            CapacityError: The shadows do not catch up.
        """
        if self.shadows is None:
            return None
        if self._traffic is not None:
            self._traffic.work_off()
        self.shadows.flush()
        return self.shadows.report()

    def shutdown(self) -> None:
        if self.shadows is not None:
            self.shadows.close()

    def _stop(self, error: Exception) -> None:
        self._traffic = None
        began = self.shadows is not None
        what = "have stopped" if began else "do not start, vLLM serves without them"
        logger.error("kvframe's shadows %s: %s: %s", what, type(error).__name__, error)

    def get_kv_connector_stats(self) -> ShadowStats | None:
        """What was counted since the last call; None while the interval lasts."""
        if not self._fresh:
            return None
        now, self._fresh = time.monotonic(), False
        if now < self._due or self.shadows is None or self._reported is None:
            return None
        self._due = now + INTERVAL_S
        try:
            report, before = self.shadows.report(), self._reported
            self._reported = report
            if report.dropped > before.dropped:
                self._follow_less(report.dropped - before.dropped)
        except Exception as error:
            self._stop(error)
            return None
        if report.doubt != self._doubt:
            self._doubt = report.doubt
            logger.warning("kvframe's shadows: %s", report.doubt or "to be trusted again")
        return ShadowStats.between(before, report)

    @classmethod
    def build_kv_connector_stats(cls, data: dict[str, Any] | None = None) -> ShadowStats:
        return ShadowStats(data=data) if data else ShadowStats()

    @classmethod
    def build_prom_metrics(cls, *given: Any) -> ShadowMetrics:
        return ShadowMetrics(*given)
