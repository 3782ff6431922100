"""Pools beside the real one, each under a policy and of a size, and the traffic they are given."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, Self

from kvframe._core import ShadowSet as Core
from kvframe._core import Trace
from kvframe.arguments import is_int, shown
from kvframe.config import Resolved
from kvframe.drivers.asker import Terms
from kvframe.drivers.eviction import driver
from kvframe.errors import CapacityError, UsageError
from kvframe.flat import KnownRow
from kvframe.shadow.report import ShadowCounts, ShadowReport

BACKLOG = 4096
"""Steps that may wait for the shadows' thread; a step that finds no place is left out."""

FLUSH_S = 60.0
"""Seconds in which the shadows have to catch up, unless told otherwise."""

COUNTED = frozenset(("lifetime",))
"""Options of policies that count accesses to blocks: with a stride there are as many fewer."""

Keys = list[bytes] | tuple[bytes, int]
"""Keys of blocks, of any length; or keys of one length, joined, and their number."""

Progress = tuple[int, Keys, int, int]
"""How far a request has come: its number, keys of full blocks that were not told before, tokens
with slots, and tokens that are findable."""

Begun = tuple[int, Keys, int, int, int, int, int, bool, KnownRow]
"""A request that began: its number, the keys of its full blocks, tokens that are known, of these
those that may be found, tokens with slots, tokens that are findable, tokens that the engine has
found, whether it is counted (it does not come back after a preemption), and what policies may know
of it (`kvframe.flat.Access.row`)."""

Arrived = tuple[int, int, bool, Keys, int, int, bool, KnownRow]
"""A request that came: its number, the first step that may schedule it, whether the engine had no
other request then, the keys of the full blocks of its prompt, the prompt's tokens, tokens that it
generates at the most, whether it looks in the cache, and what policies may know of it."""

Generated = tuple[int, Keys, int]
"""How much a request has generated: its number, keys of full blocks that were not told before, and
tokens."""


class Batching(NamedTuple):
    """How an engine makes up its steps, so that shadows can make up their own.

    Running requests come first, in the order in which they began, then those that wait, in the
    order in which they came; where there is no room, the last to begin is preempted.

    Attributes:
        max_num_seqs: Requests that run at once, at most.
        max_num_batched_tokens: Tokens that a step computes, at most.
        asynchronous: Whether a step is made up before the tokens of the last one are there.
        fits_whole: Whether a request begins only where all its tokens would fit.
        watermark: Share of the blocks that a request which begins beside others leaves free.
    """

    max_num_seqs: int
    max_num_batched_tokens: int
    asynchronous: bool = False
    fits_whole: bool = True
    watermark: float = 0.0


