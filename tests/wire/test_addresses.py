"""Prompts stay on this machine unless told otherwise, and CURVE lets only known readers in."""

from __future__ import annotations

from pathlib import Path

import pytest
import zmq.auth

from kvframe import KVCacheManager, RouterIndex, UsageError
from kvframe.wire import Announcer, Curve, Publisher, Subscriber

from .traffic import BLOCK, Traffic

ANY = "tcp://127.0.0.1:*"


@pytest.mark.parametrize(
    "endpoint", ["tcp://*:0", "tcp://0.0.0.0:0", "tcp://[::]:*", "tcp://10.0.0.1:5557"]
)
def test_other_machines_are_not_served_unless_told(endpoint: str) -> None:
    with pytest.raises(UsageError, match="other machines could read the prompts there"):
        Publisher(endpoint, None)
    with pytest.raises(UsageError, match="other machines could read the prompts there"):
        Publisher(ANY, endpoint)


def test_told_so_it_binds_everywhere() -> None:
    with Publisher("tcp://*:*", None, public=True) as publisher:
        assert publisher.endpoint.startswith("tcp://0.0.0.0:")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"endpoint": "ipc://"}, "endpoint = 'ipc://': must read tcp://HOST:PORT$"),
        ({"endpoint": "tcp://localhost"}, "must read tcp://HOST:PORT$"),
        ({"endpoint": "nonsense"}, "must read tcp://HOST:PORT$"),
        *(
            (
                {"endpoint": text},
                r"must read tcp://HOST:PORT; did you mean tcp://127\.0\.0\.1:5557\?",
            )
            for text in ("127.0.0.1:5557", "tcp:127.0.0.1:5557", "tcp:/127.0.0.1:5557")
        ),
        ({"replay": "localhost:5557"}, r"did you mean tcp://localhost:5557\?"),
        ({"rank": -1}, "rank = -1: must be between 0 and 65535"),
        ({"endpoint": "tcp://127.0.0.1:65535", "rank": 1}, "port 65536 of rank 1 is none"),
        ({"endpoint": 5}, "endpoint = 5: must be a string"),
        ({"form": "json"}, "form = 'json'"),
        ({"queue": 0}, "queue = 0: must be at least 1"),
        ({"buffer": "5"}, "buffer = '5': must be at least 1"),
    ],
)
def test_wrong_values_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Publisher(**{"endpoint": ANY, "replay": None, **values})  # type: ignore[arg-type]


def test_an_address_in_use_is_named() -> None:
    with (
        Publisher(ANY, None) as publisher,
        pytest.raises(UsageError, match=r"Address already in use"),
    ):
        Publisher(publisher.endpoint, None)


def test_a_second_announcer_of_one_log_is_refused() -> None:
    """Each would miss what the other has taken, and so would its readers."""
    kv = KVCacheManager(cache={"block_size": 4, "capacity": 8, "event_log": True})
    with Publisher(ANY, None) as one, Publisher(ANY, None) as two:
        first = Announcer(kv, one)
        with pytest.raises(UsageError, match="another Announcer takes its log: drop it first"):
            Announcer(kv, two)
        del first
        Announcer(kv, two).flush()


def test_a_manager_without_a_log_is_refused() -> None:
    with (
        Publisher(ANY, None) as publisher,
        pytest.raises(UsageError, match=r"event_log = false: .*set it to true"),
    ):
        Announcer(KVCacheManager(block_size=4, capacity=8), publisher)


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    for name in ("publisher", "router", "stranger"):
        zmq.auth.create_certificates(tmp_path, name)
    return tmp_path


def test_curve_lets_known_readers_in_and_no_other(keys: Path) -> None:
    traffic = Traffic()
    of_publisher = Curve.of_publisher(keys / "publisher.key_secret", [keys / "router.key"])
    readers = {
        name: Curve.of_reader(keys / f"{name}.key_secret", keys / "publisher.key")
        for name in ("router", "stranger")
    }
    with Publisher(ANY, ANY, curve=of_publisher) as publisher:
        announcer = Announcer(traffic.kv, publisher)
        for _ in range(20):
            traffic.serve()
            announcer.flush()
        for name, curve in [*readers.items(), ("plain", None)]:
            with Subscriber(RouterIndex(block_size=BLOCK), curve=curve) as reader:
                reader.add(7, publisher.endpoint, publisher.replay)
                assert reader.sync() == (name == "router")
                assert (len(reader.index) > 0) == (name == "router")
                assert (traffic.differing(reader.index, 7) == []) == (name == "router")
    assert "secret" not in repr(of_publisher)


def test_keys_that_cannot_be_read_are_named(keys: Path) -> None:
    secret, public = keys / "router.key_secret", keys / "router.key"
    with pytest.raises(UsageError, match=r"none\.key: cannot be read as a key file"):
        Curve.of_reader(secret, keys / "none.key")
    with pytest.raises(UsageError, match=r"router\.key: has no secret key"):
        Curve.of_reader(public, public)
    with pytest.raises(UsageError, match="at least one reader"):
        Curve.of_publisher(secret, [])
    with (
        Subscriber(RouterIndex(block_size=4), curve=Curve.of_publisher(secret, [public])) as reader,
        pytest.raises(UsageError, match="needs the publisher's key"),
    ):
        reader.add(1, "tcp://127.0.0.1:5557")
