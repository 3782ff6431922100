"""README's tables are what `python -m perf.readme` writes."""

from __future__ import annotations

import pytest
from perf.readme import PAGE, beside, hits, memory, shown, speed

AGAIN = "python -m perf.readme"


def test_speed_and_memory_are_those_of_the_records() -> None:
    text = PAGE.read_text("utf-8")
    assert shown("speed", text) == speed(), AGAIN
    assert shown("memory", text) == memory(), AGAIN


def test_every_peer_is_named_with_its_version() -> None:
    for table in (speed(), memory()):
        peers = [row.split("|")[3] for row in table.splitlines()[2:]]
        assert [peer for peer in peers if not any(sign.isdigit() for sign in peer)] == []


def test_a_build_of_kvframe_is_no_peer() -> None:
    assert beside("decode_step_256")[1]["peer"].startswith("vllm ")
    with pytest.raises(LookupError, match="evict_arc_5k: no record has it beside a peer"):
        beside("evict_arc_5k")


@pytest.mark.slow
def test_hit_rates_are_those_of_a_replay() -> None:
    assert shown("hits", PAGE.read_text("utf-8")) == hits(), AGAIN
