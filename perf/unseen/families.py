"""All families by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kvframe import _core
from perf.unseen.coders import agents, completions
from perf.unseen.people import chats, documents
from perf.unseen.prompts import BLOCK, Author, Prompt, rows
from perf.unseen.services import batches, evaluations, retrieval

FAMILIES: dict[str, Callable[[Author], Iterator[Prompt]]] = {
    family.__name__: family
    for family in (retrieval, batches, evaluations, chats, documents, agents, completions)
}
"""A generator of each family's requests, not in the order of time."""


def made(family: str, seed: int) -> bytes:
    """A trace of a family, as JSONL."""
    return b"".join(rows(FAMILIES[family](Author(f"{family} {seed}"))))


def trace(family: str, seed: int) -> _core.Trace:
    """The same, read."""
    return _core.Trace.parse(made(family, seed), f"{family}-{seed}", BLOCK)
