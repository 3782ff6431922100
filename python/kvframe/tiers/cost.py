"""Whether KV comes over a bus or is computed again: bytes over bandwidth, or FLOPs."""

from __future__ import annotations

from typing import Annotated

import msgspec

from kvframe.errors import UsageError

Positive = Annotated[float, msgspec.Meta(gt=0)]


class SwapCost(msgspec.Struct, frozen=True, kw_only=True):
    """The speeds of a machine, and the costs of a model.

    Recomputing n tokens after c cached ones takes ``2 x parameters`` FLOPs a token and
    ``4 x layers x heads x head_dim`` for each pair of a token and one that it attends to (Kaplan et
    al., 2020). Swapping takes each byte over the bus twice, out and in.

    Attributes:
        parameters: Of the model, those active for a token.
        attention: layers x query heads x head_dim; 0 leaves attention out.
        flops: FLOPs a second that prefill reaches, not the card's peak.
        bandwidth_out: Bytes a second from the pool to host memory.
        bandwidth_in: Bytes a second back.
        latency: Seconds that a transfer takes besides.
    """

    parameters: Positive
    flops: Positive
    bandwidth_out: Positive
    bandwidth_in: Positive
    attention: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    latency: Annotated[float, msgspec.Meta(ge=0)] = 0.0

    def __post_init__(self) -> None:
        for name in ("parameters", "flops", "bandwidth_out", "bandwidth_in"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name} = {getattr(self, name)}: must be above 0")

    def recompute_seconds(self, tokens: int, cached: int = 0) -> float:
        """Time to compute ``tokens`` tokens after ``cached`` ones that are there."""
        pairs = tokens * cached + tokens * (tokens + 1) / 2
        return (2 * self.parameters * tokens + 4 * self.attention * pairs) / self.flops

    def swap_seconds(self, nbytes: int) -> float:
        """Time for so many bytes to go out and come back."""
        return nbytes / self.bandwidth_out + nbytes / self.bandwidth_in + 2 * self.latency

    def load_seconds(self, nbytes: int) -> float:
        """Time for so many bytes to come from host memory."""
        return nbytes / self.bandwidth_in + self.latency

    def prefers_swap(self, tokens: int, nbytes: int, cached: int = 0) -> bool:
        """Whether swapping a sequence is faster than computing it again."""
        return self.swap_seconds(nbytes) < self.recompute_seconds(tokens, cached)

    def crossover(self, token_bytes: float, limit: int = 1 << 20) -> int | None:
        """The fewest tokens from which on swapping is faster, up to ``limit``; None if it never is.

        Args:
            token_bytes: Bytes of a token's KV.
            limit: Where to stop looking.
        """

        def faster(tokens: int) -> bool:
            return self.prefers_swap(tokens, int(tokens * token_bytes))

        if not faster(limit):
            return None
        # Recomputing grows faster than swapping: once ahead, swapping stays ahead.
        low, high = 1, limit
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if faster(middle) else (middle + 1, high)
        return low

    def measured(self, bandwidth_out: float | None, bandwidth_in: float | None) -> SwapCost:
        """The same with bandwidths that were measured, where they were."""
        return msgspec.structs.replace(
            self,
            bandwidth_out=bandwidth_out or self.bandwidth_out,
            bandwidth_in=bandwidth_in or self.bandwidth_in,
        )


class Rate:
    """A bandwidth, as it has been lately: the mean of transfers, older ones weighing less."""

    _WEIGHT = 0.25

    def __init__(self) -> None:
        self.value: float | None = None

    def add(self, nbytes: int, seconds: float) -> None:
        """Add a transfer of ``nbytes`` bytes that took ``seconds`` seconds."""
        if nbytes <= 0 or seconds <= 0:
            return
        rate = nbytes / seconds
        before = self.value
        self.value = rate if before is None else before + self._WEIGHT * (rate - before)
