"""vLLM's scheduler over a model that is not there: each sampled token is made up."""

from __future__ import annotations

import functools
import json
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import vllm.platforms
from vllm.config import (
    CacheConfig,
    DeviceConfig,
    KVEventsConfig,
    KVTransferConfig,
    ModelConfig,
    SchedulerConfig,
    VllmConfig,
)
from vllm.platforms.cpu import CpuPlatform
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import get_hash_fn_by_name
from vllm.v1.core.encoder_cache_manager import EncoderCacheManager
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    KVCacheSpec,
)
from vllm.v1.outputs import DraftTokenIds, ModelRunnerOutput
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

from kvframe_vllm.replay.workload import VOCABULARY

MODEL = {
    "architectures": ["OPTForCausalLM"],
    "model_type": "opt",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "ffn_dim": 128,
    "max_position_embeddings": 2048,
    "vocab_size": VOCABULARY,
    "word_embed_proj_dim": 64,
    "torch_dtype": "float16",
}
"""What vLLM wants to know of a model; there are no weights."""

END = VOCABULARY - 1
"""The end-of-sequence token, which is never sampled on purpose: requests run to their length."""

ENCODER_TOKENS = 1 << 20


@dataclass(frozen=True)
class Load:
    """How the scheduler is set up.

    Attributes:
        blocks: Blocks of the pool, the null block included.
        running: Requests that run at once.
        batch: Tokens of a step.
        block_size: Tokens of a block.
        asynchronous: Schedule a step before the last one's tokens are there, as vLLM serves.
        order: vLLM's ``policy``, by which waiting requests are scheduled.
        scheduler_cls: vLLM's option of that name.
        additional_config: The same.
        connector: Fields of vLLM's ``kv_transfer_config``, or None.
        events: Collect the KV events.
        groups: The attention of each layer group; one with full attention if None.
        drafts: Tokens of a request that are drafted for each step (synchronous only).
    """

    blocks: int
    running: int = 8
    batch: int = 2048
    block_size: int = 16
    asynchronous: bool = False
    order: str = "fcfs"
    scheduler_cls: str | None = None
    additional_config: Mapping[str, Any] = field(default_factory=dict)
    connector: Mapping[str, Any] | None = None
    events: bool = False
    groups: Sequence[KVCacheSpec] | None = None
    drafts: int = 0


def scheduler(load: Load) -> Any:
    """VLLM's scheduler, made as its engine makes it."""
    if vllm.platforms.current_platform.is_unspecified() or not torch.cuda.is_available():
        vllm.platforms._current_platform = CpuPlatform()
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/config.json", "w", encoding="utf-8") as file:
            json.dump(MODEL, file)
        model = ModelConfig(model=folder, skip_tokenizer_init=True, dtype="float16", seed=0)
        config = VllmConfig(
            model_config=model,
            scheduler_config=SchedulerConfig(
                max_num_seqs=load.running,
                max_num_batched_tokens=load.batch,
                max_model_len=MODEL["max_position_embeddings"],
                is_encoder_decoder=False,
                policy=load.order,
                scheduler_cls=load.scheduler_cls,
                async_scheduling=load.asynchronous,
            ),
            cache_config=CacheConfig(block_size=load.block_size, enable_prefix_caching=True),
            kv_transfer_config=KVTransferConfig(**load.connector) if load.connector else None,
            device_config=DeviceConfig("cpu"),
            additional_config=dict(load.additional_config),
        )
    # vLLM's CPU platform turns it off; it is the default where there is a GPU.
    config.scheduler_config.async_scheduling = load.asynchronous
    if load.events:
        config.kv_events_config = KVEventsConfig(enable_kv_cache_events=True, publisher="null")
    groups = load.groups or [full_attention(load.block_size)]
    cache = KVCacheConfig(
        num_blocks=load.blocks,
        kv_cache_tensors=[],
        kv_cache_groups=[KVCacheGroupSpec([f"layer{at}"], spec) for at, spec in enumerate(groups)],
    )
    config.cache_config.num_gpu_blocks = load.blocks
    made = config.scheduler_config.get_scheduler_cls()(
        vllm_config=config,
        kv_cache_config=cache,
        log_stats=True,
        structured_output_manager=StructuredOutputManager(config),
        block_size=load.block_size,
        hash_block_size=load.block_size,
    )
    # This model has no encoder of images and drafts nothing; its scheduler takes both.
    made.encoder_cache_manager = EncoderCacheManager(cache_size=ENCODER_TOKENS)
    made.max_num_encoder_input_tokens = ENCODER_TOKENS
    made.num_spec_tokens = made.num_lookahead_tokens = load.drafts
    made.replay_events = []
    if load.events:
        made.kv_event_publisher.publish = lambda batch: made.replay_events.extend(batch.events)
    return made


