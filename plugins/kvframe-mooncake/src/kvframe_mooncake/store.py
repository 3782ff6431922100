"""The store: batched calls through one registered buffer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import msgspec
import numpy as np

from kvframe import TierError
from kvframe.tiers import PageStore

_THERE = 1
_NO_ROOM = -200


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
    soft_pin: Annotated[
        bool,
        msgspec.Meta(description="Ask the master to evict other objects before pages."),
    ] = True


class Mooncake(PageStore):
    """Pages as objects of a Mooncake Store.

    The master evicts by itself, what was used longest ago first. A page's lease is renewed by each
    use, and pages are pinned softly unless ``soft_pin`` is false: the master evicts them last.

    Raises:
        TierError: The wheel is not there, or the master cannot be reached.
    """

    def __init__(self, options: Options) -> None:
        try:
            from mooncake import store as mooncake
        except ImportError as error:
            raise TierError(
                f"mooncake cannot be imported ({error}): pip install 'kvframe-mooncake[cuda13]', "
                "[cuda12] or [cpu], as fits the machine"
            ) from error
        self._master = options.master
        self._store: Any = mooncake.MooncakeDistributedStore()
        self._replicas = _replicas(mooncake, options.soft_pin)
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

    def place(self) -> str:
        return f"mooncake at {self._master}"

    def put(self, objects: Sequence[tuple[str, bytes]]) -> Sequence[bool]:
        kept = [False] * len(objects)
        for some in self._fitting(objects):
            at = 0
            places, sizes = [], []
            for one in some:
                data = objects[one][1]
                self._buffer[at : at + len(data)] = np.frombuffer(data, np.uint8)
                places.append(self._base + at)
                sizes.append(len(data))
                at += len(data)
            names = [objects[one][0] for one in some]
            # What is put again was wrong: the new bytes replace it, where the client can do that.
            put = getattr(self._store, "batch_upsert_from", self._store.batch_put_from)
            codes = self._answers(put(names, places, sizes, self._replicas))
            for one, code in zip(some, codes, strict=True):
                kept[one] = code == 0
        return kept

    def get(self, names: Sequence[str]) -> Sequence[bytes | None]:
        found: dict[str, bytes] = {}
        left = list(names)
        while left:
            # An object that is gone, or whose machine is, comes back empty; so does one for which
            # the client's buffer has no room beside the others, and that one is asked for again.
            # So do all where nobody answers: `contains` tells.
            data = zip(left, self._store.get_batch(left), strict=True)
            came = {name: bytes(one) for name, one in data if one}
            found |= came
            left = [name for name in left if name not in came]
            there = self.contains(left)
            left = [name for name, one in zip(left, there, strict=True) if one] if came else []
        return [found.get(name) for name in names]

    def remove(self, names: Sequence[str]) -> None:
        if names:
            self._answers(self._store.batch_remove(list(names), True))

    def contains(self, names: Sequence[str]) -> Sequence[bool]:
        if not names:
            return []
        codes = self._answers(self._store.batch_is_exist(list(names)))
        return [code == _THERE for code in codes]

    def keep(self, names: Sequence[str]) -> None:
        self.contains(names)  # each object that is asked for gets a new lease

    def close(self) -> None:
        self._store.unregister_buffer(self._base)
        self._store.close()

    def _answers(self, codes: Sequence[int]) -> Sequence[int]:
        """The codes of a call, if somebody answered it: a store that is away has lost nothing.

        Raises:
            TierError: Nobody did, for any of the objects.
        """
        if codes and not any(_is_answer(code) for code in codes):
            raise TierError(f"mooncake at {self._master} does not answer: error {codes[0]}")
        return codes

    def _fitting(self, objects: Sequence[tuple[str, bytes]]) -> Iterator[list[int]]:
        """Places of objects, in batches that the buffer holds; none of what is larger than it."""
        some: list[int] = []
        size = 0
        for place, (_, data) in enumerate(objects):
            if len(data) > len(self._buffer):
                continue
            if size + len(data) > len(self._buffer):
                yield some
                some, size = [], 0
            some.append(place)
            size += len(data)
        if some:
            yield some


def _replicas(mooncake: Any, soft_pin: bool) -> Any:
    """How objects are kept; clients differ in how they say it."""
    config = mooncake.ReplicateConfig()
    if soft_pin and hasattr(config, "soft_pin_action"):
        config.soft_pin_action = mooncake.SoftPinAction.ENABLE
    elif soft_pin and hasattr(config, "with_soft_pin"):
        config.with_soft_pin = True
    return config


def _is_answer(code: int) -> bool:
    """Whether a code speaks of an object, or of room for it: Mooncake's -7xx, and -200."""
    return code >= 0 or code == _NO_ROOM or -800 < code <= -700
