"""kvframe's whole manager in vLLM's scheduler, without a model: under lru it is stock.

Runs where vLLM can be imported; a GPU is not needed.
"""

from __future__ import annotations

import importlib.util
import logging
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not installed here", allow_module_level=True)

import torch
from kvframe_vllm import releases
from kvframe_vllm.manager.requests import retention_of
from kvframe_vllm.manager.whole import WholeManager
from kvframe_vllm.pool import ruled
from kvframe_vllm.replay.engine import Load, Run, full_attention, requests, run, scheduler
from kvframe_vllm.replay.manager import check, compared
from kvframe_vllm.replay.scenarios import SCENARIOS, WINDOW
from kvframe_vllm.replay.workload import Families
from vllm.v1.kv_cache_interface import ChunkedLocalAttentionSpec

SCHEDULER = "kvframe_vllm.manager.KvframeManagerScheduler"
PROMPTS = Families(requests=200).prompts()
NEAR = replace(WINDOW, sliding_window=40)
CHUNKED = ChunkedLocalAttentionSpec(
    block_size=16, num_kv_heads=2, head_size=16, dtype=torch.float32, attention_chunk_size=64
)
LAYERS = {
    "window": [WINDOW],
    "two windows": [NEAR, full_attention(16), WINDOW],
    "a window twice": [full_attention(16), WINDOW, WINDOW],
}
LOAD = Load(blocks=400, events=True, scheduler_cls=SCHEDULER)


def under(policy: str, **fields: Any) -> Load:
    return replace(LOAD, additional_config={"kvframe": policy}, **fields)


def served(made: Any, load: Load, *, checked: bool = False) -> Run:
    for request in requests(PROMPTS, load.block_size):
        made.add_request(request)

    def after(done: Run, output: Any) -> None:
        if checked:
            check(made, done, output)

    return run(made, load, after=after)


@pytest.mark.parametrize("asynchronous", [False, True], ids=["synchronous", "asynchronous"])
def test_lru_is_stock_to_the_block(asynchronous: bool) -> None:
    load = under("lru", asynchronous=asynchronous)
    stock, ours = scheduler(replace(load, scheduler_cls=None)), scheduler(load)
    assert isinstance(ours.kv_cache_manager, WholeManager)
    one, two = served(stock, load), served(ours, load, checked=True)
    assert (one.hits, one.tables, one.steps) == (two.hits, two.tables, two.steps)
    assert stock.replay_events == ours.replay_events
    assert isinstance(ours.kv_cache_manager, WholeManager)


@pytest.mark.parametrize("asynchronous", [False, True], ids=["synchronous", "asynchronous"])
@pytest.mark.parametrize("name", LAYERS)
def test_lru_is_stock_with_other_layers(name: str, asynchronous: bool) -> None:
    few = SCENARIOS["hybrid"]
    load = replace(few, blocks=300, groups=LAYERS[name], asynchronous=asynchronous)
    found = compared(load, 120)
    assert found["equal"], found["differ"]
    assert not found["of those another copy"]


@pytest.mark.parametrize("name", LAYERS)
def test_other_policies_serve_windows(name: str) -> None:
    load = under("lfu", groups=LAYERS[name], blocks=600)
    made = scheduler(load)
    ours = served(made, load, checked=True)
    assert isinstance(made.kv_cache_manager, WholeManager)
    assert len(ours.hits) == len(PROMPTS)


@pytest.mark.parametrize("name", SCENARIOS)
def test_lru_is_stock_under_everything_at_once(name: str) -> None:
    found = compared(SCENARIOS[name], 120)
    assert found["equal"], found["differ"]
    assert found["resumed"], "the pool was too large for a preemption"


@pytest.mark.parametrize("policy", ["lfu", "arc"])
def test_other_policies_hit_more_of_scans_and_prefixes(policy: str) -> None:
    stock = served(scheduler(replace(LOAD, scheduler_cls=None)), LOAD)
    made = scheduler(under(policy))
    ours = served(made, under(policy), checked=True)
    assert isinstance(made.kv_cache_manager, WholeManager)
    assert len(ours.hits) == len(stock.hits)
    assert sum(ours.hits.values()) > sum(stock.hits.values())


