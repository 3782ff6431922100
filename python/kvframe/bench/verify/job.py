"""Records an engine under one policy, predicts it and others, runs these, and compares."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kvframe.bench.verify.compare import Row, median
from kvframe.bench.verify.engine import Make
from kvframe.bench.verify.files import write_requests, write_steps, write_trace
from kvframe.bench.verify.predict import (
    NEAR,
    Felt,
    fitted,
    pace,
    predicted,
    steps_of,
    trace_of,
)
from kvframe.bench.verify.recording import Recording, record, record_all
from kvframe.bench.verify.workload import Chat, chats, spread
from kvframe.calibrate import Measured, Profile, write_profile
from kvframe.errors import ConfigError
from kvframe.shadow import ShadowSet, followed

SHARE = 4
"""One chat in so many is served alone, to learn how fast the engine is."""

Say = Callable[[str], object]


@dataclass
class Runs:
    """What was recorded at a load, by policy.

    Attributes:
        load: The load.
        chats: What was served.
        recorded: Run after run.
        paced: What was found where steps took what a profile says, and the simulation with that.
    """

    load: float
    chats: list[Chat]
    recorded: dict[str, list[Recording]] = field(default_factory=dict)
    paced: dict[str, tuple[Felt, Felt]] = field(default_factory=dict)


class Verification:
    """An engine, recorded and predicted.

    Args:
        name: What the engine is called.
        make: Makes it.
        policies: The first is recorded; from that all are predicted.
        loads: In times of the load at which an engine that serves one request at a time is always
            busy.
        capacity: Blocks; None: the engine's own.
        count: Chats, of three requests each.
        say: Called with what is being done.

    Raises:
        ConfigError: A load is not above 0.
    """

    def __init__(
        self,
        name: str,
        make: Make,
        policies: Sequence[str],
        loads: Sequence[float],
        *,
        capacity: int | None = None,
        count: int = 48,
        say: Say = lambda said: None,
    ) -> None:
        for load in loads:
            if not 0 < load < float("inf"):
                raise ConfigError(f"--load {load}: must be a positive number")
        self.name, self.policies, self._say = name, policies, say
        self._make, self._capacity = make, capacity
        engine = make(policies[0], capacity)
        self.limits = engine
        self.block_size, self.blocks = engine.kv.block_size, engine.kv.counts().total
        everybody = chats(count, engine)
        first = everybody[: max(count // SHARE, 1)]
        say(f"{name}: {len(first)} chats, one after the other")
        alone = [_at(chat, at * 1e6) for at, chat in enumerate(first)]
        record(engine, alone)  # an engine's first steps load kernels, and say nothing of its pace
        engine.close()
        engine = make(policies[0], capacity)
        self.pace = record(engine, alone).busy / len(first) * count
        engine.close()
        self.at = {load: Runs(load, spread(everybody, self.pace / load)) for load in loads}

    def rounds(self, count: int, seconds: float = float("inf")) -> Iterator[list[Row]]:
        """Run every policy at every load ``count`` times, and compare after each time.

        Before, they run once with steps that count as what a profile says: that compares the tokens
        found alone. Times are compared afterwards: an engine's first runs load and tune kernels.

        Args:
            count: Runs.
            seconds: No run begins after so many.
        """
        until = time.monotonic() + seconds
        for runs in self._all("simulated step times", until):
            self._run_paced(runs)
        for number in range(1, count + 1):
            for runs in self._all(f"run {number} of {count}", until):
                for policy, done in self._run(runs, self.policies).items():
                    runs.recorded.setdefault(policy, []).append(done)
            yield self.rows()

    def _all(self, what: str, until: float) -> Iterator[Runs]:
        for runs in self.at.values():
            if time.monotonic() > until:
                return
            self._say(f"{self.name}: {what}, load {runs.load:g}")
            yield runs

    def _run(
        self, runs: Runs, policies: Sequence[str], terms: Profile | None = None
    ) -> dict[str, Recording]:
        """What each policy did; their engines take a step in turn."""
        engines = [self._make(policy, self._capacity) for policy in policies]
        done = record_all(engines, runs.chats, None if terms is None else pace(terms))
        for engine in engines:
            engine.close()
        return dict(zip(policies, done, strict=True))

    def _run_paced(self, runs: Runs) -> None:
        """What engines find and a simulation says where steps take the same time in both."""
        own = self.policies[0]
        recording = self._run(runs, [own])[own]
        source, terms = trace_of(recording, self.block_size), fitted([recording])
        for policy, done in self._run(runs, self.policies, terms).items():
            simulated = predicted(source, policy, self.limits, self.blocks, terms)
            runs.paced[policy] = Felt.of(done), simulated

    def rows(self) -> list[Row]:
        """Predicted beside measured, of the loads at which every policy has run."""
        return [row for runs in self.at.values() for row in self._rows(runs)]

    def _rows(self, runs: Runs) -> Iterator[Row]:
        own = self.policies[0]
        if len(runs.recorded) < len(self.policies):
            return
        recordings = runs.recorded[own]
        source, terms = trace_of(recordings[0], self.block_size), [fitted([r]) for r in recordings]
        for policy in self.policies:
            measured = [Felt.of(recording) for recording in runs.recorded[policy]]
            simulated = [
                predicted(source, policy, self.limits, self.blocks, each, factor)
                for each in terms
                for factor in NEAR
            ]
            slowest = [one.percentile(95) for one in simulated]
            paced = runs.paced.get(policy)
            yield Row(
                where=f"{self.name}, {self.blocks} blocks of {self.block_size} tokens",
                policy=policy,
                load=runs.load,
                runs=len(measured),
                requests=len(simulated[0].ttft),
                hit=median(one.hit_rate for one in measured),
                hit_predicted=median(one.hit_rate for one in simulated),
                hit_paced=paced[0].hit_rate if paced else None,
                hit_paced_predicted=paced[1].hit_rate if paced else None,
                equal=int((paced[0].cached == paced[1].cached).sum()) if paced else None,
                recorded_equal=self._in_order(recordings[0]) if policy == own else None,
                ttft_mean=median(float(one.ttft.mean()) for one in measured),
                ttft_p50=median(one.percentile(50) for one in measured),
                ttft_p95=median(one.percentile(95) for one in measured),
                ttft_mean_predicted=median(float(one.ttft.mean()) for one in simulated),
                ttft_p50_predicted=median(one.percentile(50) for one in simulated),
                ttft_p95_predicted=median(slowest),
                ttft_p95_near=(min(slowest), max(slowest)),
                preemptions=max(one.preemptions for one in runs.recorded[policy]),
            )

    def _in_order(self, recording: Recording) -> int:
        """Requests that find what they found, where a pool is asked in the recorded order."""
        assert recording.log is not None
        own = self.policies[0]
        with ShadowSet(
            [own], [self.blocks], self.block_size, actual=(own, self.blocks), chained=True
        ) as shadows:
            report = followed(recording.log, shadows)
        assert report.actual is not None
        return report.actual.equal_requests

    def save(self, folder: Path) -> None:
        """The recordings under the first policy as files: traces, steps, requests, profiles."""
        folder.mkdir(parents=True, exist_ok=True)
        for load, runs in self.at.items():
            recordings = runs.recorded.get(self.policies[0])
            if not recordings:
                continue
            stem = f"{self.name.partition(':')[0]}-{load:g}"
            terms, steps = fitted(recordings), steps_of(recordings)
            write_trace(folder / f"{stem}.jsonl", recordings[0], self.block_size)
            write_steps(folder / f"{stem}.steps.csv", recordings)
            write_requests(folder / f"{stem}.requests.csv", recordings[0])
            told = Measured(command=f"kvframe bench verify --engine {self.name}")
            write_profile(folder / f"{stem}.toml", terms, told, steps, None)


def _at(chat: Chat, milliseconds: float) -> Chat:
    return Chat(round(milliseconds), chat.system, chat.questions, chat.pauses, chat.answer)
