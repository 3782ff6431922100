"""Readers of KV events by the rules of llm-d and of AIBrix, written from how these are described.

Neither is kvframe's: they decode with a plain MessagePack decoder, know nothing of `kvframe.wire`,
and refuse what the real ones refuse.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import zmq

MASK = (1 << 64) - 1
STORED = ("block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium")
REMOVED = ("block_hashes", "medium")


class Consumer:
    """One prefix index of several pods: a key made of tokens, and who holds it in which medium.

    llm-d: the topic is ``kv@POD@MODEL`` and has three parts; hashes are those of the engine, of
    which the last 8 bytes count, and stand for keys made of the tokens; a parent of 0 is none; an
    event without tokens moves known blocks to a medium, in lower case; a clear forgets the pod.
    AIBrix: a batch has two elements, or three of which the last is a number.
    """

    def __init__(self, endpoint: str, block_size: int) -> None:
        self._context: zmq.Context[Any] = zmq.Context()
        self._socket = self._context.socket(zmq.SUB)
        self._socket.subscribe(b"kv@")
        self._socket.connect(endpoint)
        self._size = block_size
        self._keys: dict[int, int] = {}
        self._held: dict[int, set[tuple[str, str]]] = {}
        self.batches = 0
        self.unknown = 0

    def close(self) -> None:
        self._context.destroy(linger=0)

    def read(self, quiet_ms: int = 50) -> None:
        """Everything that comes until nothing does."""
        while self._socket.poll(quiet_ms):
            topic, number, payload = self._socket.recv_multipart()
            kv, pod, model = topic.decode().split("@")
            assert (kv, bool(pod), bool(model), len(number)) == ("kv", True, True, 8)
            batch = msgspec.msgpack.decode(payload)
            assert len(batch) == 2 or (len(batch) == 3 and type(batch[2]) is int)
            for event in batch[1]:
                self._apply(pod, event)
            self.batches += 1

    def reach(self, pod: str, tokens: Sequence[int], *mediums: str) -> int:
        """Leading blocks that a pod holds in one of some mediums."""
        parent, count = 0, 0
        for at in range(0, len(tokens) // self._size * self._size, self._size):
            parent = self._key(parent, tokens[at : at + self._size])
            if self._held.get(parent, set()).isdisjoint((pod, medium) for medium in mediums):
                break
            count += 1
        return count

    def _key(self, parent: int, tokens: Sequence[int]) -> int:
        return hash((parent, tuple(tokens)))

    def _apply(self, pod: str, event: Any) -> None:
        kind, fields = _named(event)
        medium = str(fields.get("medium") or "GPU").lower()
        hashes = [_low(one) for one in fields.get("block_hashes", ())]
        if kind == "AllBlocksCleared":
            for holders in self._held.values():
                holders -= {one for one in holders if one[0] == pod}
        elif kind == "BlockRemoved":
            for one in hashes:
                if one in self._keys:
                    self._held[self._keys[one]].discard((pod, medium))
        elif kind == "BlockStored":
            self._store(hashes, fields)
            for one in hashes:
                if one in self._keys:
                    self._held.setdefault(self._keys[one], set()).add((pod, medium))
        else:
            raise ValueError(kind)

    def _store(self, hashes: list[int], fields: dict[str, Any]) -> None:
        assert 0 not in hashes
        assert len(set(hashes)) == len(hashes)
        tokens, size = fields["token_ids"], fields["block_size"]
        if not tokens:
            return
        assert len(tokens) == size * len(hashes)
        above = _low(fields["parent_block_hash"] or 0)
        if above and above not in self._keys:
            self.unknown += 1
            return
        parent = self._keys[above] if above else 0
        for at, one in enumerate(hashes):
            parent = self._keys[one] = self._key(parent, tokens[at * size : (at + 1) * size])


def _named(event: Any) -> tuple[str, dict[str, Any]]:
    if isinstance(event, dict):
        return str(event["type"]), event
    kind, *values = event
    names = {"BlockStored": STORED, "BlockRemoved": REMOVED}.get(kind, ())
    return str(kind), dict(zip(names, values, strict=False))


def _low(value: Any) -> int:
    return int.from_bytes(value[-8:], "big") if isinstance(value, bytes) else int(value) & MASK
