"""transformers' continuous batching as `kvframe bench verify` runs it: one step at a time."""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM
from transformers.generation.configuration_utils import ContinuousBatchingConfig

from kvframe.bench.verify.engine import Done, Piece
from kvframe.integrations.transformers.blocks import kvframe_blocks

TINY = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
"""A model that a CPU runs in a millisecond a step."""

ATTENTION = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""Without cuDNN's, which is built anew for each number of tokens (pytorch/pytorch#155958): then a
step would take as long as the one before only where a batch of the very same size has been.
"""


def random_model(shape: dict[str, Any], device: str, dtype: torch.dtype) -> Any:
    """A decoder of random weights, the same ones each time."""
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    config = LlamaConfig(
        **shape,
        max_position_embeddings=32_768,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
        attn_implementation="sdpa",
    )
    try:
        with torch.device(device):
            return LlamaForCausalLM(config).eval()
    finally:
        torch.set_default_dtype(before)


class Stepped:
    """transformers' engine over kvframe's blocks, without the thread that runs it.

    Args:
        model: Any that continuous batching serves.
        policy: Of the pool.
        blocks: Its capacity.
        block_size: Tokens a block.
        budget: Tokens that a step computes, at most.
        longest: Tokens of the longest sequence that it is asked for.
        answer: Tokens of each answer.
    """

    def __init__(
        self,
        model: Any,
        policy: str,
        *,
        blocks: int,
        block_size: int,
        budget: int,
        longest: int,
        answer: int,
    ) -> None:
        self.max_num_batched_tokens, self.longest, self.answer = budget, longest, answer
        # A step reads no more KV than the pool has slots, and blocks that sequences share count for
        # each of them: beyond so many, who comes in would hang on that.
        self.max_num_seqs = max(blocks * block_size // longest, 1)
        self.vocab = model.config.vocab_size
        self._on_card = model.device.type == "cuda"
        generation = GenerationConfig(
            max_new_tokens=1, eos_token_id=[], pad_token_id=0, do_sample=False
        )
        batching = ContinuousBatchingConfig(
            block_size=block_size,
            num_blocks=blocks,
            max_batch_tokens=budget,
            max_requests_per_batch=self.max_num_seqs,
            scheduler_type="fifo",
            safety_margin=0.0,
            use_async_batching=False,
            use_cuda_graph=False,
        )
        with ExitStack() as made:
            managers = made.enter_context(
                kvframe_blocks(cache={"event_log": True}, eviction={"policy": policy})
            )
            made.enter_context(torch.no_grad())
            self._manager = model.init_continuous_batching(
                generation, continuous_batching_config=batching
            )
            self._processor = self._manager._create_batch_processor()
            self._manager.batch_processor = self._processor
            self.kv = managers[0]
        self._batch: list[tuple[Any, int, int, bool]] = []
        tensors = self._processor.inputs_and_outputs
        prepare = tensors.prepare_batch_tensors

        def noted(requests_in_batch: list[Any], *args: Any, **kwargs: Any) -> None:
            self._batch = [
                (one.state, one.state.position_offset, one.query_length, one.has_new_token)
                for one in requests_in_batch
            ]
            prepare(requests_in_batch, *args, **kwargs)

        tensors.prepare_batch_tensors = noted
        self._left = 0

    @property
    def busy(self) -> bool:
        return self._left > 0

    def clock(self) -> float:
        # On a CPU with one thread, other load disturbs processor time little.
        return time.perf_counter() if self._on_card else time.process_time()

    def submit(self, request: int, prompt: Sequence[int], answer: int) -> None:
        self._manager.add_request(list(prompt), str(request), max_new_tokens=answer)
        self._left += 1

    def step(self) -> Done:
        self._batch = []
        with torch.no_grad(), sdpa_kernel(ATTENTION):
            if not self._processor.prepare_next_batch():
                return Done([], [], {})
            self._manager._generation_step()
            self._processor.update_batch()
        pieces, sampled, ended = [], [], {}
        for state, start, count, samples in self._batch:
            number, told = int(state.request_id), len(state.generated_tokens)
            decodes = count == 1 and start >= len(state.initial_tokens)
            pieces.append(Piece(number, start, count, decodes))
            if samples:
                sampled.append(number)
            if told == state.max_new_tokens:
                ended[number] = list(state.generated_tokens)
        self._left -= len(ended)
        return Done(pieces, sampled, ended)

    def close(self) -> None:
        del self._manager, self._processor, self._batch
        gc.collect()
        if self._on_card:
            torch.cuda.empty_cache()


def engine(policy: str, capacity: int | None) -> Stepped:
    """A tiny model of random weights on the CPU, on one thread."""
    torch.set_num_threads(1)
    model = random_model(TINY, "cpu", torch.float32)
    blocks = capacity or 160
    sizes = {"block_size": 16, "budget": 256, "longest": 256, "answer": 16}
    return Stepped(model, policy, blocks=blocks, **sizes)
