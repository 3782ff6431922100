"""The trials that a policy is put through; each raises `PromiseError` where a promise is broken."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from kvframe.policies.batched import COLUMNS, BatchedEviction
from kvframe.policies.columns import wrong_columns
from kvframe.testing.again import elsewhere
from kvframe.testing.report import PromiseError
from kvframe.testing.schema import check_schema, limits
from kvframe.testing.spy import Watch
from kvframe.testing.subject import TENANTS, Subject
from kvframe.testing.traffic import Traffic

PROMISES: Mapping[str, str] = {
    "options": "its options have defaults, descriptions and limits at which it works",
    "columns": "it names the columns that it reads",
    "answers": "every decision gets a usable answer: no exception, warning, NaN, gap or repetition",
    "eligible": "it takes only blocks that nobody holds, and none before those that follow it",
    "deterministic": "the same calls give the same log, whatever runs beside it, in any process",
    "inputs": "it changes nothing that it is given, and keeps none of the arrays",
    "pools": "it serves pools of one block, empty ones, and those that are forgotten or resized",
    "refusals": "it carries on after refused calls, and after choices that were not used",
    "windows": "it decides in any window, and in one wider than the pool as in all of it",
    "cost": "a decision stays within its budget, and grows no faster than what is offered",
}
"""What a policy promises, in the order in which it is tried."""

INDEXES: tuple[Literal["hash", "radix"], ...] = ("hash", "radix")
SIZES = (6, 12, 40)
CALLS = 250


def _run(subject: Subject, blocks: int, seed: int, window: int | None = None) -> str:
    manager = subject.manager(blocks, window=window, watch=Watch())
    return Traffic(manager, seed).run(CALLS)


def _limits(subject: Subject) -> None:
    for extreme in limits(subject):
        try:
            Traffic(extreme.manager(8, watch=Watch()), seed=1).run(CALLS // 2)
        except PromiseError as fault:
            changed = {k: v for k, v in extreme.options.items() if subject.options.get(k) != v}
            told = ", ".join(f"{key} = {value}" for key, value in changed.items())
            raise PromiseError("options", f"with {told}: {fault}") from fault


def _columns(subject: Subject) -> None:
    if not subject.batched:
        return
    policy = subject.make()
    if not isinstance(policy, BatchedEviction):
        raise PromiseError(
            "columns",
            f"make() gave a {type(policy).__name__}, not a kvframe.policies.BatchedEviction",
        )
    columns = type(policy).columns
    wrong = wrong_columns(columns, COLUMNS)
    if wrong is not None:
        raise PromiseError("columns", wrong)
    if len(set(columns)) < len(columns):
        raise PromiseError("columns", f"a column is named twice: {', '.join(columns)}")


def _answers(subject: Subject) -> None:
    for seed, blocks in enumerate(SIZES):
        _run(subject, blocks, seed)
    for seed, blocks in enumerate(SIZES):
        manager = subject.manager(blocks, watch=Watch(copies=True), tenants=True)
        try:
            Traffic(manager, seed, tenants=[one.name for one in TENANTS]).run(CALLS)
        except PromiseError as fault:
            told = f"with tenants, and copies that others hold: {fault}"
            raise PromiseError(fault.promise, told) from fault


def _eligible(subject: Subject) -> None:
    """Only blocks that may be evicted are chosen, under both indexes.

    No spy is used, because it would hide a wrong choice from the core.
    """
    for index in INDEXES:
        for seed, blocks in enumerate(SIZES, start=len(SIZES)):
            traffic = Traffic(subject.manager(blocks, index=index), seed)
            traffic.run(CALLS)
            if not traffic.books.evicted:
                raise PromiseError("eligible", f"nothing was ever evicted from {blocks} blocks")


def alone(subject: Subject) -> list[str]:
    """The digest of a run of each size."""
    return [_run(subject, blocks, seed) for seed, blocks in enumerate(SIZES)]


def _deterministic(subject: Subject) -> None:
    """The same calls give the same log, also if two objects of the policy run at once.

    The two separate runs come first. If they agree and the interleaved runs differ, the objects
    share state.
    """
    first = alone(subject)
    if alone(subject) != first:
        raise PromiseError("deterministic", "the same calls gave another log the second time")
    for seed, blocks in enumerate(SIZES):
        pair = [Traffic(subject.manager(blocks), seed), Traffic(subject.manager(blocks), seed + 99)]
        for _ in range(CALLS):
            for traffic in pair:
                traffic.call()
        if pair[0].digest() != first[seed]:
            raise PromiseError("deterministic", "two objects of the policy share state")
    there = elsewhere(subject) if subject.batched else None
    if there not in (None, first):
        raise PromiseError(
            "deterministic",
            "the same calls gave another log in another process: Python's hash() of a str or bytes "
            "changes with PYTHONHASHSEED, and so does the order of a set of them",
        )


def _inputs(subject: Subject) -> None:
    for seed, blocks in enumerate(SIZES):
        plain = _run(subject, blocks, seed)
        spoilt = Traffic(subject.manager(blocks, watch=Watch(spoil=True)), seed)
        try:
            same = spoilt.run(CALLS) == plain
        except PromiseError as fault:
            raise PromiseError("inputs", f"it fails once its arrays are reused: {fault}") from fault
        if not same:
            raise PromiseError("inputs", "it keeps an array after the call: copy what is to stay")


def _pools(subject: Subject) -> None:
    for seed, blocks in enumerate((1, 2, 3, 16)):
        try:
            manager = subject.manager(blocks, block_size=1 + seed, watch=Watch())
            manager.evict_until(blocks)
            manager.reset_prefix_cache()
            Traffic(manager, seed, upheaval=True).run(2 * CALLS)
        except PromiseError as fault:
            plural = "" if blocks == 1 else "s"
            raise PromiseError("pools", f"with {blocks} block{plural}: {fault}") from fault


def _refusals(subject: Subject) -> None:
    for seed, blocks in enumerate(SIZES):
        try:
            twice = Traffic(subject.manager(blocks, watch=Watch(twice=True)), seed)
            twice.run(CALLS)
        except PromiseError as fault:
            raise PromiseError(
                "refusals", f"after a choice that was not used (only `remove` is a death): {fault}"
            ) from fault


def _windows(subject: Subject) -> None:
    if not subject.batched:
        return
    for seed, blocks in enumerate(SIZES):
        for window in (1, 2, 7):
            try:
                _run(subject, blocks, seed, window)
            except PromiseError as fault:
                raise PromiseError("windows", f"with window = {window}: {fault}") from fault
        if _run(subject, blocks, seed, 0) != _run(subject, blocks, seed, blocks + 1):
            raise PromiseError(
                "windows", f"window = {blocks + 1} is not the same as all {blocks} blocks"
            )


TRIALS: Sequence[tuple[str, Callable[[Subject], None]]] = (
    ("options", check_schema),
    ("columns", _columns),
    ("answers", _answers),
    ("eligible", _eligible),
    ("deterministic", _deterministic),
    ("options", _limits),
    ("inputs", _inputs),
    ("pools", _pools),
    ("refusals", _refusals),
    ("windows", _windows),
)
"""Each trial with the promise that it tries."""

NEEDED = frozenset({"columns", "answers", "eligible", "deterministic"})
"""After one of these promises is broken, later trials would only repeat the finding."""
