"""What `perf.batching` serves: models, conversations, the engine over each kind of cache."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from transformers import GenerationConfig
from transformers.generation.configuration_utils import ContinuousBatchingConfig
from transformers.generation.continuous_batching.cache import PagedAttentionCache
from transformers.generation.continuous_batching.input_outputs import ContinuousBatchingIOs
from transformers.generation.continuous_batching.offloading_manager import OffloadingManager

from kvframe.errors import CapacityError
from kvframe.integrations.transformers import Cache, kvframe_blocks
from kvframe.integrations.transformers.below import Below
from kvframe.integrations.transformers.stepped import TINY

DEVICE = "cuda"
BLOCK = 32
LARGE = {
    "vocab_size": 32_000,
    "hidden_size": 4_096,
    "intermediate_size": 14_336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
}
SMALL = {**TINY, "initializer_range": 0.3}
STOCK = "transformers' own"
METHODS = (
    "allocate_blocks",
    "free_blocks",
    "search_prefix_match",
    "mark_shareable_blocks_as_complete",
)
MOVES = ("offloaded", "onboarded", "swapped_out", "swapped_in")
"""Counters of pages that crossed the bus."""

Tokens = list[int]


@dataclass(frozen=True)
class Kind:
    """What stands under the engine.

    Attributes:
        policy: Of kvframe's pool; None for transformers' own manager.
        host: A host tier with room for all conversations.
        preempts: With a host tier: requests are preempted as kvframe chooses, or always computed
            again, or always swapped out.
    """

    policy: str | None
    host: bool = False
    preempts: Literal["chosen", "again", "swapped"] = "chosen"

    def __str__(self) -> str:
        if self.policy is None:
            return STOCK
        how = {"chosen": "", "again": ", computed again", "swapped": ", swapped"}
        return self.policy + " + host" * self.host + how[self.preempts]

    @contextmanager
    def managed(self, blocks: int) -> Iterator[Any]:
        """Caches of this kind, with a host tier three times as large as the pool."""
        if self.policy is None:
            yield None
            return
        below: dict[str, Any] = (
            {"tiers": [{"name": "host", "capacity": 3 * blocks}]} if self.host else {}
        )
        with (
            preempting(self.preempts),
            kvframe_blocks(eviction={"policy": self.policy}, **below) as made,
        ):
            yield made


@contextmanager
def preempting(how: str) -> Iterator[None]:
    """Preempted requests are always swapped out where there is room, or never."""
    preempt = Below.preempt

    def again(self: Below, request_id: str, seq: int, computed: int) -> bool:
        self.kv.preempt(seq)
        return False

    def swapped(self: Below, request_id: str, seq: int, computed: int) -> bool:
        with self._on_stream():
            try:
                self.swapped[request_id] = self.tiers.swap_out(seq), computed
            except CapacityError:
                return again(self, request_id, seq, computed)
        return True

    patched: Any = Below
    patched.preempt = {"chosen": preempt, "again": again, "swapped": swapped}[how]
    try:
        yield
    finally:
        patched.preempt = preempt


@dataclass
class Served:
    """What a run of prompts took.

    Attributes:
        wall: Seconds for all of them.
        manager: Seconds inside the cache's methods.
        prefill: Prompt tokens computed, and tokens that were computed again.
        preempted: Requests that lost their blocks.
        first: Seconds from a request to its first token. Where a request is computed again, its
            last first token counts.
        moved: Pages by direction, and what was computed instead.
        page_bytes: Bytes of a page.
    """

    wall: float = 0.0
    manager: float = 0.0
    prefill: int = 0
    preempted: int = 0
    evictions: int | None = None
    answers: list[Tokens] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    moved: dict[str, int] = field(default_factory=dict)
    page_bytes: int = 0


def conversations(
    count: int, turns: int, head: int, turn: int, vocab: int
) -> tuple[list[Tokens], int]:
    """Prompts in the order in which they come, and the tokens of all conversations when they end.

    Each turn repeats the conversation so far. Six in ten turns belong to one of the conversations
    that were active lately.
    """
    draw = random.Random(0)

    def tokens(length: int) -> Tokens:
        return [draw.randrange(1, vocab) for _ in range(length)]

    system = tokens(head)
    said = [list(system) for _ in range(count)]
    left = [turns] * count
    lately: list[int] = []
    prompts = []
    while any(left):
        open_ones = [i for i in range(count) if left[i]]
        warm = [i for i in lately[-6:] if left[i]]
        at = draw.choice(warm) if warm and draw.random() < 0.6 else draw.choice(open_ones)
        said[at] = said[at] + tokens(draw.randrange(turn // 2, 3 * turn // 2))
        prompts.append(said[at])
        left[at] -= 1
        lately.append(at)
    return prompts, head + sum(len(whole) - head for whole in said)


@contextmanager
def watched(served: Served) -> Iterator[None]:
    """Notes what is computed, and the time inside the caches' methods."""
    original = ContinuousBatchingIOs.prepare_batch_tensors
    evict = OffloadingManager.offload_requests
    inside = False

    def prepare(self: Any, requests_in_batch: list[Any], *args: Any, **kwargs: Any) -> None:
        served.prefill += sum(future.query_length for future in requests_in_batch)
        original(self, requests_in_batch, *args, **kwargs)

    def preempt(self: Any) -> int:
        gone: int = evict(self)
        served.preempted += gone
        return gone

    def timed(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal inside
            if inside:
                return method(*args, **kwargs)
            inside, begun = True, time.perf_counter()
            try:
                return method(*args, **kwargs)
            finally:
                served.manager += time.perf_counter() - begun
                inside = False

        return call

    kept = [(of, name, vars(of)[name]) for of in (PagedAttentionCache, Cache) for name in METHODS
            if name in vars(of)]  # fmt: skip
    ContinuousBatchingIOs.prepare_batch_tensors = prepare
    OffloadingManager.offload_requests = preempt
    for of, name, method in kept:
        setattr(of, name, timed(method))
    try:
        yield
    finally:
        ContinuousBatchingIOs.prepare_batch_tensors = original
        OffloadingManager.offload_requests = evict
        for of, name, method in kept:
            setattr(of, name, method)


@contextmanager
def engine(of: Any, blocks: int, new_tokens: int, **options: Any) -> Iterator[Any]:
    """The engine over a cache of ``blocks`` blocks."""
    generation = GenerationConfig(
        max_new_tokens=new_tokens, eos_token_id=[], pad_token_id=0, do_sample=False
    )
    batching = ContinuousBatchingConfig(
        block_size=BLOCK, num_blocks=blocks, max_batch_tokens=2_048, **options
    )
    with (
        torch.no_grad(),
        of.continuous_batching_context_manager(
            generation, timeout=120, continuous_batching_config=batching
        ) as manager,
    ):
        yield manager


def answer(manager: Any) -> Any:
    """The next answer.

    Raises:
        RuntimeError: The engine failed, or stopped.
    """
    result = manager.get_result(timeout=120)
    if result is None or result.error:
        raise RuntimeError(result.error if result else "the engine stopped")
    return result


def serve(
    of: Any,
    prompts: Sequence[Tokens],
    kind: Kind,
    *,
    blocks: int,
    at_once: int,
    new_tokens: int,
    **options: Any,
) -> Served:
    """All ``prompts``, ``at_once`` at a time, the next as one is answered."""
    served = Served()
    answers: dict[str, Tokens] = {}
    asked: dict[str, float] = {}
    with (
        kind.managed(blocks) as made,
        watched(served),
        engine(of, blocks, new_tokens, **options) as manager,
    ):
        manager.add_request([1, 2], "first", max_new_tokens=1)  # the cache is made for it
        answer(manager)
        served.prefill = 0
        begun, given = time.perf_counter(), 0
        while len(answers) < len(prompts):
            while given < len(prompts) and given - len(answers) < at_once:
                asked[str(given)] = time.perf_counter()
                manager.add_request(
                    prompts[given],
                    str(given),
                    max_new_tokens=new_tokens,
                    record_timestamps=True,
                )
                given += 1
            result = answer(manager)
            answers[result.request_id] = result.generated_tokens
            served.first.append(result.timestamps[0] - asked[result.request_id])
        served.wall = time.perf_counter() - begun
    # The first new token comes out of a prompt's prefill, each other takes one computed token.
    served.prefill -= sum(len(tokens) - 1 for tokens in answers.values())
    served.answers = [answers[str(i)] for i in range(len(prompts))]
    if made:
        served.evictions = made[0].stats.counters()["evictions"]
        made[0].check_integrity()
        if made.tiers[0] is not None:
            served.moved = made.tiers[0].stats()["moved"]
            served.page_bytes = made.tiers[0].page_bytes
    return served
