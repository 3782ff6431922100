"""vLLM's own scheduler, without a model: under lru it is stock to the block.

Runs where vLLM can be imported; a GPU is not needed.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not installed here", allow_module_level=True)

from kvframe_vllm import choice, plugin, releases
from kvframe_vllm.connector import KvframeConnector
from kvframe_vllm.install import install, put_in, take_out
from kvframe_vllm.pool import ruled
from kvframe_vllm.queue import PolicyQueue
from kvframe_vllm.replay import fuzz
from kvframe_vllm.replay.__main__ import main as replayed
from kvframe_vllm.replay.check import check_pool, check_step
from kvframe_vllm.replay.engine import Load, Run, requests, run, scheduler
from kvframe_vllm.replay.scenarios import SCENARIOS, checked, serve, under
from kvframe_vllm.replay.switching import main as switching
from kvframe_vllm.replay.workload import Families
from kvframe_vllm.switch import switch

PROMPTS = Families().prompts()
SWITCHABLE = "kvframe_vllm.scheduler.SwitchableScheduler"
SCHEDULER = "kvframe_vllm.scheduler.KvframeScheduler"
CONNECTOR = {
    "kv_connector": "KvframeConnector",
    "kv_connector_module_path": "kvframe_vllm.connector",
    "kv_role": "kv_producer",
}


def pool_of(made: Any) -> Any:
    return made.kv_cache_manager.block_pool


def served(
    made: Any, load: Load, prompts: list[list[int]] = PROMPTS, *, check: bool = False
) -> Run:
    for request in requests(prompts, load.block_size):
        made.add_request(request)

    def after(done: Run, output: Any) -> None:
        if check:
            check_step(made, done, output, load.block_size)

    return run(made, load, after=after)


def outcome(made: Any, done: Run) -> tuple[Any, ...]:
    """Hits, block tables, steps and events: all that may not differ."""
    return done.hits, done.tables, done.steps, done.resumed, made.replay_events


@pytest.fixture(name="stock", scope="module")
def stock_runs() -> dict[Load, tuple[Any, ...]]:
    return {}


def stock_of(load: Load, known: dict[Load, tuple[Any, ...]]) -> tuple[Any, ...]:
    key = replace(load, additional_config=(), scheduler_cls=None)  # type: ignore[arg-type]
    if key not in known:
        made = scheduler(replace(load, scheduler_cls=None))
        known[key] = outcome(made, served(made, load))
        assert not ruled(pool_of(made))
    return known[key]


@pytest.mark.parametrize("asynchronous", [False, True], ids=["synchronous", "asynchronous"])
@pytest.mark.parametrize("blocks", [300, 500, 700])
def test_lru_is_stock_in_hits_tables_and_events(
    blocks: int, asynchronous: bool, stock: dict[Load, tuple[Any, ...]]
) -> None:
    load = Load(blocks=blocks, asynchronous=asynchronous, events=True)
    made = scheduler(load)
    put_in(pool_of(made), choice.resolved("lru"))
    assert outcome(made, served(made, load, check=True)) == stock_of(load, stock)
    assert isinstance(pool_of(made).free_block_queue, PolicyQueue)


def test_a_policy_changes_what_is_hit(stock: dict[Load, tuple[Any, ...]]) -> None:
    load = Load(blocks=500, events=True)
    made = scheduler(load)
    put_in(pool_of(made), choice.resolved("lfu"))
    done = served(made, load, check=True)
    assert sum(done.hits.values()) > 1.3 * sum(stock_of(load, stock)[0].values())


# --- three ways in --------------------------------------------------------------------------------


@pytest.fixture(name="unpatched")
def scheduler_as_it_was() -> Iterator[None]:
    from vllm.v1.core.sched.scheduler import Scheduler

    was = Scheduler.__init__
    yield
    Scheduler.__init__ = was


def ways(monkeypatch: pytest.MonkeyPatch) -> dict[str, Load]:
    plain = Load(blocks=300, asynchronous=True)
    connected = {**CONNECTOR, "kv_connector_extra_config": {"policy": "lfu"}}
    return {
        "scheduler": replace(plain, scheduler_cls=SCHEDULER, additional_config={"kvframe": "lfu"}),
        "connector": replace(plain, connector=connected),
        "entry point": plain,
    }


@pytest.mark.usefixtures("unpatched")
@pytest.mark.parametrize("way", ["scheduler", "connector", "entry point"])
def test_each_way_in_has_the_same_hits(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    load = Load(blocks=300, asynchronous=True)
    put = scheduler(load)
    put_in(pool_of(put), choice.resolved("lfu"))
    expected = served(put, load)
    load = ways(monkeypatch)[way]
    if way == "entry point":
        monkeypatch.setenv(choice.VARIABLE, "lfu")
        plugin.register()
        plugin.register()
    made = scheduler(load)
    assert pool_of(made).free_block_queue.core.policy == "lfu"
    done = served(made, load)
    assert (done.hits, done.tables) == (expected.hits, expected.tables)


@pytest.mark.usefixtures("unpatched")
def test_the_entry_point_does_nothing_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.v1.core.sched.scheduler import Scheduler

    monkeypatch.delenv(choice.VARIABLE, raising=False)
    was = Scheduler.__init__
    plugin.register()
    assert Scheduler.__init__ is was


def test_a_file_names_the_policy(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("vllm").propagate = True
    file = tmp_path / "kvframe.toml"
    file.write_text('[eviction]\npolicy = "s3-fifo"\noptions = { small_percent = 20 }\n')
    made = scheduler(Load(blocks=50))
    assert install(pool_of(made), str(file))
    assert pool_of(made).free_block_queue.core.policy == "s3-fifo"
    assert "ignored here" not in caplog.text
    file.write_text(
        "[cache]\ncapacity = 9\n[eviction]\npolicy = 'lfu'\n[retention]\nsessions = true\n"
    )
    take_out(pool_of(made))
    assert install(pool_of(made), str(file))
    (told,) = [line for line in caplog.messages if "ignored here" in line]
    assert told.startswith(f"kvframe: {file}: ignored here: cache.capacity, retention (")


def test_the_connector_counts_hits_and_evictions() -> None:
    load = Load(blocks=300, connector={**CONNECTOR, "kv_connector_extra_config": {"policy": "lfu"}})
    made = scheduler(load)
    done = served(made, load)
    # The scheduler has taken the counts of every step but the last.
    connector = made.connector
    assert isinstance(connector, KvframeConnector)
    left = connector.get_kv_connector_stats()
    assert left is not None
    assert left.data["policy"] == "lfu"
    assert connector._told["evictions"] == pool_of(made).free_block_queue.core.evictions > 0
    assert sum(done.hits.values()) > 0


# --- what goes wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lruu", "lruu"),
        ("lfu:nothing=1", "nothing"),
        ("opt", "opt"),
        ("/no/such/kvframe.toml", "kvframe.toml"),
        ("/no/such/policy", "ConfigError: /no/such/policy: a file must be named .toml"),
        (__file__, f"ConfigError: {__file__}: a file must be named .toml"),
    ],
)
def test_a_policy_that_cannot_be_had_leaves_stock_and_says_so(
    text: str, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("vllm").propagate = True
    made = scheduler(Load(blocks=50))
    assert not install(pool_of(made), text)
    assert not ruled(pool_of(made))
    told = [line for line in caplog.messages if line.startswith("kvframe does not rule")]
    assert len(told) == 1
    assert message in told[0]


def test_a_replay_of_a_policy_that_is_unknown_ends_before_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["replay", "--policies", "lru,lruu"])
    with pytest.raises(SystemExit) as ended:
        replayed()
    told = capsys.readouterr()
    assert (ended.value.code, told.out, list(tmp_path.iterdir())) == (2, "", [])
    assert told.err.startswith("error: eviction.policy = ")
    assert "no eviction policy lruu; did you mean lru" in told.err
    assert len(told.err.splitlines()) == 1


@pytest.mark.parametrize(
    "module",
    [
        *("compatibility", "suite", "replay.__main__", "replay.cost", "replay.demonstration"),
        *("replay.fuzz", "replay.manager", "replay.manager_cost", "replay.manager_fuzz"),
        *("replay.scenarios", "replay.serial", "replay.shadow", "replay.switching"),
    ],
)
def test_every_command_ends_with_a_line_and_2(module: str) -> None:
    main = importlib.import_module(f"kvframe_vllm.{module}").main
    assert main.__wrapped__.__name__ == "main", "it is not under one_line"


@pytest.mark.parametrize(("call", "wrong"), [(replayed, "--policies"), (switching, "--policies")])
def test_a_file_with_an_unknown_key_is_a_line_and_no_traceback(
    call: Callable[[], None],
    wrong: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="vllm")  # the command's own ends with the test
    monkeypatch.chdir(tmp_path)
    Path("bad.toml").write_text("[eviction]\npolice = 'lfu'\n[cache]\nsize = 1\n")
    monkeypatch.setattr("sys.argv", ["command", wrong, "bad.toml"])
    with pytest.raises(SystemExit) as ended:
        call()
    told = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2
    assert [line.partition(" = ")[0] for line in told] == [
        "error: bad.toml:4: cache.size",
        "error: bad.toml:2: eviction.police",
    ]


def test_a_release_that_is_not_known_leaves_stock() -> None:
    site = Path(importlib.util.find_spec("vllm").origin).parents[1]  # type: ignore
    told = str(releases.POOL.difference(site, "0.999.0"))
    assert "0.999.0 is not one of the known releases" in told
    assert releases.POOL.unknown is None


def test_a_known_release_that_differs_leaves_stock(tmp_path: Path) -> None:
    core = tmp_path / "vllm" / "v1" / "core"
    core.mkdir(parents=True)
    (core / "block_pool.py").write_text("class BlockPool:\n    def touch(self, block): ...\n")
    newest = list(releases.POOL.recorded())[-1]
    told = str(releases.POOL.difference(tmp_path, f"{newest}.9"))
    assert told.startswith(f"vLLM {newest}.9 differs from {newest} as recorded: BlockPool.")


@pytest.mark.parametrize("call", ["take", "hit", "insert", "free"])
@pytest.mark.parametrize("nth", [1, 10])
def test_a_queue_that_fails_in_mid_run_is_replaced_by_stocks(
    call: str, nth: int, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("vllm").propagate = True
    load = Load(blocks=300)
    made = scheduler(load)
    put_in(pool_of(made), choice.resolved("lfu"))
    queue, calls = pool_of(made).free_block_queue, [0]

    class Failing:
        """kvframe's compiled queue, whose n-th call of one kind fails."""

        def __getattr__(self, name: str) -> Any:
            return fail if name == call else getattr(queue.core.native, name)

    def fail(*given: Any) -> Any:
        calls[0] += 1
        if calls[0] == nth:
            raise RuntimeError("on purpose")
        return getattr(queue.core.native, call)(*given)

    queue._bind(Failing())
    done = served(made, load, PROMPTS[:80], check=False)
    assert len(done.hits) == 80
    assert not ruled(pool_of(made))
    check_pool(pool_of(made))
    assert [line for line in caplog.messages if "lfu failed, and vLLM's LRU goes on" in line]


