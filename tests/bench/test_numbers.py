"""Every numeric option and key, given what is no number or no sensible one: refused by its name."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from msgspec import inspect

from kvframe import Config, KVCacheManager, KVFrameError
from kvframe.bench.server import cards, parallel, profiles, shape
from kvframe.bench.server.experiment import HINTS, LEFT_OUT
from kvframe.bench.server.workload import GOES_WITH, RECORDED, Lengths, Workload
from kvframe.cli import main
from kvframe.config.describe import members

from .conftest import Command

BELOW, HUGE, ENDLESS = "-1", "9" * 30, "9" * 5000
VALUES = ("0", BELOW, "nan", "inf", "1e400", "x", "true", HUGE, ENDLESS)
ROW = '{"timestamp": 0, "input_length": 600, "output_length": 3, "hash_ids": [1, 2], "type": "a"}\n'
MODEL = "layers=32,kv_heads=8,head_dim=128,dtype=bf16,params=8e9"
WHOLE_SHAPE = ("layers", "kv_heads", "head_dim")

# By the values that mean something there; a time is at least 0, a rate and a size are above it.
POSITIVE_WHOLE = (
    *("--capacity={}", "--max-num-seqs={}", "--max-num-batched-tokens={}", "--replicas={}"),
    *(
        "--tier=host={}",
        "--block-size={}",
        "--flood=a={}",
        "--class-share=a={}",
        "--disaggregate=prefill={}",
    ),
    *("--shared-tier=host:replicas={}", "--speculate=tokens={},accept=0.7"),
    *(f"--parallel=link=9GB/s,{key}={{}}" for key in parallel.COUNTS),
    *(f"--model-shape={MODEL.replace(f'{key}=', f'{key}={{}},x=')}" for key in WHOLE_SHAPE),
)
WHOLE_OR_NONE = (
    *("--prefetch={}", "--long-prefill-token-threshold={}"),
    *("--tier=host=9,break_even={}", "--class-priority=a={}"),
)
SHARES = (
    "--speculate=tokens=3,accept=0.7,cost={}",
    "--event-loss={}",
    "--speculate=tokens=3,accept={}",
    "--speculate=tokens=3,accept=0.7/{}",
)
POSITIVE = (
    *("--load={}", "--routing=prefix:max_load_ratio={}", "--profile=fixed:prefill={}"),
    *(f"--card=h100:{key}={{}}" for key in cards.KEYS if key not in ("memory", "utilization")),
    *(f"--model-shape={MODEL},{key}={{}}" for key in ("weight_bytes", "heads", "hidden")),
    *("--card=h100:memory={}GB", "--tier=host={}GiB", "--peer-link={}GB/s"),
    *(f"--tier=host=9,{key}={{}}GB/s" for key in ("read", "write")),
    *(f"--link=bus={rate}" for rate in ("{}GB/s", "9GB/s,write={}GB/s", "9GB/s,each={}GB/s")),
    *("--parallel=tp=2,link={}GB/s", "--disaggregate=prefill=1,link={}GB/s"),
)
NOT_NEGATIVE = (
    *("--routing=prefix:queue={}", "--routing=kv-aware:load={}", "--profile=fixed:decode_ms={}"),
    *(f"--profile=roofline:{key}={{}}" for key in ("weights", "kv", "compute", "attention")),
)
TIMES = (
    *("--storage-prefetch=timeout={}s", "--prefetch-sessions=lead={}s", "--event-delay={}ms"),
    *("--prefetch-sessions=lead=1s,after={}s", "--sla=ttft={}s", "--sla=itl={}s", "--sla=e2e={}s"),
    *("--peer-link=9GB/s,latency={}us", "--link=bus=9GB/s,latency={}us"),
    *("--tier=host=9,latency={}us", "--disaggregate=prefill=1,link=9GB/s,latency={}us"),
    "--parallel=tp=2,link=9GB/s,latency={}us",
)
ALLOWED = {
    **dict.fromkeys(POSITIVE_WHOLE, ()),
    **dict.fromkeys(WHOLE_OR_NONE, ("0",)),
    **dict.fromkeys(SHARES, ("0",)),
    **dict.fromkeys(POSITIVE, (HUGE,)),
    **dict.fromkeys(NOT_NEGATIVE, ("0", HUGE)),
    **dict.fromkeys(TIMES, ("0",)),
    "--class-priority=a={}": ("0", BELOW),
    "--card=h100:utilization={}": (),
}
BESIDE = {
    "--prefetch": "--tier=host=9",
    "--storage-prefetch": "--tier=host=9 --tier=disk=99",
    "--prefetch-sessions": "--tier=host=9",
    "--class-priority": "--order=priority",
    "--routing": "--replicas=2",
    "--event-delay": "--replicas=2 --routing=prefix",
    "--event-loss": "--replicas=2 --routing=prefix",
    "--peer-link": "--replicas=2",
    "--link": "--tier=host=9,path=bus,sharing=even",
    "--shared-tier": "--tier=host=9 --replicas=4",
}


def refused(bench: Command, name: str, *args: str) -> bool:
    """Whether it is; if so by exit code 2 and a message with the name."""
    done = bench(*args)
    if done.returncode == 0:
        return False
    assert (done.returncode, done.stdout) == (2, ""), args
    assert name.removeprefix("--") in done.stderr, (args, done.stderr)
    assert "Traceback" not in done.stderr
    return True


@pytest.mark.parametrize("option", ALLOWED)
def test_serve(bench: Command, tmp_path: Path, option: str) -> None:
    (tmp_path / "small.jsonl").write_text(ROW)
    name = option.partition("=")[0]
    fixed = ["--trace", "small.jsonl", "--capacity", "100", "--policy", "lru", "--format", "csv"]
    for value in VALUES:
        asked = (*BESIDE.get(name, "").split(), option.format(value))
        was = refused(bench, name, "serve", *fixed, *asked)
        assert was != (value in ALLOWED[option]), (option, value)


def test_every_numeric_option_of_serve_is_tried() -> None:
    command = main.get_command(click.Context(main), "bench")
    assert isinstance(command, click.Group)
    numeric = {
        parameter.opts[0]
        for parameter in command.commands["serve"].params
        if isinstance(parameter.type, click.types.IntParamType | click.types.FloatParamType)
    }
    assert numeric <= {option.partition("=")[0] for option in ALLOWED}
    tried = {*parallel.COUNTS, *cards.KEYS, *msgspec.structs.asdict(profiles.Fixed())}
    tried |= {*shape.OWN} - {"params", "expert_params", "experts", "experts_used"}
    assert all(any(f"{key}={{" in option for option in ALLOWED) for key in tried)


RUN = {
    "--capacity={}": (),
    "--capacity={}%": (),
    "--capacity={}GiB": (),
    "--capacity=1:8:x{}": (HUGE, ENDLESS),
    "--capacity=1:8:+{}": (HUGE, ENDLESS),
    "--load={}": (HUGE,),
    "--arrival-seed={}": ("0", HUGE),
    "--block-factor={}": (),
    "--warm-up={}": ("0",),
    "--min-hit-rate={}": ("0",),
    "--jobs={}": (),
    "--shard={}/2": (),
    "--shard=1/{}": (),
    "--seed={}": ("0",),
    "--block-size={}": (),
}


@pytest.mark.parametrize("option", RUN)
def test_run(bench: Command, tmp_path: Path, option: str) -> None:
    (tmp_path / "small.jsonl").write_text(ROW)
    name = option.partition("=")[0]
    beside = {"--load": ["--mode", "timed"], "--arrival-seed": ["--mode", "timed"]}
    fixed = ["--trace", "small.jsonl", "--capacity", "100", "--policy", "lru", "--format", "csv"]
    fixed += ["--quiet", "--out", "kept"]
    for value in VALUES:
        asked = (*beside.get(name, ()), option.format(value))
        was = refused(bench, name, "run", *fixed, *asked)
        assert was != (value in RUN[option]), (option, value)


# --- experiments ----------------------------------------------------------------------------------

TOML_VALUES = ("-1", "nan", "inf", "-inf", "1e400", '"x"', "true", "{}", HUGE)


def _is_numeric(hint: Any) -> bool:
    return any(isinstance(kind, inspect.IntType | inspect.FloatType) for kind in members(hint))


def experiments() -> Iterator[tuple[str, str]]:
    """The path of a key, and a file in which {} stands for its value."""
    rest = '\n[serve]\ncapacity = 100\npolicy = "lru"\n'
    for field in msgspec.structs.fields(Workload):
        if _is_numeric(field.type) and field.name not in RECORDED:
            arrivals = GOES_WITH.get(field.name, "poisson")
            requests = "" if field.name == "requests" else "requests = 5\n"
            head = f'[workload]\narrivals = "{arrivals}"\n{requests}'
            yield f"workload.{field.name}", f"{head}{field.name} = {{}}\n{rest}"
    for field in msgspec.structs.fields(Lengths):
        if _is_numeric(field.type):
            kind = {"value": "fixed", "least": "uniform", "most": "uniform"}.get(
                field.name, "normal"
            )
            table = f'{{{{ kind = "{kind}", {field.name} = {{}} }}}}'
            yield (
                f"workload.input.{field.name}",
                f"[workload]\nrequests = 5\ninput = {table}\n{rest}",
            )
    yield "draws", f"draws = {{}}\n[workload]\nrequests = 5\n{rest}"
    for name, hint in HINTS.items():
        if _is_numeric(hint) and name not in LEFT_OUT:
            tier = 'tier = "host=9"\n' if name == "prefetch" else ""
            yield f"serve.{name}", f"[workload]\nrequests = 5\n{rest}{tier}{name} = {{}}\n"
    for table in ("workload", "serve", "variants"):
        yield table, f"{table} = {{}}\n"
        if table != "variants":
            yield f"variants.a.{table}", f"[variants.a]\n{table} = {{}}\n"


MAY_BE = {
    "workload.seed": {HUGE},
    "workload.input.mean": {"-1"},
    "workload": {"{}"},
    "serve": {"{}"},
    "variants": {"{}"},
    "variants.a.workload": {"{}"},
    "variants.a.serve": {"{}"},
}


EXPERIMENTS = dict(experiments())


@pytest.mark.parametrize("key", EXPERIMENTS)
def test_an_experiment(bench: Command, tmp_path: Path, key: str) -> None:
    for value in TOML_VALUES:
        if value in MAY_BE.get(key, ()):
            continue
        (tmp_path / "e.toml").write_text(EXPERIMENTS[key].format(value))
        assert refused(bench, key.removeprefix("workload.input."), "experiment", "e.toml"), value


# --- kvframe.toml ---------------------------------------------------------------------------------

TRIED: tuple[object, ...] = (-1, float("nan"), float("inf"), "x", True, 10**30, [], {})
SECTIONS: dict[str, Any] = {
    "capacity": {"max_seq_len": 8, "max_requests": 2},
    "model": {"layers": 2, "kv_heads": 2, "head_dim": 8},
    "tenants": [{"name": "a", "floor": 2}],
    "groups": [{"name": "a", "kind": "full"}],
    "tiers": [{"name": "host", "capacity": 8}],
}


def keys(schema: type[msgspec.Struct], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every key that may be a number; ``[]`` is an item of an array of tables."""
    for field in msgspec.structs.fields(schema):
        here = (*path, field.encode_name)
        kinds = members(field.type)
        if any(isinstance(kind, inspect.IntType | inspect.FloatType) for kind in kinds):
            yield here
        for kind in kinds:
            item = kind.item_type if isinstance(kind, inspect.ListType) else kind
            if isinstance(item, inspect.StructType):
                yield from keys(item.cls, here if item is kind else (*here, "[]"))


@pytest.mark.parametrize("path", list(keys(Config)), ids=".".join)
def test_a_configuration(path: tuple[str, ...]) -> None:
    *tables, name = path
    for value in TRIED:
        told: dict[str, Any] = {"cache": {"block_size": 4, "capacity": 16}}
        at: Any = told
        for table in tables:
            if table == "[]":
                at = at[0]
                continue
            if not isinstance(at.get(table), dict | list):
                known = SECTIONS.get(table, {})
                at[table] = msgspec.to_builtins(known)
            at = at[table]
        at[name] = value
        with pytest.raises(KVFrameError, match=name):
            KVCacheManager(**told)
