"""What draws at random draws the same from the same seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvframe import _core
from kvframe.bench.job import Job, Request
from kvframe.errors import ConfigError

from .made import write

DRAW = ["lecar", "partial-node-random-compute", "random-compute", "random-quick-demotion"]


def logs(path: Path, policies: str, seed: int) -> dict[str, bytes]:
    """The whole event log of each policy, by its label."""
    job = Job(Request(traces=(str(path),), policies=(policies,), capacities=("60",),
                      formats=("csv",), seed=seed, quiet=True))  # fmt: skip
    found: dict[str, bytes] = {}
    for plan in job.plans:
        policy, options = plan.policy.engine_policy(plan.source.trace.block_size)
        got: dict[str, Any] = _core.replay(
            plan.source.trace, policy, plan.capacity, plan.mode, options, log=True
        )
        found[plan.label] = b"".join(
            np.asarray(column).tobytes() for column in got["events"].values()
        )
    return found


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("seed") / "made.jsonl", 200)


def few(name: str) -> str:
    """So few samples that chance decides at a small capacity, too."""
    return name if name == "lecar" else f"{name}:samples=2"


def test_these_policies_draw() -> None:
    declared = _core.policy_options()["eviction"].items()
    found = sorted(name for name, given in declared if any(o[0] == "seed" for o in given))
    assert found == DRAW, "a policy with a seed belongs into DRAW of this file"


@pytest.mark.parametrize("name", DRAW)
def test_the_same_seed_gives_the_same_bytes_and_another_others(name: str, trace: Path) -> None:
    (first,) = logs(trace, few(name), 7).values()
    assert logs(trace, few(name), 7) == {few(name): first}
    assert logs(trace, few(name), 8)[few(name)] != first


def test_a_policy_keeps_the_seed_that_it_is_given(trace: Path) -> None:
    text = "random-compute:samples=2,seed=3"
    assert logs(trace, text, 7) == logs(trace, text, 8)
    assert logs(trace, "random-compute:samples=2", 3).popitem()[1] == logs(trace, text, 0)[text]


def test_the_whole_output_is_the_same(trace: Path) -> None:
    def output(seed: int) -> str:
        job = Job(
            Request(
                traces=(str(trace),),
                policies=(f"lru,{few('random-compute')}",),
                capacities=("60,90",),
                seed=seed,
                quiet=True,
            )
        )
        cells = job.run(()).cells.items()
        return str({p.label: (cell.hit_tokens, cell.evictions, cell.metrics) for p, cell in cells})

    assert output(5) == output(5) != output(6)


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_has_limits(seed: int) -> None:
    with pytest.raises(ConfigError, match=f"--seed {seed}: must be between 0 and 4294967295"):
        Job(Request(policies=("lru",), seed=seed))
