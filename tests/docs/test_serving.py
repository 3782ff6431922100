"""The tutorial's serving loop, under load: aborts at random, several answers, short pools."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.amounts import amount

from .pages import blocks
from .test_snippets import folder, run_page

__all__ = ["folder"]
PAGE = Path(__file__).parents[2] / "docs" / "tutorial" / "serving.md"


@pytest.fixture
def tutorial(folder: Path) -> dict[str, Any]:
    """What the page has defined once all of it has run."""
    return run_page(PAGE.read_text(), folder, PAGE.name).namespace


def test_answers_depend_on_nothing_that_others_do(tutorial: dict[str, Any]) -> None:
    engine_of, prompts, plain = (tutorial[name] for name in ("Engine", "prompts", "plain"))
    drawn = random.Random(0)
    preempted = aborted = 0
    for run in range(amount(15, 200)):
        n, tokens = drawn.choice([1, 2, 3]), drawn.choice([18, 32])
        engine = engine_of(tokens, cache={"capacity": drawn.choice([12, 16, 24])})
        jobs = [engine.submit(prompt, 12, n) for prompt in prompts]
        left = set()
        while engine.waiting or engine.running or engine.ended:
            engine.step()
            engine.kv.check_integrity()
            job = drawn.choice(jobs)
            if drawn.random() < 0.05 and None in job.answers:
                engine.abort(job)
                left.add(job)
        for job, alone in zip(jobs, plain, strict=True):
            assert job in left or job.answers[:1] == alone, run
        assert engine.kv.counts().referenced == 0
        preempted += engine.preempted
        aborted += len(left)
    assert preempted > 10
    assert aborted > 10


def test_the_loop_is_about_a_hundred_lines() -> None:
    loop = next(block for block in blocks(PAGE.read_text()) if "class Engine" in block.text)
    assert len([line for line in loop.text.splitlines() if line.strip()]) <= 110