def test_an_admission_policy_counts(tmp_path: Path) -> None:
    file = tmp_path / "kvframe.toml"
    file.write_text('[eviction]\npolicy = "lru"\n[admission]\npolicy = "second-use"\n')
    made = scheduler(under(str(file)))
    served(made, LOAD, checked=True)
    manager = made.kv_cache_manager
    assert isinstance(manager, WholeManager)
    counted = manager.kv.stats.counters()
    assert counted["admission_dropped"] > 0
    stored = sum(len(one.block_hashes) for one in made.replay_events if hasattr(one, "token_ids"))
    assert stored == counted["admission_kept"], "events tell of what is findable alone"


def test_a_client_may_ask_for_retention_and_for_anything_else() -> None:
    asked = {"prompt": {"priority": 80}, "answer": {"priority": 0}}
    found = retention_of({"kvframe": {"retention": asked}})
    assert found is not None
    assert found.decode is not None
    loose = [3, "x", {"prompt": 3}, {"prompt": {"priority": 999}}, {"answer": {"priority": "a"}}]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert [retention_of({"kvframe": {"retention": one}}) for one in loose] == [None] * 5
    assert len(told) == 5
    assert retention_of("kvframe") is None


FAILING = """
from kvframe.policies import BatchedEviction

class Failing(BatchedEviction):
    columns = ("last_use",)

    def __init__(self):
        self.calls = 0

    def score(self, candidates, out):
        self.calls += 1
        if self.calls > 20:
            raise RuntimeError("out of order")
        out[:] = candidates["last_use"]
"""


@pytest.mark.parametrize("groups", [None, [full_attention(16), WINDOW]], ids=["full", "hybrid"])
def test_what_it_raises_ends_it_and_the_engine_goes_on(
    groups: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "failing.py").write_text(FAILING)
    file = tmp_path / "kvframe.toml"
    place = tmp_path / "failing.py:Failing"
    allowed = f'[plugins]\nplaces = ["{tmp_path / "failing.py"}"]\n'
    file.write_text(f'{allowed}[eviction]\npolicy = "{place}"\non_error = "raise"\n')
    logging.getLogger("vllm").propagate = True
    for asynchronous in (False, True):
        load = under(str(file), asynchronous=asynchronous, groups=groups)
        made = scheduler(load)
        assert isinstance(made.kv_cache_manager, WholeManager), caplog.text
        ours = served(made, load)
        assert not isinstance(made.kv_cache_manager, WholeManager)
        assert len(ours.hits) == len(PROMPTS)
        pool = made.kv_cache_manager.block_pool
        assert pool.get_num_free_blocks() == load.blocks - 1, "blocks were lost"


def test_what_it_does_not_serve_stays_vllms(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("vllm").propagate = True
    made = scheduler(under("lru", groups=[CHUNKED, full_attention(16)]))
    assert not isinstance(made.kv_cache_manager, WholeManager)
    assert "ChunkedLocalAttentionManager" in caplog.text
    assert ruled(made.kv_cache_manager.block_pool), "the policy rules the pool at least"
    made = scheduler(under("no such policy"))
    assert not isinstance(made.kv_cache_manager, WholeManager)
    assert "no such policy" in caplog.text
    assert not isinstance(scheduler(under("stock")).kv_cache_manager, WholeManager)


def test_a_release_that_differs_is_not_served(tmp_path: Path) -> None:
    site = Path(importlib.util.find_spec("vllm").submodule_search_locations[0]).parent  # type: ignore[union-attr,index]
    assert releases.MANAGER.difference(site, "0.33.0") is None
    assert "0.99" in str(releases.MANAGER.difference(site, "0.99.0"))
    for file in releases.MANAGER.points:
        target = tmp_path / "vllm" / file
        target.parent.mkdir(parents=True, exist_ok=True)
        text = (site / "vllm" / file).read_text(encoding="utf-8")
        target.write_text(
            text.replace(
                "def allocate_slots(\n        self,", "def allocate_slots(\n        self, tier,"
            )
        )
    assert "allocate_slots" in str(releases.MANAGER.difference(tmp_path, "0.33.0"))
