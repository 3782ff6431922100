"""The engine's batch processor: what it does where a cache is full or a prompt too large."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

from torch import nn
from transformers.generation.continuous_batching.continuous_api import ContinuousBatchProcessor
from transformers.generation.continuous_batching.offloading_manager import OffloadingManager
from transformers.generation.continuous_batching.requests import (
    FutureRequestState,
    RequestState,
    RequestStatus,
)
from transformers.generation.continuous_batching.scheduler import Scheduler

from kvframe.errors import NeverFitsError
from kvframe.integrations.transformers.cache import Cache

STUCK = "No requests can be scheduled"
"""How the engine begins to say that no request fits, before it ends its loop."""

Scheduled = tuple[list[FutureRequestState] | None, bool, int, int]


class Processor(ContinuousBatchProcessor):  # type: ignore[misc]
    """The engine's processor over a `Cache`; over any other it is transformers' own.

    Args:
        **arguments: For `ContinuousBatchProcessor`.
    """

    def __init__(self, **arguments: Any) -> None:
        cache = arguments["cache"]
        self._ours = cache if isinstance(cache, Cache) else None
        self._below = self._ours.below if self._ours else None
        if self._below is not None:  # the host tier stands in the place of the engine's CPU pool
            arguments["continuous_batching_config"].cpu_offload_space = 0.0
        super().__init__(**arguments)
        if self._ours is None:
            return
        scheduler = self.scheduler
        scheduler.add_waiting_request = partial(
            _add_waiting, self._ours, scheduler.add_waiting_request
        )
        if self._below is None:
            return
        stream = self.inputs_and_outputs.compute_stream
        self._below.use_stream(stream)
        scheduler.schedule_batch = partial(
            _schedule, self._ours, scheduler, scheduler.schedule_batch
        )
        self.offloading_manager = Offloading(
            cache=cache,
            scheduler=scheduler,
            cpu_offload_space_gib=0.0,
            safety_threshold=0.0,
            compute_stream=stream,
            distributed_helper=self.distributed_helper,
        )
        scheduler._get_waiting_candidates = partial(
            _waiting, self._ours, scheduler._get_waiting_candidates
        )
        weakref.finalize(self, self._below.close)

    def prepare_next_batch(self) -> bool:
        if self._below is not None:
            self._below.poll()
        while True:
            try:
                ready: bool = super().prepare_next_batch()
                return ready
            except RuntimeError as error:
                if self._ours is None or not str(error).startswith(STUCK) or not self._refuse():
                    raise

    def update_batch(self) -> None:
        if self._below is not None:
            self._below.poll()
        super().update_batch()

    def _generation_step(self, model: nn.Module) -> None:
        below = self._below
        if below is None:
            super()._generation_step(model)
            return
        waits = bool(below.awaited)
        if self.model_runner.pad_inputs or self.inputs_and_outputs.use_block_table:
            below.await_all()  # a graph, or a kernel that fills the cache itself, asks for none
        ended = below.speed.begin(model, self.inputs_and_outputs.compute_stream)
        super()._generation_step(model)
        if not waits:
            ended()
        below.awaited = []

    def _refuse(self) -> bool:
        """End one request, with an error, because nothing else can give blocks up for it."""
        scheduler = self.scheduler
        starved = [state for state, _ in scheduler.starved_requests]
        waiting = [scheduler.waiting_requests[name] for name in scheduler.waiting_requests_order]
        for state in [*starved[::-1], *waiting]:
            tokens = len(state.initial_tokens) + len(state.generated_tokens)
            self._handle_request_error(_never(self.cache, "the request", tokens), state)
            scheduler.waiting_requests.pop(state.request_id, None)
            if state.request_id in scheduler.waiting_requests_order:
                scheduler.waiting_requests_order.remove(state.request_id)
            self.offloading_manager.free_request_cpu_cache(state)
            scheduler.finish_request(state.request_id)
            scheduler.block_new_requests = False
            return True
        return False


class Offloading(OffloadingManager):  # type: ignore[misc]
    """Preemption by way of the tiers: swapped out where that is faster, else computed again."""

    def _offload_to_cpu(self, victims: list[RequestState]) -> set[str]:
        gone = set()
        for state in victims:
            tokens = state.initial_tokens + state.generated_tokens
            computed = state.position_offset
            if state.status == RequestStatus.DECODING and computed == len(tokens):
                computed -= 1  # its last token is still being computed (asynchronous batches)
            if self.cache.sequences.swap_out(state.request_id, tokens, computed):
                state.is_cpu_offloaded = True
                gone.add(state.request_id)
        return gone

    def restore_scheduled_requests(self, requests_in_batch: list[FutureRequestState]) -> None:
        for future in requests_in_batch:
            future.state.is_cpu_offloaded = False  # its pages are back, or it had none
        lengths = [(one.query_length, one.state.position_offset) for one in requests_in_batch]
        self.cache.below.speed.batch(lengths)
        self.cache.below.scheduled([one.state.request_id for one in requests_in_batch])

    def free_request_cpu_cache(self, state: RequestState, keep_unsorted: bool = False) -> None:
        if state.is_cpu_offloaded:
            self.cache.below.drop_swapped(state.request_id)
            state.is_cpu_offloaded = False

    def free_all_waiting_cpu_caches(self) -> None:
        for state in self.scheduler.waiting_requests.values():
            self.free_request_cpu_cache(state)
            self.cache.below.give_up(state.request_id)


def _add_waiting(cache: Cache, add: Callable[[RequestState], None], state: RequestState) -> None:
    """Queue a request; the engine ends one that raises, and goes on with the others.

    Raises:
        NeverFitsError: Its prompt needs more blocks than the cache has.
    """
    tokens = len(state.initial_tokens)
    comes_again = state._true_initial_tokens > 0
    if not comes_again and _needed(cache, tokens) > cache.num_blocks:
        raise _never(cache, "the prompt", tokens)
    add(state)


def _never(cache: Cache, what: str, tokens: int) -> NeverFitsError:
    needed = _needed(cache, tokens)
    return NeverFitsError(f"{what} needs {needed} blocks, but the cache has {cache.num_blocks}")


def _needed(cache: Cache, tokens: int) -> int:
    """Blocks of all layer groups that the engine asks for to compute so many tokens."""
    needed: int = cache.blocks_needed(cache.blocks_of(tokens), 0)
    return needed


def _schedule(
    cache: Cache,
    scheduler: Scheduler,
    schedule: Callable[[int, int], Scheduled],
    token_budget: int,
    cache_budget: int,
) -> Scheduled:
    """Schedule a batch; where there is none, because of a transfer under way, wait for that."""
    below, sequences = cache.below, cache.sequences
    assert below is not None
    assert sequences is not None
    give_back = sequences.give_back
    while True:
        for name in below.lost.intersection(scheduler.waiting_requests):
            state = scheduler.waiting_requests[name]
            scheduler.waiting_requests[name] = state.create_equivalent_initial_request()
        below.lost.clear()
        found = schedule(token_budget, cache_budget)
        stuck = found[0] is None
        if found[0] or not (below.lost or below.wait(stuck=stuck) or (stuck and give_back())):
            return found


def _waiting(cache: Cache, order: Callable[[], list[RequestState]]) -> list[RequestState]:
    """The engine's order, behind those whose KV has been loaded: they hold blocks already."""
    assert cache.below is not None
    first = set(cache.below.landed())
    return sorted(order(), key=lambda state: state.request_id not in first)
