"""What a run says beside its tables, so that no figure is taken for what it is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvframe.bench.remarks import remarks
from kvframe.bench.study import Study
from kvframe.errors import ConfigError
from kvframe.policies.batched import BatchedEviction

from .conftest import Command
from .made import ran, write

DEEPEST = """
from kvframe.policies.batched import BatchedEviction


class Deepest(BatchedEviction):
    columns = ("depth",)

    def score(self, candidates, out):
        out[:] = -candidates["depth"].astype(float)
"""


AFFINE = """
from kvframe.policies.batched import BatchedEviction


class Affine(BatchedEviction):
    columns = ("last_use", "session", "turn", "priority")

    def score(self, candidates, out):
        out[:] = candidates["last_use"] + candidates["turn"]


"""


@pytest.fixture
def made(tmp_path: Path) -> str:
    return str(write(tmp_path / "made.jsonl"))


def said(made: str, policies: str, capacities: str) -> str:
    _, outcome = ran(traces=made, policies=policies, capacities=capacities)
    return " ".join(remarks(outcome.cells, outcome.requests))


def test_a_window_that_hides_blocks_is_named(made: str, tmp_path: Path) -> None:
    place = tmp_path / "deepest.py"
    place.write_text(DEEPEST)
    told = said(made, f"lru,{place}:Deepest:window=4", "40")
    assert "Deepest:window=4 chose among the 4 least recently used blocks that may be" in told
    assert "lru chose" not in told


@pytest.mark.parametrize("window", ["0", "1000"])
def test_a_window_that_hides_nothing_is_not(made: str, tmp_path: Path, window: str) -> None:
    place = tmp_path / "deepest.py"
    place.write_text(DEEPEST)
    assert "chose among" not in said(made, f"lru,{place}:Deepest:window={window}", "40")


def test_columns_that_the_trace_leaves_empty_are_named(
    bench: Command, made: str, tmp_path: Path
) -> None:
    place, plain = tmp_path / "affine.py", tmp_path / "plain.jsonl"
    place.write_text(AFFINE)
    rows = [json.loads(line) for line in Path(made).read_text().splitlines()]
    for row in rows:
        del row["session_id"]
    plain.write_text("".join(json.dumps(row) + "\n" for row in rows))
    policy = f"{place}:Affine"
    empty = (
        f"has no sessions and no priorities: {policy} learnt nothing from session, turn, priority. "
        "--trace agent has sessions."
    )
    assert f"plain.jsonl {empty}" in said(str(plain), f"lru,{policy}", "40")
    told = said(made, f"lru,{policy}", "40")
    assert f"made.jsonl has no priorities: {policy} learnt nothing from priority." in told
    checked = bench("check", policy, "--trace", str(plain), "--capacity", "40", "--quiet")
    assert "plain.jsonl has no sessions and no priorities: affine learnt" in checked.stdout
    tuned = bench("tune", policy, "--option", "window=20,40", "--trace", str(plain), "--quiet")
    assert f"plain.jsonl {empty}" in tuned.stdout


def test_sizes_that_hold_everything_are_named(made: str) -> None:
    told = said(made, "lru,mq", "100000,200000")
    assert "100,000 blocks hold what there is of its" in told
    assert "try --capacity 5%,10%,20%" in told
    assert "Nothing was evicted" not in said(made, "lru,mq", "40,100000")


@pytest.mark.parametrize(
    ("slip", "event"),
    [("on_hit", "hit"), ("removed", "remove"), ("inserts", "insert"), ("on_evict", "remove")],
)
def test_a_method_that_is_a_slip_of_an_event_is_named(slip: str, event: str) -> None:
    with pytest.warns(UserWarning, match=f"Slip.{slip} is called by nothing; .* event {event}?"):
        type("Slip", (BatchedEviction,), {slip: lambda self, blocks, now: None})


def test_helpers_with_names_of_their_own_are_not(recwarn: pytest.WarningsRecorder) -> None:
    own = {name: lambda self: None for name in ("_hits", "rate", "order", "score", "hit")}
    type("Fine", (BatchedEviction,), own)
    assert not recwarn


def test_charts_of_some_policies(made: str) -> None:
    study = Study.run(traces=[made], policies=["lru", "mq", "opt"], capacities=["40", "60"])
    assert study.of_policies("lru", "opt").gathered.policies == ["lru", "opt"]
    with pytest.raises(
        ConfigError, match=r"lruu: not in these results, of lru, .*did you mean lru"
    ):
        study.of_policies("lruu")


def test_a_curve_in_gib(bench: Command, made: str) -> None:
    shape = "layers=32,kv_heads=8,head_dim=128,dtype=bf16"
    told = bench("curve", "--trace", made, "--capacity", "40", "--model-shape", shape)
    assert "GiB" in told.stdout
    # 16 tokens of 128 KiB are a block of 2 MiB.
    sized = bench("curve", "--trace", made, "--capacity", "80 MiB", "--model-shape", shape)
    assert sized.stdout == told.stdout
    refused = bench("tune", "lru", "--option", "x=1", "--trace", made, "--capacity", "80 MiB")
    assert "--capacity 80 MiB: must be in blocks here" in refused.stderr


def test_timed_mode_says_that_opt_is_no_bound_and_how_soon_a_token_came(tmp_path: Path) -> None:
    made = str(write(tmp_path / "a.jsonl"))
    for mode in ("engine", "timed"):
        job, outcome = ran(traces=made, policies=["lru", "fifo"], capacities="60", modes=mode)
        (told,) = job.outputs(outcome)
        assert ("In timed mode opt is no bound" in told) == (mode == "timed")
        lines = told.splitlines()
        title = "Mean seconds from arrival to the first token"
        assert (title in lines) == (mode == "timed")
        if mode == "timed":
            times = dict(line.split() for line in lines[lines.index(title) + 2 :][:2])
            means = {c.policy: c.mean_ttft_seconds or 0.0 for c in outcome.cells.values()}
            assert times == {name: f"{means[name]:.3g}" for name in ("lru", "fifo")}