# --- in and out of a live pool --------------------------------------------------------------------


def test_lru_may_come_and_go_in_mid_run(stock: dict[Load, tuple[Any, ...]]) -> None:
    load = Load(blocks=500, events=True)
    made = scheduler(load)
    for request in requests(PROMPTS, load.block_size):
        made.add_request(request)

    def before(step: int) -> None:
        if step % 40 == 20:
            put_in(pool_of(made), choice.resolved("lru"))
            assert ruled(pool_of(made))
        elif step % 40 == 0 and step:
            take_out(pool_of(made))

    done = run(made, load, before, lambda done, output: check_step(made, done, output, 16))
    assert outcome(made, done) == stock_of(load, stock)


@pytest.mark.parametrize("name", SCENARIOS)
def test_lru_is_stock_under_everything_at_once(name: str) -> None:
    """Three hundred requests here; the command serves two thousand."""
    stock, ours = serve(SCENARIOS[name], 300), serve(SCENARIOS[name], 300, under("lru"), checked())
    assert len(ours.run.hits) > 280
    assert min(ours.run.resumed, ours.aborted) > 0
    assert ours.compared() == stock.compared()


@pytest.mark.parametrize("policy", ["lfu", "arc", "s3-fifo"])
def test_every_request_is_served_under_any_policy(policy: str) -> None:
    assert len(serve(SCENARIOS["asynchronous"], 300, under(policy), checked()).run.hits) > 280


