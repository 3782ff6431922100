"""The verdict on simulated servers: who is ahead, by how much, and who cannot be told apart."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from kvframe.bench.policies import choose
from kvframe.bench.server.cells import ServerCell, ServerPlan
from kvframe.bench.server.verdict import sentence
from kvframe.registry import Registry

from .made import source


def said(**goodput: float) -> str:
    """What is said of policies that keep so many promises a second."""
    made, registry = source(np.random.default_rng(0), 5), Registry()
    zeros: dict[str, object] = dict.fromkeys(ServerCell.__struct_fields__, 0)
    zeros |= {
        "routing": None,
        "trace": "",
        "profile": "",
        "saturated": False,
        "finished": 1,
        "capacity_blocks": 8,
    }
    cells = {}
    for policy, good in goodput.items():
        plan = ServerPlan(made, choose(policy, registry), 8, 1.0)
        fields = zeros | {"policy": policy, "goodput": good, "ttft_mean": 0.01}
        cells[plan] = msgspec.convert(fields, ServerCell)
    return sentence(cells).removeprefix("made, load 1, 8 blocks: ")


@pytest.mark.parametrize(
    ("goodput", "wanted"),
    [
        (
            {"lru": 0.2, "mq": 0.250, "foresight": 0.249},
            "mq serves best of 3 (foresight within 5%), mq 0.250 good requests/s, mean TTFT 0.010 "
            "s; last is lru 0.200 good requests/s, mean TTFT 0.010 s, 20% behind.",
        ),
        (
            {"lru": 0.245, "mq": 0.250},
            "the choice among 2 policies does not matter, they are within 5%, lru 0.245 good "
            "requests/s, mean TTFT 0.010 s.",
        ),
        (
            {"lru": 0.5, "mq": 0.250},
            "lru serves best of 2, lru 0.500 good requests/s, mean TTFT 0.010 s; last is mq 0.250 "
            "good requests/s, mean TTFT 0.010 s, 50% behind.",
        ),
    ],
)
def test_a_lead_is_told_with_its_size(goodput: dict[str, float], wanted: str) -> None:
    assert said(**goodput) == wanted
