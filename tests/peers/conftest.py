"""vLLM's side, where there is one."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from perf.peers import PeerError

from tests.peers.compare import Theirs, start, vllm_python


@pytest.fixture(scope="session")
def theirs() -> Iterator[Theirs]:
    """VLLM's manager."""
    python = vllm_python()
    if python is None:
        pytest.skip("no Python that has vLLM: set VLLM_PYTHON")
    try:
        peer = start(python)
    except PeerError as error:
        if os.environ.get("VLLM_PYTHON"):
            pytest.fail(f"VLLM_PYTHON = {python} does not start vLLM: {error}")
        pytest.skip(f"vLLM does not start: {error}")
    with peer:
        yield Theirs(peer)
