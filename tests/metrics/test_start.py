"""A manager that starts names its policies in the log; old names of counters name the new."""

from __future__ import annotations

import logging

import pytest

from kvframe import KVCacheManager


def test_the_log_names_the_policies_in_words_and_as_fields(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "kvframe.manager"):
        KVCacheManager(block_size=4, capacity=64, eviction="lfu")
    (record,) = caplog.records
    assert "eviction lfu" in record.message
    fields = record.kvframe  # type: ignore[attr-defined]
    assert (fields["eviction"], fields["admission"], fields["blocks"]) == ("lfu", "always", 64)
    caplog.clear()
    KVCacheManager(block_size=4, capacity=64)
    assert caplog.records == []


def test_an_old_name_of_a_counter_names_the_new() -> None:
    counters = KVCacheManager(block_size=4, capacity=64).stats.counters()
    with pytest.raises(KeyError, match="admissions is called requests"):
        counters["admissions"]
    with pytest.raises(KeyError, match=r"^'nothing'$"):
        counters["nothing"]
