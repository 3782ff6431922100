"""The store by itself, against a master that the test starts."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kvframe_mooncake import Mooncake, Options

from kvframe import Registry
from kvframe.testing import check_store


def port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        number: int = found.getsockname()[1]
        return number


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    program = Path(sys.executable).with_name("mooncake_master")
    try:
        import mooncake.store  # noqa: F401
    except ImportError as error:
        pytest.skip(f"needs a wheel of mooncake-transfer-engine that runs here: {error}")
    number = port()
    flags = [f"-rpc_port={number}", f"-metrics_port={port()}", "-rpc_address=127.0.0.1"]
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen([str(program), *flags], stdout=log, stderr=log)
    end = time.monotonic() + 10
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", number)) == 0:
                break
        time.sleep(0.01)
    yield f"127.0.0.1:{number}"
    server.kill()
    server.wait()


def test_it_is_a_store(master: str) -> None:
    options = Options(master=master, segment=32 * 2**20, buffer=2**20)
    check_store(lambda: Mooncake(options))


def test_it_is_found_by_its_name() -> None:
    assert Registry().tier("mooncake").descriptor.shared
