"""Pages of other format versions in each kind of store: told apart, left as they are, not read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from .helpers import Engine, Known, Shelf, below, host, text
from .servers import RedisServer

KNOWN = Known()
OTHERS = [1, 3, 9999]
NOW = 2


class Kept(Protocol):
    """What a store holds, by name, past the store itself."""

    def engine(self) -> Engine: ...
    def all(self) -> dict[str, bytes]: ...
    def put(self, name: str, data: bytes) -> None: ...
    def drop(self, name: str) -> None: ...


class OnShelf:
    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def engine(self) -> Engine:
        return Engine([host(16), below()], stores=[Shelf(objects=self.objects)], blocks=24)

    def all(self) -> dict[str, bytes]:
        return {name: bytes(data) for name, data in self.objects.items()}

    def put(self, name: str, data: bytes) -> None:
        self.objects[name] = data

    def drop(self, name: str) -> None:
        del self.objects[name]


class OnDisk:
    def __init__(self, folder: Path) -> None:
        self.folder = folder / "pages"
        self.places: dict[str, Path] = {}

    def engine(self) -> Engine:
        options = {"path": str(self.folder), "fsync": False}
        return Engine([host(16), below(64, "disk", options=options)], blocks=24)

    def all(self) -> dict[str, bytes]:
        self.places |= {path.stem: path for path in self.folder.glob("??/*.kv")}
        return {path.stem: path.read_bytes() for path in self.folder.glob("??/*.kv")}

    def put(self, name: str, data: bytes) -> None:
        path = self.places.get(name, self.folder / "00" / f"{name}.kv")
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)

    def drop(self, name: str) -> None:
        for path in self.folder.glob(f"??/{name}.kv"):
            path.unlink()


class InRedis:
    def __init__(self, server: RedisServer) -> None:
        import redis

        self.server, self.client = server, redis.Redis(port=server.port)

    def engine(self) -> Engine:
        options = {**self.server.options(), "timeout_ms": 30_000}
        return Engine([host(16), below(64, "redis", options=options)], blocks=24, registry=KNOWN)

    def all(self) -> dict[str, bytes]:
        found: Any = self.client.keys("kv*")
        return {name.decode(): self.client.get(name) for name in found}  # type: ignore[misc] # bytes

    def put(self, name: str, data: bytes) -> None:
        self.client.set(name, data)

    def drop(self, name: str) -> None:
        self.client.delete(name)


@pytest.fixture(params=["shelf", "disk", "redis"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kept]:
    if request.param == "redis":
        server = RedisServer(tmp_path)
        try:
            yield InRedis(server)
        finally:
            server.stop()
    else:
        yield OnShelf() if request.param == "shelf" else OnDisk(tmp_path)


@pytest.mark.scenario("F15")
@pytest.mark.parametrize("other", OTHERS)
def test_pages_of_another_version_are_misses_and_stay(kept: Kept, other: int) -> None:
    made = kept.engine()
    made.run(text(1, 17))
    made.tiers.close()
    pages = kept.all()
    assert len(pages) == 4
    moved = {
        name.replace(f"kv{NOW}-", f"kv{other}-"): data.replace(b"KVF2", b"KVF%d" % (other % 10))
        for name, data in pages.items()
    }
    for name in pages:
        kept.drop(name)
    for name, data in moved.items():
        kept.put(name, data)
    again = kept.engine()
    assert again.run(text(1, 17)).external_tokens == 0
    told = again.tiers.stats()["below"]
    rows = ("recovered", "foreign", "other_spaces", "old_format", "corrupt")
    assert [told[row] for row in rows] == [0, 4, 0, 4 * (other < NOW), 0]
    again.tiers.close()
    left = kept.all()
    assert moved.items() <= left.items(), "what another version may read stays as it was"
    assert set(left) - set(moved) == set(pages), "beside it, the pages are kept anew"


@pytest.mark.scenario("F15")
@pytest.mark.parametrize("other", [1, 3])
def test_an_object_of_another_version_under_a_name_of_this_one_is_never_read(
    kept: Kept, other: int
) -> None:
    made = kept.engine()
    made.run(text(1, 17))
    made.tiers.close()
    for name, data in kept.all().items():
        assert data.startswith(b"KVF2")
        kept.drop(name)
        kept.put(name, data.replace(b"KVF2", b"KVF%d" % other, 1))
    again = kept.engine()
    ahead = again.tiers.prefetch(text(1, 17))
    again.settle()
    assert (ahead.loaded, again.tiers.stats()["below"]["corrupt"] > 0) == (0, True)
    again.run(text(1, 17))
    again.tiers.close()
    assert all(data.startswith(b"KVF2") for data in kept.all().values())
