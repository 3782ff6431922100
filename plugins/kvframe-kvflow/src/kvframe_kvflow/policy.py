"""Steps to execution: blocks of agents whose turn is far away are evicted first.

"KVFlow: Efficient Prefix Caching for Accelerating LLM-Based Multi-Agent Workflows", NeurIPS 2025,
arXiv 2507.07400.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt

from kvframe.policies import BatchedEviction, Candidates
from kvframe_kvflow.graph import steps

_STEP = 2.0**40
"""What a step weighs against ticks, which stay below it."""

Steps = Annotated[int, msgspec.Meta(ge=0, le=4096)]


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of kvflow."""

    successors: Annotated[
        list[list[int]],
        msgspec.Meta(
            max_length=1024,
            description="For each agent (its request_class, from 0), those whose turn may be next.",
        ),
    ] = msgspec.field(default_factory=list)
    others: Annotated[
        Steps,
        msgspec.Meta(description="Steps of what is in no workflow, or will not run again."),
    ] = 1024

    def __post_init__(self) -> None:
        known = len(self.successors)
        for agent, followers in enumerate(self.successors):
            for follower in followers:
                if not 0 <= follower < known:
                    raise ValueError(
                        f"successors[{agent}] names agent {follower}: there are 0 to {known - 1}"
                    )


class StepsToExecution(BatchedEviction):
    """Most steps to its agent's next turn first; within the same, least recently used.

    A request's ``session`` is its workflow and its ``request_class`` its agent. Where a workflow
    stands is read from the offer: at the agent that used its most recently used block. While an
    agent runs, its own blocks are not offered and its workflow seems a step behind, which moves all
    of its agents alike.
    """

    columns = ("last_use", "session", "request_class")
    # An agent that is due next may be the least recently used of all.
    window = 0

    def __init__(self, options: Options) -> None:
        self._steps = steps(options.successors, options.others)
        self._nobody = len(options.successors)

    def score(self, candidates: Candidates, out: npt.NDArray[np.float64]) -> None:
        """Write the tick of the last use, less a large number for each step."""
        last_use = candidates["last_use"]
        agents = np.minimum(candidates["request_class"], self._nobody)
        _, flows = np.unique(candidates["session"], return_inverse=True)
        # Of entries that are written more than once, the last one stays: the most recent.
        order = np.argsort(last_use, kind="stable")
        standing = np.zeros(len(flows), np.intp)
        standing[flows[order]] = agents[order]
        ahead = self._steps[standing[flows], agents]
        ahead[candidates["session"] == 0] = self._steps[self._nobody, self._nobody]
        np.subtract(last_use, _STEP * ahead, out=out)
