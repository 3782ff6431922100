"""A KV manager that only repeats what another answered: what a step takes without one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from vllm.v1.core.kv_cache_manager import KVCacheBlocks

CALLS = (
    *("new_step_starts", "get_computed_blocks", "allocate_slots", "get_blocks", "free"),
    *("cache_blocks", "estimate_cached_tokens", "record_prefix_cache_stats", "take_events"),
    *("make_prefix_cache_stats", "take_boundary_state_offloads", "take_kv_cache_block_copies"),
    *("take_new_block_ids", "remove_skipped_blocks"),
)
"""What the scheduler calls of its manager."""


def record(manager: Any) -> dict[str, list[Any]]:
    """Have a manager note what it answers to each call, by the call's name."""
    answers: dict[str, list[Any]] = {name: [] for name in CALLS}
    for name, noted in answers.items():
        setattr(manager, name, noting(getattr(manager, name), noted, manager.empty_kv_cache_blocks))
    return answers


def noting(call: Callable[..., Any], noted: list[Any], empty: Any) -> Callable[..., Any]:
    """The same call; its answer is noted as it is then."""

    def noting_call(*args: Any, **kwargs: Any) -> Any:
        answer = call(*args, **kwargs)
        noted.append(_kept(answer, empty))
        return answer

    return noting_call


def _kept(answer: Any, empty: Any) -> Any:
    """An answer that does not change any more: vLLM gives out the very lists of a request."""
    if isinstance(answer, tuple) and answer and isinstance(answer[0], KVCacheBlocks):
        return (_kept(answer[0], empty), *answer[1:])
    if isinstance(answer, KVCacheBlocks) and answer is not empty:
        return KVCacheBlocks(tuple(list(group) for group in answer.blocks))
    return answer


class Repeated:
    """A manager in the place of the one that answered, for the same requests.

    Args:
        stock: vLLM's own, of which all but the calls is taken.
        answers: Of `record`.
    """

    usage = 0.5

    def __init__(self, stock: Any, answers: dict[str, list[Any]]) -> None:
        self.__dict__.update(vars(stock))
        for name, noted in answers.items():
            setattr(self, name, repeating(iter(noted)))


def repeating(answers: Iterator[Any]) -> Callable[..., Any]:
    """A call that answers the same as before."""

    def repeating_call(*args: Any, **kwargs: Any) -> Any:
        return next(answers)

    return repeating_call
