"""The conformance kit for admission policies and prefix matchers: as a function, and as tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from kvframe.config import AdmissionConfig, CacheConfig, Config, PrefixConfig, TenantConfig
from kvframe.errors import KVFrameError, UsageError
from kvframe.manager import KVCacheManager
from kvframe.registry import Loaded, Registry
from kvframe.registry.descriptors import AdmissionPolicy, Descriptor, PrefixMatcher
from kvframe.testing.report import Conformance, PromiseError, Report, judged
from kvframe.testing.subject import TENANTS, table_of
from kvframe.testing.traffic import Traffic

PROMISES_OF_KINDS: Mapping[str, str] = {
    "options": "it can be made with these options",
    "answers": "every question gets a usable answer: no exception, wrong shape or wrong block",
    "eligible": "the pool stays sound, and what is found is what the core says may be found",
    "deterministic": "the same calls give the same log, whatever ran before in the process",
    "pools": "it serves small pools, and those that are forgotten or resized",
}
"""What an admission policy or a prefix matcher promises, in the order in which it is tried."""

SIZES = (6, 12, 40)
CALLS = 250

Make = Callable[..., KVCacheManager]


Trialled = AdmissionPolicy | PrefixMatcher | Loaded[AdmissionPolicy] | Loaded[PrefixMatcher]


def check_kind(policy: Trialled, options: Mapping[str, Any] | None = None) -> Report:
    """Put an admission policy or a prefix matcher through the trials of the kit.

    Args:
        policy: Its descriptor, as its hook returns it, or what the registry loaded; built-in
            policies work too.
        options: Its options, as in its table of kvframe.toml; defaults if None.

    Returns:
        A verdict for each promise; `Report.ok` is true if all were kept.

    Raises:
        UsageError: It is of another kind, or the options are no mapping.
    """
    origin = "this process"
    if isinstance(policy, Loaded):
        origin = f"{policy.distribution} {policy.version}".rstrip()
        policy = policy.descriptor
    make = _maker(policy, table_of(options))
    trials: list[tuple[str, Callable[[], object]]] = [
        ("options", lambda: make(8)),
        ("answers", lambda: [Traffic(make(size), size).run(CALLS) for size in SIZES]),
        ("answers", lambda: _tenants(make)),
        ("eligible", lambda: [Traffic(make(size), 99).run(CALLS) for size in SIZES]),
        ("deterministic", lambda: _deterministic(make)),
        ("pools", lambda: [Traffic(make(n), n, upheaval=True).run(CALLS) for n in (1, 2, 9)]),
    ]
    passed: set[str] = set()
    failed: dict[str, str] = {}
    for promise, trial in trials:
        try:
            trial()
            passed.add(promise)
        except PromiseError as fault:
            failed.setdefault(fault.promise, fault.finding)
            if promise == "options":
                break
    return Report(policy.name, origin, judged(PROMISES_OF_KINDS, passed, failed))


def _tenants(make: Make) -> None:
    for size in SIZES:
        traffic = Traffic(make(size, TENANTS), size, tenants=[one.name for one in TENANTS])
        try:
            traffic.run(CALLS)
        except PromiseError as fault:
            raise PromiseError(fault.promise, f"with tenants: {fault}") from fault


def _deterministic(make: Make) -> None:
    logs = {Traffic(make(12), 5).run(CALLS) for _ in range(3)}
    if len(logs) > 1:
        raise PromiseError("deterministic", f"three equal runs gave {len(logs)} logs")


def _maker(policy: AdmissionPolicy | PrefixMatcher, options: dict[str, Any]) -> Make:
    if not isinstance(policy, AdmissionPolicy | PrefixMatcher):
        raise UsageError(
            f"policy is a {type(policy).__name__}: must be an AdmissionPolicy or a PrefixMatcher"
        )
    name = policy.name

    def make(blocks: int, tenants: Sequence[TenantConfig] = ()) -> KVCacheManager:
        cache = CacheConfig(block_size=4, capacity=blocks, event_log=True)
        if isinstance(policy, AdmissionPolicy):
            gate = AdmissionConfig(policy=name, on_error="raise", options=options)
            config = Config(cache=cache, admission=gate, tenants=[*tenants])
        else:
            matcher = PrefixConfig(policy=name, on_error="raise", options=options)
            config = Config(cache=cache, prefix=matcher, tenants=[*tenants])
        try:
            return KVCacheManager(config.resolve(_Knows(policy)))
        except KVFrameError as error:
            raise PromiseError("options", str(error)) from error

    return make


class _Knows(Registry):
    """A registry in which the policy's name means the one on trial."""

    def __init__(self, policy: Descriptor) -> None:
        super().__init__()
        self._policy = policy

    def admission(self, name: str) -> Loaded[AdmissionPolicy]:
        policy = self._policy
        if isinstance(policy, AdmissionPolicy) and name == policy.name:
            return Loaded(policy, "this process", "", name)
        return super().admission(name)

    def prefix(self, name: str) -> Loaded[PrefixMatcher]:
        policy = self._policy
        if isinstance(policy, PrefixMatcher) and name == policy.name:
            return Loaded(policy, "this process", "", name)
        return super().prefix(name)


class KindConformance(Conformance):
    """The kit as tests: derive a class from it in your package, and give it the policy.

    Attributes:
        policy: The `AdmissionPolicy` or `PrefixMatcher` that the package's hook gives.
        options: Its options.
    """

    _settings = ("policy", "options")

    policy: ClassVar[AdmissionPolicy | PrefixMatcher]
    options: ClassVar[Mapping[str, Any]] = {}

    @classmethod
    def _checked(cls) -> Report:
        return check_kind(cls.policy, cls.options)

    def test_options(self) -> None:
        self._kept("options")

    def test_answers(self) -> None:
        self._kept("answers")

    def test_eligible(self) -> None:
        self._kept("eligible")

    def test_deterministic(self) -> None:
        self._kept("deterministic")

    def test_pools(self) -> None:
        self._kept("pools")
