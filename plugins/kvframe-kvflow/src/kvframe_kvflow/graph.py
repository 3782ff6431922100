"""Steps between the agents of a workflow."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def steps(successors: Sequence[Sequence[int]], others: int) -> npt.NDArray[np.float64]:
    """``steps(...)[a, b]``: how many turns after one of agent ``a`` that of ``b`` comes at best.

    A square with a row and a column more than there are agents: those stand for everybody else, as
    does an agent that cannot be reached, with ``others`` steps. An agent comes again after its
    shortest cycle.
    """
    agents = len(successors)
    table = np.full((agents + 1, agents + 1), float(others))
    for agent in range(agents):
        seen: dict[int, int] = {}
        waiting = deque((follower, 1) for follower in successors[agent])
        while waiting:
            at, distance = waiting.popleft()
            if at not in seen:
                seen[at] = distance
                waiting.extend((follower, distance + 1) for follower in successors[at])
        for other, distance in seen.items():
            table[agent, other] = distance
    return table
