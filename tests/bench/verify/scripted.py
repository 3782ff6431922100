"""An engine that serves one request at a time, and takes as long as it is told."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from kvframe import KVCacheManager
from kvframe.bench.verify.engine import Done, Piece

STEP, TOKEN = 0.002, 0.0005
"""Seconds of a step, and of each token of a prompt in it."""


class Scripted:
    """Serves in the order of arrival; a token of an answer is its place in there."""

    max_num_seqs, max_num_batched_tokens, longest, answer, vocab = 1, 4_096, 64, 3, 50

    def __init__(self, policy: str = "lru", capacity: int | None = None) -> None:
        self.kv = KVCacheManager(
            cache={"block_size": 4, "capacity": capacity or 64, "event_log": True},
            eviction={"policy": policy},
        )
        self.now = 0.0
        self.waiting: deque[tuple[int, Sequence[int], int]] = deque()
        self.given: list[int] = []
        self.seq = -1

    @property
    def busy(self) -> bool:
        return bool(self.waiting)

    def clock(self) -> float:
        return self.now

    def submit(self, request: int, prompt: Sequence[int], answer: int) -> None:
        self.waiting.append((request, prompt, answer))

    def step(self) -> Done:
        request, prompt, answer = self.waiting[0]
        if not self.given:
            grant = self.kv.allocate(list(prompt))
            self.seq = grant.seq
            start, tokens = grant.cached_tokens, len(prompt) - grant.cached_tokens
        else:
            self.kv.append(self.seq, [self.given[-1]])
            start, tokens = len(prompt) + len(self.given) - 1, 1
        piece = Piece(request, start, tokens, bool(self.given))
        self.now += STEP if piece.decodes else STEP + TOKEN * tokens
        self.given.append(len(self.given))
        self.kv.commit(self.seq, upto=start + tokens)
        ended = {}
        if len(self.given) == answer:
            self.kv.release(self.seq)
            self.waiting.popleft()
            ended, self.given = {request: self.given}, []
        return Done([piece], [request], ended)

    def close(self) -> None:
        """Nothing is held."""
