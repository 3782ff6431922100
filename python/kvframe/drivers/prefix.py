"""What a manager calls to ask a prefix matcher written in Python."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
import numpy as np
import numpy.typing as npt

from kvframe._core import Manager as Core
from kvframe._core import Request
from kvframe.drivers.asker import Asker, Terms, check_filled
from kvframe.errors import PolicyError, UsageError
from kvframe.policies.prefix import BatchedIndex, BatchedPrefix, Ids, Keys, Prompts, overrides
from kvframe.registry import Loaded
from kvframe.registry.descriptors import PrefixMatcher

Changes = tuple[Any, Any, Any, Any, Any] | None
Answer = tuple[npt.NDArray[np.integer[Any]] | None, int | None]
Counts = npt.NDArray[np.int64]


class PrefixDriver(Asker[BatchedPrefix]):
    """Passes prompts on, and checks what comes back."""

    base = BatchedPrefix
    instead = "prompts are matched without it"

    def __init__(self, loaded: Loaded[PrefixMatcher], terms: Terms) -> None:
        super().__init__(loaded, terms)
        policy = self.policy
        self.is_index = isinstance(policy, BatchedIndex)
        self.takes = overrides(policy, "take")
        self.loads = overrides(policy, "load")
        self.rewrites = overrides(policy, "normalise") or overrides(policy, "namespace")
        self.wrong = 0
        self._rewritten: WeakKeyDictionary[Request, Request] = WeakKeyDictionary()
        # Changes are delivered in the order in which the core gave them.
        self._order = threading.RLock()

    # --- before keys are made -------------------------------------------------------------------

    def prepare(self, requests: Sequence[Request]) -> list[Request]:
        """The requests with their prompts rewritten and their namespaces in their salts."""
        if not self.rewrites or not requests:
            return list(requests)
        prompts = self._prompts(requests, None)
        texts = self.asked(lambda: self._normalised(requests, prompts))
        salts = self._salts(prompts)
        ready = []
        for i, request in enumerate(requests):
            text = texts[i] if texts is not None else None
            salt = salts[i] if salts is not None else None
            ready.append(request.rewrite(text, salt))
        return ready

    def rewritten(self, requests: Sequence[Request]) -> list[Request]:
        """Each request as `prepare` has it; the policy is asked about a request once."""
        if not self.rewrites:
            return list(requests)
        fresh = [r for r in requests if not r.rewritten and r not in self._rewritten]
        self._rewritten.update(zip(fresh, self.prepare(fresh), strict=True))
        return [self._rewritten.get(request, request) for request in requests]

    def _normalised(self, requests: Sequence[Request], prompts: Prompts) -> list[Ids | None]:
        if not overrides(self.policy, "normalise"):
            return [None] * len(prompts)
        texts = list(self.policy.normalise(prompts))
        self._check_count("normalise", texts, prompts)
        for i, (request, text) in enumerate(zip(requests, texts, strict=True)):
            fixed = bool(request.mm_items) or not len(prompts.tokens[i])
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
        """The salt of a request before `prepare` put its namespace in."""
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
        names = self.asked(lambda: self._named(prompts))
        if names is None:
            # A prompt without a name is encoded apart from those with one: no salt can be made to
            # look alike.
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

    def answers(self, core: Core, requests: list[Request]) -> list[Answer]:
        """The matcher's answer for each request, as the core takes it.

        If the matcher loads fewer tokens than a request offers, that request in ``requests`` is
        replaced by one that offers only these.
        """
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
            return self.asked(lambda: self._match(told, prompts))

    def _match(self, changes: Changes, prompts: Prompts) -> list[npt.NDArray[np.integer[Any]]]:
        index = self.policy
        assert isinstance(index, BatchedIndex)
        self.tell("changes", "it is", lambda: _tell_of(index, changes))
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

        taken = self.asked(ask)
        return found if taken is None else taken

    def _load(self, requests: list[Request], prompts: Prompts, taken: Counts) -> None:
        untils = np.array([request.external_until for request in requests], np.int64)
        exact = np.array([request.num_external_tokens for request in requests], np.int64)
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

        loaded = self.asked(ask)
        if loaded is None:
            return
        for place, tokens in zip(asked.tolist(), loaded.tolist(), strict=True):
            whole = tokens - tokens % self.block_size
            if tokens >= offered[place]:
                continue
            if untils[place] > 0:
                until = int(taken[place]) + whole if whole else 0
                requests[place] = requests[place].replace(external_until=until)
            else:
                requests[place] = requests[place].replace(num_external_tokens=whole)

    # --- a replay --------------------------------------------------------------------------------

    def match_keys(self, changes: Changes, keys: Keys) -> npt.NDArray[np.integer[Any]] | None:
        """Block ids for a prompt known by its keys; None if the index failed."""
        facts = (len(keys) * self.block_size, 0, 0)
        prompts = self._of_keys(facts, keys)
        named = self.asked(lambda: self._match(changes, prompts))
        return None if named is None else named[0]

    def taken_of(self, found: int, facts: tuple[int, int, int]) -> int | None:
        """Tokens taken of a prefix: ``facts`` are the prompt's tokens, session and turn."""
        prompts = self._of_keys(facts, np.zeros((0, 2), np.uint64))
        return int(self._taken(prompts, np.array([found], np.int64))[0])

    def was_wrong(self, answers: int) -> None:
        """The core found this many answers of the index wrong, and counts them as misses."""
        if not answers:
            return
        self.wrong += answers
        message = f"{self.origin}: it named blocks that do not hold the prompt's prefix"
        if self.strict:
            raise PolicyError(message)
        self.warner.warn("wrong", f"{message}; they count as not found")

    # --- checks ----------------------------------------------------------------------------------

    def _check_count(self, method: str, given: Sequence[object], prompts: Prompts) -> None:
        if len(given) != len(prompts):
            raise PolicyError(f"{method} gave {len(given)} answers for {len(prompts)} prompts")

    def _checked(self, method: str, told: object, out: Counts, most: Counts) -> Counts:
        check_filled(method, told, out, len(most))
        wrong = np.flatnonzero((out < 0) | (out > most))
        if len(wrong):
            i = int(wrong[0])
            raise PolicyError(f"{method}: out[{i}] = {out[i]}: must be between 0 and {most[i]}")
        return out

    def _prompts(self, requests: Sequence[Request], keys: Sequence[Keys] | None) -> Prompts:
        prompts = [request.prompt for request in requests]
        none = np.zeros(0, np.uint32)
        return Prompts(
            self.block_size,
            [_frozen(none if prompt is None else prompt) for prompt in prompts],
            keys,
            _frozen(np.array([len(request) for request in requests], np.int64)),
            [request.cache_salt for request in requests],
            _frozen(np.array([request.session for request in requests], np.uint64)),
            _frozen(np.array([request.turn for request in requests], np.uint32)),
            _frozen(np.array([request.request_class for request in requests], np.uint32)),
            _frozen(np.array([request.priority for request in requests], np.int32)),
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


def _tell_of(index: BatchedIndex, changes: Changes) -> None:
    if changes is not None:
        removed, inserted, keys, parents, depths = changes
        if len(removed):
            index.remove(removed)
        if len(inserted):
            index.insert(inserted, keys, parents, depths)


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


def driver(loaded: Loaded[PrefixMatcher], terms: Terms) -> PrefixDriver | None:
    """The driver of a matcher in Python, made anew; None for an index of the core."""
    return None if loaded.descriptor.make is None else PrefixDriver(loaded, terms)
