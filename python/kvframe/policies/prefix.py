"""The batched way to write a prefix matcher: how prompts become keys, and what is used of a hit.

Each method answers for all prompts of a step at once. A matcher overrides the methods that it has a
rule for; the others cost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from kvframe.registry.descriptors import Kind

Ids = npt.NDArray[np.uint32]
Keys = npt.NDArray[np.uint64]


class Prompts(msgspec.Struct, frozen=True):
    """The prompts that a matcher is asked about: one entry per prompt. Arrays are read-only.

    Attributes:
        block_size: Tokens in a block.
        tokens: Token ids of each; empty where only keys are known, as in a replay.
        keys: uint64 (blocks, 2) of each: keys of its full blocks, low word first. None if they are
            not made yet (`BatchedPrefix.normalise`, `BatchedPrefix.namespace`).
        lengths: int64: tokens of each prompt.
        salts: The salt of each request.
        sessions: uint64: its session.
        turns: uint32: its turn.
        request_classes: uint32: its class.
        priorities: int32: its priority.
    """

    block_size: int
    tokens: Sequence[Ids]
    keys: Sequence[Keys] | None
    lengths: npt.NDArray[np.int64]
    salts: Sequence[str]
    sessions: npt.NDArray[np.uint64]
    turns: npt.NDArray[np.uint32]
    request_classes: npt.NDArray[np.uint32]
    priorities: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.lengths)


class BatchedPrefix:
    """Base class of prefix matchers in Python. Override the methods that you have a rule for."""

    kvframe_kind: ClassVar[Kind] = "prefix"

    def normalise(self, prompts: Prompts) -> Sequence[Ids | None]:
        """The prompts to compute, store and look up; None leaves a prompt unchanged.

        The model then computes what is returned: `Allocation.prompt`. A matcher sees each request
        once, however often it is tried and whether or not it is preempted, and sees no request with
        multimodal items.
        """
        raise NotImplementedError

    def namespace(self, prompts: Prompts) -> Sequence[str]:
        """A namespace for each prompt: prefixes are shared only within one namespace and salt.

        Prompts that are given as keys alone are refused, because keys cannot carry a namespace.
        """
        raise NotImplementedError

    def take(
        self, prompts: Prompts, found: npt.NDArray[np.int64], out: npt.NDArray[np.int64]
    ) -> None:
        """Fill ``out``, which holds ``found``, with how many found tokens to use of each prompt."""
        raise NotImplementedError

    def load(
        self,
        prompts: Prompts,
        found: npt.NDArray[np.int64],
        offered: npt.NDArray[np.int64],
        out: npt.NDArray[np.int64],
    ) -> None:
        """Fill ``out``, which holds ``offered``, with how many tokens to load after those used.

        ``offered`` counts the tokens whose KV can be loaded from elsewhere
        (``Request.num_external_tokens``, ``Request.external_until``). Tokens that are not loaded
        are computed. kvframe calls this only for prompts with such an offer.
        """
        raise NotImplementedError


class BatchedIndex(BatchedPrefix):
    """Base class of whole indexes in Python, whose `match` replaces the core's own.

    The core checks every answer against the keys it stored (and the tokens, under a hash that is
    not cryptographic): a wrong answer is a miss, and is counted.
    """

    kvframe_kind: ClassVar[Kind] = "prefix"

    def match(self, prompts: Prompts) -> Sequence[npt.NDArray[np.integer[Any]]]:
        """Block ids of the longest prefix of each prompt, from the first block on."""
        raise NotImplementedError

    def insert(
        self,
        blocks: npt.NDArray[np.uint32],
        keys: Keys,
        parents: npt.NDArray[np.int64],
        depths: npt.NDArray[np.uint32],
    ) -> None:
        """Add blocks that became findable.

        ``keys`` are their keys, ``parents`` the blocks that they follow (-1 for none), and
        ``depths`` their places in the prefix, in blocks. The call comes after `remove`, and before
        the `match` that may find the blocks.
        """
        raise NotImplementedError

    def remove(self, blocks: npt.NDArray[np.uint32]) -> None:
        """Blocks are no longer findable."""
        raise NotImplementedError


def overrides(policy: BatchedPrefix, method: str) -> bool:
    """Whether a matcher has a rule of its own there."""
    return getattr(type(policy), method) is not getattr(BatchedPrefix, method)
