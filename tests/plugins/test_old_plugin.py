"""A plugin package that was built earlier, and is not touched since, installs and runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kvframe.errors import PluginError
from kvframe.registry import PLUGIN_API, EvictionPolicy, Registry, hookimpl
from kvframe.registry.descriptors import KINDS

WHEEL = Path(__file__).parent / "old" / "kvframe_of_api_1-1.0-py3-none-any.whl"

SERVE = """
import numpy as np
from kvframe import KVCacheManager, Request
from kvframe.registry import Registry
from kvframe.tiers import Tiers
from kvframe.pages import LAYER_FIRST, Layout, NumpyPool, PageShape
import kvframe_of_api_1 as old

def prompts():
    for turn in range(40):
        who = turn % 9 if turn % 4 else 0
        yield Request(range(100 * who, 100 * who + 21), session=who)

kv = KVCacheManager.from_toml("kvframe.toml")
shape = PageShape.of_model(kv.inspect.resolved.config.model, kv.block_size)
tiers = Tiers(kv, NumpyPool(Layout.of(LAYER_FIRST, shape, blocks=16), dtype=np.float16))
for prompt in prompts():
    grant = tiers.allocate(prompt)
    tiers.drain()
    kv.extend(grant.seq, 21)
    kv.commit(grant.seq, 21)
    tiers.offload(grant.seq)
    kv.release(grant.seq)
    tiers.drain()
kv.check_integrity()
(policy,) = old.MADE
for event in ("insert_keyed", "on_miss", "hit", "acquire", "release", "remove"):
    assert policy.heard.get(event), (event, policy.heard)
assert kv.stats.counters()["evictions"]
assert tiers.lookup(next(prompts())).tiers["shelf"]
for kind in ("eviction", "admission", "prefix", "store", "trace"):
    assert any(row.distribution == "kvframe-of-api-1" and row.kind == kind and row.state == "ok"
               for row in Registry().list()), kind
tiers.close()
"""

TOML = """
[cache]
block_size = 4
capacity = 16
weight_version = "w"

[model]
layers = 1
kv_heads = 1
head_dim = 8
dtype = "float16"

[eviction]
policy = "old-depth"
on_error = "raise"
options = { weight = 2.0 }

[prefix]
policy = "old-length"
on_error = "raise"

[[tiers]]
name = "host"
capacity = 8

[[tiers]]
name = "shelf"
store = "old-shelf"
capacity = 64
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip has installed the wheel."""
    folder = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-deps", "--no-index", "--target", folder, WHEEL], check=True)
    return folder


def run(site: Path, folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(site), *sys.path[1:]])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_serves(site: Path, tmp_path: Path) -> None:
    (tmp_path / "kvframe.toml").write_text(TOML)
    run(site, tmp_path, "-W", "error", "-c", SERVE)


def test_it_replays(site: Path, tmp_path: Path) -> None:
    rows = [
        {"old_v1": 1, "at": at, "tokens": 96, "answered": 3, "blocks": [at % 5, 10 + at, 99]}
        for at in range(60)
    ]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ["--policy", "old-depth,lru", "--capacity", "16", "--admission", "old-turns"]
    printed = run(site, tmp_path, "-m", "kvframe", "bench", "run", "--trace", "log.jsonl", *options)
    assert "old-depth" in printed


def test_the_wheel_is_of_this_api() -> None:
    assert PLUGIN_API == 1
    assert len(KINDS) == 5


def plugin(**of_it: Any) -> SimpleNamespace:
    @hookimpl
    def kvframe_eviction() -> list[EvictionPolicy]:
        return [EvictionPolicy(name="new", way="batched", summary="", make=lambda _: None)]

    return SimpleNamespace(kvframe_eviction=kvframe_eviction, **of_it)


def test_a_plugin_may_say_the_version_that_it_needs() -> None:
    Registry().register(plugin(KVFRAME_PLUGIN_API=1), "new")
    with pytest.raises(PluginError) as caught:
        Registry().register(plugin(KVFRAME_PLUGIN_API=2), "new", "kvframe-new", "1.0")
    assert str(caught.value) == (
        "plugin new (kvframe-new 1.0): it is written for version 2 of the plugin API, and this "
        "kvframe speaks 1: install a newer kvframe"
    )


@pytest.mark.parametrize("value", ["1", 0, True, None])
def test_a_version_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(PluginError, match=r"KVFRAME_PLUGIN_API = .*: must be a number from 1 on"):
        Registry().register(plugin(KVFRAME_PLUGIN_API=value), "new")