class ShadowSet:
    """Any number of policies and sizes beside the real ones, on a thread of their own.

    ::

        shadows = ShadowSet(["lru", "lfu"], [500, 1000], 16, actual=("lru", 500))
        shadows.step(begun=[...], ended=[...])      # once a step of the engine; never waits
        shadows.report()

    Several threads may share a set; steps are carried out in the order in which they come.

    Args:
        policies: As the command line names them (``lru``, ``s3-fifo:small_percent=20``): built-in
            or compiled ones. One in Python would need the interpreter's lock.
        capacities: Blocks of the pools. Every policy runs at every size.
        block_size: Tokens of a block.
        actual: The policy and number of blocks that the engine really runs. It gets a shadow, too:
        how far that one differs from the engine says whether the others can be trusted.
        chained: Whether a block is evicted only after those that follow it, as in a
            `KVCacheManager`; engines whose blocks know no parent (vLLM) are not.
        stride: Follow one block in so many, in pools that are as much smaller: less work, for
            pools of thousands of blocks. What really runs is followed in full besides, at each
            size, which says how far a sample is off.
        reserved: Blocks that the engine's pool has beside its capacity, and no request may have.
        batching: How the engine makes up its steps. Then each shadow makes up its own, and is fed
            with `advance` in place of `step`.
        backlog: Steps that may wait.

    Raises:
        UsageError: No policy or no size is named, or one cannot be.
        ConfigError, PluginError: A policy cannot be found, or refuses its options.
    """

    def __init__(
        self,
        policies: Sequence[str],
        capacities: Sequence[int],
        block_size: int,
        *,
        actual: tuple[str, int] | None = None,
        chained: bool = False,
        stride: int = 1,
        reserved: int = 0,
        batching: Batching | None = None,
        backlog: int = BACKLOG,
    ) -> None:
        names, sizes = _texts(policies), _sizes(capacities)
        least = {"block_size": 1, "stride": 1, "reserved": 0, "backlog": 1}
        given = {"block_size": block_size, "stride": stride, "reserved": reserved}
        for name, value in {**given, "backlog": backlog}.items():
            if not is_int(value) or not least[name] <= value < 2**32:
                limit = f"must be an integer between {least[name]} and {2**32 - 1}"
                raise UsageError(f"{name} = {shown(value)}: {limit}")
        if not isinstance(chained, bool):
            raise UsageError(f"chained = {shown(chained)}: must be True or False")
        pairs = [(policy, size) for policy in names for size in sizes]
        guides: list[tuple[str, int]] = []
        if actual is not None:
            _check_actual(actual)
            if stride > 1:
                guides = [(actual[0], size) for size in dict.fromkeys([actual[1], *sizes])]
            missing = [pair for pair in guides or [actual] if pair not in pairs]
            pairs = [*missing, *pairs]
        if len(set(pairs)) < len(pairs):
            raise UsageError("policies, capacities: one is named twice")
        self.block_size, self.stride, self.chained = block_size, stride, chained
        self.actual = actual
        self._pairs, self._guides = pairs, guides
        sets = [(stride, pairs)] + ([(1, guides)] if guides else [])
        self._core = Core(
            [(each, [_made(*pair, block_size, each) for pair in some]) for each, some in sets],
            block_size=block_size,
            chained=chained,
            reserved=reserved,
            batching=batching,
            backlog=backlog,
        )

    def step(
        self,
        *,
        ended: Sequence[Progress] = (),
        grown: Sequence[Progress] = (),
        preempted: Sequence[int] = (),
        begun: Sequence[Begun] = (),
    ) -> None:
        """What the engine did in a step. A step in which no request got a block may be left out.

        Args:
            ended: Requests that have ended since the last step, in order.
            grown: Running requests that got slots, in the order in which they were scheduled.
            preempted: Requests that lost their blocks, and will begin again.
            begun: Requests that began, in order.

        Raises:
            UsageError: One of these is of another form.
        """
        self._core.step(ended, grown, preempted, begun)

    def advance(
        self,
        step: int,
        *,
        rests: bool = False,
        arrived: Sequence[Arrived] = (),
        found: Sequence[tuple[int, int]] = (),
        running: Sequence[Generated] = (),
        ended: Sequence[Generated] = (),
    ) -> None:
        """What came of the engine's steps since the last call, for shadows that make up their own.

        Args:
            step: The last of these steps; they are numbered from 1 on.
            rests: Whether the engine has no requests after it.
            arrived: Requests that came, in order.
            found: Requests that began for the first time, and the tokens that the engine has found
                of each.
            running: Requests that run. A shadow goes on as far as these are told.
            ended: Requests that have ended.

        Raises:
            UsageError: One of these is of another form.
        """
        self._core.advance(step, rests, arrived, found, running, ended)

    def reset(self, step: int = 0) -> None:
        """Forget every cached block: the engine has reset its prefix cache.

        Args:
            step: The engine's last step before, for shadows that make up their own.
        """
        self._core.reset(step)

    def run(self, trace: Trace) -> None:
        """The requests of a trace one after the other, as ``kvframe bench run`` serves them."""
        self._core.run(trace)

    def flush(self, seconds: float = FLUSH_S) -> None:
        """Wait until every step that was given is carried out.

        Raises:
            CapacityError: It takes longer.
        """
        if not self._core.flush(seconds):
            raise CapacityError(f"the shadows have not caught up in {seconds} s")

    def report(self) -> ShadowReport:
        """What has been counted so far."""
        counts = self._core.counts()
        rows = zip([*self._pairs, *self._guides], counts, strict=True)
        counted = [ShadowCounts(*pair, *each) for pair, each in rows]
        shadows, guides = counted[: len(self._pairs)], counted[len(self._pairs) :]
        actual = None
        if self.actual is not None:
            whole, pairs = (guides, self._guides) if guides else (shadows, self._pairs)
            actual = whole[pairs.index(self.actual)]
        dropped, failure = self._core.dropped(), self._core.failure()
        return ShadowReport(shadows, actual, self.stride, dropped, failure, guides)

    def check_integrity(self) -> None:
        """Recount every pool: O(blocks).

        Raises:
            IntegrityError: Something disagrees, which is a bug in kvframe.
        """
        self.flush()
        self._core.check_integrity()

    def close(self) -> None:
        """End the thread. Later calls do nothing; the counts stay."""
        self._core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> Literal[False]:
        self.close()
        return False


def _texts(policies: Sequence[str]) -> list[str]:
    named = [] if isinstance(policies, str) or not isinstance(policies, Iterable) else [*policies]
    if not named or not all(isinstance(policy, str) for policy in named):
        raise UsageError(f"policies = {shown(policies)}: must be names, at least one")
    return named


def _sizes(capacities: Iterable[int]) -> list[int]:
    sizes = list(capacities) if isinstance(capacities, Iterable) else []
    if not sizes:
        raise UsageError(f"capacities = {shown(capacities)}: must be blocks, at least one size")
    for place, size in enumerate(sizes):
        if not is_int(size) or size < 1:
            raise UsageError(f"capacities[{place}] = {shown(size)}: must be blocks, 1 or more")
    return sizes


def _check_actual(actual: object) -> None:
    if not (isinstance(actual, tuple) and len(actual) == 2 and isinstance(actual[0], str)):
        raise UsageError(f"actual = {shown(actual)}: must be (policy, blocks)")
    _sizes([actual[1]])


def _made(
    policy: str, capacity: int, block_size: int, stride: int
) -> tuple[object, dict[str, object] | None, int]:
    """The arguments from which the core makes a shadow: policy or driver, options, blocks."""
    resolved = Resolved.load(os.devnull, env={}, eviction={"policy": policy})
    config, chosen = resolved.config.eviction, resolved.eviction
    made = driver(chosen.loaded, Terms.of(config, chosen.options, block_size * stride))
    if made:
        return made, None, capacity
    values = dict(chosen.values)
    for name in COUNTED.intersection(values):
        values[name] = max(round(values[name] / stride), 1)
    return chosen.name, values, capacity
