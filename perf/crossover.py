"""Swap or compute again, by prompt length, on a card: ``python -m perf.crossover [--json]``.

A decoder of the shape given, with random fp16 weights in torch, prefills prompts; the pages of as
many tokens go out and come back through `kvframe.pages.swap.Swap`. Beside what was measured stands
what `kvframe.tiers.cost.SwapCost` says from three figures of the same run: the rate of the longest
prefill, and the bandwidths of the largest transfer. Two shapes: 8B has few KV heads, so that its
pages are small beside its FLOPs; 1.3B has as many KV heads as query heads (OPT-1.3B).
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
import cupy
import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  # torch's own name for it

from kvframe.bench.results import now
from kvframe.pages import BLOCK_FIRST, LAYER_FIRST, Layout, PageShape
from kvframe.pages.cupy import CupyPool, host_pool
from kvframe.pages.swap import Swap
from kvframe.tiers.cost import SwapCost
from perf.gpu import driver
from perf.results import command

LENGTHS = (16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
BLOCK, REPEAT = 16, 5


@dataclass(frozen=True)
class Shape:
    """A decoder: rotary embedding, vocabulary and norms left out, which weigh little in prefill."""

    name: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    hidden: int
    gated: bool

    @property
    def head(self) -> int:
        return self.width // self.heads

    @property
    def parameters(self) -> int:
        attention = 2 * self.width * self.width + 2 * self.width * self.kv_heads * self.head
        return self.layers * (attention + (3 if self.gated else 2) * self.width * self.hidden)


SHAPES = (
    Shape("8B, 8 KV heads of 32", 32, 4096, 32, 8, 14336, True),
    Shape("1.3B, 32 KV heads of 32", 24, 2048, 32, 32, 8192, False),
)


class Decoder:
    """Random weights, and the prefill of a prompt."""

    def __init__(self, shape: Shape) -> None:
        def weight(rows: int, columns: int) -> torch.Tensor:
            drawn = torch.randn(rows, columns, dtype=torch.float16, device="cuda")
            return drawn.mul_(rows**-0.5)

        self.shape, kv = shape, shape.kv_heads * shape.head
        self.layers = [
            {
                "qkv": weight(shape.width, shape.width + 2 * kv),
                "out": weight(shape.width, shape.width),
                "up": weight(shape.width, (2 if shape.gated else 1) * shape.hidden),
                "down": weight(shape.hidden, shape.width),
            }
            for _ in range(shape.layers)
        ]

    def prefill(self, tokens: torch.Tensor) -> torch.Tensor:
        """Through all layers; tokens are [tokens][width]."""
        shape, kv = self.shape, self.shape.kv_heads * self.shape.head
        for layer in self.layers:
            both = F.rms_norm(tokens, (shape.width,)) @ layer["qkv"]
            q, k, v = both.split([shape.width, kv, kv], dim=-1)
            heads = (
                each.view(len(tokens), -1, shape.head).transpose(0, 1)[None] for each in (q, k, v)
            )
            seen = F.scaled_dot_product_attention(*heads, is_causal=True, enable_gqa=True)
            tokens = tokens + seen[0].transpose(0, 1).reshape(len(tokens), -1) @ layer["out"]
            wide = F.rms_norm(tokens, (shape.width,)) @ layer["up"]
            if shape.gated:
                gate, wide = wide.chunk(2, dim=-1)
                wide = F.silu(gate) * wide
            else:
                wide = F.relu(wide)
            tokens = tokens + wide @ layer["down"]
        return tokens


def seconds(call: Callable[[], Any]) -> float:
    """Median of a call, to the event that it answers or the end of the stream."""
    stream, taken = cupy.cuda.get_current_stream(), []
    for turn in range(REPEAT + 2):
        stream.synchronize()
        start = stream.record(cupy.cuda.Event())
        end = call()
        if not isinstance(end, cupy.cuda.Event):
            end = stream.record(cupy.cuda.Event())
        end.synchronize()
        if turn >= 2:
            taken.append(cupy.cuda.get_elapsed_time(start, end) / 1e3)
    return float(statistics.median(taken))


def measure(shape: Shape) -> dict[str, Any]:
    """What prefill and swap take at each length, and what is predicted."""
    page = PageShape(shape.layers, 2, BLOCK, shape.kv_heads, 2 * shape.head)
    blocks = LENGTHS[-1] // BLOCK
    device = CupyPool(Layout.of(LAYER_FIRST, page, 2 * blocks))
    _, host = host_pool(Layout.of(BLOCK_FIRST, page, blocks + 64))
    swap, decoder = Swap(device, host), Decoder(shape)
    draw = np.random.default_rng(0)
    found: list[dict[str, Any]] = []
    for length in LENGTHS:
        count = length // BLOCK
        here = draw.permutation(2 * blocks)[:count]
        there = draw.permutation(blocks + 64)[:count]
        prompt = torch.randn(length, shape.width, dtype=torch.float16, device="cuda")
        found.append(
            {
                "tokens": length,
                "recompute": seconds(partial(decoder.prefill, prompt)),
                "out": seconds(partial(swap.out, here, there)),
                "in": seconds(partial(swap.bring, there, here)),
            }
        )
    longest, nbytes = found[-1], blocks * page.page_bytes
    attention = shape.layers * shape.width
    one = SwapCost(
        parameters=shape.parameters,
        attention=attention,
        flops=1.0,
        bandwidth_out=nbytes / longest["out"],
        bandwidth_in=nbytes / longest["in"],
    )
    rate = one.recompute_seconds(LENGTHS[-1]) / longest["recompute"]
    cost = SwapCost(
        parameters=shape.parameters,
        attention=attention,
        flops=rate,
        bandwidth_out=one.bandwidth_out,
        bandwidth_in=one.bandwidth_in,
    )
    for row in found:
        row["predicted_recompute"] = cost.recompute_seconds(row["tokens"])
        row["predicted_swap"] = cost.swap_seconds(row["tokens"] * page.page_bytes // BLOCK)
        row["swap_wins"] = row["out"] + row["in"] < row["recompute"]
        row["predicted_swap_wins"] = row["predicted_swap"] < row["predicted_recompute"]
    return {
        "shape": shape.name,
        "parameters": shape.parameters,
        "token_bytes": page.page_bytes // BLOCK,
        "flops": rate,
        "bandwidth_out": cost.bandwidth_out,
        "bandwidth_in": cost.bandwidth_in,
        "predicted_crossover": cost.crossover(page.page_bytes / BLOCK),
        "measured_crossover": crossover(found),
        "rows": found,
    }


def crossover(rows: list[dict[str, Any]]) -> int | None:
    """The least measured length from which on swapping is always faster."""
    least = None
    for row in reversed(rows):
        if not row["swap_wins"]:
            break
        least = row["tokens"]
    return least


@click.command()
@click.option("--json", "as_json", is_flag=True, help="The record on stdout.")
@click.option("--save", type=click.Path(path_type=Path), help="Folder to write to.")
def main(as_json: bool, save: Path | None) -> None:
    """Measure on the current card."""
    card = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)
    with stream, torch.inference_mode():
        shapes = [measure(shape) for shape in SHAPES]
    record = {
        "date": now(),
        "card": card,
        "driver": driver(),
        "versions": {"cupy": cupy.__version__, "torch": torch.__version__},
        "command": command("crossover"),
        "shapes": shapes,
    }
    for each in shapes:
        print(
            f"{each['shape']}: swap wins from {each['measured_crossover']} tokens on, "
            f"predicted {each['predicted_crossover']}",
            file=sys.stderr,
        )
        for row in each["rows"]:
            both = row["out"] + row["in"]
            print(
                f"{row['tokens']:>7} tokens: compute {row['recompute'] * 1e3:8.2f} ms "
                f"(predicted {row['predicted_recompute'] * 1e3:8.2f}), swap {both * 1e3:8.2f} ms "
                f"(predicted {row['predicted_swap'] * 1e3:8.2f})",
                file=sys.stderr,
            )
    text = json.dumps(record, indent=2)
    if as_json:
        print(text)
    if save is not None:
        (save / f"crossover-{record['date'][:10]}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
