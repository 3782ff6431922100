"""Dynamo's indexer fed by kvframe's publisher answers as the manager, where Dynamo is installed."""

from __future__ import annotations

import os

import pytest
from perf.peers import PeerError

from tests.peers.dynamo import Indexer, compare, dynamo_python


@pytest.mark.parametrize("threads", [1, 4], ids=["tree", "compressed tree"])
def test_every_answer_is_what_the_manager_finds(threads: int) -> None:
    python = dynamo_python()
    if python is None:
        pytest.skip("no Python that has Dynamo: set DYNAMO_PYTHON")
    try:
        with Indexer(python, threads) as indexer:
            rows = compare(indexer, seed=10 + threads)
    except PeerError as error:
        if os.environ.get("DYNAMO_PYTHON"):
            pytest.fail(f"DYNAMO_PYTHON = {python} does not run Dynamo: {error}")
        pytest.skip(f"Dynamo does not start: {error}")
    assert [row["unequal"] for row in rows] == [0, 0, 0, 0]
