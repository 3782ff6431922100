"""A tiny transformers model with random weights, prompts that share prefixes, ways to serve them.

Needs transformers and torch. Everything is on the CPU, in float32.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedModel
from transformers.generation.configuration_utils import ContinuousBatchingConfig
from transformers.generation.continuous_batching.input_outputs import ContinuousBatchingIOs

BLOCK_SIZE = 8
VOCAB = 96
NEW_TOKENS = 12
PREFIX, SUFFIX = 5 * BLOCK_SIZE + 3, 10
"""Tokens that a family of prompts shares (not whole blocks), and the most that follow."""

Tokens = list[int]


def llama() -> PreTrainedModel:
    """Two layers; the same weights each time. Large ones, so that the answers are not all alike."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=0.3,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
        attn_implementation="sdpa",
    )
    model: PreTrainedModel = LlamaForCausalLM(config).eval()
    return model


def prompts(count: int = 64, families: int = 8, seed: int = 0) -> list[Tokens]:
    """Prompts that share prefixes, some oftener than others; every fourth shares nothing."""
    draw = random.Random(seed)

    def tokens(count: int) -> Tokens:
        return [draw.randrange(1, VOCAB) for _ in range(count)]

    prefixes = [tokens(PREFIX) for _ in range(families)]
    often = [1 / (rank + 1) for rank in range(families)]
    work = []
    for i in range(count):
        prefix = tokens(PREFIX) if i % 4 == 3 else draw.choices(prefixes, often)[0]
        work.append(prefix + tokens(draw.randint(1, SUFFIX)))
    return work


def shared(work: list[Tokens]) -> int:
    """Tokens in full blocks that an earlier prompt begins with too; one is always computed."""
    seen: set[tuple[int, ...]] = set()
    total = 0
    for prompt in work:
        usable = range(BLOCK_SIZE, len(prompt), BLOCK_SIZE)
        total += max((end for end in usable if tuple(prompt[:end]) in seen), default=0)
        seen |= {tuple(prompt[:end]) for end in range(BLOCK_SIZE, len(prompt) + 1, BLOCK_SIZE)}
    return total


@dataclass
class Served:
    """What came of serving.

    Attributes:
        answers: One a prompt.
        forks: Answers of further samples, each with the index of its prompt.
        prefill: Prompt tokens computed; again, after a preemption, too.
    """

    answers: list[Tokens]
    forks: list[tuple[int, Tokens]]
    prefill: int


def generation(samples: int = 1) -> GenerationConfig:
    """Greedy, to a fixed length; several samples are drawn from the likeliest token alone."""
    sampling = {"do_sample": True, "top_k": 1, "num_return_sequences": samples}
    return GenerationConfig(
        max_new_tokens=NEW_TOKENS,
        eos_token_id=[],
        pad_token_id=0,
        **(sampling if samples > 1 else {"do_sample": False}),
    )


def plain(model: PreTrainedModel, work: list[Tokens]) -> list[Tokens]:
    """`generate`, each prompt by itself."""
    config = generation()
    with torch.no_grad():
        answers = [model.generate(torch.tensor([p]), generation_config=config)[0] for p in work]
    return [a[len(p) :].tolist() for a, p in zip(answers, work, strict=True)]


def serve(
    model: PreTrainedModel,
    work: list[Tokens],
    context: AbstractContextManager[Any],
    *,
    blocks: int,
    at_once: int = 1,
    samples: int = 1,
    **options: Any,
) -> Served:
    """Continuous batching: ``at_once`` prompts are given at a time, the next as one is answered.

    One at a time shares all that can be: nobody computes what somebody else is computing.
    """
    batching = ContinuousBatchingConfig(
        block_size=BLOCK_SIZE, num_blocks=blocks, **{"max_batch_tokens": 64, **options}
    )
    engine = partial(model.continuous_batching_context_manager, generation(samples), timeout=60)
    with context, counted() as computed, engine(continuous_batching_config=batching) as manager:
        answers: dict[str, Tokens] = {}
        given = 0
        while len(answers) < samples * len(work):
            while given < len(work) and samples * given - len(answers) < samples * at_once:
                manager.add_request(work[given], str(given), max_new_tokens=NEW_TOKENS)
                given += 1
            result = manager.get_result(timeout=60)
            if result is None or result.error:
                raise RuntimeError(result.error if result else "the engine stopped")
            answers[result.request_id] = result.generated_tokens
    # A sequence's first new token comes out of its prefill, each other takes one computed token.
    decoded = sum(len(answer) - 1 for answer in answers.values())
    forks = [(int(name.split("__")[0]), answers[name]) for name in answers if "__" in name]
    return Served([answers[str(i)] for i in range(len(work))], forks, sum(computed) - decoded)


@contextmanager
def counted() -> Iterator[list[int]]:
    """The tokens computed in each batch."""
    computed: list[int] = []
    original: Callable[..., None] = ContinuousBatchingIOs.prepare_batch_tensors

    def prepare(self: Any, requests_in_batch: list[Any], *args: Any, **kwargs: Any) -> None:
        computed.append(sum(future.query_length for future in requests_in_batch))
        original(self, requests_in_batch, *args, **kwargs)

    ContinuousBatchingIOs.prepare_batch_tensors = prepare
    try:
        yield computed
    finally:
        ContinuousBatchingIOs.prepare_batch_tensors = original
