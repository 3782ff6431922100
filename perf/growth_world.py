"""A manager in which n of everything lives: see `perf.growth`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

from kvframe import KVCacheManager, Request
from kvframe.request import TokenIds

Call = Callable[[], object]
Verb = Callable[[Any], Call]
"""Prepares one call in a world, and answers it."""

SIZE = 4


class All:
    """A verb that names or returns everything."""

    def __init__(self, verb: Verb) -> None:
        self.verb = verb

    def __call__(self, world: Any) -> Call:
        """See `Verb`."""
        return self.verb(world)


class World:
    """``size`` sequences, sessions, leases, pins, deadlines and cached blocks, and as many loads,
    or ``loads`` of them.
    """

    def __init__(self, size: int, *, loads: int | None = None, **sections: Any) -> None:
        self.size = size
        cache = {"capacity": 5 * size + 32_768, "block_size": SIZE, **sections.pop("cache", {})}
        retention = {"sessions": True, "pin_cap": 1.0}
        self.kv = KVCacheManager.from_toml(None, cache=cache, retention=retention, **sections)
        self._fresh = count(1)
        self.seqs: list[int] = []
        self.tickets: list[int] = []
        self.loads: list[tuple[int, int]] = []
        self.pins: list[Any] = []
        kv = self.kv
        for i in range(size):
            kv.release(self.admitted(session=i + 1))
        for i in range(size):
            prompt = self.prompt()
            seq = self.admitted(prompt, session=i + 1)
            self.seqs.append(seq)
            self.tickets.append(kv.pins.lease(seq, SIZE))
            kv.pins.set_deadline(self.tickets[-1], 1 << 40)
            self.pins.append(kv.pins.pin(prompt, lease=1 << 40))
        for _ in range(size if loads is None else loads):
            grant = kv.allocate(
                Request(self.prompt(2), num_external_tokens=SIZE, max_seq_len=4 * SIZE)
            )
            assert grant.load is not None
            self.loads.append((grant.seq, grant.load))

    def prompt(self, blocks: int = 1) -> npt.NDArray[np.uint32]:
        """Token ids that nobody has asked for."""
        return self.numbered(next(self._fresh), blocks)

    @staticmethod
    def numbered(start: int, blocks: int = 1) -> npt.NDArray[np.uint32]:
        """The token ids of a prompt, by its number."""
        ids = np.full(blocks * SIZE + 1, 7, np.uint32)
        ids[0], ids[1] = start & 0xFFFF, start >> 16
        return ids

    def admitted(self, prompt: TokenIds | None = None, **options: Any) -> int:
        """A sequence whose prompt is computed."""
        tokens = self.prompt() if prompt is None else prompt
        seq = self.kv.allocate(Request(tokens, **options)).seq
        self.kv.commit(seq, len(tokens))
        return seq
