"""Prompts as token ids: read from a file, or made of traffic whose prefixes end anywhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from kvframe.errors import TraceError
from kvframe.files import TRACE_BYTES, read_stream

Prompt = npt.NDArray[np.uint32]

VOCABULARY = 32_000
REQUESTS = 1_000


def _draw(dice: np.random.Generator, low: int, high: int) -> Prompt:
    return dice.integers(VOCABULARY, size=int(dice.integers(low, high + 1)), dtype=np.uint32)


def few_shot(dice: np.random.Generator) -> Iterator[Prompt]:
    """A dozen templates of 300 to 1,500 tokens, each with a question of 8 to 60 tokens behind."""
    templates = [_draw(dice, 300, 1_500) for _ in range(12)]
    for _ in range(REQUESTS):
        template = templates[int(dice.zipf(1.5) - 1) % len(templates)]
        yield np.concatenate([template, _draw(dice, 8, 60)])


def edits(dice: np.random.Generator) -> Iterator[Prompt]:
    """Prompts sent again with their last 1 to 300 tokens rewritten, 80 of them side by side."""
    kept = [_draw(dice, 500, 2_500) for _ in range(80)]
    for _ in range(REQUESTS):
        at = int(dice.integers(len(kept)))
        cut = max(len(kept[at]) - int(dice.integers(1, 301)), 1)
        kept[at] = np.concatenate([kept[at][:cut], _draw(dice, 5, 300)])
        yield kept[at]


def branches(dice: np.random.Generator) -> Iterator[Prompt]:
    """Forty tasks, each a tree: a prompt goes on from any token of an earlier one's last half."""
    tasks = [[_draw(dice, 200, 800)] for _ in range(40)]
    for _ in range(REQUESTS):
        tried = tasks[int(dice.integers(len(tasks)))]
        start = tried[int(dice.integers(len(tried)))]
        cut = int(dice.integers(len(start) // 2, len(start) + 1))
        tried.append(np.concatenate([start[:cut], _draw(dice, 20, 400)])[:4_000])
        yield tried[-1]


WORKLOADS: dict[str, Callable[[np.random.Generator], Iterator[Prompt]]] = {
    "few-shot": few_shot,
    "edits": edits,
    "branches": branches,
}
"""Made workloads by name."""


def load(name: str) -> list[Prompt]:
    """The prompts of a made workload, or of a file.

    Args:
        name: One of `WORKLOADS`, or a JSONL file with ``{"token_ids": [...]}`` a line.

    Raises:
        TraceError: There is no such file, it is empty, or a line of it is not that.
    """
    if name in WORKLOADS:
        return list(WORKLOADS[name](np.random.default_rng(0)))
    try:
        lines = read_stream(name, TRACE_BYTES).splitlines()
    except (OSError, ValueError) as error:
        known = ", ".join(WORKLOADS)
        why = getattr(error, "strerror", None) or error
        raise TraceError(f"{name}: {why}; workloads that can be made are {known}", name) from None
    prompts = [_row(line, name, number) for number, line in enumerate(lines, 1) if line.strip()]
    if not prompts:
        raise TraceError(f"{name}: holds no prompt", name)
    return prompts


def _row(line: bytes, name: str, number: int) -> Prompt:
    try:
        ids = np.array(json.loads(line)["token_ids"])
    except (ValueError, KeyError, TypeError, RecursionError):
        ids = np.zeros(0)
    good = ids.ndim == 1 and ids.size > 0 and ids.dtype.kind == "i"
    if not good or ids.min() < 0 or ids.max() >= 2**32:
        wanted = '{"token_ids": [...]} with ids of 0 to 2^32 - 1'
        raise TraceError(f"{name}:{number}: must be {wanted}", name, number)
    return ids.astype(np.uint32)
