"""The store by itself, against a server that the test starts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from kvframe_redis import Options, Redis

from kvframe import Config, ConfigError, Registry, TierConfig, TierError
from kvframe.testing import ServerProcess, check_store, free_port
from kvframe.tiers.object_keys import Space


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        pytest.skip("needs redis-server (Debian: apt-get install redis-server)")
    port = free_port()
    where = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(tmp_path), "--save", ""]
    with ServerProcess([program, *where], port):
        yield f"redis://127.0.0.1:{port}/0"


@pytest.mark.parametrize("batch", [1, 7, 4096])
def test_it_is_a_store(url: str, batch: int) -> None:
    check_store(lambda: Redis(Options(url=url, batch=batch)))


def test_pages_expire_where_asked(url: str) -> None:
    store = Redis(Options(url=url, expire_s=1))
    assert list(store.put([("kv1-x", b"data")])) == [True]
    assert 0 < store._server.pttl("kv1-x") <= 1000
    store.close()


def test_a_server_that_is_not_there_is_told() -> None:
    with pytest.raises(TierError, match=r"redis at redis://127\.0\.0\.1:1/0"):
        Redis(Options(url="redis://127.0.0.1:1/0", timeout_ms=200))


def test_a_message_tells_no_secret() -> None:
    url = "redis://me:secret@127.0.0.1:1/0?password=secret"
    with pytest.raises(TierError, match=r"redis at redis://127\.0\.0\.1:1/0:") as told:
        Redis(Options(url=url, timeout_ms=200))
    assert "secret" not in str(told.value)


def test_what_others_keep_under_such_a_name_is_no_page(url: str) -> None:
    store = Redis(Options(url=url))
    store._server.hset("kv1-table", "a", "b")
    store._server.set(b"kv1-\xff\xfe", b"bytes")
    page = Space().name((1, 2), 0)
    store.put([(page, b"data")])
    assert list(store.recover(16)) == [(page, b"data")]
    assert list(store.get(["kv1-table", page])) == [None, b"data"]
    store.close()


def test_it_is_found_by_its_name_and_its_options_are_checked() -> None:
    assert Registry().store("redis").descriptor.shared
    tiers = [
        TierConfig(name="host", capacity=4),
        TierConfig(name="r", store="redis", capacity=4, options={"ulr": "x"}),
    ]
    with pytest.raises(ConfigError, match=r"tiers\[1\]\.options\.ulr.*did you mean"):
        Config(tiers=tiers).resolve()
