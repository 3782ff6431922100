"""What `kvframe bench verify` asks of an engine."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, cast

from kvframe.errors import ConfigError
from kvframe.manager import KVCacheManager
from kvframe.spelling import did_you_mean

KNOWN = {
    "example": "examples.serving.stepped:engine",
    "transformers": "kvframe.integrations.transformers.stepped:engine",
}
"""Engines by name: the example of the checkout, and transformers with a tiny model."""


class Piece(NamedTuple):
    """Tokens of a request that a step computed.

    Attributes:
        request: Its number.
        start: Tokens of it that had KV before.
        tokens: Tokens computed.
        decodes: It was the one token sampled last.
    """

    request: int
    start: int
    tokens: int
    decodes: bool


class Done(NamedTuple):
    """What a step did.

    Attributes:
        pieces: What it computed; empty if it only tidied up.
        sampled: Requests that have one token more.
        ended: Answers of those that are complete.
    """

    pieces: Sequence[Piece]
    sampled: Sequence[int]
    ended: dict[int, list[int]]


class Engine(Protocol):
    """An engine that does one step at a time.

    Attributes:
        kv: Its manager, with ``cache.event_log``.
        max_num_seqs: Sequences that run at once, at most.
        max_num_batched_tokens: Tokens that a step computes, at most.
        longest: Tokens of the longest sequence that it is asked for.
        answer: Tokens of each answer that it is asked for.
        vocab: Token ids are below this.
    """

    kv: KVCacheManager
    max_num_seqs: int
    max_num_batched_tokens: int
    longest: int
    answer: int
    vocab: int

    @property
    def busy(self) -> bool:
        """Whether there is anything to do."""

    def clock(self) -> float:
        """Seconds, of which a difference is what a step took."""

    def submit(self, request: int, prompt: Sequence[int], answer: int) -> None:
        """Queue a request for an answer of so many tokens, however it goes."""

    def step(self) -> Done:
        """One step, at whose end its tokens are there."""

    def close(self) -> None:
        """Give its memory back."""


Make = Callable[[str, int | None], Engine]
"""Makes an engine that has served nothing, with an eviction policy and a capacity in blocks.

Where the capacity is None, the engine has its own. Engines of several policies are there at once.
"""


def find(text: str) -> Make:
    """The engine that ``--engine`` names: one of `KNOWN`, or ``MODULE:FUNCTION``.

    Raises:
        ConfigError: There is none of that name, or what it needs is not installed.
    """
    named = KNOWN.get(text, text)
    module, colon, function = named.partition(":")
    if not colon:
        near = did_you_mean(text, KNOWN)
        raise ConfigError(f"--engine {text}: must be {', '.join(KNOWN)} or MODULE:FUNCTION{near}")
    here = str(Path.cwd())
    if here not in sys.path:  # a console script does not look where it was started
        sys.path.append(here)
    try:
        found = getattr(importlib.import_module(module), function)
    except ModuleNotFoundError as error:
        where = "; start it in a checkout's folder" if text == "example" else ""
        raise ConfigError(f"--engine {text}: {error}{where}") from None
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"--engine {text}: {error}") from None
    return cast(Make, found)
