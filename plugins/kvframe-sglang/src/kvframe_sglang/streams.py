"""``python -m kvframe_sglang.streams``: the same requests served by kvframe's lru and by SGLang's.

Families of prompts with shared beginnings, answers, later turns, chunks, aborts, priorities, salts
and plain evictions, from a seed, in a pool that is too small. After each operation must be equal:
the tokens found, stored, evicted and free, what locks protect, and how much of each of the last
prompts is still there, which both trees are asked without touching anything.
"""

from __future__ import annotations

import argparse
import random
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kvframe_sglang.command import needs_sglang
from kvframe_sglang.server import Request, Requests, cache, start

PAGES = (1, 16, 64)


@dataclass
class Outcome:
    """What a stream did.

    Attributes:
        operations: How many.
        found: Tokens found.
        asked: Tokens asked for.
        evicted: Tokens that were evicted.
        refused: Requests for which there was no room.
        trace: What had to be equal, operation by operation.
    """

    operations: int = 0
    found: int = 0
    asked: int = 0
    evicted: int = 0
    refused: int = 0
    trace: list[tuple[Any, ...]] | None = None


class Stream:
    """One sequence of operations on one cache.

    Args:
        made: The cache.
        seed: Of everything random.
    """

    def __init__(self, made: Any, seed: int) -> None:
        self._random = random.Random(seed)
        self._requests, self._cache = Requests(made), made
        self._page = made.page_size
        self._heads = [self._tokens(self._span(6)) for _ in range(6)]
        self._turns: list[list[int]] = []
        self._running: list[Request] = []

    def _span(self, pages: int) -> int:
        return self._random.randint(1, max(4, pages * self._page))

    def _tokens(self, count: int) -> list[int]:
        return [self._random.randrange(50) for _ in range(count)]

    def run(self, operations: int) -> Outcome:
        """Do so many, and say what came of them."""
        done = Outcome(trace=[])
        allocator = self._cache.token_to_kv_pool_allocator
        for told in self._operations(operations, done):
            done.operations += 1
            sizes = (self._cache.evictable_size(), self._cache.protected_size())
            assert done.trace is not None
            done.trace.append((*told, allocator.available_size(), *sizes, self._left()))
        while self._running:
            self._finish()
        return done

    def _left(self) -> tuple[int, ...]:
        """How much of each of the last prompts is cached."""
        from sglang.srt.mem_cache.radix_cache import RadixKey

        peek = self._cache.tree_core.match_full_device_prefix
        return tuple(peek(RadixKey(array("q", each)))[0] for each in self._heads + self._turns)

    def _operations(self, count: int, done: Outcome) -> Iterator[tuple[Any, ...]]:
        for _ in range(count):
            draw = self._random.random()
            if draw < 0.45 or not self._running:
                yield self._admit(done)
            elif draw < 0.75:
                yield self._go_on(done)
            elif draw < 0.9:
                yield self._finish()
            elif draw < 0.95:
                yield self._abort()
            else:
                yield self._evict(done)

    def _admit(self, done: Outcome) -> tuple[Any, ...]:
        if len(self._running) > 5:
            return self._finish()
        draw = self._random
        base = draw.choice(self._turns) if self._turns and draw.random() < 0.5 else []
        prompt = (base or draw.choice(self._heads)) + self._tokens(self._span(3))
        request = self._requests.begin(
            prompt[:2000],
            priority=draw.randint(-1, 2),
            cache_salt=draw.choice([None, None, None, "a"]),
            session_id=draw.choice([None, "one", "two"]),
        )
        done.found += request.prefix_len
        done.asked += len(request.origin_input_ids)
        self._running.append(request)
        slots = self._cache.prefix_device_indices(request)
        assert len(slots) == len(slots.unique()), "a slot has two tokens"
        return "admit", request.prefix_len, *self._chunk(request, done)

    def _chunk(self, request: Request, done: Outcome) -> tuple[Any, ...]:
        have, length = request.kv.kv_committed_len, len(request.origin_input_ids)
        have = max(have, request.prefix_len)
        upto = min(length, have + self._span(4))
        fits = upto == have or self._requests.compute(request, upto)
        if not fits:
            done.refused += 1
            self._running.remove(request)
            self._requests.end(request, aborted=True)
        return fits, upto, request.kv.cache_protected_len

    def _go_on(self, done: Outcome) -> tuple[Any, ...]:
        request = self._random.choice(self._running)
        if request.kv.kv_committed_len < len(request.origin_input_ids):
            return "chunk", *self._chunk(request, done)
        return "answer", self._requests.answer(request, self._tokens(self._span(1)))

    def _finish(self) -> tuple[Any, ...]:
        request = self._random.choice(self._running)
        self._running.remove(request)
        whole = request.kv.kv_committed_len >= len(request.origin_input_ids)
        held = len(request.full_untruncated_fill_ids) <= request.kv.kv_allocated_len
        if whole and held:
            self._turns = [*self._turns[-8:], list(request.full_untruncated_fill_ids)[:1500]]
        self._requests.end(request, aborted=not (whole and held))
        return "end", whole and held, request.kv.cache_protected_len

    def _abort(self) -> tuple[Any, ...]:
        request = self._random.choice(self._running)
        self._running.remove(request)
        self._requests.end(request, aborted=True)
        return "abort", request.rid

    def _evict(self, done: Outcome) -> tuple[Any, ...]:
        from sglang.srt.mem_cache.base_prefix_cache import EvictParams

        asked = self._span(8)
        result = self._cache.evict(EvictParams(num_tokens=asked))
        done.evicted += result.num_tokens_evicted
        return "evict", asked, result.num_tokens_evicted


def beside(page_size: int, operations: int, seed: int, **given: Any) -> tuple[Outcome, str]:
    """The same stream under kvframe's lru and in SGLang's tree; what it did, and how they differ.

    Args:
        page_size: Tokens in a page.
        operations: How many.
        seed: Of the stream.
        **given: Other fields of ``CacheInitParams`` of both.
    """
    parsed = start("--page-size", str(page_size))
    slots = 80 if page_size == 1 else 36 * page_size
    done = []
    for policy in ("kvframe:lru", "lru"):
        made = cache(parsed, slots, page_size=page_size, eviction_policy=policy, **given)
        kind = type(made.tree_core).__name__
        assert (kind == "KvframeTreeCore") == (policy == "kvframe:lru"), kind
        done.append(Stream(made, seed).run(operations))
        made.sanity_check()
        if given.get("enable_kv_cache_events"):
            done[-1].trace = [*(done[-1].trace or []), tuple(map(repr, made.take_events()))]
    ours, theirs = (outcome.trace or [] for outcome in done)
    for at, (mine, its) in enumerate(zip(ours, theirs, strict=True)):
        if mine != its:
            return done[0], f"operation {at}: {str(mine)[:300]} is not {str(its)[:300]}"
    return done[0], ""


def main() -> int:
    """Serve, compare, print."""
    parser = argparse.ArgumentParser(prog="python -m kvframe_sglang.streams", description=__doc__)
    parser.add_argument("--operations", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    needs_sglang(parser)
    wrong = False
    for page_size in PAGES:
        done, difference = beside(page_size, asked.operations, asked.seed)
        share = done.found / max(1, done.asked)
        told = difference or "equal"
        print(f"pages of {page_size}: {done.operations} operations, {share:.4f} found, {told}")
        wrong = wrong or bool(difference)
    return int(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
