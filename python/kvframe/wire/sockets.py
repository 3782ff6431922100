"""Addresses of KV events, and CURVE: who may read them, and from where.

An event stream is the prompts of the users, token by token. It stays on this machine unless its
owner says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

from kvframe.arguments import is_int, shown
from kvframe.errors import UsageError
from kvframe.wire.events import MAX_BYTES

try:
    import zmq as zmq  # the modules beside this one take it from here, message and all
    import zmq.auth
    from zmq.auth.thread import ThreadAuthenticator
except ImportError as error:
    raise ImportError(
        "kvframe.wire's sockets need pyzmq: pip install 'kvframe[wire]'", name=error.name
    ) from error

EVENTS = "tcp://127.0.0.1:5557"
"""Where a publisher binds unless told otherwise; rank r adds r to the port."""

REPLAY = "tcp://127.0.0.1:5657"
"""Where it sends lost batches again unless told otherwise."""

_LOOPBACK = re.compile(r"tcp://(127(?:\.\d+){3}|localhost|\[::1\]):(\d+|\*)|(ipc|inproc)://.+")
_TCP = re.compile(r"(tcp://.+):(\d+)")
_ADDRESS = re.compile(r"tcp://.+:(\d+|\*)|(?!tcp:)[a-z]+://.+")
_BARE = re.compile(r"(?:tcp:)?/{0,2}(?P<rest>[^/]+:(\d+|\*))")


@dataclass(frozen=True)
class Curve:
    """Keys of CURVE, with which streams are encrypted and both sides known.

    Attributes:
        public: This side's public key, 40 characters of Z85.
        secret: Its secret key.
        server: The publisher's public key, which a reader needs.
        readers: Public keys that a publisher lets in.
    """

    public: bytes
    secret: bytes = field(repr=False)
    server: bytes | None = None
    readers: frozenset[bytes] = frozenset()

    @classmethod
    def of_publisher(
        cls, keys: str | PathLike[str], readers: Iterable[str | PathLike[str]]
    ) -> Curve:
        """The publisher's side, from key files as ``zmq.auth.create_certificates`` writes them.

        Args:
            keys: Its own file, with the secret key.
            readers: The public file of each reader that is let in.

        Raises:
            UsageError: A file cannot be read, or has no such key, or there are no readers.
        """
        public, secret = _keys(keys, secret=True)
        let_in = frozenset(_keys(reader)[0] for reader in readers)
        if not let_in:
            raise UsageError("readers: must name the key of at least one reader")
        return cls(public, secret, readers=let_in)

    @classmethod
    def of_reader(cls, keys: str | PathLike[str], server: str | PathLike[str]) -> Curve:
        """A reader's side: its own file with the secret key, and the publisher's public file.

        Raises:
            UsageError: A file cannot be read, or has no such key.
        """
        public, secret = _keys(keys, secret=True)
        return cls(public, secret, _keys(server)[0])

    def serve(self, socket: zmq.Socket[Any]) -> None:
        """Set up a socket of the publisher, before it binds."""
        socket.curve_server = True
        socket.curve_publickey, socket.curve_secretkey = self.public, self.secret

    def join(self, socket: zmq.Socket[Any]) -> None:
        """Set up a socket of a reader, before it connects.

        Raises:
            UsageError: The publisher's key is not known.
        """
        if self.server is None:
            raise UsageError("curve: a reader needs the publisher's key: Curve.of_reader")
        socket.curve_serverkey = self.server
        socket.curve_publickey, socket.curve_secretkey = self.public, self.secret

    def gate(self, context: zmq.Context[Any]) -> ThreadAuthenticator:
        """Let only the readers into the sockets of a context, until it is stopped."""
        readers = self.readers

        class _Readers:
            def callback(self, domain: str, key: bytes) -> bool:
                return key in readers

        gate = ThreadAuthenticator(context)
        gate.start()
        gate.configure_curve_callback("*", _Readers())
        return gate


def _keys(path: str | PathLike[str], *, secret: bool = False) -> tuple[bytes, bytes]:
    try:
        public, private = zmq.auth.load_certificate(path)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read as a key file: {error}") from None
    if secret and private is None:
        raise UsageError(f"{path}: has no secret key")
    return public, private or b""


def of_rank(endpoint: str, rank: int) -> str:
    """The address of a data-parallel rank: as vLLM has it, the rank is added to the port.

    Raises:
        UsageError: The rank is no number from 0, or the port is then too large, or the address is
            none.
    """
    if not is_int(rank) or not 0 <= rank < 1 << 16:
        raise UsageError(f"rank = {shown(rank)}: must be between 0 and 65535")
    if not isinstance(endpoint, str):
        raise UsageError(f"endpoint = {shown(endpoint)}: must be a string")
    if _ADDRESS.fullmatch(endpoint) is None:
        bare = _BARE.fullmatch(endpoint)
        instead = f"; did you mean tcp://{bare['rest']}?" if bare else ""
        raise UsageError(f"endpoint = {shown(endpoint)}: must read tcp://HOST:PORT{instead}")
    if rank == 0:
        return endpoint
    if (match := _TCP.fullmatch(endpoint)) is None:
        if endpoint.startswith("tcp://"):
            raise UsageError(
                f"endpoint = {shown(endpoint)}: rank {rank} is added to the port, which must be a "
                "number then"
            )
        return f"{endpoint}_dp{rank}"
    port = int(match[2]) + rank
    if port > 65535:
        raise UsageError(f"endpoint = {shown(endpoint)}: port {port} of rank {rank} is none")
    return f"{match[1]}:{port}"


def check_private(endpoint: str, curve: Curve | None, public: bool) -> None:
    """Refuse to serve prompts to other machines unless the caller says so.

    Raises:
        UsageError: The address is not of this machine alone, without CURVE and without ``public``.
    """
    if curve is None and not public and _LOOPBACK.fullmatch(endpoint) is None:
        raise UsageError(
            f"endpoint = {shown(endpoint)}: other machines could read the prompts there; give "
            f"curve=, or public=True on a network that is trusted"
        )


def bound(socket: zmq.Socket[Any], endpoint: str) -> str:
    """Bind, and return the address with its port.

    Raises:
        UsageError: The address is none, or in use.
    """
    try:
        socket.bind(endpoint)
    except zmq.ZMQError as error:
        raise UsageError(f"endpoint = {shown(endpoint)}: {error}") from None
    return socket.getsockopt_string(zmq.LAST_ENDPOINT).rstrip("\0")


def connected(socket: zmq.Socket[Any], endpoint: str, curve: Curve | None) -> zmq.Socket[Any]:
    """A reader's socket, connected; messages that are too large end its connection.

    Raises:
        UsageError: The address is none.
    """
    socket.linger = 0
    socket.maxmsgsize = MAX_BYTES
    try:
        if curve is not None:
            curve.join(socket)
        socket.connect(endpoint)
    except zmq.ZMQError as error:
        socket.close()
        raise UsageError(f"endpoint = {shown(endpoint)}: {error}") from None
    except UsageError:
        socket.close()
        raise
    return socket
