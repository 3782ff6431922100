"""A tree core of SGLang's on kvframe's `PrefixTree`: one crossing a call, no tree in Python.

Python keeps what a node stands for, a tensor of slots by the node's number, and SGLang's own types.
A node's name is SGLang's ``NodeId``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from sglang.srt.mem_cache.base_prefix_cache import (
    DecLockRefResult,
    IncLockRefResult,
    InsertResult,
    MatchResult,
)
from sglang.srt.mem_cache.events import KVCacheEventRecorder
from sglang.srt.mem_cache.unified_cache.cache_action import FreeDeviceKV
from sglang.srt.mem_cache.unified_cache.component_type import ComponentType
from sglang.srt.mem_cache.unified_cache.unified_tree_core_interface import (
    EvictDeviceLeafResult,
    EvictDeviceNextNodeResult,
    InsertStepResult,
    RadixCacheWalkResult,
    TreePathNodeInfo,
)

from kvframe.config import Resolved
from kvframe.errors import IntegrityError, UsageError
from kvframe.prefix_tree import PrefixTree, Split
from kvframe_sglang import loose
from kvframe_sglang.hostless import Hostless
from kvframe_sglang.log import logger
from kvframe_sglang.spans import Spans

FULL = ComponentType.FULL
NO_NODE = 2**32 - 1
"""The number of the root."""

T = TypeVar("T")


class KvframeTreeCore(Hostless):
    """The nodes of one cache under one policy.

    Args:
        params: SGLang's ``CacheInitParams``.
        resolved: Whose ``[eviction]`` names the policy.

    Attributes:
        tree: kvframe's.

    Raises:
        PluginError, PolicyError: The policy cannot be found, or not be made.
    """

    supports_rotation_base = False

    def __init__(self, params: Any, resolved: Resolved) -> None:
        self.page_size = params.page_size
        self.is_eagle = bool(params.is_eagle)
        allocator = params.token_to_kv_pool_allocator
        self.device = torch.device("cpu") if allocator is None else allocator.device
        self.kv_events = KVCacheEventRecorder(
            enabled=params.enable_kv_cache_events,
            page_size=self.page_size,
            dynamo_format=params.dynamo_kv_event_format,
            lora_names=params.kv_event_lora_names,
        )
        self.tree = PrefixTree(resolved, self.page_size, bigrams=self.is_eagle)
        self._failed = False
        self._start()

    def _start(self) -> None:
        self._values: list[torch.Tensor | None] = []
        recorder = self.kv_events
        self._spans = Spans(recorder, self.page_size) if recorder.enabled else None
        self._quota, self._step = 0, 0
        self._none = torch.empty((0,), dtype=torch.int64, device=self.device)
        self._root = self.tree.root
        self._miss = self._match(0, self._root)

    def reset(self) -> None:
        try:
            self.tree.clear()
        except Exception as error:
            self._tell(error)
            self.tree = PrefixTree.named("lru", self.page_size)
        self._start()

    # --- what is cached ---------------------------------------------------------------------------

    def match_prefix(self, params: Any) -> Any:
        key = params.key
        ids = loose.ids(key)
        found = self.tree.find(ids, loose.text(key.extra_key), loose.text(key.cache_salt))
        if found.split is not None:
            self._split(found.split)
        return self._match(found.tokens, found.node) if found.tokens else self._miss

    def _match(self, tokens: int, node: int) -> Any:
        return MatchResult(
            device_prefix_len=tokens,
            last_device_node=node,
            last_host_node=node,
            best_match_node=node,
            full_kv_hit_length=tokens,
            cache_actions=[],
            last_visited_node_id=node if tokens else None,
        )

    @property
    def empty_match_result(self) -> Any:
        return self._miss

    def match_full_device_prefix(self, key: Any) -> tuple[int, int, int]:
        salt = loose.text(key.cache_salt)
        return self.tree.peek(loose.ids(key), loose.text(key.extra_key), salt)

    def collect_full_device_indices(self, from_node_id: int, until_node_id: int) -> Any:
        path = _known(lambda: self.tree.path(from_node_id, until_node_id))
        if not path:
            return self._none
        return torch.cat([self._value(number) for number in path])

    def _value(self, number: int) -> torch.Tensor:
        value = self._values[number]
        assert value is not None, f"node {number} holds no slots"
        return value

    # --- a prompt is stored -----------------------------------------------------------------------

    def begin_insert(self, params: Any) -> Any:
        key, value = params.key, params.value
        ids = loose.ids(key)
        if value is None:
            value = torch.tensor(ids, dtype=torch.int64, device=self.device)
        elif len(value) < len(ids) - self.is_eagle:
            # What has no slot is not cached.
            ids = ids[: len(value) + self.is_eagle]
        stored = self.tree.store(
            *(ids, loose.text(key.extra_key), loose.text(key.cache_salt)),
            counted=loose.length(params.inserted_len),
            session=loose.text(params.session_id),
            priority=loose.priority(params.priority),
        )
        if stored.split is not None:
            self._split(stored.split)
        if stored.new is not None:
            self._put(stored.new, value[stored.found : stored.tokens].clone())
            if self._spans is not None:
                span = key.maybe_to_bigram_view(self.is_eagle)[0][stored.found : stored.tokens]
                above = self.tree.above(stored.node)
                after = None if above == self._root else above & NO_NODE
                self._spans.stored(stored.new, span, after, params.session_id)
        result = InsertResult(
            prefix_len=stored.found,
            last_device_node=stored.node,
            mamba_exist=not stored.tokens,
        )
        if params.track_adopted_ranges:
            result.adopted_ranges = {}
            result.record_adopted_range(FULL, stored.found, stored.tokens)
        twice = value[loose.length(params.prev_prefix_len) : stored.found]
        actions = [FreeDeviceKV([twice])] if len(twice) else []
        return InsertStepResult(actions=actions, result=result)

    def resume_insert(self) -> Any:
        raise RuntimeError("an insert is done in one step: none waits")

    def has_ongoing_insert(self) -> bool:
        return False

    def end_insert(self) -> list[Any]:
        return []

    def _split(self, split: Split) -> None:
        head, tail, tokens = split
        whole = self._value(tail)
        # Not views: the rest of a long prompt would stay as long as its first page.
        self._put(head, whole[:tokens].clone())
        self._values[tail] = whole[tokens:].clone()
        if self._spans is not None:
            self._spans.split(head, tail, tokens)

    def _put(self, number: int, value: torch.Tensor) -> None:
        values = self._values
        while len(values) <= number:
            values.append(None)
        values[number] = value

    # --- locks ------------------------------------------------------------------------------------

    def inc_lock_ref(self, node_id: int, skip_lock_components: Sequence[Any] = ()) -> Any:
        skipped = tuple(skip_lock_components)
        delta = 0 if FULL in skipped else _known(lambda: self.tree.lock(node_id))
        return IncLockRefResult(delta=delta, node_id=node_id, skipped_lock_components=skipped)

    def dec_lock_ref(self, node_id: int, params: Any, skip_swa: bool = False) -> Any:
        assert params.node_id == node_id, (
            f"a receipt of node {params.node_id} does not release node {node_id}"
        )
        if FULL not in params.skipped_lock_components:
            self.dec_full_pin(node_id)
        return DecLockRefResult()

    def inc_full_pin(self, node_id: int) -> None:
        _known(lambda: self.tree.lock(node_id))

    def dec_full_pin(self, node_id: int) -> None:
        try:
            self.tree.unlock(node_id)
        except UsageError as error:
            _known(lambda: self.tree.check(node_id))
            raise AssertionError(str(error)) from None

    # --- what goes --------------------------------------------------------------------------------

    def evict_device_start(self, component_type: Any, request_cnt: int) -> None:
        wanted = request_cnt if component_type == FULL else 0
        # Where SGLang asks for all, it looks after each node whether its allocator has enough.
        all_of_it = wanted >= self.full_evictable_size()
        self._quota, self._step = wanted, 1 if all_of_it else wanted

    def evict_device_next_node(self, component_type: Any, tracker: dict[Any, int]) -> Any:
        result = EvictDeviceNextNodeResult()
        wanted = self._quota - tracker.get(FULL, 0)
        if component_type == FULL and wanted > 0:
            self._free(result, *self._evicted(min(wanted, self._step)))
        result.made_progress = bool(result.tracker)
        return result

    def evict_device_end(self, component_type: Any) -> None:
        self._quota, self._step = 0, 0

    def evict_device_leaf(self, node_id: int, is_write_back: bool) -> Any:
        result = EvictDeviceLeafResult()
        tokens = _known(lambda: self.tree.evict_leaf(node_id))
        self._free(result, tokens, [node_id & NO_NODE])
        return result

    def _evicted(self, tokens: int) -> tuple[int, list[int]]:
        try:
            return self.tree.evict(tokens)
        except Exception as error:
            self._tell(error)
            return self.tree.evict_without_policy(tokens)

    def _free(self, result: Any, tokens: int, numbers: list[int]) -> None:
        if not numbers:
            return
        result.device_frees[FULL] = [self._value(number) for number in numbers]
        result.tracker[FULL] = result.unbacked_tokens = tokens
        for number in numbers:
            self._values[number] = None
            if self._spans is not None:
                self._spans.removed(number)

    def _tell(self, error: Exception) -> None:
        if not self._failed:
            logger.error(
                "kvframe's policy %s failed, and its least recently used go instead: %s: %s",
                *(self.tree.policy, type(error).__name__, error),
            )
        self._failed = True

    # --- sizes ------------------------------------------------------------------------------------

    def full_evictable_size(self) -> int:
        return self.tree.sizes[0]

    def full_protected_size(self) -> int:
        return self.tree.sizes[1]

    evictable_size = full_evictable_size
    protected_size = full_protected_size

    def component_evictable_size(self, component_type: Any) -> int:
        return self.tree.sizes[0] if component_type == FULL else 0

    def component_protected_size(self, component_type: Any) -> int:
        return self.tree.sizes[1] if component_type == FULL else 0

    def total_size(self) -> tuple[int, int]:
        return sum(self.tree.sizes), 0

    # --- looking ----------------------------------------------------------------------------------

    def root_node_handle(self, extra_key: str | None = None) -> int:
        return self._root

    def node_by_id(self, node_id: int) -> Any:
        _known(lambda: self.tree.check(node_id))
        raise AttributeError("a node of kvframe's tree is a number, not an object")

    def is_root(self, node_id: int) -> bool:
        return node_id == self._root

    def is_full_device_evicted(self, node_id: int) -> bool:
        _known(lambda: self.tree.check(node_id))
        return False

    def prefetch_anchor_info(self, node_id: int) -> tuple[str | None, str | None]:
        raise AttributeError("no storage is attached: nothing is prefetched")

    def get_component_device_value(self, node_id: int, component_type: Any) -> Any:
        _known(lambda: self.tree.check(node_id))
        return self._value(node_id & NO_NODE) if component_type == FULL else None

    def dfs_weight_order(self, node_ids: Sequence[int]) -> list[int]:
        return _known(lambda: self.tree.by_weight(node_ids))

    def collect_path_info(self, end_node_ids: Sequence[int]) -> tuple[tuple[Any, ...], ...]:
        paths = _known(lambda: [self.tree.path_nodes(node_id) for node_id in end_node_ids])
        return tuple(
            tuple(
                TreePathNodeInfo(node, above, start, end, end - start, children)
                for node, above, start, end, children in path
            )
            for path in paths
        )

    def all_values_flatten(self) -> Any:
        values = [self._value(number) for number, *_ in self.tree.all()]
        return torch.cat(values) if values else self._none

    def walk_for_kv_canary(self, unlocked_only: bool, swa_resident_only: bool) -> Any:
        last = {NO_NODE: -1}
        rows: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []
        for number, above, start, tokens, locks in self.tree.all():
            slots = self._value(number).to("cpu")
            last[number] = int(slots[-1])
            if not (unlocked_only and locks):
                before = torch.cat([torch.tensor([last[above]], dtype=torch.int64), slots[:-1]])
                rows.append((slots, torch.arange(start, start + tokens), before))
        columns = zip(*rows, strict=True) if rows else ((self._none.to("cpu"),),) * 3
        slots, positions, before = (torch.cat(list(column)) for column in columns)
        return RadixCacheWalkResult(
            slot_indices=slots, positions=positions, prev_slot_indices=before
        )

    def sanity_check(self, ongoing_write_through: Any, ongoing_load_back: Any) -> None:
        try:
            self.tree.check_integrity()
        except IntegrityError as error:
            raise AssertionError(str(error)) from None
        for number, _, _, tokens, _ in self.tree.all():
            assert len(self._value(number)) == tokens, f"node {number} has not a slot a token"

    def pretty_print(self) -> None:
        depth = {NO_NODE: 0}
        for number, above, _, tokens, locks in self.tree.all():
            depth[number] = depth[above] + 1
            print("  " * depth[number], f"[{number}] {tokens} tokens, {locks} locks")


def _known(call: Callable[[], T]) -> T:
    """What the tree answers; ``KeyError`` for a node that is not there, as in SGLang's trees."""
    try:
        return call()
    except UsageError as error:
        raise KeyError(str(error)) from None
