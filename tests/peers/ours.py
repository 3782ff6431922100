"""The suite's operations over `kvframe.KVCacheManager`."""

from __future__ import annotations

from typing import Any

import numpy as np

from kvframe import CapacityError, KVCacheManager, NeverFitsError
from kvframe.events import EventKind
from kvframe.request import MMItem

STORED = {EventKind.STORE: "stored", EventKind.EVICT: "removed", EventKind.FORGET: "removed"}


class Ours:
    """Requests by name; block 0 is the null block, as in vLLM."""

    def call(self, op: str, **args: Any) -> Any:
        """Do an operation; answers what JSON can hold."""
        return getattr(self, op)(**args)

    def make(
        self,
        blocks: int,
        block_size: int,
        window: int = 0,
        caching: bool = True,
        at_once: bool = True,
    ) -> None:
        groups: list[dict[str, Any]] = [{"name": "full"}]
        if window:
            groups.append({"name": "window", "kind": "sliding_window", "window": window})
        self.kv = KVCacheManager.from_toml(
            cache={
                "capacity": blocks,
                "block_size": block_size,
                "prefix_caching": caching,
                "null_block": True,
                "event_log": True,
            },
            groups=groups,
        )
        self.groups, self.size = len(groups), block_size
        self.seqs: dict[str, int] = {}
        self.stored: set[int] = set()
        self.log: list[list[Any]] = []

    def alloc(
        self,
        name: str,
        tokens: list[int],
        read: bool = True,
        lookahead: int = 0,
        external: int = 0,
        **apart: Any,
    ) -> Any:
        """Admit, get slots for all and compute all."""
        options: dict[str, Any] = {
            "read_cache": read,
            "num_external_tokens": external,
            **_apart(**apart),
        }
        try:
            grant = self.kv.allocate(np.array(tokens, np.uint32), **options)
        except (CapacityError, NeverFitsError):
            return None
        if grant.load is not None:
            self.kv.loaded(grant.load, external // self.size)
        self.kv.commit(grant.seq, len(tokens))
        if lookahead:
            self.kv.append_placeholders(grant.seq, lookahead)
        self.seqs[name] = grant.seq
        return {"hit": grant.cached_tokens, "table": self.table(name)}

    def append(self, name: str, tokens: list[int]) -> Any:
        seq = self.seqs[name]
        try:
            self.kv.append(seq, tokens)
        except CapacityError:
            return None
        self.kv.commit(seq, self.kv.lengths(seq).slots)
        return self.table(name)

    def free(self, name: str) -> None:
        self.kv.release(self.seqs.pop(name))
        self.kv.check_integrity()

    def defer(self, name: str) -> None:
        self.kv.release(self.seqs.pop(name), fence=1)

    def drain(self) -> None:
        self.kv.step(passed=1)

    def table(self, name: str) -> list[list[int]]:
        tables = [self.kv.block_table(self.seqs[name], g).tolist() for g in range(self.groups)]
        return [[max(block, 0) for block in table] for table in tables]

    def hit(self, tokens: list[int], **apart: Any) -> int:
        return self.kv.lookup(np.array(tokens, np.uint32), **_apart(**apart)).tokens

    def refs(self, block: int) -> int:
        return sum(table.count(block) for name in self.seqs for table in self.table(name))

    def room(self) -> int:
        counts = self.kv.counts()
        return counts.free + counts.cached

    def copies(self) -> int:
        """Blocks that were stored beside a findable one of the same key."""
        return self.kv.stats.counters()["duplicates"]

    def cached(self, block: int) -> bool:
        self._read_events()
        return block in self.stored

    def take(self, count: int) -> list[int] | None:
        blocks = np.empty(count, np.int32)
        try:
            self.kv.blocks.take(out=blocks)
        except CapacityError:
            return None
        return [int(block) for block in blocks]

    def give(self, blocks: list[int]) -> None:
        self.kv.blocks.free(np.array(blocks, np.int32))

    def reset(self) -> bool:
        self.kv.reset_prefix_cache()
        return True

    def events(self) -> list[list[Any]]:
        self._read_events()
        log, self.log = self.log, []
        return log

    def keys(self, tokens: list[int]) -> list[str]:
        return [
            row.tobytes().hex() for row in self.kv.blocks.hash_blocks(np.array(tokens, np.uint32))
        ]

    def _read_events(self) -> None:
        events = self.kv.log.take_events()
        cleared = EventKind.RESET in events["kind"]
        for kind, block in zip(events["kind"].tolist(), events["block"].tolist(), strict=True):
            if kind == EventKind.RESET:
                self.log.append(["cleared", 0])
                self.stored.clear()
            elif word := STORED.get(EventKind(kind)):
                (self.stored.add if word == "stored" else self.stored.discard)(block)
                if cleared and kind == EventKind.FORGET:
                    continue
                if self.log and self.log[-1][0] == word:
                    self.log[-1][1] += 1
                else:
                    self.log.append([word, 1])


def _apart(salt: str = "", image: list[Any] | None = None) -> dict[str, Any]:
    """What sets a prompt apart; an image is [first token, tokens, name]."""
    if image is None:
        return {"cache_salt": salt}
    start, count, name = image
    items = [MMItem(start, start + count, name.encode())]
    return {"cache_salt": salt, "mm_items": items}
