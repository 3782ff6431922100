"""Computes a step: what the manager decided becomes block tables and slots, then logits."""

from __future__ import annotations

import numpy as np
from examples.serving.model import Batch, Transformer
from examples.serving.pages import Floats, Pages
from examples.serving.sequence import Work

from kvframe import KVCacheManager


class Runner:
    """Runs a model over paged KV.

    Args:
        kv: Says where each token's KV lies.
        model: Computes.
        pages: Holds the KV; as many pages as ``kv`` has blocks.
    """

    def __init__(self, kv: KVCacheManager, model: Transformer, pages: Pages) -> None:
        self.kv, self.model, self.pages = kv, model, pages

    def run(self, work: list[Work]) -> Floats:
        """Logits after each piece of work, (pieces, vocabulary).

        Raises:
            FloatingPointError: Something was read that nobody wrote.
        """
        handles, starts = [item.seq.handle for item in work], [item.start for item in work]
        counts, size = [item.end - item.start for item in work], self.kv.block_size
        tables = np.empty((len(work), -(-self.model.shape.max_tokens // size)), np.int32)
        slots = np.empty(sum(counts), np.int64)
        self.kv.block_tables(handles, tables)
        self.kv.slot_mapping(handles, starts, counts, slots)
        for item, table in zip(work, tables, strict=True):
            # Pages that start in here are new to the sequence: what they held is not its own.
            self.pages.poison(table[-(-item.start // size) : -(-item.end // size)])
        batch = Batch(
            tokens=np.concatenate([item.seq.tokens[item.start : item.end] for item in work]),
            positions=np.concatenate([np.arange(item.start, item.end) for item in work]),
            slots=slots,
            tables=tables,
            ends=np.cumsum(counts).tolist(),
        )
        logits = self.model.forward(batch, self.pages)
        bad = [
            item.seq.order for item, row in zip(work, logits, strict=True) if np.isnan(row).any()
        ]
        if bad:
            raise FloatingPointError(f"sequences {bad} read KV that nobody wrote for them")
        return logits
