"""What is scraped over HTTP is what the manager counts, by the official parser."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from kvframe import KVCacheManager, UsageError
from kvframe.metrics import Collector, Server, serve
from kvframe.metrics.families import BY_NAME, FAMILIES
from kvframe.metrics.samples import COUNTERS, MOST_OWNERS
from kvframe.metrics.samples import samples as all_samples
from kvframe.stats.counters import GAUGES
from kvframe.tiers import Tiers

from .engine import engine, serve_one

ROOT = Path(__file__).parents[2]
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]
Running = tuple[Server, KVCacheManager, Tiers]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with engine(tmp_path_factory.mktemp("engine")) as found:
        yield found


def scrape(url: str) -> Samples:
    with urllib.request.urlopen(url, timeout=30) as answer:
        text = answer.read().decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[f"kvframe_{name}", frozenset({"engine": "0", **labels}.items())]


def test_a_scrape_says_what_the_manager_counts(running: Running) -> None:
    server, kv, tiers = running
    samples = scrape(server.url)
    counters = kv.stats.counters()
    assert value(samples, "requests_total", outcome="allocated") == counters["requests"] == 41
    assert value(samples, "prefix_cache_hit_tokens_total", request="new") == counters["hit_tokens"]
    assert counters["hit_tokens"] > 0
    assert value(samples, "cache_usage_ratio") == kv.pressure.usage() > 0
    for state in ("free", "cached", "referenced"):
        assert value(samples, "blocks", state=state) == getattr(kv.counts(), state)
    assert value(samples, "pins", owner="team a") == 1
    assert value(samples, "pinned_blocks", owner="team a") == 2
    policy = kv.inspect.options()["policy"]
    ahead, taken = counters["evictions_ahead"], counters["evictions_for_taken"]
    for cause, count in (
        ("sequence", counters["evictions"] - ahead - taken),
        ("taken", taken),
        ("ahead", ahead),
    ):
        assert value(samples, "evictions_total", policy=policy, cause=cause) == count > 0
    took = kv.stats.policy_times()["eviction"]
    assert value(samples, "policy_decisions_total", kind="eviction", policy=policy) > 0
    assert took.seconds > 0
    host = tiers.stats()["host"]
    told = value(samples, "tier_transfers_total", tier="host", direction="store", outcome="done")
    assert told == host["stored"] > 0
    assert value(samples, "tier_pages", tier="host", state="cached") == host["cached"]
    assert value(samples, "event_batches_total", outcome="published") > 0
    serve_one(kv, tiers, [*range(70_000, 70_010)])
    assert value(scrape(server.url), "requests_total", outcome="allocated") == 42


def test_kinds_and_labels_are_those_of_the_table(running: Running) -> None:
    with urllib.request.urlopen(running[0].url, timeout=30) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    assert {family.type for family in families} == {"counter", "gauge"}
    found = {sample.name: (family, sample) for family in families for sample in family.samples}
    missing = set(BY_NAME) - set(found)
    assert missing == set(), "families without a sample in an engine that has everything"
    for name, (family, sample) in found.items():
        told = BY_NAME[name]
        assert (family.type, family.documentation) == (told.kind, told.help)
        assert set(sample.labels) == {"engine", *told.labels}


def test_every_counter_of_the_manager_is_a_metric_of_its_kind(running: Running) -> None:
    kinds = running[1].stats.kinds()
    assert kinds.keys() >= GAUGES
    elsewhere = {
        "hit_share_ppm",
        "evictions",
        "evictions_ahead",
        "evictions_for_taken",
        "policy_failures",
        "policy_fallbacks",
    }
    verdicts = {"admission_failures", "admission_kept", "admission_dropped", "admission_lowered"}
    assert kinds.keys() == COUNTERS.keys() | elsewhere | verdicts
    for key, (name, _) in COUNTERS.items():
        assert BY_NAME[f"kvframe_{name}"].kind == kinds[key]


def test_every_counter_of_tiers_is_a_metric_of_its_kind(running: Running) -> None:
    _, _, tiers = running
    told, kinds = tiers.stats(), tiers.kinds()
    assert {name: each.keys() for name, each in kinds.items()} == {
        name: each.keys() for name, each in told.items()
    }
    assert set(kinds["moved"].values()) == {"counter"}
    gauges = {key for key, kind in kinds["host"].items() if kind == "gauge"}
    assert gauges == {"free", "cached", "owned", "moving"}
    of_host = [sample for sample in all_samples(running[1], tiers) if "host" in sample.labels]
    of_tiers = [sample for sample in of_host if "tenant" not in sample.family]
    assert len(of_tiers) == len(told["host"])
    found = [BY_NAME[sample.family].kind for sample in of_tiers]
    assert found.count("gauge") == len(gauges)


def test_what_tenants_have_of_a_tier_is_a_metric(running: Running) -> None:
    _, _, tiers = running
    found = {
        (sample.family, *sample.labels): sample.value
        for sample in all_samples(running[1], tiers)
        if "tier_tenant" in sample.family
    }
    others, row = tiers.tenants()["host"]
    assert len(found) == 2 * 5
    assert found["kvframe_tier_tenant_floor_pages", "host", "a"] == row.floor == 4
    assert found["kvframe_tier_tenant_pages", "host", "(others)", "cached"] == others.cached > 0


def test_the_queries_of_the_dashboard_resolve(running: Running) -> None:
    samples = scrape(running[0].url)
    labels: dict[str, set[str]] = {}
    for name, own in samples:
        labels.setdefault(name, set()).update(key for key, _ in own)
    board = json.loads((resources.files("kvframe") / "metrics" / "dashboard.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert len(queries) > 15
    # kvframe-vllm's shadows have the same names behind vLLM's prefix.
    for query in (query.replace("vllm:", "") for query in queries):
        names = re.findall(r"kvframe_\w+", query)
        assert names
        assert [name for name in names if name not in labels] == [], query
        grouped = re.findall(r"by \(([^)]*)\)", query)
        matched = re.findall(r"(\w+)=~?\"", query)
        wanted = {one.strip() for group in grouped for one in group.split(",")} | set(matched)
        assert wanted <= set.intersection(*(labels[name] for name in names)), query
        rates = [name for name in names if f"rate({name}" in query]
        assert {name for name in names if name.endswith("_total")} == set(rates), query
    variable = board["templating"]["list"][1]["query"]
    assert variable == "label_values(kvframe_info, engine)"


def test_the_page_of_reference_has_every_metric() -> None:
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    rows = dict(re.findall(r"^\| `(kvframe_\w+)` \| (\w+) \|", page, re.M))
    assert rows == {family.name: family.kind for family in FAMILIES}
    for family in FAMILIES:
        row = re.search(rf"^\| `{family.name}` \|.*$", page, re.M)
        assert row is not None
        assert [label for label in family.labels if f"`{label}`" not in row[0]] == []


def test_engines_of_one_process_are_told_apart() -> None:
    registry = CollectorRegistry()
    for engine_name in ("a", "b"):
        kv = KVCacheManager(block_size=4, capacity=8)
        registry.register(Collector(kv, engine=engine_name))
    text = generate_latest(registry).decode()
    assert 'kvframe_block_tokens{engine="a"} 4.0' in text
    assert 'kvframe_block_tokens{engine="b"} 4.0' in text


def test_a_plan_that_is_never_done_is_seen_by_its_number() -> None:
    kv = KVCacheManager(block_size=4, capacity=16)
    seq = kv.allocate(range(6)).seq
    kv.commit(seq, 6)
    kv.fork(seq, 2, tokens=[7, 8])  # the last block is shared, and copied before it is written
    plan = kv.take_plan()
    assert plan is not None
    lease = kv.pins.lease(seq, 4)

    def told() -> dict[str, dict[str, float]]:
        found: dict[str, dict[str, float]] = {}
        for sample in all_samples(kv):
            if "ticket" in sample.family:
                found.setdefault(sample.labels[0], {})[sample.family] = sample.value
        return found

    none = {"kvframe_tickets": 0, "kvframe_ticket_blocks": 0}
    first = told()
    assert first["load"] == none
    assert first["lease"] == {
        "kvframe_tickets": 1,
        "kvframe_ticket_blocks": 1,
        "kvframe_oldest_ticket": lease,
    }
    assert first["copies"]["kvframe_tickets"] == 1
    assert first["copies"]["kvframe_ticket_blocks"] >= len(plan.copies)
    assert first["copies"]["kvframe_oldest_ticket"] == plan.ticket
    kv.done(lease)
    kv.done(plan.ticket)
    assert told() == {"copies": none, "load": none, "lease": none}


def test_owners_of_pins_make_a_bounded_number_of_series() -> None:
    kv = KVCacheManager(block_size=1, capacity=400)
    for at in range(MOST_OWNERS + 20):
        seq = kv.allocate([at, 0]).seq
        kv.commit(seq, 2)
        kv.release(seq)
        kv.pins.pin([at, 0], owner=f"owner {at}")
    registry = CollectorRegistry()
    registry.register(Collector(kv))
    text = generate_latest(registry).decode()
    assert text.count("kvframe_pins{") == MOST_OWNERS + 1
    assert 'kvframe_pins{engine="0",owner="(others)"} 20.0' in text


def test_what_is_no_manager_is_refused() -> None:
    wrong: Any = "x"
    for make in (Collector, serve):
        with pytest.raises(UsageError, match="kv = 'x': must be a KVCacheManager"):
            make(wrong)


def test_it_listens_on_this_machine_alone_and_names_an_address_in_use() -> None:
    kv = KVCacheManager(block_size=4, capacity=8)
    with serve(kv, port=0) as server:
        assert server.url.startswith("http://127.0.0.1:")
        port = int(server.url.rpartition(":")[2].partition("/")[0])
        with pytest.raises(UsageError, match=rf"127\.0\.0\.1:{port}: "):
            serve(kv, port=port)
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(server.url, timeout=5)
