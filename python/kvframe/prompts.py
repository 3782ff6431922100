"""Requests on their way into the core, past prefix matchers and admission policies in Python."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from kvframe._core import Manager as Core
from kvframe.config import Config
from kvframe.drivers.admission import AdmissionDriver
from kvframe.drivers.prefix import Answer, PrefixDriver
from kvframe.errors import ConfigError, HeldError, UsageError
from kvframe.policies.admission import Waiting
from kvframe.public import PublicPrefixes
from kvframe.request import MMItem, Request, TokenIds, name_bytes, space
from kvframe.results import Allocation, Hit, Reason, StepResult

_log = logging.getLogger("kvframe.manager")


def check_index(matcher: PrefixDriver | None, config: Config) -> None:
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

    def answer(self, result: StepResult) -> StepResult:
        """Extend the result of a step to the requests that the step did not get.

        The step got only the requests that it was to try. Each other request is reported as held
        or as not tried.
        """
        count = len(self.held)
        allocations: list[Allocation | None] = [None] * count
        rows = zip(self.places, result.allocations, self.ready.prompts, strict=True)
        for place, given, prompt in rows:
            allocations[place] = None if given is None else given._replace(prompt=prompt)
        before = len(result.reasons) - len(self.places)
        reasons = np.full(before + count, Reason.NOT_TRIED, np.uint8)
        reasons[:before] = result.reasons[:before]
        reasons[[before + place for place in self.places]] = result.reasons[before:]
        refused = [
            (kind, self.places[place] if kind == "allocate" else place, error)
            for kind, place, error in result.refused
        ]
        # A request behind one that waits is not tried, unless refusals are skipped.
        end = count if self.tries_all else len(self.places) + 1
        for place, error in enumerate(self.held[:end]):
            if error is not None:
                reasons[before + place] = Reason.HELD
                refused.append(("allocate", place, error))
        return result._replace(allocations=allocations, reasons=reasons, refused=refused)


class Prompts:
    """What policies in Python do to requests before the core of a manager gets them.

    Args:
        core: The manager's core.
        matcher: The prefix matcher, if it is in Python.
        gate: The admission policy, if it is in Python.
        public: What all requests share, if they share anything.
        tiers: Names of the tiers that are on.

    Attributes:
        public: As above.
        unkept: Those that nothing keeps so far; none once the log has said so.
    """

    def __init__(
        self,
        core: Core,
        matcher: PrefixDriver | None,
        gate: AdmissionDriver | None,
        public: PublicPrefixes | None = None,
        tiers: Sequence[str] = (),
    ) -> None:
        self.matcher, self.public = matcher, public
        self._core, self._gate = core, gate
        self.unkept = tiers

    def tell_unkept(self) -> None:
        """Say in the log that the first request comes although nothing keeps the tiers."""
        _log.warning(
            "[[tiers]] (%s) without effect: requests come, and no kvframe.tiers.Tiers is made over "
            "this manager; nothing goes below the pool",
            ", ".join(self.unkept),
        )
        self.unkept = ()

    def replace_gate(self, gate: AdmissionDriver | None) -> None:
        """Ask another admission policy from now on; None asks none in Python."""
        self._gate = gate

    @property
    def are_plain(self) -> bool:
        """Whether requests go to the core as they are."""
        return self.matcher is None and self._gate is None and self.public is None

    @property
    def asks_of_queue(self) -> bool:
        """Whether a policy in Python sees all waiting requests before any of them is tried."""
        return self.matcher is not None or (self._gate is not None and self._gate.holds)

    def rewritten(self, requests: Sequence[Request]) -> list[Request]:
        """Each request as the matcher rewrites it, and with what is public of it marked.

        Of a request that comes back after a preemption, both are settled.
        """
        matcher, public = self.matcher, self.public
        stored = list(requests) if matcher is None else matcher.rewritten(requests)
        if public is None:
            return stored
        pairs = zip(requests, stored, strict=True)
        return [one if asked.rewritten else public.shared(one) for asked, one in pairs]

    def stored_as(
        self,
        prompt: TokenIds,
        cache_salt: str,
        lora_name: str,
        mm_items: Iterable[MMItem],
        encoder: bytes = b"",
        tenant: str = "",
    ) -> tuple[TokenIds, dict[str, Any]]:
        """A prompt, and what sets it apart, as a request for it is stored."""
        matcher = self.matcher
        if self.public is None and (matcher is None or not matcher.rewrites):
            return prompt, space(cache_salt, lora_name, mm_items, encoder, tenant)
        asked = prompt_alone(prompt, cache_salt, lora_name, mm_items, encoder, tenant)
        (stored,) = self.rewritten([asked])
        stored_salt, stored_adapter, _, whose, public = stored.origin()
        named: dict[str, Any] = {
            "salt": stored_salt,
            "adapter": stored_adapter,
            "encoder": stored.encoder,
        }
        if public:
            named["public"] = public
        if whose:
            named["tenant"] = whose
        return cast(TokenIds, stored.prompt), {**named, "extras": stored.mm_items}

    def salt_of(self, stored: bytes) -> str:
        """The salt that requests came with, from the salt by which the core knows them."""
        text = stored.decode(errors="surrogateescape")
        return text if self.matcher is None else self.matcher.salt_in(text)

    def salts_of(self, salt: str) -> list[bytes]:
        """The salts by which the core knows requests of a salt, as far as it has any."""
        stored = name_bytes("cache_salt", salt)
        if self.matcher is None or not self.matcher.rewrites:
            return [stored]
        return [one for one in (b"", *self._core.salts()) if self.salt_of(one) == salt]

    def found(
        self,
        prompt: Request | TokenIds,
        cache_salt: str,
        lora_name: str,
        encoder: bytes,
        mm_items: Iterable[MMItem],
        tenant: str = "",
    ) -> Hit:
        """What `KVCacheManager.lookup` answers."""
        if isinstance(prompt, Request):
            check_alone(cache_salt, lora_name, encoder, mm_items, tenant)
            if self.matcher is None and self.public is None:
                return Hit(*self._core.lookup_request(prompt))
        elif self.matcher is None and self.public is None:
            apart = space(cache_salt, lora_name, mm_items, encoder, tenant)
            return Hit(*self._core.lookup(prompt, **apart))
        else:
            prompt = prompt_alone(prompt, cache_salt, lora_name, mm_items, encoder, tenant)
        ready = self.ready([prompt])
        return Hit(*self._core.lookup_request(ready.cores[0], *ready.answers))

    def ready(self, requests: Sequence[Request], external_until: int | None = None) -> Ready:
        """The requests, each with what a matcher in Python makes and says of it.

        ``external_until``: in place of what they say.
        """
        cores = self.rewritten(requests)
        prompts = [
            None if core is request else other_prompt(core, request)
            for core, request in zip(cores, requests, strict=True)
        ]
        if external_until is not None:
            cores = [core.replace(external_until=external_until) for core in cores]
        matcher = self.matcher
        answers = [] if matcher is None else matcher.answers(self._core, cores)
        return Ready(cores, answers, prompts)

    def turns(self, requests: Sequence[Request], tries_all: bool) -> Turns | None:
        """Which requests a step tries, where all of them are to be shown to Python first."""
        if not requests:
            return None
        held = self.waits(requests)
        places = [place for place, why in enumerate(held) if why is None]
        if not tries_all:
            places = [place for at, place in enumerate(places) if at == place]
        ready = self.ready([requests[place] for place in places])
        return Turns(ready, places, held, tries_all)

    def waits(self, requests: Sequence[Request]) -> list[HeldError | None]:
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
            running=len(self._core.running()),
            tokens=np.array([len(request) for request in requests], np.int64),
            sessions=np.array([request.session for request in requests], np.uint64),
            turns=np.array([request.turn for request in requests], np.int64),
            request_classes=np.array([r.request_class for r in requests], np.int64),
            priorities=np.array([request.priority for request in requests], np.int64),
        )
        reasons = gate.waits(about)
        return [None if reason is None else HeldError(reason) for reason in reasons]


def other_prompt(stored: Request, asked: Request) -> npt.NDArray[np.uint32] | None:
    """The prompt as it is stored, if it is another than the one that was asked for."""
    tokens = stored.prompt
    return None if tokens is None or np.array_equal(tokens, cast(Any, asked.prompt)) else tokens


def check_alone(
    cache_salt: str,
    lora_name: str,
    encoder: bytes,
    mm_items: Iterable[MMItem],
    tenant: str = "",
) -> None:
    """Check that nothing is given beside a request that it says itself.

    Raises:
        UsageError: Something is.
    """
    if tenant or cache_salt or lora_name or encoder or tuple(mm_items):
        own = "tenant, cache_salt, lora_name, encoder and mm_items"
        raise UsageError(f"{own} are the request's own: leave them out")


def prompt_alone(
    prompt: TokenIds,
    cache_salt: str,
    lora_name: str,
    mm_items: Iterable[MMItem],
    encoder: bytes,
    tenant: str = "",
) -> Request:
    """The request for a prompt that comes without one."""
    names = {"tenant": tenant, "cache_salt": cache_salt, "lora_name": lora_name}
    return Request(prompt, **names, mm_items=mm_items, encoder=encoder)
