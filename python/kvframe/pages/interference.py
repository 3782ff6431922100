"""Compute beside a transfer: what each takes while both run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from kvframe.pages.cupy import cupy

Transfer = Callable[[], Any]
"""Queues a transfer, and answers its event, or None if it is on the current stream."""


class Products:
    """A stream of fp16 matrix products, as a model's layers are.

    Args:
        side: Rows and columns of the square matrices.
    """

    def __init__(self, side: int) -> None:
        self._a, self._b = (
            cupy.random.standard_normal((side, side), cupy.float32).astype(cupy.float16)
            for _ in range(2)
        )
        self._out = cupy.empty((side, side), cupy.float16)
        self._stream, self._side = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
        cupy.cuda.Device().synchronize()
        self.alone(20)

    def queue(self, count: int) -> tuple[cupy.cuda.Event, cupy.cuda.Event]:
        """Queue some products; events before and after."""
        with self._stream:
            start = self._stream.record(cupy.cuda.Event())
            for _ in range(count):
                cupy.dot(self._a, self._b, out=self._out)
            return start, self._stream.record(cupy.cuda.Event())

    def alone(self, count: int) -> float:
        """Seconds that a product takes alone."""
        start, end = self.queue(count)
        end.synchronize()
        return float(cupy.cuda.get_elapsed_time(start, end)) / count / 1e3

    def beside(self, transfer: Transfer, transfers: int, count: int) -> tuple[float, float]:
        """Seconds of a transfer and of a product, both at once.

        The transfers queue back to back on a stream of their own. Synchronising with the caller's
        stream could delay each of them until the next matrix product ends.

        Raises:
            RuntimeError: The products ended first.
        """
        start, end = self.queue(count)
        time.sleep(2e-3)  # the products have begun
        with self._side:
            first, last = self._side.record(cupy.cuda.Event()), None
            for _ in range(transfers):
                last = transfer()
            if last is None:
                last = self._side.record(cupy.cuda.Event())
        last.synchronize()
        if end.done:
            raise RuntimeError(f"{count} products ended before the transfers: ask for more")
        end.synchronize()
        moving = cupy.cuda.get_elapsed_time(first, last) / transfers / 1e3
        return float(moving), float(cupy.cuda.get_elapsed_time(start, end)) / count / 1e3

    def harm(
        self, transfer: Transfer, transfers: int, count: int, turns: int
    ) -> tuple[float, float]:
        """Seconds of a transfer, and by which share products slow while it runs.

        Medians of pairs that take turns with products alone, since clocks drift.
        """
        moving, slower = [], []
        for _ in range(turns):
            before = self.alone(count)
            taken, product = self.beside(transfer, transfers, count)
            usual = (before + self.alone(count)) / 2
            moving.append(taken)
            # How much longer the products take, counted only for the time that the transfer ran.
            slower.append((product / usual - 1) * product * count / (taken * transfers))
        return statistics.median(moving), statistics.median(slower)
