"""The store: one pipeline a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated, Any
from urllib.parse import urlsplit, urlunsplit

import msgspec
import redis
from redis.exceptions import OutOfMemoryError as _Full

from kvframe import TierError
from kvframe.tiers import PageStore


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``[tiers.options]`` of ``store = "redis"``."""

    url: Annotated[str, msgspec.Meta(description="Of the server, as redis-py takes it.")] = (
        "redis://127.0.0.1:6379/0"
    )
    timeout_ms: Annotated[
        float, msgspec.Meta(gt=0, description="An answer that takes longer fails its batch.")
    ] = 2000
    batch: Annotated[int, msgspec.Meta(ge=1, le=4096, description="Objects in one round trip.")] = (
        64
    )
    expire_s: Annotated[
        Annotated[int, msgspec.Meta(ge=1)] | None,
        msgspec.Meta(description="The server forgets a page after so long. If not given, never."),
    ] = None


class Redis(PageStore):
    """Pages as strings of a server.

    Raises:
        TierError: The server cannot be reached.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        seconds = options.timeout_ms / 1000
        try:
            self._server: Any = redis.Redis.from_url(
                options.url, socket_timeout=seconds, socket_connect_timeout=seconds
            )
            self._server.ping()
        except (redis.RedisError, ValueError) as error:
            raise TierError(f"redis at {_without_secrets(options.url)}: {error}") from error

    def place(self) -> str:
        # One server has many addresses; it has one id while it runs, which not everybody may ask.
        try:
            server = self._server.info("server")["run_id"]
        except (redis.RedisError, KeyError):
            server = _without_secrets(self._options.url)
        database = self._server.get_connection_kwargs().get("db", 0)
        return f"redis {server}, database {database}"

    def put(self, objects: Sequence[tuple[str, bytes]]) -> Sequence[bool]:
        kept: list[bool] = []
        for some in _batches(objects, self._options.batch):
            line = self._server.pipeline(transaction=False)
            for name, data in some:
                line.set(name, data, ex=self._options.expire_s)
            # A server that is full says so of each. One that takes no writes at all (a replica, one
            # that cannot save) has failed, as one whose connection breaks, which raises.
            answers = line.execute(raise_on_error=False)
            for answer in answers:
                if isinstance(answer, redis.RedisError) and not isinstance(answer, _Full):
                    raise answer
            kept += [answer is True for answer in answers]
        return kept

    def get(self, names: Sequence[str]) -> Sequence[bytes | None]:
        return [
            data
            for some in _batches(names, self._options.batch)
            for data in self._server.mget(some)
        ]

    def remove(self, names: Sequence[str]) -> None:
        for some in _batches(names, 4096):
            self._server.unlink(*some)

    def contains(self, names: Sequence[str]) -> Sequence[bool]:
        line = self._server.pipeline(transaction=False)
        for name in names:
            line.exists(name)
        return [bool(answer) for answer in line.execute()]

    def recover(self, head: int) -> Iterator[tuple[str, bytes]]:
        found = self._server.scan_iter(match="kv1-*", count=1000)
        for some in _batches(found, self._options.batch):
            line = self._server.pipeline(transaction=False)
            for name in some:
                line.getrange(name, 0, head - 1)
            # What others keep under such a name may be no string, and its name no text.
            for name, data in zip(some, line.execute(raise_on_error=False), strict=True):
                if name.isascii() and isinstance(data, bytes):
                    yield name.decode(), data

    def close(self) -> None:
        self._server.close()


def _without_secrets(url: str) -> str:
    """A URL for messages: without a user, a password or a query."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=""))


def _batches(items: Any, size: int) -> Iterator[Any]:
    iterator = iter(items)
    while some := tuple(islice(iterator, size)):
        yield some
