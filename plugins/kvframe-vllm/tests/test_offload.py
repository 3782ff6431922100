"""vLLM's CPU tier with kvframe's names, admission and stores: its own classes, without a GPU."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not installed here", allow_module_level=True)

from kvframe_vllm.offload import names
from kvframe_vllm.offload.spec import AdmittingManager
from kvframe_vllm.offload.tier import KvframeTier
from vllm.v1.kv_offload.base import LookupResult, ReqContext, make_offload_key
from vllm.v1.kv_offload.config import (
    OffloadingCacheConfig,
    OffloadingConfig,
    OffloadingGroupConfig,
    OffloadingModelConfig,
    OffloadingParallelConfig,
)
from vllm.v1.kv_offload.cpu.policies.factory import CachePolicyFactory
from vllm.v1.kv_offload.factory import OffloadingSpecFactory
from vllm.v1.kv_offload.tiering.base import TransferJob
from vllm.v1.kv_offload.tiering.factory import SecondaryTierFactory
from vllm.v1.kv_offload.tiering.manager import TieringOffloadingManager

from kvframe.flat_admission import FlatAdmission
from kvframe.testing import ServerProcess, free_port

CHUNK = 4096


def config(**extra: Any) -> OffloadingConfig:
    return OffloadingConfig(
        groups=(OffloadingGroupConfig(16, ("layer0",), 0),),
        worker_kv_bytes_per_block=CHUNK,
        enable_kv_cache_events=True,
        extra_config={"cpu_bytes_to_use": 8 * CHUNK, **extra},
        engine_id="test-kvframe",
        model=OffloadingModelConfig("tiny", "float16"),
        cache=OffloadingCacheConfig(16, 1),
        parallel=OffloadingParallelConfig(0, 1, 1, 1, 1, 1, 0, 1, None, True),
    )


def keys(*blocks: int) -> list[Any]:
    return [make_offload_key(block.to_bytes(32, "big"), 0) for block in blocks]


def context(name: str, given: list[Any]) -> ReqContext:
    made = ReqContext(name)
    for at, key in enumerate(given):
        made.set_offload_key_position(key, (at + 1) * 16)
    return made


def test_policies_are_known_by_name() -> None:
    names.register()
    names.register()
    policy = CachePolicyFactory.get_cache_policy_cls("kvframe:s3-fifo")(cache_capacity=8)
    assert policy.tier.policy == "s3-fifo"
    spec = OffloadingSpecFactory.create_spec(config(spec_name=names.SPEC, admission="second-use"))
    manager = spec.get_manager()
    assert isinstance(manager, AdmittingManager)
    assert manager.admission.policy == "second-use"
    assert "kvframe:opt" not in CachePolicyFactory._registry, "it needs the future"
    assert SecondaryTierFactory.get_tier_class({"type": "kvframe"}) is KvframeTier


def test_a_chunk_enters_once_the_admission_policy_keeps_it() -> None:
    manager = AdmittingManager(
        FlatAdmission.named("second-use"), num_chunks=8, cache_policy="lru", enable_events=True
    )
    prompt = keys(1, 2, 3)
    for turn, stored in enumerate(([], prompt, [])):
        request = context(str(turn), prompt)
        manager.on_new_request(request)
        given = manager.prepare_store(prompt, request)
        assert given.keys_to_store == stored
        manager.complete_store(given.keys_to_store, request)
        manager.on_request_finished(request)
    again = context("again", prompt)
    assert {manager.lookup(key, again) for key in prompt} == {LookupResult.HIT}
    mixed = keys(1, 9)
    given = manager.prepare_store(mixed, context("mixed", mixed))
    assert given.keys_to_store == [], "what is there is not stored again, what is new not yet"


@pytest.fixture(name="rows")
def primary_rows() -> Any:
    return np.random.default_rng(5).integers(0, 255, (8, CHUNK), np.uint8)


def tier_over(rows: Any, store: Mapping[str, Any], **row: Any) -> KvframeTier:
    spec = OffloadingSpecFactory.create_spec(config())
    return KvframeTier(spec, memoryview(rows), "kvframe", **{"capacity": 4, **store, **row})


@contextmanager
def redis(folder: Path) -> Iterator[dict[str, Any]]:
    program, port = shutil.which("redis-server"), free_port()
    wanted = ("redis", "kvframe_redis")
    if program is None or not all(map(importlib.util.find_spec, wanted)):
        pytest.skip("needs redis-server, and kvframe-redis with its client")
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)]
    with ServerProcess([*command, "--save", "", "--loglevel", "warning"], port):
        yield {"store": "redis", "options": {"url": f"redis://127.0.0.1:{port}/0"}}


@contextmanager
def mooncake(folder: Path) -> Iterator[dict[str, Any]]:
    found, port = importlib.util.find_spec("mooncake"), free_port()
    if found is None or importlib.util.find_spec("kvframe_mooncake") is None:
        pytest.skip("needs kvframe-mooncake and a wheel of mooncake-transfer-engine")
    places = [Path(sys.executable).parent, *map(Path, found.submodule_search_locations or ())]
    [program, *_] = [
        place / "mooncake_master" for place in places if (place / "mooncake_master").exists()
    ]
    command = [str(program), f"-rpc_port={port}", "-rpc_address=127.0.0.1"]
    with ServerProcess([*command, f"-metrics_port={free_port()}"], port, folder / "master.log"):
        options = {"master": f"127.0.0.1:{port}", "segment": 16 * 2**20, "buffer": 2**20}
        yield {"store": "mooncake", "options": options}


@contextmanager
def disk(folder: Path) -> Iterator[dict[str, Any]]:
    yield {"store": "disk", "options": {"path": str(folder / "pages")}}


@pytest.fixture(name="store", params=[disk, redis, mooncake], ids=lambda each: each.__name__)
def store_that_runs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """A row of [[tiers]] whose store is there, until the test is over."""
    with request.param(tmp_path) as row:
        yield row


@pytest.fixture(name="tier")
def tier_of_a_store(rows: Any, store: dict[str, Any]) -> Iterator[KvframeTier]:
    made = tier_over(rows, store)
    yield made
    made.shutdown()


def job(number: int, given: list[Any], chunks: list[int], *, load: bool = False) -> TransferJob:
    return TransferJob(number, given, np.array(chunks), load, context(str(number), given))


def ended(tier: KvframeTier) -> list[Any]:
    tier.drain_jobs()
    return list(tier.get_finished_jobs())


def test_what_a_store_got_comes_back(tier: KvframeTier, rows: Any) -> None:
    before, prompt = rows.copy(), keys(1, 2, 3)
    tier.submit_store(job(1, prompt, [0, 1, 2]))
    assert tier.lookup(prompt[0], context("a", prompt)) in (LookupResult.RETRY, LookupResult.HIT)
    [done] = ended(tier)
    assert (done.job_id, done.success, done.transfer_bytes) == (1, True, 3 * CHUNK)
    assert tier.lookup(prompt[2], context("a", prompt)) is LookupResult.HIT
    tier.submit_load(job(2, prompt, [5, 6, 7], load=True))
    assert [one.success for one in ended(tier)] == [True]
    assert (rows[5:8] == before[:3]).all()
    assert tier.lookup(keys(8)[0], context("a", prompt)) is LookupResult.MISS
    tier.pages.check_integrity()


def test_a_full_store_evicts_by_its_policy(tier: KvframeTier) -> None:
    tier.submit_store(job(1, keys(1, 2, 3, 4), [0, 1, 2, 3]))
    ended(tier)
    tier.touch(keys(1, 2, 3), context("a", keys(1, 2, 3)))
    tier.submit_store(job(2, keys(5), [4]))
    [done] = ended(tier)
    assert done.success
    found = [tier.lookup(key, context("a", [])) for key in keys(1, 2, 3, 4, 5)]
    assert found.count(LookupResult.MISS) == 1
    assert found[3] is LookupResult.MISS


def test_kv_events_tell_of_chunks_that_come_and_go(rows: Any, tmp_path: Path) -> None:
    with disk(tmp_path) as row:
        tier = tier_over(rows, row)
    tier.submit_store(job(1, keys(1, 2, 3, 4), [0, 1, 2, 3]))
    assert list(tier.take_events()) == [], "nothing is there yet"
    ended(tier)
    tier.submit_store(job(2, keys(5), [4]))
    ended(tier)
    told = [(event.removed, event.keys) for event in tier.take_events()]
    assert told == [(False, keys(1, 2, 3, 4)), (True, keys(4)), (False, keys(5))]
    assert list(tier.take_events()) == []
    tier.shutdown()


def test_a_damaged_chunk_is_a_miss(rows: Any, tmp_path: Path) -> None:
    with disk(tmp_path) as row:
        tier = tier_over(rows, row)
    prompt = keys(1, 2)
    tier.submit_store(job(1, prompt, [0, 1]))
    ended(tier)
    damaged = next((tmp_path / "pages").rglob(f"{tier.name(prompt[1])}*"))
    damaged.write_bytes(b"x" + damaged.read_bytes()[1:])
    tier.submit_load(job(2, prompt, [5, 6], load=True))
    [done] = ended(tier)
    assert not done.success
    assert done.successful_keys == prompt[:1]
    assert tier.lookup(prompt[1], context("a", prompt)) is LookupResult.MISS
    tier.shutdown()


@pytest.mark.parametrize("store", [disk, redis], indirect=True, ids=lambda each: each.__name__)
def test_a_later_process_finds_what_is_there(rows: Any, store: dict[str, Any]) -> None:
    first = tier_over(rows, store)
    first.submit_store(job(1, keys(1, 2), [0, 1]))
    ended(first)
    first.shutdown()
    second = tier_over(rows, store, eviction={"policy": "lfu"})
    assert second.lookup(keys(2)[0], context("a", [])) is LookupResult.HIT
    second.shutdown()


def test_it_stands_below_vllms_cpu_tier(store: dict[str, Any]) -> None:
    names.register()
    given = config(
        spec_name="TieringOffloadingSpec",
        eviction_policy="kvframe:lfu",
        secondary_tiers=[{"type": "kvframe", "capacity": 64, **store}],
    )
    manager = OffloadingSpecFactory.create_spec(given).get_manager()
    assert isinstance(manager, TieringOffloadingManager)
    try:
        [tier] = manager.secondary_tiers
        assert isinstance(tier, KvframeTier)
        prompt = keys(*range(6))
        request = context("r", prompt)
        manager.on_new_request(request)
        stored = manager.prepare_store(prompt, request)
        manager.complete_store(stored.keys_to_store, request)
        for _ in range(3):
            manager.on_schedule_end(_step())
            tier.drain_jobs()
        assert {tier.lookup(key, request) for key in prompt} == {LookupResult.HIT}
    finally:
        manager.shutdown()


def _step() -> Any:
    from vllm.v1.kv_offload.base import ScheduleEndContext

    return ScheduleEndContext((), ())