def full_attention(block_size: int) -> KVCacheSpec:
    """The cache of layers with full attention."""
    return FullAttentionSpec(
        block_size=block_size, num_kv_heads=2, head_size=16, dtype=torch.float32
    )


@functools.cache
def hash_function() -> Any:
    """The hash of blocks. It begins at random, once a process, so that runs have equal keys."""
    function = get_hash_fn_by_name("sha256")
    init_none_hash(function)
    return function


def requests(
    prompts: Sequence[Sequence[int]], block_size: int, output: int = 16, **fields: Any
) -> list[Request]:
    """A request for each prompt, named by its number, that ends after ``output`` tokens."""
    hasher = get_request_block_hasher(block_size, hash_function())
    params = SamplingParams(max_tokens=output, ignore_eos=True)
    params.update_from_generation_config({}, END)
    return [
        Request(
            request_id=str(number),
            prompt_token_ids=list(prompt),
            sampling_params=params,
            pooling_params=None,
            block_hasher=hasher,
            **fields,
        )
        for number, prompt in enumerate(prompts)
    ]


@dataclass
class Run:
    """What came of it.

    Attributes:
        hits: Cached tokens of each request when it was first scheduled.
        tables: Block ids of each, one list a layer group, as the worker was told.
        steps, resumed: How many steps, and how many times a preempted request came back.
        schedule_us, update_us: Processor time a step of vLLM's two calls.
    """

    hits: dict[str, int] = field(default_factory=dict)
    tables: dict[str, list[list[int]]] = field(default_factory=dict)
    steps: int = 0
    resumed: int = 0
    schedule_us: float = 0.0
    update_us: float = 0.0

    def note(self, output: Any) -> None:
        """Take in what a step tells the worker."""
        for new in output.scheduled_new_reqs:
            # vLLM's newer runner lists resumed requests among the new ones.
            self.resumed += new.req_id in self.hits
            self.hits.setdefault(new.req_id, new.num_computed_tokens)
            self.tables[new.req_id] = [list(group) for group in new.block_ids]
        cached = output.scheduled_cached_reqs
        for request, blocks in zip(cached.req_ids, cached.new_block_ids, strict=True):
            if request in cached.resumed_req_ids:
                self.tables[request] = [list(group) for group in blocks]
                self.resumed += 1
            elif blocks:
                for table, more in zip(self.tables[request], blocks, strict=True):
                    table += more


def run(
    made: Any,
    load: Load,
    before: Callable[[int], None] = lambda step: None,
    after: Callable[[Run, Any], None] = lambda run, output: None,
) -> Run:
    """Serve what the scheduler has, and what ``before`` adds, until no request is left.

    Args:
        made: The scheduler.
        load: What it was made of.
        before: Called with each step's number before it: may add and abort requests.
        after: Called with the run and what the worker is told, after each step is scheduled.
    """
    done, spent = Run(), [0.0, 0.0]
    waiting: deque[tuple[Any, Any]] = deque()
    while made.has_requests() or waiting:
        before(done.steps)
        start = time.thread_time()
        output = made.schedule()
        spent[0] += time.thread_time() - start
        done.note(output)
        after(done, output)
        waiting.append((output, sampled(made, output)))
        # Asynchronous: this step's tokens come after the next one is scheduled.
        while len(waiting) > (load.asynchronous and bool(output.num_scheduled_tokens)):
            given = waiting.popleft()
            start = time.thread_time()
            made.update_from_output(*given)
            spent[1] += time.thread_time() - start
            if load.drafts:
                made.update_draft_token_ids(drafted(given[0], load.drafts))
        done.steps += 1
    done.schedule_us, done.update_us = (each / max(done.steps, 1) * 1e6 for each in spent)
    return done


def sampled(made: Any, output: Any) -> ModelRunnerOutput:
    """A token for each request whose prompt is computed by then, and the drafted ones that are
    accepted; the same in every run.
    """
    ids = list(output.num_scheduled_tokens)
    tokens = []
    for name in ids:
        request = made.requests[name]
        drafts = len(output.scheduled_spec_decode_tokens.get(name, ()))
        place = request.num_computed_tokens - drafts
        known = place >= request.num_tokens
        accepted = (place * 31 + int(name)) % (drafts + 1)
        run = range(place, place + accepted + 1) if known else ()
        tokens.append([(at * 7919 + int(name)) % (VOCABULARY - 1) for at in run])
    return ModelRunnerOutput(
        req_ids=ids,
        req_id_to_index={name: at for at, name in enumerate(ids)},
        sampled_token_ids=tokens,
        logprobs=None,
        prompt_logprobs_dict={},
        pooler_output=None,
    )


def drafted(output: Any, count: int) -> DraftTokenIds:
    """As many drafted tokens for each request of a step."""
    ids = list(output.num_scheduled_tokens)
    return DraftTokenIds(ids, [[1] * count for _ in ids])
