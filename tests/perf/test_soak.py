"""The soak of `perf.soak`, short: two managers over one Redis, each killed and started again."""

from __future__ import annotations

import shutil
from importlib.util import find_spec

import pytest
from perf.soak import soak


def test_a_router_answers_as_the_caches_do_while_engines_restart() -> None:
    if shutil.which("redis-server") is None or find_spec("redis") is None:
        pytest.skip("needs redis-server and kvframe-redis with its client")
    done = soak(600, None, each=100)
    assert done.wrong == []
    assert (done.served, done.restarts) == (600, 3)
    assert done.unknown < done.compared / 2
