"""A decode step in one call: 256 sequences commit a token and grow by one; what changed in their
block tables and the slot mapping are written into the caller's buffers.
"""

from __future__ import annotations

import time

import numpy as np

from perf import floors
from perf.measure import MICRO, quiet
from perf.sides.workload import PROMPT, RUNNING, running_prompts
from perf.work import Round, Work, manager


def decode(quick: bool) -> Round:
    """Rounds of many steps; mean µs a step, those that take a new block included."""
    running, steps = (8, 20) if quick else (RUNNING, 320)
    width = (PROMPT + steps) // 16 + 1
    prompts = running_prompts(running)

    def once() -> float:
        kv = manager(running * width)
        grants = [kv.allocate(prompt) for prompt in prompts]
        for grant in grants:
            kv.commit(grant.seq, grant.prompt_tokens)
        seqs = np.array([grant.seq for grant in grants], np.uint64)
        length = np.array([grant.prompt_tokens for grant in grants], np.int64)
        token = np.full(running, 7, np.uint32)
        tables, slots = np.empty((running, width), np.int32), np.empty(running, np.int64)
        kv.block_tables(seqs, tables)
        took = 0.0
        with quiet():
            for _ in range(steps):
                start = time.perf_counter()
                kv.step(
                    commit=(seqs, length), append=seqs, tokens=token, tables=tables, slots=slots
                )
                took += time.perf_counter() - start
                length += 1
        ends = zip(tables[np.arange(running), (length - 1) // 16], (length - 1) % 16, strict=True)
        last = [int(block * 16 + offset) for block, offset in ends]
        if slots.tolist() != last:
            raise AssertionError("the slot mapping is not the tables' last slots")
        return took / steps * MICRO

    return once


WORKS = (
    Work(
        "decode_step_256",
        decode,
        bar=25.0,
        floor=lambda: floors.increments(RUNNING),
        floor_is="a vector increment and a copy of 256 int64",
        peer="decode_step_256",
    ),
)
