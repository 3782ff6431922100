"""The store by itself, against a master that the test starts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kvframe_mooncake import Mooncake, Options

from kvframe import Registry, TierError
from kvframe.testing import ServerProcess, check_store, free_port


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    program = Path(sys.executable).with_name("mooncake_master")
    try:
        import mooncake.store  # noqa: F401
    except ImportError as error:
        pytest.skip(f"needs a wheel of mooncake-transfer-engine that runs here: {error}")
    port = free_port()
    flags = [f"-rpc_port={port}", f"-metrics_port={free_port()}", "-rpc_address=127.0.0.1"]
    with ServerProcess([str(program), *flags], port, tmp_path / "log") as started:
        yield started


@pytest.fixture
def master(server: ServerProcess) -> str:
    return f"127.0.0.1:{server.port}"


def test_it_is_a_store(master: str) -> None:
    options = Options(master=master, segment=32 * 2**20, buffer=2**20)
    check_store(lambda: Mooncake(options))


def test_it_is_found_by_its_name() -> None:
    assert Registry().store("mooncake").descriptor.shared


def test_a_load_larger_than_the_buffer_comes_whole(master: str) -> None:
    store = Mooncake(Options(master=master, segment=32 * 2**20, buffer=2**20))
    pages = {f"kv1-{at}": bytes([at]) * 2**18 for at in range(12)}
    assert list(store.put(list(pages.items()))) == [True] * 12
    names = [*pages, "kv1-gone"]
    assert list(store.get(names)) == [*pages.values(), None]
    store.close()


def test_a_part_larger_than_the_buffer_fails_alone(master: str) -> None:
    store = Mooncake(Options(master=master, segment=32 * 2**20, buffer=2**20))
    parts = {"kv1-a": bytes(2**19), "kv1-large": bytes(2**20 + 1), "kv1-b": bytes(2**20)}
    assert list(store.put(list(parts.items()))) == [True, False, True]
    assert list(store.contains(list(parts))) == [True, False, True]
    assert list(store.put([("kv1-large", bytes(2**21))])) == [False]
    store.close()


def test_a_master_that_is_away_has_lost_nothing(server: ServerProcess) -> None:
    """What nobody can be asked for is not gone: the store has failed, and is left alone."""
    master = f"127.0.0.1:{server.port}"
    store = Mooncake(Options(master=master, segment=32 * 2**20, buffer=2**20))
    assert list(store.put([("kv1-a", b"data")])) == [True]
    assert list(store.get(["kv1-gone"])) == [None]
    store.remove(["kv1-gone"])
    server.kill()
    for call in (
        lambda: store.get(["kv1-a"]),
        lambda: store.contains(["kv1-a"]),
        lambda: store.remove(["kv1-a"]),
        lambda: store.put([("kv1-b", b"data")]),
    ):
        with pytest.raises(TierError, match=f"mooncake at {master} does not answer: error -900"):
            call()
    store.close()
