"""transformers' engine, a step at a time, finds to the token what a simulated server says.

Skipped where a known transformers and torch are not installed, as test_transformers.py is.
"""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs torch")
pytest.importorskip(
    "kvframe.integrations.transformers", reason="needs transformers 5.17", exc_type=ImportError
)

from kvframe.bench.verify.job import Verification
from kvframe.integrations.transformers.stepped import engine

pytestmark = pytest.mark.filterwarnings("default")  # the engine's own are not ours to mend


@pytest.mark.parametrize("policy", ["lru", "slru", "s3-fifo"])
def test_requests_find_what_is_simulated(policy: str) -> None:
    told = Verification("transformers", engine, [policy], [0.8], capacity=120, count=8)
    *_, rows = told.rounds(1)
    assert [(row.requests, row.equal, row.recorded_equal) for row in rows] == [(24, 24, 24)]
    assert all(row.hit and 0 < row.hit < 1 for row in rows)
