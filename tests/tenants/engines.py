"""A tenant's engine for tests: prompts that share prefixes, several at a time."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import numpy.typing as npt

from kvframe import KVCacheManager, Request
from kvframe.errors import CapacityError
from kvframe.policies.batched import BatchedEviction, Candidates

BLOCK = 4


class Hostile(BatchedEviction):
    """Evicts what was used last, of the tenant that it would harm most, if it could."""

    columns = ("last_use", "tenant", "priority")
    window = 0

    def score(self, candidates: Candidates, out: npt.NDArray[np.float64]) -> None:
        out[:] = -candidates["last_use"].astype(np.float64)
        out[candidates["tenant"] > 0] -= 1e9


class Erratic(BatchedEviction):
    """Raises, and gives what is no number, or no finite one, in turn."""

    columns = ("last_use",)
    window = 0

    def __init__(self) -> None:
        self.asked = 0

    def score(self, candidates: Candidates, out: npt.NDArray[np.float64]) -> None:
        self.asked += 1
        if self.asked % 3 == 0:
            raise RuntimeError("it does not want to")
        out[:] = np.nan if self.asked % 3 == 1 else -candidates["last_use"]
        out[: len(out) // 2] = -np.inf


class Engine:
    """Serves one tenant's random requests; ``found`` is what came of each of its calls."""

    def __init__(self, tenant: str, seed: int, most: int, longest: int) -> None:
        self.tenant, self.most, self.longest = tenant, most, longest
        self.random = random.Random(seed)
        self.running: list[int] = []
        self.found: list[tuple[int, int]] = []

    def request(self) -> Request:
        draw = self.random.randrange
        family, length, own = draw(6), 1 + draw(self.longest), draw(4)
        shared = draw(length + 1)
        prompt = [family * 1000 + i * 7 + (0 if i < shared else own) for i in range(length)]
        options: dict[str, Any] = {"session": family + 1, "priority": own}
        return Request(prompt, tenant=self.tenant, **options)

    def step(self, kv: KVCacheManager) -> None:
        """One call of the engine."""
        roll = self.random.randrange(10)
        if not self.running or (roll < 4 and len(self.running) < self.most):
            try:
                got = kv.allocate(self.request())
            except CapacityError:
                self.found.append((-1, 0))
                return
            self.found.append((got.cached_tokens, got.granted_tokens))
            self.running.append(got.seq)
            return
        at = self.random.randrange(len(self.running))
        seq = self.running[at]
        if roll < 7:
            try:
                kv.append(seq, [self.random.randrange(3)])
                self.found.append((1, 1))
            except CapacityError:
                self.found.append((0, 1))
            return
        if roll != 8:
            kv.commit(seq, kv.lengths(seq).slots)
        if roll >= 8:
            kv.release(seq)
            self.running[at] = self.running[-1]
            self.running.pop()


def hits_beside(
    kv: KVCacheManager, own: Engine, others: list[Engine], steps: int, noise: random.Random
) -> list[tuple[int, int]]:
    """What an engine finds in so many calls; between two of them others do up to three each."""
    for _ in range(steps):
        own.step(kv)
        for other in others:
            for _ in range(noise.randrange(4)):
                other.step(kv)
    kv.check_integrity()
    return own.found


class Looks(BatchedEviction):
    """Fails if it is asked about blocks of two tenants, or of another one than before."""

    columns = ("tenant",)

    def __init__(self) -> None:
        self.tenant: int | None = None

    def score(self, candidates: Candidates, out: npt.NDArray[np.float64]) -> None:
        tenants = set(candidates["tenant"].tolist())
        self.tenant = min(tenants) if self.tenant is None else self.tenant
        if tenants != {self.tenant}:
            raise ValueError(f"asked about {tenants}, and about {self.tenant} before")
        out[:] = 0
