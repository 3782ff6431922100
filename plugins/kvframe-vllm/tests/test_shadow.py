"""Shadows of vLLM's own scheduler: lru in shadow is stock request by request, and nothing changes.

Runs where vLLM can be imported; a GPU is not needed.
"""

from __future__ import annotations

import importlib.util
import logging
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not installed here", allow_module_level=True)

from kvframe_vllm.choice import resolved
from kvframe_vllm.install import put_in
from kvframe_vllm.replay.engine import Load, Run, full_attention, requests, run, scheduler
from kvframe_vllm.replay.exposed import exposed
from kvframe_vllm.replay.loads import LOADS
from kvframe_vllm.replay.shadowed import with_shadows
from kvframe_vllm.shadow.config import ShadowConfig
from kvframe_vllm.shadow.stats import ShadowMetrics, ShadowStats
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from vllm.v1.core.block_pool import BlockPool
from vllm.v1.request import RequestStatus

from kvframe.errors import ConfigError

EXTRA = {"policies": ["lru", "lfu"], "sizes": [0.5, 1, 2]}


def served(load: Load, name: str = "families", count: int = 150) -> tuple[Any, Run]:
    made = scheduler(load)
    for request in requests(LOADS[name]()[:count], load.block_size):
        made.add_request(request)
    return made, run(made, load)


@pytest.mark.parametrize("asynchronous", [False, True], ids=["synchronous", "asynchronous"])
@pytest.mark.parametrize("order", ["fcfs", "priority"])
@pytest.mark.parametrize("name", LOADS)
def test_lru_in_shadow_is_stock_and_stock_is_as_it_was(
    name: str, order: str, asynchronous: bool
) -> None:
    # With priorities, shadows do as the scheduler does; else they schedule themselves.
    load = Load(blocks=301, order=order, asynchronous=asynchronous)
    made, done = served(with_shadows(load, EXTRA), name)
    _, stock = served(load, name)
    assert (done.hits, done.tables, done.steps) == (stock.hits, stock.tables, stock.steps)
    assert type(made.kv_cache_manager.block_pool) is BlockPool
    report = made.connector.report()
    made.connector.shadows.check_integrity()
    made.connector.shutdown()
    assert report.actual is not None
    assert report.actual.requests == report.actual.equal_requests == 150
    assert report.actual.found_tokens == sum(stock.hits.values())
    assert (report.doubt, report.dropped, report.failure) == (None, 0, None)
    assert [one.capacity for one in report.shadows] == [150, 300, 600] * 2


def test_a_policy_that_rules_is_the_anchor() -> None:
    made, done = served(with_shadows(Load(blocks=301), {**EXTRA, "policy": "lfu"}))
    report = made.connector.report()
    made.connector.shutdown()
    assert report.actual is not None
    assert report.actual.policy == "lfu"
    assert report.actual.found_tokens == sum(done.hits.values())
    assert abs(report.difference) < 0.002


@pytest.mark.parametrize("asked", ["lfu", "s3-fifo:small_percent=20"])
def test_so_is_one_that_the_scheduler_puts_in_after_it_has_bound_the_connector(asked: str) -> None:
    load = Load(
        blocks=301,
        scheduler_cls="kvframe_vllm.scheduler.KvframeScheduler",
        additional_config={"kvframe": asked},
    )
    made, done = served(with_shadows(load, EXTRA))
    report = made.connector.report()
    made.connector.shutdown()
    assert report.actual is not None
    assert report.actual.policy == asked
    assert report.actual.found_tokens == sum(done.hits.values())
    assert report.doubt is None


def test_numbers_go_into_vllms_metrics() -> None:
    made, _ = served(with_shadows(Load(blocks=301), EXTRA), count=60)
    connector = made.connector
    report = connector.report()
    nothing = type(report)([type(one)(*one[:2]) for one in report.shadows])
    half = ShadowStats.between(nothing, report)
    both = ShadowStats.between(nothing, report).aggregate(half)
    connector.shutdown()
    assert both.data["shadows"][0][2] == 2 * report.shadows[0].query_tokens
    assert both.reduce()["engine %"] == pytest.approx(100 * report.shadows[0].found_rate, abs=0.01)
    registry = CollectorRegistry()
    kinds = {
        kind: lambda kind=kind, **given: kind(registry=registry, **given)
        for kind in (Counter, Gauge, Histogram)
    }
    metrics = ShadowMetrics(made.vllm_config, kinds, ["engine"], {0: ["0"]})
    metrics.observe(both.data)
    labels = {"engine": "0", "policy": "lfu", "blocks": "300"}
    counted = registry.get_sample_value("vllm:kvframe_shadow_hit_tokens_total", labels)
    (lfu,) = [one for one in report.shadows if one[:2] == ("lfu", 300)]
    assert counted == 2 * lfu.hit_tokens
    assert registry.get_sample_value("vllm:kvframe_shadow_trusted", {"engine": "0"}) == 1
    ratio = registry.get_sample_value("vllm:kvframe_shadow_hit_ratio", labels)
    assert ratio == pytest.approx(report.hit_rate(lfu))
    assert registry.get_sample_value("vllm:kvframe_shadow_stride", {"engine": "0"}) == 1
    text = exposed(made.vllm_config, report)
    labels_of = 'blocks="300",engine="0",model_name="MODEL",policy="lfu"'
    line = f"vllm:kvframe_shadow_hit_tokens_total{{{labels_of}}} {float(lfu.hit_tokens)}"
    assert line in text.splitlines()
    names = {line.partition("{")[0] for line in text.splitlines()}
    page = Path(__file__).parents[3] / "docs" / "how-to" / "shadow.md"
    assert names == set(re.findall(r"^\| `(vllm:\w+)` \|", page.read_text(), re.M))
    sampled = ShadowStats.between(nothing, replace(report, stride=8))
    assert sampled.reduce()["shadows follow"] == "1 block in 8"
    assert "shadows follow" not in both.reduce()


