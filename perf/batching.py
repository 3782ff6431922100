"""``python -m perf.batching``: transformers' continuous batching on a card, on its blocks and ours.

A decoder of an 8B shape with random bf16 weights serves (1) prompts of 8,192 tokens, cold and with
7,680 of them cached, and (2) conversations of four turns in a cache with room for a third of them,
under transformers' own manager and under policies of kvframe. (3) A small float32 model serves the
same conversations: its answers must be the same under every manager, or the run fails.

Turns carry scripted answers, so that every manager serves the same tokens; what a turn generates is
not part of the next one. ``manager`` is the time inside the cache's methods that hand out, find,
publish and free blocks.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM
from transformers.generation.configuration_utils import ContinuousBatchingConfig
from transformers.generation.continuous_batching.cache import PagedAttentionCache
from transformers.generation.continuous_batching.input_outputs import ContinuousBatchingIOs

from kvframe.bench.build import build_name
from kvframe.bench.results import now
from kvframe.integrations.transformers import Cache, kvframe_blocks
from perf.gpu import driver, short_name
from perf.table import table

BLOCK = 32
LARGE = {
    "vocab_size": 32_000,
    "hidden_size": 4_096,
    "intermediate_size": 14_336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
}
SMALL = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "initializer_range": 0.3,
}
STOCK = "transformers' own"
METHODS = (
    "allocate_blocks",
    "free_blocks",
    "search_prefix_match",
    "mark_shareable_blocks_as_complete",
)

Tokens = list[int]


@dataclass
class Served:
    """What a run of prompts took: wall and manager's seconds, prompt tokens computed."""

    wall: float = 0.0
    manager: float = 0.0
    prefill: int = 0
    evictions: int | None = None
    answers: list[Tokens] = field(default_factory=list)


def model(shape: dict[str, Any], dtype: torch.dtype) -> Any:
    """A decoder of random weights, the same ones each time."""
    torch.manual_seed(0)
    torch.set_default_dtype(dtype)
    config = LlamaConfig(
        **shape,
        max_position_embeddings=16_384,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
        attn_implementation="sdpa",
    )
    with torch.device("cuda"):
        made = LlamaForCausalLM(config).eval()
    torch.set_default_dtype(torch.float32)
    return made


