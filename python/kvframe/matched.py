"""Requests on their way into the core, past prefix matchers and admission policies in Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Unpack, cast

import numpy as np
import numpy.typing as npt

from kvframe._core import Manager as Core
from kvframe.arguments import shown
from kvframe.config import Config
from kvframe.errors import ConfigError, HeldError, UsageError
from kvframe.policies.admission import Waiting
from kvframe.policies.gate import AdmissionDriver
from kvframe.policies.match import Answer, MatchDriver
from kvframe.request import MMItem, Request, RequestOptions, TokenIds, name_bytes, space
from kvframe.results import Fit, Grant, Hit, Reason, Stepped

PER_TRY = ("chunk", "until", "partial", "resumed")
"""Options of a request that each attempt to admit it may set anew."""


def check_index(matcher: MatchDriver | None, config: Config) -> None:
    """Check that the configuration suits an index in Python, whose answers the core checks by key.

    Raises:
        ConfigError: There are groups other than one of full attention, or ``cache.index`` is not
            ``hash``.
    """
    if matcher is None or not matcher.is_index:
        return
    groups = [(group.kind, group.block_size, group.lag) for group in config.groups]
    plain = groups in ([("full", None, 0)], [("full", config.cache.block_size, 0)])
    if not plain or config.cache.index != "hash":
        raise ConfigError(
            f'prefix.policy = "{matcher.name}": an index in Python needs cache.index = "hash" and '
            "one group of full attention in blocks of cache.block_size"
        )


class Ready(NamedTuple):
    """Requests as the core gets them.

    Attributes:
        cores: The core's requests.
        answers: The matcher's answer for each; empty without a matcher.
        prompts: The prompt to compute in place of the one that was asked for, or None.
    """

    cores: list[Request]
    answers: list[Answer]
    prompts: list[npt.NDArray[np.uint32] | None]


class Turns(NamedTuple):
    """The requests of a step: those that are tried, and why the others wait.

    Attributes:
        ready: Those that are tried.
        places: Their places among all.
        held: For each of all, why it waits, or None.
        tries_all: Whether those behind one that waits are tried.
    """

    ready: Ready
    places: list[int]
    held: list[HeldError | None]
    tries_all: bool

    def told(self, stepped: Stepped) -> Stepped:
        """The answer of a step that got only the requests that are tried, for all requests."""
        count = len(self.held)
        grants: list[Grant | None] = [None] * count
        rows = zip(self.places, stepped.grants, self.ready.prompts, strict=True)
        for place, grant, prompt in rows:
            grants[place] = None if grant is None else grant._replace(prompt=prompt)
        before = len(stepped.reasons) - len(self.places)
        reasons = np.full(before + count, Reason.NOT_TRIED, np.uint8)
        reasons[:before] = stepped.reasons[:before]
        reasons[[before + place for place in self.places]] = stepped.reasons[before:]
        refused = [
            (kind, self.places[place] if kind == "admit" else place, error)
            for kind, place, error in stepped.refused
        ]
        # Whoever stands behind one that waits is not tried, unless refusals are skipped.
        end = count if self.tries_all else len(self.places) + 1
        for place, error in enumerate(self.held[:end]):
            if error is not None:
                reasons[before + place] = Reason.HELD
                refused.append(("admit", place, error))
        return stepped._replace(grants=grants, reasons=reasons, refused=refused)


class Matched:
    """The methods of `KVCacheManager` that ask about requests and admit them."""

    _core: Core
    _matcher: MatchDriver | None
    _gate: AdmissionDriver | None

    def _asks_of_queue(self) -> bool:
        """Whether something in Python is asked about all that waits before any of it is tried."""
        return self._matcher is not None or (self._gate is not None and self._gate.holds)

    def _rewritten(self, requests: Sequence[Request]) -> list[Request]:
        """Each request as the matcher rewrites it; it is asked about a request once."""
        matcher = self._matcher
        return list(requests) if matcher is None else matcher.rewritten(requests)

    def _stored_as(
        self,
        prompt: TokenIds,
        salt: str,
        adapter: str,
        extras: Iterable[MMItem],
        encoder: bytes = b"",
    ) -> tuple[TokenIds, dict[str, Any]]:
        """A prompt, and what sets it apart, as a request for it is stored."""
        matcher = self._matcher
        if matcher is None or not matcher.rewrites:
            return prompt, space(salt, adapter, extras, encoder)
        (stored,) = self._rewritten([_asked(prompt, salt, adapter, extras, encoder)])
        stored_salt, stored_adapter, _ = stored.origin()
        named = {"salt": stored_salt, "adapter": stored_adapter, "encoder": stored.encoder}
        return cast(TokenIds, stored.prompt), {**named, "extras": stored.mm_items}

    def _salt_of(self, stored: bytes) -> str:
        """The salt of the requests that the core knows by that salt."""
        text = stored.decode(errors="surrogateescape")
        return text if self._matcher is None else self._matcher.salt_in(text)

    def _salts_of(self, salt: str) -> list[bytes]:
        """The salts by which the core knows requests of a salt, as far as it has any."""
        stored = name_bytes("cache_salt", salt)
        if self._matcher is None or not self._matcher.rewrites:
            return [stored]
        return [one for one in (b"", *self._core.salts()) if self._salt_of(one) == salt]

    def _ready(self, requests: Sequence[Request]) -> Ready:
        cores = self._rewritten(requests)
        prompts = [
            None if core is request else other_prompt(core, request)
            for core, request in zip(cores, requests, strict=True)
        ]
        matcher = self._matcher
        answers = [] if matcher is None else matcher.answers(self._core, cores)
        return Ready(cores, answers, prompts)

    def _turns(self, requests: Sequence[Request], tries_all: bool) -> Turns | None:
        """Which requests a step tries, where all of them are to be shown to Python first."""
        if not requests:
            return None
        held = self._waits(requests)
        places = [place for place, why in enumerate(held) if why is None]
        if not tries_all:
            places = [place for at, place in enumerate(places) if at == place]
        ready = self._ready([requests[place] for place in places])
        return Turns(ready, places, held, tries_all)

    def _waits(self, requests: Sequence[Request]) -> list[HeldError | None]:
        """Why each request does not start now, as the admission policy says."""
        gate = self._gate
        if gate is None or not gate.holds or not requests:
            return [None] * len(requests)
        free, cached, referenced, total = self._core.counts()
        about = Waiting(
            block_size=gate.block_size,
            free=free,
            cached=cached,
            referenced=referenced,
            total=total,
            running=len(self._core.live()),
            tokens=np.array([len(request) for request in requests], np.int64),
            sessions=np.array([request.session for request in requests], np.uint64),
            turns=np.array([request.turn for request in requests], np.int64),
            request_classes=np.array([r.request_class for r in requests], np.int64),
            priorities=np.array([request.priority for request in requests], np.int64),
        )
        told = gate.waits(about)
        return [None if reason is None else HeldError(reason) for reason in told]

    def lookup(
        self,
        prompt: Request | TokenIds,
        *,
        cache_salt: str = "",
        lora_name: str = "",
        encoder: bytes = b"",
        mm_items: Iterable[MMItem] = (),
    ) -> Hit:
        """How much of a prompt could be reused now. Changes and counts nothing.

        Args:
            prompt: Token ids, or a `Request`, which is then hashed once for this and for `admit`.
            cache_salt: As in `Request`; a `Request` has its own, as it has the other three.
            lora_name: As in `Request`.
            encoder: As in `Request`.
            mm_items: As in `Request`.

        Raises:
            UsageError: A value is wrong, or is given beside a `Request`.
        """
        if isinstance(prompt, Request):
            if cache_salt or lora_name or encoder or tuple(mm_items):
                raise UsageError(
                    "cache_salt, lora_name, encoder and mm_items are the request's own: "
                    "leave them out"
                )
        elif self._matcher is None:
            return Hit(
                *self._core.lookup(prompt, **space(cache_salt, lora_name, mm_items, encoder))
            )
        else:
            prompt = _asked(prompt, cache_salt, lora_name, mm_items, encoder)
        ready = self._ready([prompt])
        return Hit(*self._core.lookup_request(ready.cores[0], *ready.answers))

    def fits(self, request: Request) -> Fit:
        """Whether `admit` would admit a request now, later or never. Changes nothing."""
        if not isinstance(request, Request):
            raise UsageError(f"request = {shown(request)}: must be a Request")
        return Fit(self._core.fits(self._rewritten([request])[0]))

    def admit(self, prompt: Request | TokenIds | None, **options: Unpack[RequestOptions]) -> Grant:
        """Admit a request: own what is cached of its prompt, and get slots for the rest.

        Args:
            prompt: A `Request`, or token ids with the keywords of `Request`.
            **options: See `Request`. With a `Request`, only ``chunk``, ``until``, ``partial`` and
                ``resumed``, which apply to this attempt.

        Raises:
            NeverFitsError: The prompt needs more blocks than the pool has.
            CapacityError: It needs more blocks than are free or evictable now.
            HeldError: The admission policy makes it wait.
            UsageError: An option that belongs to the `Request` is given beside it.
        """
        if not isinstance(prompt, Request):
            return self._admitted(Request(prompt, **options))
        if fixed := options.keys() - PER_TRY:
            raise UsageError(f"{', '.join(sorted(fixed))}: part of the Request; make another")
        return self._admitted(
            prompt,
            chunk=options.get("chunk"),
            until=options.get("until"),
            partial=options.get("partial"),
            resumed=options.get("resumed"),
        )

    def _admitted(self, request: Request, **tries: Any) -> Grant:
        if self._matcher is None and self._gate is None:
            return Grant(*self._core.admit(request, **tries))
        (held,) = self._waits([request])
        if held is not None:
            raise held
        cores, answers, (prompt,) = self._ready([request])
        answer = answers[0] if answers else None
        return Grant(*self._core.admit(cores[0], **tries, answer=answer), prompt)

    def prefix_stats(self) -> dict[str, int]:
        """How often a prefix matcher in Python failed, and how many of its answers were wrong."""
        matcher = self._matcher
        if matcher is None:
            return {"prefix_failures": 0, "prefix_wrong": 0}
        return {"prefix_failures": matcher.failures, "prefix_wrong": matcher.wrong}


def other_prompt(stored: Request, asked: Request) -> npt.NDArray[np.uint32] | None:
    """The prompt as it is stored, if it is another than the one that was asked for."""
    tokens = stored.prompt
    return None if tokens is None or np.array_equal(tokens, cast(Any, asked.prompt)) else tokens


def _asked(
    prompt: TokenIds, salt: str, adapter: str, extras: Iterable[MMItem], encoder: bytes
) -> Request:
    return Request(prompt, cache_salt=salt, lora_name=adapter, mm_items=extras, encoder=encoder)
