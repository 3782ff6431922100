"""Traffic that is drawn: arrivals, lengths, and sessions whose prompts grow."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from kvframe import _core
from kvframe.bench.options import OptionOrigins
from kvframe.bench.server.sessions import Beginning, recorded
from kvframe.bench.traces import Source
from kvframe.config.values import build
from kvframe.errors import ConfigError

LONGEST = 2**24
"""Tokens of a prompt and its answer, at most."""
LATEST = 1e9
"""Seconds that a time may have: 32 years."""
Rate = Annotated[float, msgspec.Meta(gt=0, le=1e9)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=LATEST)]
Tokens = Annotated[float, msgspec.Meta(gt=0, le=LONGEST)]
Count = Annotated[int, msgspec.Meta(ge=1, le=10_000_000)]
Whole = Annotated[int, msgspec.Meta(ge=0, le=10_000_000)]
Draws = npt.NDArray[np.float64]
SHORT, QUICK, LULL = 0.2, (0.001, 0.01), (0.5, 2.0)
"""Of ``lulls``: the share of short gaps, and the bounds of both kinds in seconds, as inference-lab
has them."""
DRAWN = ("turns", "gap", "shared", "input", "output", "longest", "block_size")
"""Keys of sessions that are drawn."""
RECORDED = ("num_sessions", "resample", "stationary_sessions")
"""Keys of those that were recorded."""
GOES_WITH = {"burst": "burst", "users": "closed", "jitter": "closed"}
"""Keys that only these arrivals read."""


class Lengths(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many tokens a prompt or an answer has.

    Attributes:
        kind: ``lognormal`` has the mean and deviation of the logarithm.
        value: Of ``fixed``.
        least: Of ``uniform``.
        most: Of ``uniform``.
        mean: Of ``normal`` and ``lognormal``.
        deviation: Of those.
    """

    kind: Literal["fixed", "uniform", "normal", "lognormal"] = "fixed"
    value: Tokens = 512
    least: Tokens = 1
    most: Tokens = 1024
    mean: Annotated[float, msgspec.Meta(ge=-LONGEST, le=LONGEST)] = 0.0
    deviation: Annotated[float, msgspec.Meta(ge=0, le=LONGEST)] = 0.0

    def __post_init__(self) -> None:
        if self.kind == "uniform" and self.least > self.most:
            raise ValueError(f"least = {self.least:g}: must be at most most = {self.most:g}")

    def draw(self, dice: np.random.Generator, count: int) -> npt.NDArray[np.int64]:
        """As many lengths, from 1 to `LONGEST`."""
        match self.kind:
            case "fixed":
                drawn = np.full(count, self.value)
            case "uniform":
                drawn = dice.uniform(self.least, self.most, count)
            case "normal":
                drawn = dice.normal(self.mean, self.deviation, count)
            case _:
                drawn = dice.lognormal(self.mean, self.deviation, count)
        tokens: npt.NDArray[np.int64] = np.clip(np.rint(drawn), 1, LONGEST).astype(np.int64)
        return tokens


