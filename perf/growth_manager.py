"""The verbs of `kvframe.KVCacheManager`, each on things of its own: see `perf.growth`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from kvframe import KVCacheManager, Request
from perf.growth_world import SIZE, All, Call, Verb, World


def on_one(act: Callable[[World, int], object], **options: Any) -> Verb:
    """A verb on one sequence that is computed."""

    def prepare(world: World) -> Call:
        seq = world.admitted(world.prompt(3), **options)
        return lambda: act(world, seq)

    return prepare


def plain(act: Callable[[World], object]) -> Verb:
    """A verb that needs nothing."""
    return lambda world: lambda: act(world)


def with_copy(settle: str) -> Verb:
    """Settles the copy that a fork needed."""

    def prepare(world: World) -> Call:
        seq = world.admitted(world.prompt(3))
        world.kv.append(world.kv.fork(seq), [1])
        plan = world.kv.take_plan()
        assert plan is not None
        return lambda: getattr(world.kv, settle)(plan.ticket)

    return prepare


def with_load(act: Callable[[World, int, int], object]) -> Verb:
    """Settles a load of one block."""

    def prepare(world: World) -> Call:
        grant = world.kv.admit(Request(world.prompt(3), num_external_tokens=SIZE))
        assert grant.load is not None
        seq, load = grant.seq, grant.load
        return lambda: act(world, seq, load)

    return prepare


def release_loading(world: World) -> Call:
    """Ends a sequence whose load goes on."""
    grant = world.kv.admit(Request(world.prompt(3), num_external_tokens=SIZE))
    return lambda: world.kv.release(grant.seq)


def joined(world: World, prompt: Any) -> None:
    """Joins are asked for so often that what is computed is noted by now."""
    for _ in range(64):
        world.kv.fits(Request(prompt, join=True))
    world.kv.admit(Request(prompt, join=True))


def join(world: World) -> Call:
    """Joins a computation of 16 blocks."""
    prompt = world.prompt(16)
    joined(world, prompt)
    request = Request(prompt, join=True)
    return lambda: world.kv.admit(request)


def fits_join(world: World) -> Call:
    """Asks whether a request that would join fits."""
    prompt = world.prompt(16)
    joined(world, prompt)
    request = Request(prompt, join=True)
    return lambda: world.kv.fits(request)


def commit_joined(world: World) -> Call:
    """Commits what 15 others joined."""
    prompt = world.prompt(16)
    seq = world.kv.admit(Request(prompt, join=True)).seq
    for _ in range(15):
        world.kv.admit(Request(prompt, join=True))
    return lambda: world.kv.commit(seq, len(prompt))


def end_joined(world: World) -> Call:
    """Ends a computation that 15 others joined."""
    prompt = world.prompt(16)
    seq = world.kv.admit(Request(prompt, join=True)).seq
    for _ in range(15):
        world.kv.admit(Request(prompt, join=True))
    return lambda: world.kv.release(seq)


def order(rule: Any, usage: float | None) -> Verb:
    """Orders 64 of the sequences."""

    def prepare(world: World) -> Call:
        seqs = np.array(world.seqs[:64], np.uint64)
        return lambda: world.kv.preemption_order(seqs, rule, usage=usage)

    return prepare


def order_all(rule: Any) -> Verb:
    """Orders all of them, as many as bring the usage to 0."""

    def prepare(world: World) -> Call:
        seqs = np.array(world.seqs + [seq for seq, _ in world.loads], np.uint64)
        return lambda: world.kv.preemption_order(seqs, rule, usage=0.0)

    return prepare


def queue(world: World) -> Call:
    """A step whose first of n requests is refused."""
    counts = world.kv.counts()
    blocks = counts.free + counts.cached + 1
    large = Request(np.arange(SIZE * blocks, dtype=np.uint32))
    waiting = [large] + [Request(world.prompt(8)) for _ in range(world.size)]
    return lambda: world.kv.step(admit=waiting)


def decode(world: World) -> Call:
    """A step of 64 sequences, each a token longer."""
    seqs = np.array([world.admitted(world.prompt(2)) for _ in range(64)], np.uint64)
    tokens = np.zeros(64, np.uint32)
    return lambda: world.kv.step(append=seqs, tokens=tokens)


def tables(world: World) -> Call:
    """Block tables of 64 sequences."""
    seqs, out = np.array(world.seqs[:64], np.uint64), np.empty((64, 8), np.int32)
    return lambda: world.kv.block_tables(seqs, out)


def lengths(world: World) -> Call:
    """Lengths of 64 sequences."""
    seqs, out = np.array(world.seqs[:64], np.uint64), np.empty(64, np.int64)
    return lambda: world.kv.seq_lens(seqs, out)


def slots(world: World) -> Call:
    """Slots of 64 sequences."""
    seqs, out = np.array(world.seqs[:64], np.uint64), np.empty(256, np.int64)
    starts, counts = np.zeros(64, np.int64), np.full(64, 4)
    return lambda: world.kv.slot_mapping(seqs, starts, counts, out)


def ragged(world: World) -> Call:
    """Ragged tables of 64 sequences."""
    seqs, out = np.array(world.seqs[:64], np.uint64), np.empty(256, np.int32)
    indptr = np.empty(65, np.int64)
    return lambda: world.kv.ragged_tables(seqs, indptr, out)


def lend(world: World) -> Call:
    """Takes 8 blocks."""
    out = np.empty(8, np.int32)
    return lambda: world.kv.lend(out)


def give_back(world: World) -> Call:
    """Gives 8 blocks back."""
    out = np.empty(8, np.int32)
    world.kv.lend(out)
    return lambda: world.kv.give_back(out)


def admit(**options: Any) -> Verb:
    """Admits a prompt of three blocks."""

    def prepare(world: World) -> Call:
        request = Request(world.prompt(3), **options)
        return lambda: world.kv.admit(request)

    return prepare


def admit_hit(world: World) -> Call:
    """Admits a prompt that is cached."""
    prompt = world.prompt(8)
    world.admitted(prompt)
    request = Request(prompt)
    return lambda: world.kv.admit(request)


def unpin(world: World) -> Call:
    """Ends a pin."""
    prompt = world.prompt(3)
    world.admitted(prompt)
    pin = world.kv.pin(prompt)
    assert pin is not None
    return lambda: world.kv.unpin(pin)


def pin(world: World) -> Call:
    """Pins a prompt."""
    prompt = world.prompt(3)
    world.admitted(prompt)
    return lambda: world.kv.pin(prompt)


def hint(kind: Any) -> Verb:
    """Tells what becomes of a session of one request."""

    def prepare(world: World) -> Call:
        session = (1 << 40) + next(world._fresh)
        world.kv.release(world.admitted(world.prompt(3), session=session))
        return lambda: world.kv.hint(session, kind)

    return prepare


def fenced(world: World) -> Call:
    """Ends a sequence behind a fence."""
    seq = world.admitted(world.prompt(3))
    fence = next(world._fresh)
    return lambda: world.kv.release(seq, fence=1 << 40 | fence)


def collect(world: World) -> Call:
    """Evicts 8 blocks."""
    for _ in range(8):
        world.kv.release(world.admitted())
    free = world.kv.counts().free + 8
    return lambda: world.kv.collect(free)


def duplicate(world: World) -> Call:
    """Commits a block that is findable 256 times."""
    kv = world.kv
    prompt = world.prompt()
    seqs = [kv.admit(Request(prompt)).seq for _ in range(256)]
    for seq in seqs[1:]:
        kv.commit(seq, len(prompt))
    return lambda: kv.commit(seqs[0], len(prompt))


def deadline(world: World) -> Call:
    """Sets a ticket's deadline anew."""
    ticket = world.tickets[world.size // 2]
    return lambda: world.kv.set_deadline(ticket, 1 << 41)


def rematch(world: World) -> Call:
    """Looks a waiting prompt up again that another sequence has computed since."""
    prompt = world.prompt(8)
    seq = world.kv.admit(Request(prompt)).seq
    world.admitted(prompt)
    return lambda: world.kv.rematch(seq)


def fill(world: World) -> Call:
    """Supplies four ids."""
    seq = world.admitted(world.prompt(3))
    world.kv.append_unknown(seq, 4)
    return lambda: world.kv.fill(seq, [1, 2, 3, 4])


def remove_callback(world: World) -> Call:
    """Removes a callback."""
    world.kv.add_pressure_callback(print)
    return lambda: world.kv.remove_pressure_callback(print)


def clear_session(world: World) -> Call:
    """Forgets what a session of one request left."""
    session = (1 << 40) + next(world._fresh)
    world.kv.release(world.admitted(world.prompt(3), session=session))
    return lambda: world.kv.clear_cache(session=session)


def clear_adapter(world: World) -> Call:
    """Forgets what one request left under an adapter."""
    world.kv.release(world.admitted(world.prompt(3), lora_name="a"))
    return lambda: world.kv.clear_cache(lora_name="a")


def resize(world: World) -> Call:
    """Adds eight blocks."""
    total = world.kv.counts().total
    return lambda: world.kv.resize(total + 8)


VERBS: dict[str, Verb] = {
    "lookup": lambda w: (lambda prompt: lambda: w.kv.lookup(prompt))(w.prompt(8)),
    "fits": lambda w: (lambda request: lambda: w.kv.fits(request))(Request(w.prompt(8))),
    "fits (join)": fits_join,
    "admit": admit(),
    "admit (hit)": admit_hit,
    "admit (load)": admit(num_external_tokens=SIZE),
    "admit (whole)": admit(full_sequence_must_fit=True, max_seq_len=16),
    "admit (join)": join,
    "commit (joined)": commit_joined,
    "release (joined)": end_joined,
    "commit (copies)": duplicate,
    "hash_blocks": lambda w: (lambda prompt: lambda: w.kv.hash_blocks(prompt))(w.prompt(8)),
    "append": on_one(lambda w, s: w.kv.append(s, [1])),
    "append_unknown": on_one(lambda w, s: w.kv.append_unknown(s, 9)),
    "reserve": on_one(lambda w, s: w.kv.reserve(s, 24)),
    "extend": lambda w: (lambda s: lambda: w.kv.extend(s, 12))(
        w.kv.admit(Request(w.prompt(3), chunk=4)).seq
    ),
    "commit": lambda w: (lambda s: lambda: w.kv.commit(s, 12))(
        w.kv.admit(Request(w.prompt(3))).seq
    ),
    "truncate": on_one(lambda w, s: w.kv.truncate(s, 5)),
    "fork": on_one(lambda w, s: w.kv.fork(s)),
    "fork (upto)": on_one(lambda w, s: w.kv.fork(s, upto=5, copy=True)),
    "release": on_one(lambda w, s: w.kv.release(s)),
    "release (loading)": release_loading,
    "release (fence)": fenced,
    "preempt": on_one(lambda w, s: w.kv.preempt(s)),
    "take_plan": plain(lambda w: w.kv.take_plan()),
    "done (copy)": with_copy("done"),
    "failed (copy)": with_copy("failed"),
    "loaded": with_load(lambda w, _, load: w.kv.loaded(load, 1)),
    "failed (load)": with_load(lambda w, _, load: w.kv.failed(load)),
    "readable (loading)": with_load(lambda w, seq, _: w.kv.readable(seq)),
    "lease": on_one(lambda w, s: w.kv.lease(s, 12)),
    "done (lease)": lambda w: (lambda t: lambda: w.kv.done(t))(
        w.kv.lease(w.admitted(w.prompt(3)), 12)
    ),
    "set_deadline": deadline,
    "expire": plain(lambda w: w.kv.expire(1)),
    "readable": on_one(lambda w, s: w.kv.readable(s)),
    "pages": on_one(lambda w, s: w.kv.pages(s, 0, 12)),
    "unkeyed_blocks": on_one(lambda w, s: w.kv.unkeyed_blocks(s)),
    "request_usage": on_one(lambda w, s: w.kv.request_usage(s)),
    "take_changes": plain(lambda w: w.kv.take_changes()),
    "attach": on_one(lambda w, s: w.kv.attach(s, 1)),
    "take_dropped": plain(lambda w: w.kv.take_dropped()),
    "owners": All(on_one(lambda w, s: w.kv.owners(int(w.kv.block_table(s)[0])))),
    "lengths": on_one(lambda w, s: w.kv.lengths(s)),
    "sight": on_one(lambda w, s: w.kv.sight(s)),
    "miss": on_one(lambda w, s: w.kv.miss(s)),
    "block_table": on_one(lambda w, s: w.kv.block_table(s)),
    "block_tables": tables,
    "slot_mapping": slots,
    "ragged_tables": ragged,
    "seq_lens": lengths,
    "usage": plain(lambda w: w.kv.usage()),
    "pressure": plain(lambda w: w.kv.pressure()),
    "counts": plain(lambda w: w.kv.counts()),
    "stats": plain(lambda w: w.kv.stats()),
    "hit_rates": plain(lambda w: w.kv.hit_rates()),
    "misses": plain(lambda w: w.kv.misses()),
    "residency": plain(lambda w: w.kv.residency()),
    "touch": on_one(lambda w, s: w.kv.touch([s])),
    "preemption_order (lru, 64)": order("lru", 0.1),
    "preemption_order (most-freed, 64)": order("most-freed", 0.1),
    "preemption_order (no usage, 64)": order("lru", None),
    "preempt_to": on_one(lambda w, s: w.kv.preempt_to(0.0, [s])),
    "collect": collect,
    "lend": lend,
    "give_back": give_back,
    "pin": pin,
    "unpin": unpin,
    "block_priority": on_one(lambda w, s: w.kv.block_priority(int(w.kv.block_table(s)[0]))),
    "hint (retain)": hint("retain"),
    "hint (pin)": hint("pin"),
    "hint (demote)": hint("demote"),
    "hint (release)": hint("release"),
    "unpin_all (owner)": plain(lambda w: w.kv.unpin_all("nobody")),
    "explain_sequence": on_one(lambda w, s: w.kv.explain_sequence(s)),
    "explain_block": All(on_one(lambda w, s: w.kv.explain_block(int(w.kv.block_table(s)[0])))),
    "rematch": rematch,
    "fill": fill,
    "add_pressure_callback": plain(lambda w: w.kv.add_pressure_callback(print)),
    "remove_pressure_callback": remove_callback,
    "options": plain(lambda w: w.kv.options()),
    "prefix_stats": plain(lambda w: w.kv.prefix_stats()),
    "reset_peak": plain(lambda w: w.kv.reset_peak()),
    "resize": resize,
    "step (decode)": decode,
    "step (passed)": plain(lambda w: w.kv.step(passed=1)),
    "step (queue refused)": All(queue),
    "preemption_order (lru, all)": All(order_all("lru")),
    "preemption_order (lfu-aged, all)": All(order_all("lfu-aged")),
    "preemption_order (most-freed, all)": All(order_all("most-freed")),
    "live": All(plain(lambda w: w.kv.live())),
    "tickets": All(plain(lambda w: w.kv.tickets())),
    "pins": All(plain(lambda w: w.kv.pins())),
    "snapshot": All(plain(lambda w: w.kv.snapshot())),
    "eviction_order": All(plain(lambda w: w.kv.eviction_order())),
    "clear_cache (session)": All(clear_session),
    "clear_cache (adapter)": All(clear_adapter),
    "check_integrity": All(plain(lambda w: w.kv.check_integrity())),
}
"""By name. `All` are those that name or return everything, and those whose pages say that they look
through everything (``owners``, ``explain_block``, ``clear_cache`` of a scope)."""


class Logged(World):
    """The same with a radix index and an event log."""

    def __init__(self, size: int) -> None:
        super().__init__(size, cache={"index": "radix", "event_log": True})


def taken(verb: str) -> Verb:
    """Takes the events of one admission."""

    def prepare(world: World) -> Call:
        world.kv.take_events()
        world.admitted()
        return lambda: getattr(world.kv, verb)()

    return prepare


LOGGED: dict[str, Verb] = {
    "take_events": taken("take_events"),
    "take_log": taken("take_log"),
    "lookup": VERBS["lookup"],
    "admit": VERBS["admit"],
    "admit (hit)": VERBS["admit (hit)"],
    "commit": VERBS["commit"],
    "release": VERBS["release"],
    "collect": VERBS["collect"],
    "dump": All(plain(lambda w: w.kv.dump())),
}


class Idle:
    """``size`` cached blocks, and nothing in use."""

    def __init__(self, size: int) -> None:
        self.size = size
        cache = {"capacity": 2 * size, "block_size": SIZE}
        self.kv = KVCacheManager.from_toml(None, cache=cache)
        for start in range(size // 16):
            prompt = np.full(16 * SIZE, 7, np.uint32)
            prompt[0] = start
            seq = self.kv.admit(prompt).seq
            self.kv.commit(seq, len(prompt))
            self.kv.release(seq)


def woken(idle: Idle) -> Call:
    """Ends a sleep."""
    fresh = Idle(idle.size)
    fresh.kv.sleep()
    return fresh.kv.wake


IDLE: dict[str, Verb] = {
    "clear_cache": All(lambda w: Idle(w.size).kv.clear_cache),
    "set_fingerprint": All(lambda w: partial(Idle(w.size).kv.set_fingerprint, "v2")),
    "sleep": All(lambda w: Idle(w.size).kv.sleep),
    "wake": woken,
}
