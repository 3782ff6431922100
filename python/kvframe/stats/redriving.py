"""The calls that a log records, made again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from kvframe._core import Manager
from kvframe.arguments import shown
from kvframe.errors import IntegrityError, KVFrameError, UsageError
from kvframe.events import EventKind as K
from kvframe.request import Request
from kvframe.stats.log import Event, EventLog, checked

ASIDE = (K.REFUSE, K.FENCE, K.PRESSURE)
"""Events that are not compared: refused calls are not made again, fences rise call by call, and a
step, which checks the pressure level once, is made again verb by verb."""


class _Log(Protocol):
    def take(self) -> EventLog: ...


class Redriven(Protocol):
    """What `redrive` needs of a manager: `kvframe.KVCacheManager`."""

    _core: Any

    @property
    def log(self) -> _Log: ...


def redrive(log: EventLog, fresh: Redriven) -> EventLog:
    """Make the calls of a log again on a fresh manager; returns its new log, equal to the old.

    Every verb that changes something is called again: admissions, appends, ids that came late,
    commits, cuts, forks, lookups again, releases, fences, plans, tickets, loads, leases, pins,
    loans, blocks held one by one, collections, resizing, clearing, weights, sleep, touches, hints
    and the time that retention goes by. Refused calls are not, and lookups leave no trace.
    Deadlines and what is attached to prefixes are not in the log: a ticket that lapsed is settled
    again. A policy in Python must be a fresh object.

    Args:
        log: All of a log from its start, refusals and all.
        fresh: A manager of the same configuration, with its event log on, that did nothing yet.

    Raises:
        IntegrityError: The manager's events differ from the log: another configuration, another
            version, or a policy that is not deterministic.
        UsageError: ``log`` is none, or ``fresh`` is no manager.
    """
    if not isinstance(getattr(fresh, "_core", None), Manager):
        raise UsageError(f"fresh = {shown(fresh)}: must be a manager")
    recorded = [event for event in checked(log) if event.kind not in (K.REFUSE, K.PRESSURE)]
    parts: list[EventLog] = []
    at = 0
    while at < len(recorded):
        begun = at
        try:
            at = _ask(recorded, at, log.requests, fresh)
        except KVFrameError as error:
            told_of = f"event {at} was {recorded[at]}, redriven it is refused: {error}"
            raise IntegrityError(told_of) from error
        told = fresh.log.take()
        if at == begun and not len(told):
            raise IntegrityError(f"event {at} was {recorded[at]}, redriven it is none")
        parts.append(told)
        for event in (e for e in told if e.kind not in ASIDE):
            while at < len(recorded) and recorded[at].kind in ASIDE:
                at += 1
            if at >= len(recorded) or not _same(recorded[at], event):
                expected = recorded[at] if at < len(recorded) else None
                raise IntegrityError(f"event {at} was {expected}, redriven it is {event}")
            at += 1
    return EventLog.joined(parts)


def _ask(recorded: list[Event], at: int, requests: Mapping[int, Request], fresh: Redriven) -> int:
    """Make the next recorded call from ``at`` on. Returns where the events that it caused begin."""
    core = fresh._core
    for ahead in range(at, len(recorded)):
        event = recorded[ahead]
        if event.kind is K.FENCE:
            core.put_fence(None if event.other else event.value)
        elif event.kind in (K.ALLOCATE, K.RESUME):
            core.allocate(requests[event.seq])
            return at
        elif event.kind in (K.TAKE, K.RETURN):
            _loan(recorded, ahead, core)
            return at
        elif event.kind is K.PIN:
            core.pin_blocks([e.block for e in recorded[at:ahead] if e.kind is K.HOLD])
            return at
        elif event.kind is K.STORE and not event.seq:
            _publish(core, event)
            return at
        elif event.kind in _VERBS:
            _VERBS[event.kind](core, event)
            return at
    return len(recorded)


def _loan(recorded: list[Event], at: int, core: Any) -> None:
    """A loan is one call, whose blocks have a tick and a kind in common."""
    first = recorded[at]
    blocks = [e.block for e in recorded[at:] if (e.tick, e.kind) == (first.tick, first.kind)]
    if first.kind is K.TAKE:
        tenant = core.tenants()[first.value][0] if first.value else b""
        core.take_blocks(np.zeros(len(blocks), np.int32), tenant)
    else:
        core.return_blocks(np.array(blocks[::-1], np.int32))


def _publish(core: Any, event: Event) -> None:
    key = np.frombuffer(event.key, "<u8").reshape(1, 2)
    core.publish_block(event.block, key, event.value if event.value < 2**32 - 1 else None)


def _append(core: Any, event: Event) -> None:
    if event.other:
        # Also called if known tokens had no slots yet.
        core.reserve(event.seq, event.value)
    else:
        core.append(event.seq, event.ids)


def _hint(core: Any, event: Event) -> None:
    kind, priority, then, linear = event.other.to_bytes(4, "little")
    duration = int(event.ids[0]) + (int(event.ids[1]) << 32) if len(event.ids) else None
    keep = (priority, duration, then, bool(linear))
    core.hint(event.value, ("retain", "release", "demote")[kind], keep)


def _clear_scope(core: Any, event: Event) -> None:
    size, *data = event.ids.tolist()
    given = [bool(event.value >> at & 1) for at in range(4)]
    tenant = b""
    if given[3]:
        length = data.pop()
        data, tenant = data[: len(data) - length], bytes(data[len(data) - length :])
    salt, adapter = bytes(data[:size]), bytes(data[size:])
    scope = zip(given, (salt, adapter, event.other, tenant), strict=True)
    core.reset_prefix_cache(*(value if there else None for there, value in scope))


def _commit(core: Any, event: Event) -> None:
    if event.other:
        core.advance(event.seq, 0, event.value, None, 0)
    else:
        core.commit(event.seq, event.value)


_VERBS: dict[K, Any] = {
    K.APPEND: _append,
    K.EXTEND: lambda core, e: core.extend(e.seq, e.value),
    K.FILL: lambda core, e: core.fill_placeholders(e.seq, e.ids),
    K.COMMIT: _commit,
    K.COMPUTED: lambda core, e: core.advance(e.seq, 0, None, None, e.value),
    K.KEYS: lambda core, e: core.fill_keys(e.seq, e.ids.view("<u8").reshape(-1, 2)),
    K.TRUNCATE: lambda core, e: (core.cut_known if e.other > e.value else core.truncate)(
        e.seq, e.other
    ),
    K.FORK: lambda core, e: core.fork(e.value),
    K.FORK_PREFIX: lambda core, e: core.fork_prefix(e.seq, e.value, copy=bool(e.other)),
    K.ABORT: lambda core, e: core.abort(e.seq),
    K.FINISH: lambda core, e: core.release(e.seq),
    K.PLAN: lambda core, e: core.take_plan(),
    K.DONE: lambda core, e: core.done(e.value),
    K.FAIL: lambda core, e: core.failed(e.value),
    K.LOADED: lambda core, e: core.loaded(e.value, e.other),
    K.HINT: _hint,
    K.TOUCH: lambda core, e: core.touch([e.seq]),
    K.CLOCK: lambda core, e: core.expire_until(e.value),
    K.LEASE: lambda core, e: core.lease(e.seq, e.value),
    K.PASS: lambda core, e: core.let_pass(e.value),
    K.EVICT_UNTIL: lambda core, e: core.evict_until(e.value),
    K.RESET: lambda core, e: core.reset_prefix_cache(),
    K.RESET_SCOPE: _clear_scope,
    K.REMATCH: lambda core, e: core.rematch(e.seq),
    K.RESIZE: lambda core, e: core.resize(e.value),
    K.SLEEP: lambda core, e: core.sleep(),
    K.WAKE: lambda core, e: core.wake(),
    K.WEIGHTS: lambda core, e: core.set_weight_version(bytes(e.ids.tolist())),
    K.UNPIN: lambda core, e: core.unpin(e.value, e.block),
    K.TOUCH_BLOCKS: lambda core, e: core.touch_blocks(e.ids),
    K.FREE: lambda core, e: core.free_blocks(e.ids),
}


def _same(one: Event, two: Event) -> bool:
    return one[:-1] == two[:-1] and np.array_equal(one.ids, two.ids)
