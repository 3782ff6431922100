"""What KV events say of nodes: their tokens, hashes and what they follow. Kept only for events."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Any

from sglang.srt.mem_cache.radix_cache import RadixKey
from sglang.srt.mem_cache.utils import split_node_hash_value


@dataclass(slots=True)
class Span:
    """A node as SGLang's ``KVCacheEventRecorder`` reads it."""

    key: RadixKey
    parent: Span | None
    hash_value: list[str] | None = None
    event_hash_value: list[str] | None = None


class Spans:
    """The spans of a tree, by the nodes' numbers.

    Args:
        recorder: SGLang's, which hashes and queues.
        page_size: Tokens in a page.
    """

    def __init__(self, recorder: Any, page_size: int) -> None:
        self._recorder = recorder
        self._page_size = page_size
        self._root = Span(RadixKey(array("q")), None, hash_value=[])
        self._by_number: dict[int, Span] = {}

    def split(self, head: int, tail: int, tokens: int) -> None:
        """A node's first tokens have a node of their own."""
        rest = self._by_number[tail]
        first = Span(rest.key[:tokens], rest.parent)
        cut = (tokens, self._page_size)
        first.hash_value, rest.hash_value = split_node_hash_value(rest.hash_value, *cut)
        first.event_hash_value, rest.event_hash_value = split_node_hash_value(
            rest.event_hash_value, *cut
        )
        rest.key, rest.parent = rest.key[tokens:], first
        self._by_number[head] = first

    def stored(self, number: int, key: RadixKey, above: int | None, session: str | None) -> None:
        """A node came; ``above`` is the number of what it follows, None for the root."""
        parent = self._root if above is None else self._by_number[above]
        span = self._by_number[number] = Span(key, parent)
        self._recorder.record_store(span, session_id=session)

    def removed(self, number: int) -> None:
        """A node went."""
        self._recorder.record_remove(self._by_number.pop(number))
