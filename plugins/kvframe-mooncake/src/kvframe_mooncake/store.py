"""The store: batched calls through one registered buffer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import msgspec
import numpy as np

from kvframe import TierError
from kvframe.tiers import PageStore

_THERE = 1


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``[tiers.options]`` of ``store = "mooncake"``."""

    master: Annotated[str, msgspec.Meta(description="Address of mooncake_master.")] = (
        "127.0.0.1:50051"
    )
    metadata_server: Annotated[
        str, msgspec.Meta(description="P2PHANDSHAKE, or the address of a metadata server.")
    ] = "P2PHANDSHAKE"
    local_hostname: Annotated[
        str, msgspec.Meta(description="How other machines reach this one.")
    ] = "127.0.0.1"
    segment: Annotated[
        int, msgspec.Meta(ge=0, description="Bytes of this machine's memory for the store.")
    ] = 512 * 2**20
    buffer: Annotated[
        int, msgspec.Meta(ge=2**20, description="Bytes of the buffer that pages pass through.")
    ] = 128 * 2**20
    protocol: Annotated[str, msgspec.Meta(description="tcp, rdma.")] = "tcp"
    devices: Annotated[str, msgspec.Meta(description="RDMA devices, comma between.")] = ""


class Mooncake(PageStore):
    """Pages as objects of a Mooncake Store.

    Raises:
        TierError: The wheel is not there, or the master cannot be reached.
    """

    def __init__(self, options: Options) -> None:
        try:
            from mooncake.store import MooncakeDistributedStore
        except ImportError as error:
            raise TierError(
                f"mooncake cannot be imported ({error}): pip install 'kvframe-mooncake[cuda13]', "
                "[cuda12] or [cpu], as fits the machine"
            ) from error
        self._store: Any = MooncakeDistributedStore()
        code = self._store.setup(
            options.local_hostname,
            options.metadata_server,
            options.segment,
            options.buffer,
            options.protocol,
            options.devices,
            options.master,
        )
        if code:
            raise TierError(f"mooncake: no store at {options.master}: error {code}")
        self._buffer = np.zeros(options.buffer, np.uint8)
        self._base = self._buffer.ctypes.data
        if code := self._store.register_buffer(self._base, options.buffer):
            raise TierError(f"mooncake: {options.buffer} bytes cannot be registered: error {code}")

    def put(self, objects: Sequence[tuple[str, bytes]]) -> Sequence[bool]:
        kept: list[bool] = []
        for some in self._fitting(objects):
            at = 0
            places, sizes = [], []
            for _, data in some:
                self._buffer[at : at + len(data)] = np.frombuffer(data, np.uint8)
                places.append(self._base + at)
                sizes.append(len(data))
                at += len(data)
            codes = self._store.batch_put_from([name for name, _ in some], places, sizes)
            kept += [code == 0 for code in codes]
        return kept

    def get(self, names: Sequence[str]) -> Sequence[bytes | None]:
        found: dict[str, bytes] = {}
        left = list(names)
        while left:
            # An object that is gone, or whose machine is, comes back empty; so does one for which
            # the client's buffer has no room beside the others, and that one is asked for again.
            data = zip(left, self._store.get_batch(left), strict=True)
            came = {name: bytes(one) for name, one in data if one}
            found |= came
            left = [name for name in left if name not in came] if came else []
            left = [name for name, there in zip(left, self.contains(left), strict=True) if there]
        return [found.get(name) for name in names]

    def remove(self, names: Sequence[str]) -> None:
        if names:
            self._store.batch_remove(list(names), True)

    def contains(self, names: Sequence[str]) -> Sequence[bool]:
        if not names:
            return []
        return [code == _THERE for code in self._store.batch_is_exist(list(names))]

    def close(self) -> None:
        self._store.unregister_buffer(self._base)
        self._store.close()

    def _fitting(self, objects: Sequence[tuple[str, bytes]]) -> Iterator[list[tuple[str, bytes]]]:
        """Batches that the buffer holds. An object larger than it goes alone, and fails."""
        some: list[tuple[str, bytes]] = []
        size = 0
        for name, data in objects:
            if len(data) > len(self._buffer):
                raise TierError(f"{len(data)} bytes: the buffer has {len(self._buffer)}")
            if size + len(data) > len(self._buffer):
                yield some
                some, size = [], 0
            some.append((name, data))
            size += len(data)
        if some:
            yield some
