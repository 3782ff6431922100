"""What the simulated server says of a recording, with step times fitted to its steps."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kvframe.bench.policies import choose
from kvframe.bench.server.cells import Server, ServerPlan, simulate
from kvframe.bench.server.profiles import Profile
from kvframe.bench.traces import Source, load
from kvframe.bench.verify.engine import Engine
from kvframe.bench.verify.files import in_order, write_steps, write_trace
from kvframe.bench.verify.recording import Recording, StepRow
from kvframe.calibrate import Profile as Terms
from kvframe.calibrate import Steps, fit_log
from kvframe.registry import Registry

Column = npt.NDArray[np.float64]

NEAR = (0.98, 0.99, 1.0, 1.01, 1.02)
"""Times the step times, with all of which is predicted: no engine repeats itself more closely, and
a queue makes much of little."""


@dataclass(frozen=True)
class Felt:
    """What requests found and felt, in the order of the trace.

    Attributes:
        prompts: Tokens of each prompt.
        cached: Those that were found.
        ttft: Seconds to the first token.
    """

    prompts: npt.NDArray[np.int64]
    cached: npt.NDArray[np.int64]
    ttft: Column

    @classmethod
    def of(cls, recording: Recording) -> Felt:
        """What was recorded."""
        rows = in_order(recording)
        return cls(
            np.array([len(row.prompt) for row in rows]),
            np.array([row.cached or 0 for row in rows]),
            np.array([row.ttft for row in rows]),
        )

    @property
    def hit_rate(self) -> float:
        """Prompt tokens found, over all."""
        return float(self.cached.sum() / max(self.prompts.sum(), 1))

    def percentile(self, percent: float) -> float:
        """A percentile of the time to the first token."""
        return float(np.percentile(self.ttft, percent, method="inverted_cdf"))


def trace_of(recording: Recording, block_size: int) -> Source:
    """A recording as the trace that a simulated server reads."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "recorded.jsonl"
        write_trace(path, recording, block_size)
        return load(str(path))


def steps_of(recordings: Sequence[Recording]) -> Steps:
    """The steps of recordings, as `kvframe.calibrate` reads them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "steps.csv"
        write_steps(path, recordings)
        return Steps.read(path)


def fitted(recordings: Sequence[Recording]) -> Terms:
    """Terms fitted to the steps of recordings."""
    return fit_log(steps_of(recordings))


def pace(terms: Terms) -> Callable[[StepRow], float]:
    """What the terms say that a step takes."""
    each = np.diff((0.0, *terms.tokens))

    def seconds(step: StepRow) -> float:
        tokens = step.prefill + step.n_decode
        beyond = np.maximum(tokens - np.array((0.0, *terms.knots)), 0.0)
        total = terms.fixed + terms.host + float(beyond @ each)
        total += step.n_decode * terms.sequence + step.kv_decode * terms.kv_token
        total += step.pairs * terms.pair + tokens * step.kv_decode * terms.mixed
        return total / 1e6

    return seconds


def predicted(
    source: Source, policy: str, engine: Engine, blocks: int, terms: Terms, factor: float = 1.0
) -> Felt:
    """What a simulated server of an engine's limits says of a trace under a policy.

    Args:
        source: The trace.
        policy: Of the pool.
        engine: Has the limits.
        blocks: The pool's.
        terms: What a step takes.
        factor: Times this.
    """
    chosen = choose(policy, Registry())
    plan = ServerPlan(source, chosen, blocks, load=1.0, time_factor=factor)
    server = Server(
        profile=Profile("fitted", terms.for_core()),
        sla=None,
        max_num_seqs=engine.max_num_seqs,
        max_num_batched_tokens=engine.max_num_batched_tokens,
        order="fcfs",
        closed_loop=True,
    )
    raw = simulate(plan, server).columns
    prompts = source.trace.columns()["input_tokens"].astype(np.int64)
    return Felt(prompts, raw["cached_tokens"].astype(np.int64), raw["first_token"] - raw["arrival"])
