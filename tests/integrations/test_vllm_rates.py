"""What `perf.vllm_policies` asks of vLLM's scheduler, by the Python that VLLM_PYTHON names."""

from __future__ import annotations

import os
from pathlib import Path

import perf.peers
from perf.vllm_policies import SIDE, Policy, served

from .peer import Peer


def test_both_faces_serve_policies_and_the_manager_admission(tmp_path: Path) -> None:
    lent = Peer("vllm", tmp_path, "kvframe-vllm")
    pool, manager = (Policy(face, "lru") for face in ("pool", "manager"))
    admitted = Policy("manager", "lru", "second-use")
    path = os.pathsep.join(lent.path)
    with perf.peers.Peer(SIDE, lent.python, PYTHONPATH=path) as peer:
        found = served([peer], [(one, 300) for one in (pool, manager, admitted)], [1, 2], 60)
    assert found[pool, 300].shape == (2, 60)
    assert found[pool, 300].sum() > 0
    assert (found[pool, 300] == found[manager, 300]).all()
    assert (found[admitted, 300] != found[manager, 300]).any()
