"""Stores that others write to, and what an operator is told of any store."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

from kvframe import ConfigError
from kvframe.testing import free_port
from kvframe.tiers.health import QUIET_MS

from .helpers import Engine, Known, Shelf, below, host, text
from .servers import RedisServer

KNOWN = Known()


class Placed(Shelf):
    """A store that says where it is."""

    def place(self) -> str:
        return "shelf 7"


@pytest.mark.scenario("T40")
def test_every_shared_store_is_asked_until_one_has_the_prompt() -> None:
    found: dict[str, bytes] = {}
    Engine([host(), below(store="shared")], stores=[Shelf(objects=found)]).run(text(1, 17))
    tiers = [host(), below(store="shared"), below(store="shared", name="far")]
    for fails in (0, 1):
        near, far = Shelf(), Shelf(objects=found)
        near.fails = fails  # what one cannot say, the other is asked all the same
        engine = Engine(tiers, stores=[near, far])
        ahead = engine.tiers.prefetch(text(1, 17))
        engine.settle()
        assert (ahead.state, ahead.loaded) == ("done", 4)
        assert engine.run(text(1, 17)).external_tokens == 16
    # What the nearer one has whole is asked of nobody else.
    near, far = Shelf(objects=found), Shelf()
    engine = Engine(tiers, stores=[near, far])
    engine.tiers.prefetch(text(1, 17))
    engine.settle()
    assert far.calls == []
    engine.tiers.check_integrity()


def test_two_tiers_in_one_place_are_refused_unless_their_names_differ() -> None:
    tiers = [host(), below(), below(name="twin")]
    with pytest.raises(ConfigError, match=r"tiers below and twin .* one place \(shelf 7\)"):
        Engine(tiers, stores=[Placed(), Placed()])
    objects: dict[str, bytes] = {}
    tiers[2] = below(name="twin", compression="zlib")
    engine = Engine(tiers, stores=[Placed(objects=objects), Placed(objects=objects)])
    engine.run(text(1, 17))
    assert len(objects) == 8
    Engine(tiers, stores=[Shelf(), Shelf()])


def test_two_tiers_on_one_redis_are_refused_whatever_its_address(tmp_path: Path) -> None:
    server = RedisServer(tmp_path)
    try:
        url = f"redis://127.0.0.1:{server.port}"
        for other, refused in ((f"redis://localhost:{server.port}/0", True), (f"{url}/1", False)):
            tiers = [
                host(),
                below(64, "redis", options={"url": url}),
                below(64, "redis", "twin", options={"url": other}),
            ]
            if refused:
                with pytest.raises(ConfigError, match=r"tiers below and twin .* database 0"):
                    Engine(tiers, registry=KNOWN)
            else:
                engine = Engine(tiers, registry=KNOWN)
                engine.run(text(1, 17))
                assert engine.tiers.lookup(text(1, 17)).tiers["twin"] == 16
                engine.tiers.close()
    finally:
        server.stop()


@pytest.mark.scenario("T25")
def test_a_redis_that_takes_no_writes_has_failed_and_is_not_full(tmp_path: Path) -> None:
    server = RedisServer(tmp_path)
    try:
        tier = below(64, "redis", options=server.options())
        engine = Engine([host(32), tier], registry=KNOWN, blocks=40)
        engine.run(text(1, 17))
        client = engine.tiers.below[0].store._server  # type: ignore[attr-defined]
        client.execute_command("REPLICAOF", "127.0.0.1", str(free_port()))
        for seed in (2, 3, 4):
            engine.now += 10_000
            engine.run(text(seed, 17))
        told = engine.tiers.stats()["below"]
        assert (told["stored"], told["evicted"], told["errors"] > 2) == (4, 0, True)
        client.execute_command("REPLICAOF", "NO", "ONE")
        engine.now += 10_000
        engine.run(text(5, 17))
        assert engine.tiers.lookup(text(5, 17)).tiers["below"] == 16
        engine.tiers.check_integrity()
        engine.tiers.close()
    finally:
        server.stop()


@pytest.mark.scenario("T1", "T25")
def test_a_failing_store_is_told_once_and_once_more_when_it_is_well(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shelf = Shelf()
    engine = Engine([host(64), below()], stores=[shelf], blocks=64)
    shelf.fails = 5
    for seed in range(8):
        engine.now += 4000
        engine.run(text(seed, 9))
    told = [(record.levelno, record.getMessage()) for record in caplog.records]
    assert [level for level, _ in told] == [logging.WARNING] * 2
    assert told[0][1].startswith("tier below: shelf (this process) fails")
    assert "ConnectionError: the store is away" in told[0][1]
    assert told[1][1] == "tier below: shelf (this process) answers again (failures: 5)"
    # One that comes and goes is no flood, and one that then stays away is told of.
    caplog.clear()
    for seed in range(8, 20):
        engine.now += 4000
        shelf.fails = seed % 2
        engine.run(text(seed, 9))
    assert caplog.records == []
    shelf.fails = 1000
    engine.now += QUIET_MS
    engine.run(text(20, 9))
    assert len(caplog.records) == 1


@pytest.mark.scenario("T25", "VT63")
def test_a_full_disk_is_told_once_and_once_more_when_it_has_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "pages"
    tier = below(64, "disk", options={"path": str(folder), "fsync": False})
    engine = Engine([host(64), tier], blocks=64)
    engine.run(text(1, 9))
    shutil.rmtree(folder)
    folder.write_text("a file stands here")
    for seed in range(2, 6):
        engine.now += 10_000
        engine.run(text(seed, 9))
    folder.unlink()
    folder.mkdir()
    for seed in range(6, 9):
        engine.now += 10_000
        engine.run(text(seed, 9))
    full, well = [record.getMessage() for record in caplog.records]
    assert "is full or broken: 2 pages that it was given are not there" in full
    assert "its capacity is 64 pages" in full
    assert "keeps what it is given again" in well
    engine.tiers.close()
