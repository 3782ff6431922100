"""Fills a table of step times from AISimulate's measured operations, for `kvframe bench serve`.

    pip install --pre aisimulate            # into an environment of its own: 1.5 GB
    python from_aisimulate.py -o h200-8b.csv --model meta-llama/Meta-Llama-3.1-8B --system h200_sxm
    kvframe bench serve --profile h200-8b.csv ...

AISimulate says how long a forward pass takes with so many tokens of prompts, each of which attends
to so many, beside so many decoding sequences with so much KV. About three thousand such passes make
a table; between them the simulation interpolates.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from aisimulate_core.sdk import ForwardPassPerfModelConfig, RustForwardPassPerfModel

COLUMNS = ("num_tokens", "n_decode", "kv_decode", "prefill_chunk", "prefill_context", "step_us")
CHUNKS = (1, 32, 64, 128, 256, 512, 1024, 1536, 2048, 3072, 4096, 5120, 6144, 7168, 8192, 16384)
PASTS = (0, 2048, 8192, 32768, 131072)
DECODES = (0, 1, 8, 32, 64, 128, 256, 512)
CONTEXTS = (128, 2048, 8192, 32768, 131072)


class Pass(NamedTuple):
    """A forward pass.

    Attributes:
        chunks: Sequences whose prompts it computes.
        prefill: Tokens that it computes of these together.
        past: Tokens that each of these sequences has computed already.
        n_decode: Sequences that compute one token of an answer.
        kv_decode: Tokens that those attend to, all together.
    """

    chunks: int
    prefill: int
    past: int
    n_decode: int
    kv_decode: int

    @property
    def context(self) -> float:
        """Tokens that each prompt token attends to, on the mean."""
        return self.past + (self.prefill / self.chunks + 1) / 2 if self.prefill else 0.0


def passes() -> Iterator[Pass]:
    """Those that are measured."""
    decoding = [(0, 0), *((n, n * context) for n in DECODES if n for context in CONTEXTS)]
    yield from (Pass(0, 0, 0, n, kv) for n, kv in decoding if n)
    for tokens in CHUNKS:
        # Many short prompts in one pass attend to less than one long one.
        shapes = [(4, 0)] if tokens >= 64 else []
        shapes += [(1, past) for past in PASTS]
        for chunks, past in shapes:
            yield from (Pass(chunks, tokens, past, n, kv) for n, kv in decoding)


def estimator(model: str, system: str, backend: str) -> Any:
    """What estimates passes of a model on one card."""
    return RustForwardPassPerfModel.best_available(
        ForwardPassPerfModelConfig(
            model=model, system=system, backend=backend, worker_type="aggregated"
        )
    )


def milliseconds(model: Any, one: Pass) -> float:
    """How long a pass takes."""
    scheduled = {
        "num_prefill_requests": one.chunks,
        "sum_prefill_tokens": one.prefill,
        "sum_prefill_kv_tokens": one.past * one.chunks,
        "num_decode_requests": one.n_decode,
        "sum_decode_kv_tokens": one.kv_decode,
    }
    took = model.estimate_forward_pass_time_ms({"version": 1, "scheduled_requests": scheduled})
    return float(took)


def main() -> int:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-o", "--out", required=True, help="the table: FILE.csv")
    parser.add_argument("--model", default="meta-llama/Meta-Llama-3.1-8B")
    parser.add_argument("--system", default="h200_sxm")
    parser.add_argument("--backend", default="vllm")
    asked = parser.parse_args()
    model = estimator(asked.model, asked.system, asked.backend)
    count = 0
    with open(asked.out, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for one in passes():
            us = milliseconds(model, one) * 1e3
            tokens = one.prefill + one.n_decode
            row = (tokens, one.n_decode, one.kv_decode, one.prefill, one.context, round(us, 3))
            writer.writerow(row)
            count += 1
    print(f"{asked.out}: {count:,} passes", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
