"""A server of steps: the same twice, together or one by one, and as its options say."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from kvframe import _core
from kvframe.bench.traces import load
from kvframe.errors import UsageError

from .traffic import BLOCK, serve, small

CLOCK = ("seconds",)
SERVERS: list[dict[str, Any]] = [
    {},
    {"max_num_seqs": 3, "max_num_batched_tokens": 64},
    {"chunked_prefill": False, "max_num_batched_tokens": 256, "load": 2.0},
    {"order": "shortest", "load": 2.0},
    {"speculation": {"drafts": 3, "places": [0.9, 0.5], "policy": "goodput-budget"}},
    {
        "speculation": {
            "drafts": 4,
            "rounds": [(2, [0.9, 0.8, 0.2]), (0, [0.4, 0.1, 0.1])],
            "policy": "gated-aggregate",
            "switch": (4, 1, 1e-3),
            "measured": [(1, 0, 0.005), (1, 1, 0.0055), (8, 2, 0.007)],
            "context": 200,
        }
    },
    {"order": "longest-prefix", "max_num_seqs": 2},
    {"order": "fewest-uncached", "max_num_seqs": 4, "preemption_order": "fewest-computed"},
    {"preemption_order": "most-freed", "load": 4.0},
    {"cache_generated": False, "load": 4.0},
]


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys()
    for name in one.keys() - CLOCK:
        a, b = one[name], other[name]
        same = a.tobytes() == b.tobytes() if isinstance(a, np.ndarray) else a == b
        assert same, name


@pytest.mark.parametrize("server", SERVERS, ids=str)
@pytest.mark.parametrize("policy", ["lru", "lfuda", "opt-forced", "s3-fifo"])
def test_steps_taken_together_give_the_same_bytes(policy: str, server: dict[str, Any]) -> None:
    together = serve(small(), policy, 80, **server)
    assert_same(together, serve(small(), policy, 80, **server))
    assert_same(together, serve(small(), policy, 80, every_step=True, **server))
    assert (together["fate"] == 1).all()


def test_a_whole_trace_taken_together_gives_the_same_bytes() -> None:
    trace = load("synthetic").trace
    together = serve(trace, "lru", 2000)
    assert_same(together, serve(trace, "lru", 2000, every_step=True))
    assert together["preemptions"].sum() > 0


@pytest.mark.parametrize("cascade", [False, True])
def test_layers_of_several_kinds_taken_together_give_the_same_bytes(cascade: bool) -> None:
    trace, every = load("synthetic").trace, 2**32 - 1
    profile = _core.StepProfile.layered(
        host=2e-4,
        matrices=[(3e-3, 1e-5, [(32.0, 4.0, 1e-4)]), (1e-3, 1e-5, [])],
        kinds=[
            (every, None, 3e-8, 1e-10, 3e-10),
            (128, None, 3e-8, 1e-10, 3e-10),
            (128, (4, 512, 1e-12, 1e-9), 3e-8, 1e-10, 3e-10),
            (0, (128, every, 0.0, 0.0), 3e-8, 1e-10, 3e-10),
        ],
        state=1e-5,
        cascade=cascade,
    )
    together = serve(trace, "lru", 2000, profile=profile)
    assert_same(together, serve(trace, "lru", 2000, profile=profile, every_step=True))
    assert (together["fate"] == 1).all()


def test_less_memory_preempts_and_a_request_too_large_is_rejected() -> None:
    raw = serve(small(), "lru", 27, load=4.0)
    columns = small().columns()
    tokens = columns["input_tokens"] + columns["output_tokens"].clip(1) - 1
    fits = -(-tokens.astype(np.int64) // BLOCK) <= 27
    assert not fits.all()
    assert ((raw["fate"] == 1) == fits).all()
    assert ((raw["fate"] == 2) == ~fits).all()
    assert raw["preemptions"].sum() > 0
    assert raw["recomputed_tokens"].sum() > 0


def test_a_prompt_that_is_not_cut_waits_for_a_step_that_takes_all_of_it() -> None:
    few = {"max_num_batched_tokens": 256, "load": 4.0}
    cut = serve(small(), "lru", 80, **few)
    whole = serve(small(), "lru", 80, chunked_prefill=False, **few)
    assert whole["steps"] > cut["steps"]
    assert (whole["fate"] == cut["fate"]).all()
    # It sets the threshold aside.
    again = serve(small(), "lru", 80, chunked_prefill=False, long_prefill_token_threshold=9, **few)
    assert_same(whole, again)


def test_a_closed_loop_waits_for_the_turn_before() -> None:
    rows = [("a", 0, 40, 9, [1, 2]), ("b", 10, 33, 4, [7, 8]), ("a", 500, 50, 1, [1, 2, 3])]
    names = ("session_id", "timestamp", "input_length", "output_length", "hash_ids")
    lines = "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows).encode()
    trace = _core.Trace.parse(lines, "turns", BLOCK)
    raw = serve(trace, "lru", 50, closed_loop=True, load=2.0)
    assert raw["arrival"].tolist() == [0.0, 0.005, raw["end"][0] + 0.5]
    # The second turn goes on from the answer of the first, which filled the third block.
    assert raw["cached_tokens"].tolist() == [0, 0, 48]
    raw = serve(trace, "lru", 50, load=2.0, cache_generated=False)
    assert raw["arrival"].tolist() == [0.0, 0.005, 0.25]
    assert raw["cached_tokens"].tolist() == [0, 0, 32]


def test_the_important_class_comes_first() -> None:
    row = {"input_length": 16, "output_length": 2}
    rows = [row | {"timestamp": i, "hash_ids": [i], "type": of} for i, of in enumerate("aab")]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    trace = _core.Trace.parse(text.encode(), "classes", BLOCK)
    one = {"max_num_seqs": 1, "order": "priority"}
    assert serve(trace, "lru", 9, priorities=[0, 1], **one)["start"].argsort().tolist() == [0, 2, 1]
    assert serve(trace, "lru", 9, priorities=[1, 0], **one)["start"].argsort().tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("server", "message"),
    [
        ({"max_num_seqs": 0}, "max_num_seqs = 0: must be at least 1"),
        ({"load": 0.0}, "load = 0: must be above 0"),
        (
            {"speculation": {"drafts": 1, "places": [0.5, 1.5]}},
            "speculation: accept = 1.5: must be 0 to 1",
        ),
        (
            {"speculation": {"drafts": 1, "accept": 0.5, "rounds": [(1, [0.5])]}},
            "speculation: must have one of accept, places and rounds",
        ),
        ({"speculation": {"drafts": 0, "accept": 0.5}}, "drafts = 0: must be 1 or more"),
        (
            {"speculation": {"drafts": 1, "accept": 0.5, "policy": "none"}},
            'speculation: policy = "none": must be one of fixed, goodput-budget, gated-budget',
        ),
        ({"preemption": "no"}, 'preemption = "no": must be one of recompute, swap, auto'),
        (
            {"order": "random"},
            'order = "random": must be one of fcfs, priority, shortest, longest, shortest-',
        ),
    ],
)
def test_impossible_servers_are_refused(server: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("(", r"\(")):
        serve(small(), "lru", 80, **server)


@pytest.mark.parametrize(
    "terms",
    [
        {"host": 0.0, "matrices": [], "kinds": []},
        {"host": 1.0, "matrices": [(-1.0, 0.0, [])], "kinds": []},
        {"host": 1.0, "matrices": [(1.0, 0.0, [(0.5, 1.0, 1.0)])], "kinds": []},
        {"host": 1.0, "matrices": [], "kinds": [(1, None, 1.0, float("inf"), 1.0)]},
        {"host": 1.0, "matrices": [], "kinds": [(1, (0, 1, 1.0, 1.0), 1.0, 1.0, 1.0)]},
    ],
)
def test_impossible_terms_are_refused(terms: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="layered terms: must be 0 or more, host above 0"):
        _core.StepProfile.layered(**terms)


@pytest.mark.parametrize("rule", ["fewest-computed", "longest-first", "most-freed", "lru"])
def test_another_sequence_is_preempted_and_all_are_served(rule: str) -> None:
    usual = serve(small(), "lru", 27, load=4.0)
    other = serve(small(), "lru", 27, load=4.0, preemption_order=rule)
    assert (other["fate"] == usual["fate"]).all()
    assert other["preemptions"].tolist() != usual["preemptions"].tolist()
    assert_same(other, serve(small(), "lru", 27, load=4.0, preemption_order=rule, every_step=True))


def test_prompts_that_begin_alike_wait_for_the_first_one() -> None:
    rows = [
        {"timestamp": 0, "input_length": 161, "output_length": 2, "hash_ids": [*range(9), 20 + at]}
        for at in range(4)
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    trace = _core.Trace.parse(text.encode(), "alike", BLOCK)
    found = {
        order: serve(trace, "lru", 100, order=order)["cached_tokens"].tolist()
        for order in ("fcfs", "longest-prefix", "fewest-uncached")
    }
    assert found["fcfs"] == [0, 0, 0, 0]
    assert found["longest-prefix"] == found["fewest-uncached"] == [0, 144, 144, 144]


def test_who_has_waited_longest_is_not_passed_over_for_ever() -> None:
    """One long prompt, and short ones that never cease to come before it."""
    short = [
        {"timestamp": at, "input_length": 33, "output_length": 8, "hash_ids": [2 * at, 2 * at + 1]}
        for at in range(1, 300)
    ]
    long = {
        "timestamp": 1,
        "input_length": 800,
        "output_length": 1,
        "hash_ids": [*range(1000, 1050)],
    }
    text = "".join(json.dumps(row) + "\n" for row in [short[0], long, *short[1:]])
    trace = _core.Trace.parse(text.encode(), "passed", BLOCK)
    starts = {
        order: serve(trace, "lru", 60, order=order, max_num_seqs=1)["start"]
        for order in ("shortest", "fewest-uncached")
    }
    before = {order: int((start < start[1]).sum()) for order, start in starts.items()}
    assert before == {"shortest": 299, "fewest-uncached": 65}


def test_an_unknown_preemption_order_is_refused() -> None:
    known = (
        "fewest-computed, last-admitted, lowest-priority, longest-first, lru, lfu-aged, most-freed"
    )
    with pytest.raises(UsageError, match=f'preemption_order = "oldest": must be one of {known}'):
        serve(small(), "lru", 40, preemption_order="oldest")
