"""Prompts without what changes in each of them.

A prefix is shared up to the first token that differs. A date, a request id or a version line near
the start of a system prompt makes all that follows it a prefix of its own. Here the tokens between
two marks are replaced by fixed ones before keys are made, for all prompts alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
import numpy as np

from kvframe.policies import BatchedPrefix, Prompts
from kvframe.policies.prefix import Ids

Token = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
Tokens = Annotated[tuple[Token, ...], msgspec.Meta(max_length=1024)]


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of volatile."""

    start: Annotated[
        Tokens, msgspec.Meta(description="Token ids before a span; none: nothing is replaced.")
    ] = ()
    end: Annotated[
        Tokens, msgspec.Meta(description="Token ids after it; none: nothing is replaced.")
    ] = ()
    put: Annotated[
        Tokens, msgspec.Meta(description="Token ids that stand in place of each span.")
    ] = ()
    longest: Annotated[
        int, msgspec.Meta(ge=1, le=65536, description="Tokens of a span at most.")
    ] = 64
    within: Annotated[
        int, msgspec.Meta(ge=1, le=2**32 - 1, description="Spans start in a prompt's first tokens.")
    ] = 2048


class Volatile(BatchedPrefix):
    """Puts `Options.put` where a prompt's head has a span between `start` and `end`.

    The marks stay. Where no end follows within `longest` tokens, the start is no mark.
    """

    def __init__(self, options: Options) -> None:
        self._start = np.array(options.start, np.uint32)
        self._end = np.array(options.end, np.uint32)
        self._put = np.array(options.put, np.uint32)
        self._longest = options.longest
        self._within = options.within

    def normalise(self, prompts: Prompts) -> Sequence[Ids | None]:
        """Each prompt with its spans replaced; None where it has none, or they read so already."""
        return [self._one(tokens) for tokens in prompts.tokens]

    def _one(self, tokens: Ids) -> Ids | None:
        parts: list[Ids] = []
        done = 0
        for start in _places(tokens[: self._within], self._start):
            body = start + len(self._start)
            length = self._span(tokens[body : body + self._longest + len(self._end)])
            if start < done or length is None:
                continue
            parts += [tokens[done:body], self._put]
            done = body + length
        if not parts:
            return None
        changed = np.concatenate([*parts, tokens[done:]])
        return None if np.array_equal(changed, tokens) else changed

    def _span(self, tokens: Ids) -> int | None:
        """Tokens up to the end's mark, or None where there is none."""
        ends = _places(tokens, self._end)
        return ends[0] if ends else None


def _places(tokens: Ids, mark: Ids) -> list[int]:
    """Where a mark stands."""
    if not 0 < len(mark) <= len(tokens):
        return []
    windows = np.lib.stride_tricks.sliding_window_view(tokens, len(mark))
    found: list[int] = np.flatnonzero((windows == mark).all(axis=1)).tolist()
    return found
