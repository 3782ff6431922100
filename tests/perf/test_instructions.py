"""The gate on instruction counts: that it can fail, on records and on the real program."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from perf.instructions import RECORD, Record, gate, judge

from perf import instructions

RECORDED = Record("1.95.0", {"a": 1_000, "b": 200})


def test_counts_near_the_record_pass() -> None:
    lines, good = judge(Record("1.95.0", {"a": 1_099, "b": 199}), RECORDED)
    assert good
    assert "+9.9%" in lines[0]


def test_more_than_a_tenth_above_fails() -> None:
    lines, good = judge(Record("1.95.0", {"a": 1_101, "b": 200}), RECORDED)
    assert not good
    assert lines[0].endswith("MORE THAN 10% ABOVE ITS RECORD")


def test_more_than_a_tenth_below_passes_and_asks_for_a_new_record() -> None:
    lines, good = judge(Record("1.95.0", {"a": 1_000, "b": 150}), RECORDED)
    assert good
    assert "make instructions-record" in lines[1]


def test_another_compiler_has_a_wider_limit_and_says_so() -> None:
    lines, good = judge(Record("1.96.0", {"a": 1_200, "b": 200}), RECORDED)
    assert good
    assert lines[0].startswith("recorded with rustc 1.95.0, this is 1.96.0: the limit is 25%")
    assert not judge(Record("1.96.0", {"a": 1_300, "b": 200}), RECORDED)[1]


def test_works_and_record_must_agree() -> None:
    assert not judge(Record("1.95.0", {"a": 1_000}), RECORDED)[1]
    assert not judge(Record("1.95.0", {"a": 1_000, "b": 200, "c": 1}), RECORDED)[1]


def test_a_record_is_written_and_read(tmp_path: Path) -> None:
    file = tmp_path / "instructions.toml"
    assert gate(RECORDED.works, RECORDED.rustc, file, anew=False) == 2
    assert gate(RECORDED.works, RECORDED.rustc, file, anew=True) == 0
    assert Record.read(file) == RECORDED
    assert gate(RECORDED.works, RECORDED.rustc, file, anew=False) == 0


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="there is no valgrind")
def test_a_tampered_record_fails_on_what_is_really_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    instructions.build()
    assert list(Record.read(RECORD).works) == instructions.works()
    counted = instructions.count("get_free_64")
    assert instructions.count("get_free_64") == counted
    lower = Record(instructions.rustc(), {"get_free_64": int(counted / 1.12)})
    file = tmp_path / "instructions.toml"
    lower.write(file)
    assert gate({"get_free_64": counted}, lower.rustc, file, anew=False) == 1
    assert "MORE THAN 10% ABOVE" in capsys.readouterr().out


def test_growth_is_judged_by_what_a_work_names() -> None:
    counted = {"few": (100, 190), "more": (100, 210), "all": (100, 2_300), "most": (100, 2_500)}
    limits = {"few": 2.0, "more": 2.0, "all": instructions.ALL, "most": instructions.ALL}
    over = ["MORE THAN" in line for line in instructions.judge_growth(counted, limits)]
    assert over == [False, True, False, True]


@pytest.mark.slow  # `make instructions`, which CI runs, counts all works at two sizes
@pytest.mark.scenario("F1", "F2", "F4", "F5")
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="there is no valgrind")
def test_joins_orders_and_first_evictions_do_not_grow_with_what_lives() -> None:
    instructions.build()
    limits = instructions.growing()
    works = ("join_beside", "preempt_lru_all", "foresight_first_eviction", "keys_that_count_up_mq")
    grown = {work: [instructions.count(work, size) for size in ("64", "1024")] for work in works}
    lines = instructions.judge_growth(grown, limits)
    assert not any("MORE THAN" in line for line in lines), lines
