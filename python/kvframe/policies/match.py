"""What a manager calls to ask a prefix matcher written in Python."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from kvframe._core import Manager as Core
from kvframe._core import Request as CoreRequest
from kvframe.errors import PolicyError, UsageError
from kvframe.policies.budget import Budget
from kvframe.policies.making import made
from kvframe.policies.prefix import BatchedIndex, BatchedPrefix, Ids, Keys, Prompts, overrides
from kvframe.policies.report import failure, origin_of, warn_once
from kvframe.registry import Loaded
from kvframe.registry.descriptors import PrefixMatcher

T = TypeVar("T")
Changes = tuple[Any, Any, Any, Any, Any] | None
Answer = tuple[npt.NDArray[np.integer[Any]] | None, int | None]
Counts = npt.NDArray[np.int64]


class MatchDriver:
    """Passes prompts on, checks what comes back, tells of failures.

    One driver belongs to one manager or replay, as the policy object does.
    """

    def __init__(
        self,
        policy: object,
        loaded: Loaded[PrefixMatcher],
        block_size: int,
        strict: bool,
        budget_ms: float | None,
    ) -> None:
        self.name = loaded.descriptor.name
        self.origin = origin_of(loaded)
        if not isinstance(policy, BatchedPrefix):
            raise PolicyError(
                f"{self.origin}: make() gave a {type(policy).__name__}, "
                "not a kvframe.policies.BatchedPrefix"
            )
        self.policy = policy
        self.block_size = block_size
        self.strict = strict
        self.is_index = isinstance(policy, BatchedIndex)
        self.takes = overrides(policy, "take")
        self.loads = overrides(policy, "load")
        self.rewrites = overrides(policy, "normalise") or overrides(policy, "namespace")
        self.failures = 0
        self.wrong = 0
        self._budget = Budget(budget_ms, self.origin)
        self._lost: BaseException | None = None
        # Changes are told in the order they were taken from the core.
        self._order = threading.RLock()

    # --- before keys are made -------------------------------------------------------------------

    def prepare(self, requests: Sequence[CoreRequest]) -> list[CoreRequest]:
        """The requests with their prompts rewritten and their namespaces in their salts."""
        if not self.rewrites or not requests:
            return list(requests)
        prompts = self._prompts(requests, None)
        texts = self._guarded(lambda: self._normalised(requests, prompts))
        salts = self._salts(prompts)
        ready = []
        for i, request in enumerate(requests):
            text = texts[i] if texts is not None else None
            salt = salts[i] if salts is not None else None
            plain = text is None and salt is None
            ready.append(request if plain else request.changed(text, salt))
        return ready

    def _normalised(self, requests: Sequence[CoreRequest], prompts: Prompts) -> list[Ids | None]:
        if not overrides(self.policy, "normalise"):
            return [None] * len(prompts)
        texts = list(self.policy.normalise(prompts))
        self._check_count("normalise", texts, prompts)
        for i, (request, text) in enumerate(zip(requests, texts, strict=True)):
            fixed = bool(request.parts()[2]) or not len(prompts.tokens[i])
            if text is None or fixed:
                texts[i] = None
                continue
            array = np.asarray(text)
            if array.ndim != 1 or not len(array) or array.dtype.kind not in "iu":
                raise PolicyError(
                    f"normalise: prompt {i} is {array.dtype} of shape {array.shape}: must be a "
                    "row of at least one token id"
                )
            if array.min() < 0 or array.max() >= 2**32:
                raise PolicyError(f"normalise: prompt {i} holds ids out of 0 to {2**32 - 1}")
            same = np.array_equal(array, prompts.tokens[i])
            texts[i] = None if same else np.ascontiguousarray(array, np.uint32)
        return texts

    def salt_in(self, stored: str) -> str:
        """A request's salt, of what `prepare` made of it."""
        length, mark, rest = stored.partition(":")
        if not mark or not overrides(self.policy, "namespace"):
            return stored
        return rest[int(length) :]

    def _salts(self, prompts: Prompts) -> list[bytes] | None:
        """Each prompt's namespace and salt in one, so that no two pairs come out alike."""
        if not overrides(self.policy, "namespace"):
            return None
        for i, tokens in enumerate(prompts.tokens):
            if len(tokens) == 0 < prompts.lengths[i]:
                raise UsageError(
                    f"{self.origin} has a namespace for each prompt: keys alone cannot say it, "
                    "give the token ids"
                )
        names = self._guarded(lambda: self._named(prompts))
        if names is None:
            # Apart from all that has one: a salt could be made to look like it.
            names = [""] * len(prompts)
        return [
            f"{len(name)}:{name}{salt}".encode(errors="surrogateescape")
            for name, salt in zip(names, prompts.salts, strict=True)
        ]

    def _named(self, prompts: Prompts) -> list[str]:
        names = list(self.policy.namespace(prompts))
        self._check_count("namespace", names, prompts)
        for i, name in enumerate(names):
            if not isinstance(name, str):
                raise PolicyError(f"namespace {i} is {name!r}: must be a string")
            name.encode()
        return names

    # --- what is found, and taken ----------------------------------------------------------------

    def answers(self, core: Core, requests: list[CoreRequest]) -> list[Answer]:
        """What to tell the core of each request; where less is to be loaded, it is replaced."""
        if not (self.is_index or self.takes or self.loads) or not requests:
            return []
        keys = [core.keys_of_request(request) for request in requests]
        prompts = self._prompts(requests, keys)
        claims: list[Any] = [None] * len(requests)
        if self.is_index:
            named = self._matched(core.take_index_changes, prompts)
            if named is not None:
                good = core.check_answers(requests, named)
                self.was_wrong(int(sum(n < len(b) for n, b in zip(good, named, strict=True))))
                claims = [blocks[:n] for n, blocks in zip(good, named, strict=True)]
        answers: list[Answer] = [(blocks, None) for blocks in claims]
        if not (self.takes or self.loads):
            return answers
        found = np.array(
            [
                core.lookup_request(request, answer)[0]
                for request, answer in zip(requests, answers, strict=True)
            ],
            np.int64,
        )
        taken = self._taken(prompts, found) if self.takes else found
        if self.takes:
            rows = zip(claims, taken.tolist(), strict=True)
            answers = [(blocks, tokens) for blocks, tokens in rows]
        if self.loads:
            self._load(requests, prompts, taken)
        return answers

    def _matched(
        self, changes: Callable[[], Changes], prompts: Prompts
    ) -> list[npt.NDArray[np.integer[Any]]] | None:
        with self._order:
            told = changes()
            return self._guarded(lambda: self._match(told, prompts))

    def _match(self, changes: Changes, prompts: Prompts) -> list[npt.NDArray[np.integer[Any]]]:
        index = self.policy
        assert isinstance(index, BatchedIndex)
        if self._lost is not None:
            raise PolicyError(f"it failed on changes before, it is not whole: {self._lost}")
        try:
            if changes is not None:
                removed, inserted, keys, parents, depths = changes
                if len(removed):
                    index.remove(removed)
                if len(inserted):
                    index.insert(inserted, keys, parents, depths)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self._lost = error
            raise
        named = [np.asarray(blocks) for blocks in index.match(prompts)]
        self._check_count("match", named, prompts)
        for i, blocks in enumerate(named):
            if len(blocks) == 0:
                named[i] = np.zeros(0, np.int64)
            elif blocks.ndim != 1 or blocks.dtype.kind not in "iu":
                raise PolicyError(
                    f"match: answer {i} is {blocks.dtype} of shape {blocks.shape}: must be a row "
                    "of block ids"
                )
            elif blocks.min() < 0 or blocks.max() >= 2**32:
                raise PolicyError(f"match: answer {i} names {blocks.min()}, which is no block id")
        return named

    def _taken(self, prompts: Prompts, found: Counts) -> Counts:
        out = found.copy()
        given = _frozen(found)

        def ask() -> Counts:
            told: object = self.policy.take(prompts, given, out)  # type: ignore[func-returns-value]
            return self._checked("take", told, out, given)

        taken = self._guarded(ask)
        return found if taken is None else taken

    def _load(self, requests: list[CoreRequest], prompts: Prompts, taken: Counts) -> None:
        facts = [request.facts() for request in requests]
        untils = np.array([until for *_, until in facts], np.int64)
        exact = np.array([external for *_, external, _ in facts], np.int64)
        offered = np.where(untils > 0, np.maximum(untils - taken, 0), exact)
        asked = np.flatnonzero(offered)
        if not len(asked):
            return
        out = offered[asked].copy()
        given, found = _frozen(offered[asked]), _frozen(taken[asked])
        some = _picked(prompts, asked)

        def ask() -> Counts:
            told: object = self.policy.load(some, found, given, out)  # type: ignore[func-returns-value]
            return self._checked("load", told, out, given)

        loaded = self._guarded(ask)
        if loaded is None:
            return
        for place, tokens in zip(asked.tolist(), loaded.tolist(), strict=True):
            whole = tokens - tokens % self.block_size
            if tokens >= offered[place]:
                continue
            if untils[place] > 0:
                until = int(taken[place]) + whole if whole else 0
                requests[place] = requests[place].changed(external_until=until)
            else:
                requests[place] = requests[place].changed(external=whole)

    # --- a replay --------------------------------------------------------------------------------

    def match_keys(self, changes: Changes, keys: Keys) -> npt.NDArray[np.integer[Any]] | None:
        """Block ids for a prompt known by its keys; None if the index failed."""
        facts = (len(keys) * self.block_size, 0, 0)
        prompts = self._of_keys(facts, keys)
        named = self._guarded(lambda: self._match(changes, prompts))
        return None if named is None else named[0]

    def taken_of(self, found: int, facts: tuple[int, int, int]) -> int | None:
        """Tokens taken of a prefix: ``facts`` are the prompt's tokens, session and turn."""
        prompts = self._of_keys(facts, np.zeros((0, 2), np.uint64))
        return int(self._taken(prompts, np.array([found], np.int64))[0])

    def was_wrong(self, answers: int) -> None:
        """The core found so many answers of the index wrong: they are misses."""
        if not answers:
            return
        self.wrong += answers
        message = f"{self.origin}: it named blocks that do not hold the prompt's prefix"
        if self.strict:
            raise PolicyError(message)
        warn_once(f"{self.origin} wrong", f"{message}; they count as not found")

    # --- checks ----------------------------------------------------------------------------------

    def _guarded(self, ask: Callable[[], T]) -> T | None:
        """What the policy says; None where it failed, or is not asked any more."""
        if self._budget.is_spent:
            return None
        try:
            with self._budget, np.errstate(invalid="raise"):
                return ask()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self.failures += 1
            told = failure(self.origin, error, self.strict, "prompts are matched without it")
            if self.strict:
                raise told from error
            return None

    def _check_count(self, method: str, given: Sequence[object], prompts: Prompts) -> None:
        if len(given) != len(prompts):
            raise PolicyError(f"{method} gave {len(given)} answers for {len(prompts)} prompts")

    def _checked(self, method: str, told: object, out: Counts, most: Counts) -> Counts:
        if told is not None:
            raise PolicyError(f"{method} must fill out and return None")
        if out.dtype != np.int64 or out.shape != most.shape:
            raise PolicyError(f"{method} changed the type or the shape of out")
        wrong = np.flatnonzero((out < 0) | (out > most))
        if len(wrong):
            i = int(wrong[0])
            raise PolicyError(f"{method}: out[{i}] = {out[i]}: must be between 0 and {most[i]}")
        return out

    def _prompts(self, requests: Sequence[CoreRequest], keys: Sequence[Keys] | None) -> Prompts:
        facts = [request.facts() for request in requests]
        parts = [request.parts() for request in requests]
        lengths, sessions, turns, classes, priorities = (
            [row[column] for row in facts] for column in range(5)
        )
        return Prompts(
            self.block_size,
            [_frozen(part[0]) for part in parts],
            keys,
            _frozen(np.array(lengths, np.int64)),
            [bytes(part[1][0]).decode(errors="surrogateescape") for part in parts],
            _frozen(np.array(sessions, np.uint64)),
            _frozen(np.array(turns, np.uint32)),
            _frozen(np.array(classes, np.uint32)),
            _frozen(np.array(priorities, np.int32)),
        )

    def _of_keys(self, facts: tuple[int, int, int], keys: Keys) -> Prompts:
        length, session, turn = facts
        none = np.zeros(1, np.uint32)
        return Prompts(
            self.block_size,
            [np.zeros(0, np.uint32)],
            [keys],
            np.array([length], np.int64),
            [""],
            np.array([session], np.uint64),
            np.array([turn], np.uint32),
            none,
            none.astype(np.int32),
        )


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    view = array.view()
    view.setflags(write=False)
    return view


def _picked(prompts: Prompts, rows: npt.NDArray[np.int64]) -> Prompts:
    def pick(column: Any) -> Any:
        if isinstance(column, np.ndarray):
            return _frozen(column[rows])
        return column if column is None else [column[row] for row in rows.tolist()]

    names = [name for name in Prompts.__struct_fields__ if name != "block_size"]
    columns = {name: pick(getattr(prompts, name)) for name in names}
    return msgspec.structs.replace(prompts, **columns)


def matcher_of(
    loaded: Loaded[PrefixMatcher],
    options: msgspec.Struct | None,
    block_size: int,
    strict: bool = True,
    budget_ms: float | None = None,
) -> MatchDriver | None:
    """The driver of a matcher in Python, made anew; None for an index of the core."""
    if loaded.descriptor.make is None:
        return None
    return MatchDriver(made(loaded, options), loaded, block_size, strict, budget_ms)
