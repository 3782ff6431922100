"""What stands below one cache: its tiers, loads and swaps by request, and the card's stream."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from kvframe.errors import BusyError, CapacityError
from kvframe.integrations.transformers.planes import adopted
from kvframe.integrations.transformers.speed import Speed
from kvframe.tiers import PollResult, SwapCost, Swapped, Tiers
from kvframe.tiers.moves import Event

if TYPE_CHECKING:
    from kvframe.integrations.transformers.cache import Cache

PATIENCE_S = 10.0
"""Seconds that an engine with nothing else to do waits for a load before it computes instead."""


@dataclass
class Load:
    """A sequence on its way up, and the tokens that it was promised."""

    seq: int
    upto: int


class Below:
    """The tiers of a cache, with its requests' loads and swaps.

    All calls come from the engine's thread. On a card, copies are ordered against the stream that
    the model computes on.

    Args:
        cache: Its tensors are the pool's pages.
        cost: What computing takes; measured if None.

    Attributes:
        loads: Requests whose KV is on its way up.
        swapped: Requests that were swapped out, with the tokens that they had.
        lost: Those of them whose pages did not come back: to be computed again.
        awaited: Of each layer, the events that the next step waits for before it reads that layer.
    """

    def __init__(self, cache: Cache, cost: SwapCost | None) -> None:
        self.kv = cache.kv
        first, *_ = self.kv.inspect.resolved.tiers
        pool, host, movers = adopted(cache, first.pages)
        self.tiers = Tiers(
            self.kv,
            pool,
            host=host,
            movers=movers,
            model=_name(cache.config),
            layerwise=movers is not None,
        )
        self.speed = Speed(cache, cost)
        self.loads: dict[str, Load] = {}
        self.swapped: dict[str, tuple[Swapped, int]] = {}
        self.lost: set[str] = set()
        self.awaited: list[list[Event]] = []
        self._computed: set[str] = set()
        self._expected: dict[str, list[list[Event]]] = {}
        self._arrived: set[int] = set()
        self._stream: Any = None
        self._since: float | None = None
        self._writes_back = first.admission.name == "write-back"

    def use_stream(self, stream: torch.cuda.Stream | None) -> None:
        """The stream that the model computes on; None on a CPU."""
        if stream is not None:
            from kvframe.pages.cupy import cupy

            index = torch.device(stream.device).index
            self._stream = cupy.cuda.ExternalStream(stream.cuda_stream, index)

    def _on_stream(self) -> AbstractContextManager[Any]:
        return nullcontext() if self._stream is None else self._stream

    # --- up -------------------------------------------------------------------------------------

    def found(self, request_id: str, ids: npt.NDArray[np.uint32]) -> int:
        """Tokens of a prompt that the pool or a tier has, unless it is to be computed anyway."""
        if request_id in self._computed:
            return self.kv.lookup(ids).tokens
        return self.tiers.lookup(ids).best

    def allocate(self, request_id: str, ids: npt.NDArray[np.uint32], found: int) -> int | None:
        """Begin a sequence of a prompt's first ``found`` tokens; None if a load must come first.

        Raises:
            CapacityError: There is no room now.
        """
        with self._on_stream():
            grant = self.tiers.allocate(ids, until=found, cost=self.speed.cost())
        if grant.load is None:
            if grant.cached_tokens < found:
                self._computed.add(request_id)
            return grant.seq
        self.loads[request_id] = Load(grant.seq, grant.cached_tokens + grant.external_tokens)
        return None

    def take_landed(self, request_id: str) -> tuple[int, int] | None:
        """The sequence of a load that has ended, and its good tokens; None while it has not.

        On a card, a load counts as there once its copies are queued: the step that reads it waits
        for them, layer by layer.
        """
        load = self.loads[request_id]
        arriving = self.tiers.arriving(load.seq)
        if arriving is not None and arriving.upto == load.upto:
            self._expected[request_id] = arriving.layers
            good = load.upto
        elif load.seq in self._arrived:
            self._arrived.discard(load.seq)
            good = min(self.kv.inspect.num_readable_tokens(load.seq), load.upto)
        else:
            return None
        del self.loads[request_id]
        return load.seq, good

    def landed(self) -> list[str]:
        """Requests whose KV is there, and that have not gone on yet."""
        return [name for name, load in self.loads.items() if self._is_there(load)]

    def _is_there(self, load: Load) -> bool:
        arriving = self.tiers.arriving(load.seq)
        return load.seq in self._arrived or (arriving is not None and arriving.upto == load.upto)

    def swap_in(self, request_id: str) -> tuple[int, int] | None:
        """Bring a request back; its sequence and tokens once it is there, None before.

        One that does not come back as it was ends, and is `lost`.
        """
        swapped, upto = self.swapped[request_id]
        if request_id not in self.loads:
            try:
                with self._on_stream():
                    grant = self.tiers.swap_in(swapped)
            except CapacityError:  # no room, or it is still on its way out
                return None
            self.loads[request_id] = Load(grant.seq, upto)
            if grant.load is None:
                self._arrived.add(grant.seq)
        load = self.loads[request_id]
        if load.seq not in self._arrived:
            return None
        self._arrived.discard(load.seq)
        del self.loads[request_id], self.swapped[request_id]
        if self.kv.lengths(load.seq).committed < upto:
            self.kv.release(load.seq)
            self.lost.add(request_id)
            return None
        return load.seq, upto

    def give_up(self, request_id: str) -> None:
        """A request no longer waits for what is on its way up to it, or has come."""
        self._computed.discard(request_id)
        self._expected.pop(request_id, None)
        if load := self.loads.pop(request_id, None):
            with self._on_stream():
                self.tiers.cancel(load.seq)
            self._arrived.discard(load.seq)
            self.kv.release(load.seq)
            if self.swapped.pop(request_id, None):
                self.lost.add(request_id)

    # --- down -----------------------------------------------------------------------------------

    def offload(self, seq: int) -> None:
        """Back up what a sequence has computed, as far as the host tier lets it in."""
        with self._on_stream(), suppress(BusyError):
            self.tiers.offload(seq)

    def make_room(self, blocks: int) -> None:
        """Where pages go down only as they are evicted: evict ahead of an allocation."""
        if self._writes_back and self.kv.counts().free < blocks:
            with self._on_stream():
                self.tiers.make_room(blocks)

    def preempt(self, request_id: str, seq: int, computed: int) -> bool:
        """End a sequence for now; whether it was swapped out, and is not to be computed again."""
        self.offload(seq)
        with self._on_stream():
            out = self.tiers.preempt(seq, self.speed.cost())
        if isinstance(out, Swapped):
            self.swapped[request_id] = out, computed
        return isinstance(out, Swapped)

    def drop_swapped(self, request_id: str) -> None:
        """A request that was swapped out has ended."""
        swapped, _ = self.swapped.pop(request_id, (None, 0))
        if swapped is not None and swapped.state not in ("back", "dropped"):
            self.tiers.drop_swapped(swapped)

    def is_settled(self, seq: int) -> bool:
        """Whether nothing of a sequence is on its way up any more."""
        return self.tiers.arriving(seq) is None

    # --- once per step ----------------------------------------------------------------------------

    def poll(self, timeout: float = 0) -> None:
        """Settle transfers that have ended."""
        with self._on_stream():
            self._note(self.tiers.poll(timeout))

    def _note(self, ended: PollResult) -> None:
        waiting = {load.seq for load in self.loads.values()}
        self._arrived |= waiting.intersection([*ended.landed, *ended.rewound])

    def wait(self, *, stuck: bool) -> bool:
        """Wait for a transfer under way, if a request needs it or, with ``stuck``, any at all.

        Returns:
            Whether it is worth to schedule again.
        """
        loads = [load for load in self.loads.values() if not self._is_there(load)]
        if not loads and not (stuck and self.kv.inspect.tickets()):
            return False
        now = time.monotonic()
        self._since = self._since or now
        if now - self._since > PATIENCE_S:
            self._since = None
            if not loads:
                return False
            with self._on_stream():
                for load in loads:
                    self.tiers.cancel(load.seq)
        self.poll(0.001)
        return True

    def scheduled(self, requests: list[str]) -> None:
        """These requests are computed next; the step waits for what is on its way to them."""
        self._since = None
        arriving = [self._expected.pop(name) for name in requests if name in self._expected]
        self.awaited = [[*chain(*events)] for events in zip(*arriving, strict=True)]

    def await_all(self) -> None:
        """Let the model's stream wait for all layers at once: what it runs next does not ask."""
        for layer in range(len(self.awaited)):
            self.await_layer(layer)
        self.awaited = []

    def await_layer(self, layer: int) -> None:
        """Let the model's stream wait for one layer."""
        for event in self.awaited[layer]:
            self._stream.wait_event(event)

    def close(self) -> None:
        """Close the tiers."""
        self.tiers.close()


def _name(config: Any) -> str:
    """The model's name in a store: where its weights came from, and of which revision."""
    name = getattr(config, "_name_or_path", "") or ""
    revision = getattr(config, "_commit_hash", None)
    return f"{name}@{revision}" if name and revision else name
