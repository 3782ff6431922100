"""The store by itself, against a master that the test starts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kvframe_mooncake import Mooncake, Options

from kvframe import Registry
from kvframe.testing import ServerProcess, check_store, free_port


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    program = Path(sys.executable).with_name("mooncake_master")
    try:
        import mooncake.store  # noqa: F401
    except ImportError as error:
        pytest.skip(f"needs a wheel of mooncake-transfer-engine that runs here: {error}")
    port = free_port()
    flags = [f"-rpc_port={port}", f"-metrics_port={free_port()}", "-rpc_address=127.0.0.1"]
    with ServerProcess([str(program), *flags], port, tmp_path / "log"):
        yield f"127.0.0.1:{port}"


def test_it_is_a_store(master: str) -> None:
    options = Options(master=master, segment=32 * 2**20, buffer=2**20)
    check_store(lambda: Mooncake(options))


def test_it_is_found_by_its_name() -> None:
    assert Registry().tier("mooncake").descriptor.shared
