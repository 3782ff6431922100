"""From what vLLM's scheduler tells a connector to the requests that shadows schedule themselves.

A shadow makes up its own steps as vLLM's scheduler does, so it is told which requests came, how
much each generates and when vLLM had no more: not what vLLM did with its blocks. This runs on the
engine's thread, so calls only note; what is noted is given to the shadows some steps together. No
note keeps a request of vLLM's alive: to free it here would cost more than all the rest.
"""

from __future__ import annotations

from typing import Any

from kvframe.flat import UNKNOWN, KnownRow
from kvframe.shadow import Batching, ShadowSet
from kvframe.shadow.shadows import Arrived, Generated
from kvframe_vllm.pool import use_of_request

BATCH = 128
"""Steps that are given to the shadows together."""

PLAIN = UNKNOWN.row()
"""What is known of a request whose client says nothing of it."""


def batching_of(vllm_config: Any) -> Batching | None:
    """How vLLM makes up its steps; None where it does so in a way that shadows do not know."""
    config = vllm_config.scheduler_config
    known = (
        config.policy == "fcfs"
        and config.enable_chunked_prefill
        and not config.long_prefill_token_threshold
        and vllm_config.speculative_config is None
        and vllm_config.parallel_config.pipeline_parallel_size == 1
    )
    if not known:
        return None
    return Batching(
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=config.max_num_scheduled_tokens or config.max_num_batched_tokens,
        asynchronous=bool(config.async_scheduling),
        fits_whole=config.scheduler_reserve_full_isl,
        watermark=config.watermark,
    )


class _Live:
    """A request that has not ended, and how many of its keys were told."""

    __slots__ = ("number", "request", "told")

    def __init__(self, number: int, request: Any, told: int) -> None:
        self.number, self.request, self.told = number, request, told

    def generated(self) -> Generated:
        """How much it has generated, and the keys that were not told."""
        request, told = self.request, self.told
        keys = request.block_hashes[told:]
        count = len(keys)
        self.told = told + count
        return self.number, (b"".join(keys), count), request.num_output_tokens


class Arrivals:
    """Follows which requests a scheduler gets, and how much they generate.

    Args:
        shadows: What is fed; they make up their own steps.
        block_size: Tokens of a block, and of a hash.
    """

    def __init__(self, shadows: ShadowSet, block_size: int) -> None:
        self._shadows, self._size = shadows, block_size
        self._live: dict[str, _Live] = {}
        self._running: dict[str, _Live] = {}
        self._next = 0
        self._step = 0
        # What is noted, and not given to the shadows.
        self._looked_up = 0
        self._arrived: list[Arrived] = []
        self._found: list[tuple[int, int]] = []
        self._ended: list[Generated] = []

    # --- notes ------------------------------------------------------------------------------------

    def came(self, request: Any) -> None:
        """A request came."""
        tokens, rested = request.num_prompt_tokens, not self._live
        keys = request.block_hashes[: tokens // self._size]
        joined = b"".join(keys), len(keys)
        most, reads = request.max_tokens, not request.skip_reading_prefix_cache
        first = self._step + 1, rested
        self._arrived.append((self._next, *first, joined, tokens, most, reads, _use(request)))
        self._live[request.request_id] = _Live(self._next, request, len(keys))
        self._next += 1

    def looked_up(self, found: int) -> None:
        """A request that waits was looked up; what counts is the last answer before its blocks."""
        self._looked_up = found

    def allocated(self, request: Any) -> None:
        """The request that was looked up last has got its blocks."""
        name = request.request_id
        live = self._live.get(name)
        if live is not None and name not in self._running:
            self._running[name] = live
            self._found.append((live.number, self._looked_up))

    def scheduled(self, output: Any) -> bool:
        """A step is scheduled. Whether what is noted was given to the shadows."""
        self._step = step = self._step + 1
        if step % BATCH:
            return False
        self.work_off()
        return True

    def finished(self, request: Any) -> None:
        """A request has ended."""
        name = request.request_id
        live = self._live.pop(name, None)
        self._running.pop(name, None)
        if live is not None:
            number, keys, outputs = live.generated()
            # A model that generates nothing is done when its prompt is computed.
            done = request.num_computed_tokens >= request.num_prompt_tokens
            self._ended.append((number, keys, max(outputs, int(done))))

    # --- the work ---------------------------------------------------------------------------------

    def work_off(self) -> None:
        """Give the shadows what is noted."""
        arrived, self._arrived = self._arrived, []
        found, self._found = self._found, []
        ended, self._ended = self._ended, []
        self._shadows.advance(
            self._step,
            rests=not self._live,
            arrived=arrived,
            found=found,
            running=[live.generated() for live in self._running.values()],
            ended=ended,
        )

    def reset(self) -> None:
        """The prefix cache was reset."""
        self.work_off()
        self._shadows.reset(self._step)


def _use(request: Any) -> KnownRow:
    """What is known of a request; most clients say nothing, and that costs next to nothing."""
    said = request.kv_transfer_params or request.priority or getattr(request, "session_id", None)
    return use_of_request(request).row() if said else PLAIN
