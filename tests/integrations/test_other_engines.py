"""Every policy inside the plug points of vLLM, SGLang and LMCache, on their own code.

In SGLang that is the plain RadixCache, which no server builds.

Each runs where a variable names an interpreter that has the package: VLLM_PYTHON, SGLANG_PYTHON,
LMCACHE_PYTHON. kvframe itself is lent to it, and what it needs (click, msgspec, numpy, pluggy,
xxhash) must be there.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kvframe.policies import builtin

from .peer import GUESTS, HERE, Peer, guest

BUILTIN = [policy.name for policy in builtin.BUILTIN if not policy.replay_only]


@pytest.mark.parametrize("engine", ["vllm", "sglang", "lmcache"])
def test_the_engine_runs_every_policy(engine: str, tmp_path: Path) -> None:
    peer = Peer(engine, tmp_path)
    folder, library = guest(tmp_path)
    policies = [*BUILTIN, *GUESTS]
    work = str(HERE / engine / "work.py")
    done = peer.run(work, *policies, path=(folder,), GUEST_LIBRARY=str(library))
    assert done.returncode == 0, done.stderr[-3000:]
    verdicts = dict(line.split(": ") for line in done.stdout.splitlines() if ": " in line)
    assert not [policy for policy in policies if verdicts.get(policy) not in ("ran", "as lru")]
    # One meaning everywhere: lru in Python and compiled evicts what the built-in one evicts.
    assert verdicts["guest-batched"] == verdicts["guest-column"] == "as lru"