def conversations(
    count: int, turns: int, head: int, turn: int, vocab: int
) -> tuple[list[Tokens], int]:
    """Prompts in the order in which they come, and the tokens of all conversations when they end.

    Each turn repeats the conversation so far. Six in ten turns belong to one of the conversations
    that were active lately.
    """
    draw = random.Random(0)

    def tokens(length: int) -> Tokens:
        return [draw.randrange(1, vocab) for _ in range(length)]

    system = tokens(head)
    said = [list(system) for _ in range(count)]
    left = [turns] * count
    lately: list[int] = []
    prompts = []
    while any(left):
        open_ones = [i for i in range(count) if left[i]]
        warm = [i for i in lately[-6:] if left[i]]
        at = draw.choice(warm) if warm and draw.random() < 0.6 else draw.choice(open_ones)
        said[at] = said[at] + tokens(draw.randrange(turn // 2, 3 * turn // 2))
        prompts.append(said[at])
        left[at] -= 1
        lately.append(at)
    return prompts, head + sum(len(whole) - head for whole in said)


@contextmanager
def watched(served: Served) -> Iterator[None]:
    """Notes what is computed, and the time inside the caches' methods."""
    original = ContinuousBatchingIOs.prepare_batch_tensors
    inside = False

    def prepare(self: Any, requests_in_batch: list[Any], *args: Any, **kwargs: Any) -> None:
        served.prefill += sum(future.query_length for future in requests_in_batch)
        original(self, requests_in_batch, *args, **kwargs)

    def timed(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal inside
            if inside:
                return method(*args, **kwargs)
            inside, begun = True, time.perf_counter()
            try:
                return method(*args, **kwargs)
            finally:
                served.manager += time.perf_counter() - begun
                inside = False

        return call

    kept = [(of, name, vars(of)[name]) for of in (PagedAttentionCache, Cache) for name in METHODS
            if name in vars(of)]  # fmt: skip
    ContinuousBatchingIOs.prepare_batch_tensors = prepare
    for of, name, method in kept:
        setattr(of, name, timed(method))
    try:
        yield
    finally:
        ContinuousBatchingIOs.prepare_batch_tensors = original
        for of, name, method in kept:
            setattr(of, name, method)


def managed(name: str) -> AbstractContextManager[list[Any]]:
    """Caches on kvframe's blocks under the policy ``name``, or transformers' own."""
    return nullcontext([]) if name == STOCK else kvframe_blocks(eviction={"policy": name})


@contextmanager
def engine(of: Any, blocks: int, new_tokens: int) -> Iterator[Any]:
    """The engine over a cache of ``blocks`` blocks."""
    generation = GenerationConfig(
        max_new_tokens=new_tokens, eos_token_id=[], pad_token_id=0, do_sample=False
    )
    batching = ContinuousBatchingConfig(block_size=BLOCK, num_blocks=blocks, max_batch_tokens=2_048)
    with (
        torch.no_grad(),
        of.continuous_batching_context_manager(
            generation, timeout=120, continuous_batching_config=batching
        ) as manager,
    ):
        yield manager


def answer(manager: Any) -> tuple[str, Tokens]:
    """The next answer.

    Raises:
        RuntimeError: The engine failed, or stopped.
    """
    result = manager.get_result(timeout=120)
    if result is None or result.error:
        raise RuntimeError(result.error if result else "the engine stopped")
    return result.request_id, result.generated_tokens


def serve(
    of: Any, prompts: Sequence[Tokens], name: str, *, blocks: int, at_once: int, new_tokens: int
) -> Served:
    """All ``prompts``, ``at_once`` at a time, the next as one is answered."""
    served = Served()
    answers: dict[str, Tokens] = {}
    with managed(name) as made, watched(served), engine(of, blocks, new_tokens) as manager:
        begun, given = time.perf_counter(), 0
        while len(answers) < len(prompts):
            while given < len(prompts) and given - len(answers) < at_once:
                manager.add_request(prompts[given], str(given), max_new_tokens=new_tokens)
                given += 1
            request, tokens = answer(manager)
            answers[request] = tokens
        served.wall = time.perf_counter() - begun
    # The first new token comes out of a prompt's prefill, each other takes one computed token.
    served.prefill -= sum(len(tokens) - 1 for tokens in answers.values())
    served.evictions = made[0].stats.counters()["evictions"] if made else None
    served.answers = [answers[str(i)] for i in range(len(prompts))]
    return served


def cached(of: Any, name: str, vocab: int) -> dict[str, Any]:
    """Seconds to the first token of 8,192, cold and with 7,680 cached; the best of three."""
    draw = random.Random(1)
    cold: list[float] = []
    warm: list[float] = []

    def tokens(length: int) -> Tokens:
        return [draw.randrange(1, vocab) for _ in range(length)]

    with managed(name), engine(of, 4 * 8_192 // BLOCK, 1) as manager:
        for i in range(4):
            prompt = tokens(8_192)
            for kind, text in ((cold, prompt), (warm, prompt[:7_680] + tokens(512))):
                torch.cuda.synchronize()
                begun = time.perf_counter()
                manager.add_request(text, f"{i}-{kind is warm}", max_new_tokens=1)
                answer(manager)
                if i:  # the first round warms kernels up
                    kind.append(time.perf_counter() - begun)
    return {"manager": name, "cold_seconds": min(cold), "cached_seconds": min(warm)}


def rows_of(
    of: Any, names: Sequence[str], shape: dict[str, Any], scale: int
) -> list[dict[str, Any]]:
    """The conversations under each manager; sizes by ``scale``."""
    prompts, total = conversations(24, 4, 32 * scale, 24 * scale, shape["vocab_size"])
    blocks = total // 3 // BLOCK
    given = sum(map(len, prompts))
    rows = []
    for name in names:
        served = serve(of, prompts, name, blocks=blocks, at_once=4, new_tokens=scale // 2)
        rows.append(
            {
                "manager": name,
                "blocks": blocks,
                "prompt_tokens": given,
                "prefill_tokens": served.prefill,
                "saved": 1 - served.prefill / given,
                "wall_seconds": served.wall,
                "manager_seconds": served.manager,
                "evictions": served.evictions,
                "answers": served.answers,
            }
        )
        print(f"{name}: {served.prefill} of {given}, {served.wall:.1f} s", file=sys.stderr)
    return rows


@click.command()
@click.option("--policy", "names", multiple=True, default=("lru", "slru", "foresight"))
@click.option("--save", type=click.Path(path_type=Path), help="Folder for batching-CARD-DATE.json.")
def main(names: tuple[str, ...], save: Path | None) -> None:
    """Measure, print, save."""
    managers = [STOCK, *names]
    small = model(SMALL, torch.float32)
    exact = rows_of(small, managers, SMALL, 8)
    same = all(row["answers"] == exact[0]["answers"] for row in exact)
    del small
    large = model(LARGE, torch.bfloat16)
    first = [cached(large, name, LARGE["vocab_size"]) for name in (STOCK, "lru")]
    served = rows_of(large, managers, LARGE, 32)
    for row in (*exact, *served):
        del row["answers"]
    record = {
        "what": "batching",
        "date": now(),
        "command": "python -m perf.batching",
        "card": torch.cuda.get_device_name(),
        "driver": driver(),
        "versions": {
            "kvframe": build_name(),
            "torch": torch.__version__,
            "transformers": version("transformers"),
        },
        "shape": LARGE,
        "block_size": BLOCK,
        "first_token": first,
        "conversations": served,
        "float32": exact,
        "float32_answers_equal": same,
    }
    if save:
        save.mkdir(parents=True, exist_ok=True)
        name = f"batching-{short_name(record['card'])}-{record['date'][:10]}.json"
        (save / name).write_text(json.dumps(record, indent=2) + "\n")
    print(f"8,192 tokens, first token: {first}")
    head = ["manager", "prefill", "saved", "wall, s", "manager, s", "evictions"]
    cells = [
        [
            row["manager"],
            f"{row['prefill_tokens']:,}",
            f"{row['saved']:.1%}",
            f"{row['wall_seconds']:.1f}",
            f"{row['manager_seconds']:.2f}",
            "-" if row["evictions"] is None else f"{row['evictions']:,}",
        ]
        for row in served
    ]
    print(table(head, cells))
    print("float32 answers are", "the same" if same else "NOT THE SAME")
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
