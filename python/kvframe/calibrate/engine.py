"""A decoder with random weights that runs one step of a server on a card, as engines do.

All tokens of the step go through the matrices as one batch; the prompt attends by PyTorch's flash
attention, decoding sequences over pages; and the step is captured as a graph.
"""

from __future__ import annotations

import statistics
import time

import torch
from torch.nn import functional

from kvframe.calibrate import attention
from kvframe.calibrate.grid import Step
from kvframe.calibrate.shape import ModelShape

REPEATS = 7


@torch.compile(dynamic=True)
def _add_norm(x: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    residual = residual + x
    wide = residual.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype), residual


@torch.compile(dynamic=True)
def _gate(x: torch.Tensor) -> torch.Tensor:
    gate, up = x.chunk(2, -1)
    return functional.silu(gate) * up


@torch.compile(dynamic=True)
def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    left, right = x.float().chunk(2, -1)
    turned = torch.cat((left * cos - right * sin, right * cos + left * sin), -1)
    return turned.to(x.dtype)


class Engine:
    """Weights and KV of a shape on the current card, filled at random.

    Args:
        shape: The model's shape.
        room: Tokens of KV that the page pool holds.
        longest: Tokens of the longest prompt.
    """

    def __init__(self, shape: ModelShape, room: int, longest: int = 40_960) -> None:
        self.shape, self.room = shape, room
        torch.manual_seed(0)

        def matrix(rows: int, columns: int) -> torch.Tensor:
            made = torch.empty(rows, columns, dtype=torch.bfloat16, device="cuda")
            return made.normal_(0, rows**-0.5)

        wide = shape.heads * shape.head_dim
        self.layers = [
            (
                matrix(shape.hidden, shape.qkv),
                matrix(wide, shape.hidden),
                matrix(shape.hidden, 2 * shape.ffn),
                matrix(shape.ffn, shape.hidden),
            )
            for _ in range(shape.layers)
        ]
        self.head = matrix(shape.hidden, shape.vocab)
        self.embedding = matrix(shape.vocab, shape.hidden)
        pages = -(-room // attention.PAGE) + 1_024  # spare: last pages may be partly empty

        def kv(tokens: int) -> torch.Tensor:
            size = (shape.layers, 2, tokens, shape.kv_heads, shape.head_dim)
            return torch.empty(size, dtype=torch.bfloat16, device="cuda").normal_()

        self.pool = kv(pages * attention.PAGE)
        self.prompt = kv(longest)
        self.order = torch.randperm(pages, device="cuda", dtype=torch.int32)
        inverse = 10_000 ** (-torch.arange(0, shape.head_dim, 2, device="cuda") / shape.head_dim)
        angle = torch.arange(longest, device="cuda")[:, None] * inverse[None, :]
        self.cos, self.sin = angle.cos()[:, None], angle.sin()[:, None]

    def _tables(self, contexts: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
        """Block tables over scattered pages, and the slot that each sequence writes."""
        most = max(-(-c // attention.PAGE) for c in contexts)
        rows, slots, first = [], [], 0
        for context in contexts:
            n = -(-context // attention.PAGE)
            pages = self.order[first : first + n]
            slots.append(pages[-1].long() * attention.PAGE + (context - 1) % attention.PAGE)
            rows.append(functional.pad(pages, (0, most - n)))
            first += n
        return torch.stack(rows), torch.stack(slots)

    def _inputs(self, step: Step) -> dict[str, torch.Tensor]:
        n = len(step.contexts)
        made = {
            "tokens": torch.randint(self.shape.vocab, (step.num_tokens,), device="cuda"),
            "positions": torch.tensor(
                [*range(step.before, step.before + step.chunk), *(c - 1 for c in step.contexts)],
                device="cuda",
            ),
            # One row of logits for the end of the chunk, and one a decoding sequence.
            "rows": torch.arange(max(step.chunk - 1, 0), step.num_tokens, device="cuda"),
        }
        if n:
            made["tables"], made["slots"] = self._tables(step.contexts)
            made["lengths"] = torch.tensor(step.contexts, dtype=torch.int32, device="cuda")
        return made

    def _prefill(self, layer: int, step: Step, q: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:
        held = step.before + step.chunk
        self.prompt[layer, :, step.before : held].copy_(kv)
        k, v = (part[:held].transpose(0, 1)[None] for part in self.prompt[layer])
        # Causal from the lower right corner: the chunk's last token sees all that is before it.
        out = torch.ops.aten._scaled_dot_product_flash_attention(
            q.transpose(0, 1)[None], k, v, 0.0, True, False
        )[0]
        return out[0].transpose(0, 1)

    def run(self, step: Step, given: dict[str, torch.Tensor]) -> torch.Tensor:
        """One step: a token for the prompt's end and for each decoding sequence."""
        shape, chunk = self.shape, step.chunk
        residual = self.embedding[given["tokens"]]
        cos, sin = self.cos[given["positions"]], self.sin[given["positions"]]
        x = torch.zeros_like(residual)
        for layer, (qkv, out, up, down) in enumerate(self.layers):
            normed, residual = _add_norm(x, residual)
            heads = (normed @ qkv).view(step.num_tokens, -1, shape.head_dim)
            turned = _rotate(heads[:, : shape.heads + shape.kv_heads], cos, sin)
            q, k = turned.split((shape.heads, shape.kv_heads), 1)
            kv = torch.stack((k, heads[:, shape.heads + shape.kv_heads :]))
            parts = []
            if chunk:
                parts.append(self._prefill(layer, step, q[:chunk], kv[:, :chunk]))
            if step.contexts:
                self.pool[layer].index_copy_(1, given["slots"], kv[:, chunk:])
                k_pool, v_pool = self.pool[layer]
                alone = q[chunk:].contiguous()
                parts.append(
                    attention.decode(alone, k_pool, v_pool, given["tables"], given["lengths"])
                )
            attended = torch.cat(parts) if len(parts) > 1 else parts[0]
            normed, residual = _add_norm(attended.reshape(step.num_tokens, -1) @ out, residual)
            x = _gate(normed @ up) @ down
        last, _ = _add_norm(x[given["rows"]], residual[given["rows"]])
        return (last @ self.head).argmax(-1)

    def measure(self, step: Step) -> tuple[float, float]:
        """Microseconds of the step on the card, and what the host adds: medians of ``REPEATS``.

        The host's part lasts from the call of the captured graph to the tokens in host memory, less
        the card's. A server's own scheduling comes on top.
        """
        given = self._inputs(step)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.run(step, given)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            tokens = self.run(step, given)
        graph.replay()
        torch.cuda.synchronize()
        card, host = [], []
        for _ in range(REPEATS):
            began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            called = time.perf_counter()
            began.record()
            graph.replay()
            ended.record()
            tokens.tolist()
            whole = (time.perf_counter() - called) * 1e6
            card.append(began.elapsed_time(ended) * 1e3)
            host.append(whole - card[-1])
        return statistics.median(card), statistics.median(host)