def test_what_it_cannot_follow_it_leaves_alone(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("vllm").propagate = True
    groups, unfit = [full_attention(16)] * 2, "kvframe runs no shadows: "
    wrong = "kvframe's shadows do not start, vLLM serves without them: "
    pool = Load(blocks=301)
    for load, begins, reason in (
        (with_shadows(replace(pool, groups=groups), EXTRA), unfit, "one group"),
        (with_shadows(pool, {"policies": ["nothing"]}), wrong, "no eviction policy nothing"),
        (with_shadows(pool, {"polices": ["lru"]}), wrong, "did you mean policies"),
    ):
        caplog.clear()
        with caplog.at_level(logging.WARNING, logger="vllm.kvframe"):
            made, done = served(load, count=10)
        assert len(done.hits) == 10
        assert made.connector.report() is None
        assert reason in caplog.text
        (told,) = [line for line in caplog.messages if line.startswith("kvframe")]
        assert told.startswith(begins)


@pytest.mark.parametrize(
    "given",
    [{"policies": []}, {"policies": "lru"}, {"sizes": [0]}, {"stride": 0}, {"policy": 1}, {"x": 1}],
)
def test_a_wrong_configuration_names_its_key(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(given))):
        ShadowConfig.of(given)


@pytest.mark.parametrize(("policy", "size"), [("lfuda", 0.5), ("s3-fifo", 2), ("arc", 1)])
def test_a_shadow_is_a_run_with_that_policy_and_size(policy: str, size: float) -> None:
    made, _ = served(with_shadows(Load(blocks=301), {"policies": [policy], "sizes": [size]}))
    report = made.connector.report()
    made.connector.shutdown()
    real = scheduler(Load(blocks=int(300 * size) + 1))
    put_in(real.kv_cache_manager.block_pool, resolved(policy))
    for request in requests(LOADS["families"]()[:150], 16):
        real.add_request(request)
    hits = sum(run(real, Load(blocks=0)).hits.values())
    (shadow,) = [one for one in report.shadows if one.policy == policy]
    assert shadow.hit_tokens == hits


def test_requests_that_come_one_by_one_and_are_aborted_leave_nothing_behind() -> None:
    load = with_shadows(Load(blocks=301), EXTRA)
    made, coming = scheduler(load), requests(LOADS["chat"]()[:80], 16)

    def before(step: int) -> None:
        if step % 5 == 0 and coming:
            made.add_request(coming.pop(0))
        if step % 40 == 39 and made.running:
            made.finish_requests(made.running[0].request_id, RequestStatus.FINISHED_ABORTED)
        if step % 60 == 59 and made.waiting:
            made.finish_requests(
                made.waiting.peek_request().request_id, RequestStatus.FINISHED_ABORTED
            )

    done = run(made, load, before)
    while coming:
        made.add_request(coming.pop(0))
        more = run(made, load)
        done.hits |= more.hits
    report = made.connector.report()
    made.connector.shadows.check_integrity()
    made.connector.shutdown()
    assert report.actual is not None
    assert report.actual.requests <= len(done.hits)
    assert report.actual.equal_requests > 0.9 * report.actual.requests
    assert {one.waiting for one in report.shadows} == {0}


def test_a_stride_needs_large_pools_and_grows_where_shadows_fall_behind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logging.getLogger("vllm").propagate = True
    assert ShadowConfig(stride=8).fitted(300) == 1
    assert ShadowConfig(stride=8).fitted(4_000) == 8
    with caplog.at_level(logging.INFO, logger="vllm.kvframe"):
        made = scheduler(with_shadows(Load(blocks=4_001), EXTRA))
        assert "followed" not in caplog.text
        made.connector._follow_less(3)
        assert made.connector.shadows.stride == 8
    assert "lost 3 requests" in caplog.text
    assert "one block in 8 followed" in caplog.text
    made.connector.shutdown()