class Workload(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[workload]`` of an experiment.

    Attributes:
        arrivals: When sessions begin: as a Poisson process, evenly, in bursts of ``burst``, all at
            once (``batched``), after ``lulls`` of 0.5 to 2 s and one time in five after 1 to 10 ms,
            or ``closed``: ``users`` sessions of which each goes on as soon as it was answered.
        rate: Sessions a second.
        rates: Points (second, rate) between which the rate is interpolated instead, over and over.
        burst: Sessions that begin together.
        users: Of ``closed``.
        jitter: Users of ``closed`` begin within so many seconds, evenly.
        sessions: A recorded trace whose sessions begin instead of drawn ones.
        num_sessions: So many of them begin, at most; 0: as many as ``requests`` asks for.
        resample: Each is drawn from all, instead of one after the other.
        stationary_sessions: So many begin at once, at a turn that is drawn in proportion to the
            time before it, so that the first ones are as far as those that run later.
        requests: How many in all.
        seconds: No session begins later.
        turns: Mean requests a session, geometrically distributed. The prompt of a turn begins with
            the prompt and the answer before it.
        gap: Mean seconds from a turn to the next, exponentially distributed.
        shared: Tokens at the front of every prompt.
        input: Tokens that a turn adds.
        output: Tokens of an answer.
        longest: A session ends before a prompt and its answer would be longer.
        block_size: Tokens a block.
        seed: Of the draws.
    """

    arrivals: Literal["poisson", "uniform", "burst", "lulls", "batched", "closed"] = "poisson"
    rate: Rate = 1.0
    rates: list[tuple[Seconds, Rate]] = []
    burst: Count = 8
    users: Count = 64
    jitter: Seconds = 0.0
    sessions: str = ""
    num_sessions: Whole = 0
    resample: bool = False
    stationary_sessions: Whole = 0
    requests: Count = 1000
    seconds: Annotated[float, msgspec.Meta(gt=0, le=LATEST)] = LATEST
    turns: Annotated[float, msgspec.Meta(ge=1, le=100_000)] = 1.0
    gap: Seconds = 10.0
    shared: Annotated[int, msgspec.Meta(ge=0, le=LONGEST)] = 0
    input: Lengths = Lengths()
    output: Lengths = Lengths(value=128)
    longest: Annotated[int, msgspec.Meta(ge=1, le=LONGEST)] = 131_072
    block_size: Annotated[int, msgspec.Meta(ge=1, le=65_536)] = 16
    seed: Annotated[int, msgspec.Meta(ge=0)] = 0

    @property
    def is_closed(self) -> bool:
        """Turns wait for the one before."""
        return self.arrivals == "closed" or self.turns > 1 or bool(self.sessions)


def parse_workload(values: Mapping[str, Any], where: str) -> Workload:
    """The table of an experiment.

    Raises:
        ConfigError: A key that it does not have, a value that is impossible, or a key of drawn
            sessions beside ``sessions``, or the other way round, or of other arrivals.
    """
    work = build(Workload, values, "workload", OptionOrigins(where))
    for key in DRAWN if work.sessions else RECORDED:
        if key in values:
            why = (
                f"is recorded in sessions = {work.sessions}: leave one out"
                if work.sessions
                else "goes with sessions"
            )
            raise ConfigError(f"{where}: workload.{key}: {why}")
    times = [second for second, _ in work.rates]
    if times != sorted(times):
        raise ConfigError(f"{where}: workload.rates = {work.rates}: seconds must not decrease")
    for key, arrivals in GOES_WITH.items():
        if key in values and work.arrivals != arrivals:
            why = f'goes with arrivals = "{arrivals}", not "{work.arrivals}"'
            raise ConfigError(f"{where}: workload.{key}: {why}")
    return work


def drawn(work: Workload, name: str) -> Source:
    """A trace of it.

    Raises:
        ConfigError: No request came out.
    """
    made = _recorded_rows(work) if work.sessions else _rows(work)
    rows = sorted(made, key=lambda row: row["timestamp"])[: work.requests]
    if not rows:
        raise ConfigError(
            f"{name}: workload: no request begins within seconds = {work.seconds:g} and is, with "
            f"its answer, at most longest = {work.longest} tokens"
        )
    text = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
    size = recorded(work.sessions).block_size if work.sessions else work.block_size
    trace = _core.Trace.parse(text, name, size)
    return Source(name, hashlib.sha256(text).hexdigest(), trace)


def _rows(work: Workload) -> Iterator[dict[str, Any]]:
    dice = np.random.default_rng(work.seed)
    count = work.requests
    if work.arrivals == "closed":
        count, turns = work.users, np.full(work.users, -(-work.requests // work.users))
    else:
        turns = dice.geometric(1 / work.turns, count)
    fresh = 1 + work.shared // work.block_size
    begun = 0
    for at, (start, most) in enumerate(zip(_starts(work, dice, count), turns, strict=True)):
        if start > work.seconds or begun >= work.requests:
            return
        more, answers = work.input.draw(dice, most), work.output.draw(dice, most)
        gaps = dice.exponential(work.gap, most) if work.gap else np.zeros(most)
        grows = work.turns > 1
        time, length, chain = float(start), work.shared, fresh
        for turn in range(most):
            length += int(more[turn])
            if length + answers[turn] > work.longest:
                break
            blocks = length // work.block_size
            own = range(chain, chain + blocks)
            shared = work.shared // work.block_size
            yield {
                "timestamp": round(time * 1000),
                "session_id": f"s{at}",
                "input_length": length,
                "output_length": int(answers[turn]),
                "hash_ids": [*range(1, shared + 1), *own[shared:]],
            }
            begun += 1
            fresh = max(fresh, chain + blocks + 1)
            if grows:
                length += int(answers[turn])
            else:
                length, chain = work.shared, fresh
            time += float(gaps[turn]) if work.arrivals != "closed" else 0.0
        fresh += 1


def _recorded_rows(work: Workload) -> Iterator[dict[str, Any]]:
    dice = np.random.default_rng(work.seed)
    closed = work.arrivals == "closed"
    count = min(work.num_sessions or work.requests, work.requests)
    at_once = 0 if closed else min(work.stationary_sessions, count)
    users = min(work.users, count) if closed else count
    starts = _starts(work, dice, users - at_once)
    starts = np.concatenate([np.zeros(at_once), starts[starts <= work.seconds]])
    if closed:
        # A user's next session begins when the last one has ended.
        starts = np.resize(starts, count)
    how = Beginning(work.resample, work.stationary_sessions)
    begun = 0
    ends: dict[int, float] = {}
    for at, (start, turns) in enumerate(recorded(work.sessions).begun(starts, dice, how)):
        if begun >= work.requests:
            return
        session = at % users if closed else at
        time = ends.get(session, float(start))
        for place, turn in enumerate(turns):
            time += turn.gap if place else 0.0
            yield {
                "timestamp": round(time * 1000),
                "session_id": f"s{session}",
                "input_length": turn.input,
                "output_length": turn.output,
                "hash_ids": turn.blocks,
            }
        ends[session] = time
        begun += len(turns)


def _starts(work: Workload, dice: np.random.Generator, count: int) -> Draws:
    """When sessions begin, in seconds."""
    if work.arrivals == "closed" and work.jitter:
        return dice.uniform(0.0, work.jitter, count)
    if work.arrivals in ("batched", "closed"):
        return np.zeros(count)
    if work.arrivals == "lulls":
        short = dice.random(count) < SHORT
        return np.cumsum(np.where(short, dice.uniform(*QUICK, count), dice.uniform(*LULL, count)))
    if work.arrivals == "uniform":
        units = np.arange(count, dtype=np.float64)
    elif work.arrivals == "burst":
        bursts = np.cumsum(dice.exponential(work.burst, -(-count // work.burst)))
        units = np.repeat(bursts, work.burst)[:count]
    else:
        units = np.cumsum(dice.exponential(1.0, count))
    if not work.rates:
        return units / work.rate
    # The time by which so many have come: the rate's integral, turned round.
    points = np.array(work.rates)
    times = np.linspace(points[0, 0], points[-1, 0], 10_000)
    rates = np.interp(times, points[:, 0], points[:, 1])
    come = np.concatenate([[0.0], np.cumsum(np.diff(times) * (rates[1:] + rates[:-1]) / 2)])
    if not come[-1]:
        return np.asarray(units / rates[0])
    whole, rest = np.divmod(units, come[-1])
    return np.asarray(whole * (times[-1] - times[0]) + np.interp(rest, come, times - times[0]))
