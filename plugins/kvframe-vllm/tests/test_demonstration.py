"""The demonstration: what is measured is what the shadows say."""

from __future__ import annotations

import argparse
import importlib.util

import pytest

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not installed here", allow_module_level=True)

from kvframe_vllm.replay.demonstration import demonstrated, told
from kvframe_vllm.replay.mixed import mixed


def test_measured_follows_the_shadow_of_what_rules() -> None:
    asked = argparse.Namespace(policies="lfu,arc", requests=400, blocks=500, window=50)
    record = demonstrated(asked)
    rows, at = record["windows"], record["switched"]["window"]
    assert record["requests"] == 400
    assert all(row["measured"] == row["lru"] for row in rows[:at]), "lru in shadow is the pool"
    assert any(row["measured"] != row["lru"] for row in rows[at:])
    assert record["switched"]["policy"] in told(record)


def test_the_load_is_the_same_each_time() -> None:
    assert mixed(60) == mixed(60)
    assert max(map(len, mixed(300))) < 2000
