"""The store: one pipeline a batch."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated, Any
from urllib.parse import urlsplit, urlunsplit

import msgspec
import redis
from redis.exceptions import OutOfMemoryError as _Full

from kvframe import TierError
from kvframe.tiers import PageStore
from kvframe.tiers.object_keys import LONGEST_NAME
from kvframe_redis.deadline import bounded

SPREAD_MS = 999
"""Milliseconds over which `Redis.keep` spreads the ends of pages; a second passes between calls."""


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``[tiers.options]`` of ``store = "redis"``."""

    url: Annotated[
        str,
        msgspec.Meta(
            pattern="^(redis|rediss|unix)://", description="Of the server, as redis-py takes it."
        ),
    ] = "redis://127.0.0.1:6379/0"
    timeout_ms: Annotated[
        float, msgspec.Meta(gt=0, description="A batch whose answer is not whole by then fails.")
    ] = 2000
    batch: Annotated[int, msgspec.Meta(ge=1, le=4096, description="Objects in one round trip.")] = (
        64
    )
    expire_s: Annotated[
        int,
        msgspec.Meta(
            ge=0,
            le=10**9,
            description="The server forgets a page that was not used for so long. 0: never.",
        ),
    ] = 86_400


class Redis(PageStore):
    """Pages as strings of a server.

    Each page has a time to live, which every use renews: pages of engines that are gone are
    forgotten by the server itself, and a server with ``maxmemory`` and a policy of its own
    (``allkeys-lru``, ``volatile-ttl``) keeps what was used last.

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
            pool = self._server.connection_pool
            pool.connection_class = bounded(pool.connection_class, seconds)
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
                line.set(name, data, ex=self._options.expire_s or None)
            # A server that is full says so of each. One that takes no writes at all (a replica, one
            # that cannot save) has failed, as one whose connection breaks, which raises.
            answers = line.execute(raise_on_error=False)
            for answer in answers:
                if isinstance(answer, redis.RedisError) and not isinstance(answer, _Full):
                    raise answer
            kept += [answer is True for answer in answers]
        return kept

    def get(self, names: Sequence[str]) -> Sequence[bytes | None]:
        found: list[bytes | None] = []
        for some in _batches(names, self._options.batch):
            line = self._server.pipeline(transaction=False)
            for name in some:
                # One byte more than the largest page tells what is larger, whatever its size.
                line.getrange(name, 0, self.largest)
            self._renew(line, some)
            answers = line.execute(raise_on_error=False)[: len(some)]
            found += [_data(answer) for answer in answers]
        return found

    def remove(self, names: Sequence[str]) -> None:
        for some in _batches(names, 4096):
            self._server.unlink(*some)

    def contains(self, names: Sequence[str]) -> Sequence[bool]:
        line = self._server.pipeline(transaction=False)
        for name in names:
            line.exists(name)
        return [bool(answer) for answer in line.execute()]

    def keep(self, names: Sequence[str]) -> None:
        # A server runs many commands in one millisecond. Pages of one call get times that differ,
        # by a second at most: so their order of use is what `recover` finds.
        whole, step = self._options.expire_s * 1000, min(1, SPREAD_MS / max(len(names), 1))
        left = len(names)
        now = self._now() if whole else 0
        for some in _batches(names, 4096):
            line = self._server.pipeline(transaction=False)
            for name in some if whole else ():
                left -= 1
                line.pexpireat(name, now + max(whole - int(left * step), 1))
            if not whole:
                line.touch(*some)
            line.execute()

    def _now(self) -> int:
        """The server's own time in ms: a later command of the same call must not move the order."""
        seconds, micros = self._server.time()
        return int(seconds) * 1000 + int(micros) // 1000

    def recover(self, head: int) -> Iterator[tuple[str, bytes]]:
        found = []
        names = self._server.scan_iter(match="kv[0-9]*-*", count=1000)
        # Names that others gave may be of any length, and no text.
        short = (name for name in names if len(name) <= LONGEST_NAME and name.isascii())
        ends = self._tells_ends()
        for some in _batches(short, self._options.batch):
            line = self._server.pipeline(transaction=False)
            line.time()  # the server's own: an answer may take long to come here
            for name in some:
                line.object("idletime", name)  # before it is read: that is a use
                (line.pexpiretime if ends else line.pttl)(name)
                line.getrange(name, 0, head - 1)
            told, *answers = line.execute(raise_on_error=False)
            now = 0 if ends else _ms(told)
            each = zip(some, answers[::3], answers[1::3], answers[2::3], strict=True)
            for name, idle, left, data in each:
                if isinstance(data, bytes):  # what others keep may be no string
                    found.append((_age(left, idle, now), name.decode(), data))
        yield from ((name, data) for _, name, data in sorted(found))

    def _tells_ends(self) -> bool:
        """Whether the server tells when a page ends (Redis 7), not only how long it has left.

        What is left shrinks while a batch is read, which blurs the order by some milliseconds.
        """
        try:
            self._server.pexpiretime("kv")
        except redis.ResponseError:
            return False
        return True

    def close(self) -> None:
        self._server.close()

    def _renew(self, line: Any, names: Sequence[str]) -> None:
        """Give pages their whole time to live again."""
        for name in names if self._options.expire_s else ():
            line.expire(name, self._options.expire_s)


def _data(answer: object) -> bytes | None:
    """What a string holds; None if it is not there, or is no string.

    Raises:
        redis.RedisError: The server has failed.
    """
    if isinstance(answer, redis.ResponseError) and str(answer).startswith("WRONGTYPE"):
        return None
    if isinstance(answer, redis.RedisError):
        raise answer
    return answer if isinstance(answer, bytes) and answer else None


def _ms(told: object) -> int:
    """Milliseconds of a server's clock; of this machine's where a user may not ask for it."""
    if isinstance(told, tuple):
        seconds, micros = told
        return int(seconds) * 1000 + int(micros) // 1000
    return int(time.time() * 1000)


def _age(left: object, idle: object, now: int) -> tuple[int, int]:
    """Sorts pages by their last use, the oldest first.

    Args:
        left: Milliseconds that a page has to live from ``now`` on; below 0: for ever.
        idle: Seconds since its last use; an error where the server counts uses instead.
        now: Milliseconds of any clock.
    """
    seconds = idle if isinstance(idle, int) else 0
    return (now + left if isinstance(left, int) and left >= 0 else -1, -seconds)


def _without_secrets(url: str) -> str:
    """A URL for messages: without a user, a password or a query."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=""))


def _batches(items: Any, size: int) -> Iterator[Any]:
    iterator = iter(items)
    while some := tuple(islice(iterator, size)):
        yield some
