"""The batched way to write a prefix matcher: how prompts become keys, and what is taken of a hit.

Each method answers for all prompts of a step at once. A matcher overrides those it has a rule for;
one that overrides none of a kind costs nothing there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.uint32]
Keys = npt.NDArray[np.uint64]


class Prompts(msgspec.Struct, frozen=True):
    """Prompts of one question, one entry of each column a prompt. Arrays are read-only.

    Attributes:
        block_size: Tokens in a block.
        tokens: Token ids; empty where only keys are known, as in a replay.
        keys: uint64 (blocks, 2): keys of the full blocks, low word first. None where they are not
            made yet (`BatchedPrefix.normalise`, `BatchedPrefix.namespace`).
        lengths: int64: tokens of each.
        salts: As the request says.
        sessions: uint64.
        turns: uint32.
        request_classes: uint32.
        priorities: int32.
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
    """Base class of prefix matchers in Python. Override what there is a rule for."""

    def normalise(self, prompts: Prompts) -> Sequence[Ids | None]:
        """The prompts as they are to be computed, stored and found; None leaves one as it is.

        The model then sees what is returned: `Grant.prompt`. A request is asked about once, however
        often it is tried, and not again after a preemption; one with multimodal extras is not.
        """
        raise NotImplementedError

    def namespace(self, prompts: Prompts) -> Sequence[str]:
        """A namespace for each prompt besides its salt: prefixes are shared within one only.

        Prompts known by their keys alone are refused, as those cannot say it.
        """
        raise NotImplementedError

    def take(
        self, prompts: Prompts, found: npt.NDArray[np.int64], out: npt.NDArray[np.int64]
    ) -> None:
        """Fill ``out``, which holds ``found``, with the tokens to take of each found prefix."""
        raise NotImplementedError

    def load(
        self,
        prompts: Prompts,
        found: npt.NDArray[np.int64],
        offered: npt.NDArray[np.int64],
        out: npt.NDArray[np.int64],
    ) -> None:
        """Fill ``out``, which holds ``offered``, with the tokens to load after those taken.

        ``offered`` are those that ``Request.external`` says somebody else could bring; what is not
        loaded is computed. Asked about prompts with such an offer only.
        """
        raise NotImplementedError


class BatchedIndex(BatchedPrefix):
    """Base class of whole indexes in Python: `match` in place of the core's own.

    The core checks every answer against the keys it stored (and the tokens, under a hash that is
    not cryptographic): what is wrong is a miss, and counted.
    """

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
        """Blocks became findable: their keys, the blocks they follow or -1, their places.

        Told before the `match` that may need them, removals before.
        """
        raise NotImplementedError

    def remove(self, blocks: npt.NDArray[np.uint32]) -> None:
        """Blocks are findable no more."""
        raise NotImplementedError


def overrides(policy: BatchedPrefix, method: str) -> bool:
    """Whether a matcher has a rule of its own there."""
    return getattr(type(policy), method) is not getattr(BatchedPrefix, method)
