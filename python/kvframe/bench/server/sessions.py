"""Sessions of a recorded trace, begun at other times, as often as is asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

from kvframe.bench.traces import ReadOptions, Source, read
from kvframe.errors import ConfigError


class Turn(NamedTuple):
    """A request of a session.

    Attributes:
        gap: Seconds after the turn before; of the first one 0.
        input: Tokens of its prompt.
        output: Tokens of its answer.
        blocks: Those of its prompt, by number.
    """

    gap: float
    input: int
    output: int
    blocks: list[int]


class Recorded:
    """The sessions of a trace, in the order in which they began."""

    def __init__(self, source: Source) -> None:
        """Read them.

        Raises:
            ConfigError: The trace names no sessions.
        """
        found: dict[int, list[Turn]] = {}
        before: dict[int, int] = {}
        for at in range(source.trace.requests):
            time, prompt, answer, session, blocks = source.trace.request(at)
            if session is None:
                continue
            gap = (time - before.get(session, time)) / 1000
            found.setdefault(session, []).append(Turn(gap, prompt, answer, blocks))
            before[session] = time
        if not found:
            raise ConfigError(f"workload: sessions = {source.name}: it names no sessions")
        self.sessions = list(found.values())
        users = Counter(
            block
            for turns in self.sessions
            for block in {block for turn in turns for block in turn.blocks}
        )
        self.shared = {block for block, count in users.items() if count > 1}
        """Blocks of several sessions: all that are begun have them together."""
        self.first_free = 1 + max(users, default=0)
        self.block_size = source.trace.block_size

    def begun(
        self, starts: Iterable[float], dice: np.random.Generator, how: Beginning
    ) -> Iterator[tuple[float, list[Turn]]]:
        """Sessions for as many times to begin at: when, and the turns from there on.

        Blocks that a session has alone are new each time that it begins.
        """
        fresh = self.first_free
        for at, start in enumerate(starts):
            count = len(self.sessions)
            turns = self.sessions[int(dice.integers(count)) if how.resample else at % count]
            if at < how.stationary:
                gaps = np.array([turn.gap for turn in turns])
                if gaps.sum() > 0:
                    turns = turns[int(dice.choice(len(turns), p=gaps / gaps.sum())) :]
            own: dict[int, int] = {}
            for turn in turns:
                for block in turn.blocks:
                    if block not in self.shared and block not in own:
                        own[block] = fresh
                        fresh += 1
            yield (
                start,
                [
                    turn._replace(blocks=[own.get(block, block) for block in turn.blocks])
                    for turn in turns
                ],
            )


class Beginning(NamedTuple):
    """How sessions begin.

    Attributes:
        resample: Each is drawn, instead of one after the other and from the front again.
        stationary: So many of the first ones begin at a turn that is drawn in proportion to the
            time before it.
    """

    resample: bool
    stationary: int


@cache
def recorded(name: str) -> Recorded:
    """The sessions of a trace, as `kvframe bench serve --trace` would read it.

    Raises:
        TraceError: It cannot be read.
        ConfigError: It names no sessions.
    """
    return Recorded(read(name, ReadOptions()))
