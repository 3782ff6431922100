"""A scheduler step on its way into the core and back."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from kvframe.errors import UsageError
from kvframe.prompts import Turns
from kvframe.request import Request, TokenIds
from kvframe.results import NO_COPIES, Allocation, CopyPlan, Remap, StepResult


def step_result(told: Any, turns: Turns | None, count: int) -> StepResult:
    """The core's answer to a step that got ``count`` requests, as Python's types."""
    tried, refused, rewound, plan, forks, preempted, extended, reasons, remaps = told
    result = StepResult(
        # Those behind the last one tried are not in the answer.
        [None if given is None else Allocation(*given) for given in tried]
        + [None] * (count - len(tried)),
        refused,
        rewound,
        NO_COPIES if plan is None else CopyPlan(*plan),
        forks,
        preempted,
        extended,
        reasons,
        [Remap(*entry) for entry in remaps],
    )
    return result if turns is None else turns.answer(result)


def queue_of(allocate: Sequence[Request | TokenIds]) -> Sequence[Request | TokenIds]:
    """The requests that a step is given, as a list or tuple."""
    # A single prompt, or a text, is no sequence of prompts.
    if isinstance(allocate, (list, tuple)):
        return allocate
    if not isinstance(allocate, Iterable) or isinstance(allocate, (str, bytes, np.ndarray)):
        limit = "must be a sequence of requests or prompts"
        raise UsageError(f"allocate = {reprlib.repr(allocate)}: {limit}")
    return list(allocate)


def requests_of(waiting: Sequence[Request | TokenIds]) -> list[Request]:
    """Requests; a prompt alone is a request without options."""
    requests = []
    for place, asked in enumerate(waiting):
        if asked is None:
            raise UsageError(f"allocate[{place}] = None: must be a request or a prompt")
        requests.append(asked if isinstance(asked, Request) else Request(asked))
    return requests
