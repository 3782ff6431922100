"""How fast this machine prefills, as measured: what loads and swaps are weighed against."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from kvframe.tiers import SwapCost
from kvframe.tiers.cost import Rate

LEAST_TOKENS = 256
"""Steps of fewer tokens (or of less than half a batch) read weights rather than compute."""
ON_CARD = {"bandwidth_out": 20e9, "bandwidth_in": 20e9, "latency": 1e-3}
ON_CPU = {"bandwidth_out": 4e9, "bandwidth_in": 4e9, "latency": 1e-4}
"""What counts until transfers have been measured: bytes a second, seconds."""


class Speed:
    """FLOPs a second of the model's prefill.

    Args:
        cache: The engine's.
        given: What the user says instead; nothing is measured then.
    """

    def __init__(self, cache: Any, given: SwapCost | None) -> None:
        config, self._given = cache.config, given
        heads = getattr(config, "num_attention_heads", cache.num_key_value_heads)
        self._attention = float(len(cache.key_cache) * heads * cache.head_dim)
        self._on_card = torch.device(cache.device).type == "cuda"
        self._least = min(LEAST_TOKENS, max(cache.max_batch_tokens // 2, 1))
        self._parameters = 0.0
        self._rate, self._steps = Rate(), 0
        self._work = 0.0
        self._running: list[tuple[Callable[[], float | None], float]] = []

    def cost(self) -> SwapCost:
        """What computing costs; before the first prefill, more than any transfer."""
        if self._given is not None:
            return self._given
        told = ON_CARD if self._on_card else ON_CPU
        return SwapCost(
            parameters=self._parameters or 1.0,
            attention=self._attention,
            flops=self._rate.value or 1e-9,
            **told,
        )

    def batch(self, lengths: Sequence[tuple[int, int]]) -> None:
        """The next step computes so many tokens behind so many others, for each request."""
        tokens = sum(query for query, _ in lengths)
        pairs = sum(query * past + query * (query + 1) / 2 for query, past in lengths)
        self._work = 0.0
        if self._given is None and self._parameters and tokens >= self._least:
            self._work = 2 * self._parameters * tokens + 4 * self._attention * pairs

    def begin(self, model: Any, stream: torch.cuda.Stream | None) -> Callable[[], None]:
        """A step begins; call what it returns once the step is queued, or done on a CPU."""
        if not self._parameters:
            self._parameters = float(sum(each.numel() for each in model.parameters()))
        self._collect()
        work = self._work
        if not work:
            return lambda: None
        if stream is None:
            began = time.perf_counter()

            def ended() -> None:
                took = time.perf_counter() - began
                self._running.append((lambda: took, work))

            return ended
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record(stream)

        def queued() -> None:
            last.record(stream)
            self._running.append(
                (lambda: first.elapsed_time(last) / 1e3 if last.query() else None, work)
            )

        return queued

    def _collect(self) -> None:
        """Take in the steps that have ended; the first one warms the machine up."""
        waiting = []
        for took, work in self._running:
            seconds = took()
            if seconds is None:
                waiting.append((took, work))
                continue
            self._steps += 1
            if self._steps > 1:
                self._rate.add(int(work), seconds)
        self._running = waiting
