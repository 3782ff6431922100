"""vLLM's scheduler without a model, with its own publisher, over kvframe's store in Redis.

Its OffloadingConnector has a CPU tier and, below that, kvframe's tier; transfers end at once, and
no bytes of KV are moved by a worker. Run by `perf.soak` with vLLM's Python; written against 0.33.0.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import vllm
from _serve import serve
from kvframe_vllm.offload import names
from kvframe_vllm.replay.engine import Load, requests, sampled, scheduler
from soak_traffic import BLOCK, prompt
from vllm.distributed.kv_events import ZmqEventPublisher
from vllm.distributed.kv_transfer.kv_connector.v1.offloading.common import (
    OffloadingWorkerMetadata,
)
from vllm.v1.kv_offload.base import LookupResult, ReqContext
from vllm.v1.outputs import KVConnectorOutput

BLOCKS = 300
CHUNK = 2 * 2 * 2 * 16 * BLOCK * 4
"""Bytes of a block of the model that is not there."""


class Engine:
    """It serves prompts, and says how far its caches reach."""

    def __init__(self, events: int, replay: int, redis: int) -> None:
        logging.getLogger("vllm").setLevel(logging.ERROR)
        names.register()
        url = f"redis://127.0.0.1:{redis}/1"
        below = {"type": "kvframe", "store": "redis", "capacity": 2_000, "options": {"url": url}}
        extra = {
            "spec_name": "TieringOffloadingSpec",
            "cpu_bytes_to_use": 600 * CHUNK,
            "self_describing_kv_events": True,
            "secondary_tiers": [below],
        }
        connector = {
            "kv_connector": "OffloadingConnector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": extra,
        }
        load = Load(
            blocks=BLOCKS + 1, running=4, block_size=BLOCK, connector=connector, events=True
        )
        self.made = made = scheduler(load)
        ends = [f"tcp://127.0.0.1:{port}" for port in (events, replay)]
        made.kv_event_publisher = ZmqEventPublisher(0, *ends)
        self.offload = made.connector.connector_scheduler

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        if "serve" in asked:
            first, end = asked["serve"]
            for at, request in enumerate(
                requests([prompt(number) for number in range(first, end)], BLOCK, 1)
            ):
                request.request_id = str(first + at)
                self.made.add_request(request)
                if at % 4 == 3:
                    self._run()
            self._run()
            self.made.kv_event_publisher._event_queue.join()
            return {"evictions": 0}
        return {"reach": [self._reach(prompt(number)) for number in asked["reach"]]}

    def _run(self) -> None:
        """Steps until nothing is left, and some more: vLLM tells of changes in steps alone."""
        idle = 0
        while self.made.has_requests() or idle < 3:
            output = self.made.schedule()
            idle = 0 if self.made.has_requests() or output.num_scheduled_tokens else idle + 1
            given = sampled(self.made, output)
            given.kv_connector_output = self._transferred(output.kv_connector_metadata)
            self.made.update_from_output(output, given)
            for tier in self.offload.manager.secondary_tiers:
                tier.drain_jobs()

    def _transferred(self, meta: Any) -> KVConnectorOutput:
        jobs = [*meta.load_jobs.items(), *meta.store_jobs.items()]
        loaded = {job.req_id for job in meta.load_jobs.values() if not job.sync}
        done = OffloadingWorkerMetadata({number: 1 for number, _ in jobs})
        return KVConnectorOutput(finished_recving=loaded, kv_connector_worker_meta=done)

    def _reach(self, tokens: list[int]) -> list[int]:
        (request,) = requests([[*tokens, 0]], BLOCK, 1)
        hashes = request.block_hashes[: len(tokens) // BLOCK]
        pool = self.made.kv_cache_manager.block_pool
        manager, context = self.offload.manager, ReqContext("reach")
        keys = [self._key(each) for each in hashes]
        here = [pool.get_cached_block(each, [0]) is not None for each in hashes]
        (below,) = manager.secondary_tiers
        host = [manager.primary_tier.lookup(key, context) is LookupResult.HIT for key in keys]
        disk = [below.lookup(key, context) is LookupResult.HIT for key in keys]
        near = [a or b for a, b in zip(here, host, strict=True)]
        far = [a or b for a, b in zip(near, disk, strict=True)]
        return [leading(row) for row in (here, near, far, far)]

    def _key(self, block_hash: bytes) -> Any:
        from vllm.v1.kv_offload.base import make_offload_key

        return make_offload_key(block_hash, 0)


def leading(row: list[bool]) -> int:
    """How many are there from the first on."""
    return next((at for at, there in enumerate(row) if not there), len(row))


if __name__ == "__main__":
    serve(f"vLLM {vllm.__version__}", Engine(**json.loads(sys.argv[1])).answer)