def test_loose_values_raise_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fuzz.configured(100, seed=0)
        fuzz.serve(300, 1, "lfu")
        fuzz.salted(100, seed=2)


# --- a switch -------------------------------------------------------------------------------------


def test_a_switch_in_mid_run_and_back(stock: dict[Load, tuple[Any, ...]]) -> None:
    """Under lru nothing differs from stock; lfu after it knows what was used before."""
    load = Load(blocks=500, events=True)

    def hits(*texts: str) -> tuple[Any, ...]:
        made = scheduler(load)
        for request in requests(PROMPTS, load.block_size):
            made.add_request(request)
        put_in(pool_of(made), choice.resolved("lru"))

        def before(step: int) -> None:
            if step % 150 == 149:
                assert switch(pool_of(made), texts[step // 150 % len(texts)])

        done = run(made, load, before, lambda done, output: check_step(made, done, output, 16))
        return outcome(made, done)

    assert hits("lru", "stock") == stock_of(load, stock)
    assert sum(hits("lfu")[0].values()) > sum(stock_of(load, stock)[0].values())


def test_a_switch_that_cannot_be_made_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("vllm").propagate = True
    made = scheduler(Load(blocks=50))
    put_in(pool_of(made), choice.resolved("lru"))
    assert not switch(pool_of(made), "lruu")
    assert pool_of(made).free_block_queue.core.policy == "lru"
    assert [line for line in caplog.messages if line.startswith("kvframe does not switch to lruu")]


def test_a_scheduler_follows_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("vllm").propagate = True
    file = tmp_path / "policy"
    monkeypatch.setenv(choice.SWITCH, str(file))
    load = Load(blocks=300, scheduler_cls=SWITCHABLE, additional_config={"kvframe": "lru"})
    made = scheduler(load)
    for request in requests(PROMPTS, load.block_size):
        made.add_request(request)
    ruled_by: list[str] = []
    steps: dict[int, Callable[[], object]] = {
        20: lambda: file.write_text("lfu\n"),
        40: lambda: file.write_text("lruu"),  # nothing changes
        60: lambda: file.write_bytes(b"\xff"),
        80: file.unlink,
        90: file.mkdir,
        99: file.rmdir,
        100: lambda: file.write_text("stock"),
        120: lambda: file.write_text("s3-fifo:small_percent=20"),
    }

    def before(step: int) -> None:
        ruled_by.append(getattr(pool_of(made).free_block_queue, "policy", "stock"))
        steps.get(step, lambda: None)()

    done = run(made, load, before, lambda done, output: check_step(made, done, output, 16))
    assert len(done.hits) == len(PROMPTS)
    s3 = "s3-fifo:small_percent=20"
    at = {20: "lru", 22: "lfu", 45: "lfu", 85: "lfu", 102: "stock", 122: s3, -1: s3}
    assert {step: ruled_by[step] for step in at} == at
    told = [line for line in caplog.messages if line.startswith("kvframe does not switch")]
    assert len(told) == 3, "once each, and not at every step"


def test_a_scheduler_without_a_file_to_follow_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("vllm").propagate = True
    monkeypatch.delenv(choice.SWITCH, raising=False)
    load = Load(blocks=300, scheduler_cls=SWITCHABLE, additional_config={"kvframe": "lru"})
    made = scheduler(load)
    assert len(served(made, load, PROMPTS[:5]).hits) == 5
    assert [line for line in caplog.messages if "KVFRAME_VLLM_SWITCH is not set" in line]


def test_counts_of_another_are_taken_over() -> None:
    made = scheduler(Load(blocks=50))
    pool = pool_of(made)
    [request] = requests([list(range(64))], 16)
    blocks = pool.get_new_blocks(4)
    pool.cache_full_blocks(request, blocks, 0, 4, 16, 0)
    pool.free_blocks(reversed(blocks))
    uses = [9 if block is blocks[3] else 1 for block in pool.blocks]
    assert switch(pool, "lfu", uses)
    assert pool.free_block_queue.get_all_free_blocks()[-1] is blocks[3]


# --- the record -----------------------------------------------------------------------------------


def test_the_committed_table_has_stocks_hits_under_lru() -> None:
    file = Path(__file__).parents[1] / "results" / "eviction.json"
    cells = json.loads(file.read_text())["cells"]
    rate = {(cell["policy"], cell["blocks"]): cell.get("hit_tokens") for cell in cells}
    for blocks in (300, 500, 700):
        assert rate["lru", blocks] == rate["stock", blocks]
