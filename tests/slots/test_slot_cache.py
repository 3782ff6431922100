"""`SlotCache` from Python: what it gives and refuses, policies in Python, threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kvframe import (
    CapacityError,
    Config,
    EvictionConfig,
    HandleError,
    NeverFitsError,
    PluginError,
    SlotCache,
    StaleHandleError,
    UsageError,
)
from kvframe.flat import Access
from kvframe.policies import BatchedEviction, Candidates

from ..manager.helpers import registry


def served(kv: SlotCache, prompt: list[int], **space: Any) -> tuple[int, int, int | None]:
    """A prompt from admission to its end: its slot, what was cached, what it was copied from."""
    grant = kv.allocate(prompt, **space)
    plan = kv.take_plan()
    if plan:
        kv.done(plan.ticket)
    kv.commit(grant.seq, len(prompt))
    kv.release(grant.seq)
    kv.check_integrity()
    return grant.slot, grant.cached_tokens, grant.copied_from


@pytest.mark.scenario("SA-1", "SA-2")
def test_slots_come_in_order_and_each_sequence_is_a_version() -> None:
    kv = SlotCache(4, 64)
    grants = [kv.allocate([word]) for word in range(4)]
    assert [(g.slot, g.version) for g in grants] == [(0, 1), (1, 1), (2, 1), (3, 1)]
    with pytest.raises(CapacityError, match="all 4 slots are in use"):
        kv.allocate([9])
    kv.release(grants[2].seq)
    again = kv.allocate([9])
    assert (again.slot, again.version) == (2, 2)
    with pytest.raises(StaleHandleError):
        kv.release(grants[2].seq)
    with pytest.raises(HandleError):
        kv.commit(99, 1)


@pytest.mark.scenario("SA-3", "SA-5", "SA-B6", "SA-B7")
def test_in_place_where_nothing_is_lost_else_by_a_copy() -> None:
    kv = SlotCache(2, 64)
    assert served(kv, [1, 2, 3, 4, 5, 6]) == (0, 0, None)
    assert kv.lookup([1, 2, 3, 4, 5, 6, 7]) == 6
    assert kv.lookup([1, 2, 9]) == 2
    assert kv.lookup([9, 1]) == 0
    assert served(kv, [1, 2, 3, 40, 50, 60]) == (1, 3, 0)
    # Both are found, the older one too.
    assert served(kv, [1, 2, 3, 4, 5, 6, 7]) == (0, 6, None)
    assert served(kv, [1, 2, 3, 40, 50, 60, 70]) == (1, 6, None)
    # With no slot left, the one that is given up goes on behind what it shares.
    assert served(kv, [1, 2, 3, 4, 0]) == (0, 4, None)
    assert kv.lookup([1, 2, 3, 4, 5, 6, 7, 8]) == 4, "what was overwritten is not found"
    stats = kv.stats()
    assert (stats["copies"], stats["copied_tokens"], stats["overwritten_tokens"]) == (1, 3, 3)


@pytest.mark.scenario("SA-B12")
def test_a_plan_names_slots_and_a_failed_one_who_starts_anew() -> None:
    kv = SlotCache(2, 64)
    served(kv, [1, 2, 3, 4])
    grant = kv.allocate([1, 2, 9])
    plan = kv.take_plan()
    assert plan
    assert plan.copies.tolist() == [[0, 1, 2, 0]]
    with pytest.raises(CapacityError):
        kv.allocate([7])
    assert kv.failed(plan.ticket) == [grant.seq]
    with pytest.raises(HandleError):
        kv.done(plan.ticket)
    assert [(slot.state, slot.committed, slot.found) for slot in kv.slots()] == [
        ("cached", 4, 4),
        ("live", 0, 0),
    ]


def test_a_decode_step_and_a_cut() -> None:
    kv = SlotCache(2, 4)
    seqs = np.array([kv.allocate([1, 2]).seq, kv.allocate([3]).seq])
    kv.advance(seqs, np.array([5, 6]))
    assert [(slot.known, slot.found) for slot in kv.slots()] == [(3, 2), (2, 1)]
    for wrong in ([seqs[0], seqs[0]], [seqs[0]]):
        with pytest.raises(UsageError):
            kv.advance(wrong, [7, 8])
    kv.append(int(seqs[0]), [8])
    with pytest.raises(NeverFitsError, match="needs 5 tokens, but a slot holds 4"):
        kv.advance(seqs, [9, 9])
    kv.truncate(int(seqs[0]), 1)
    assert kv.lookup([1, 2, 5]) == 1
    kv.check_integrity()


def test_namespaces_and_weights_share_nothing() -> None:
    kv = SlotCache(4, 64)
    served(kv, [1, 2, 3], cache_salt="a", lora_name="bc")
    assert kv.lookup([1, 2, 3, 4], cache_salt="ab", lora_name="c") == 0
    assert kv.lookup([1, 2, 3, 4], cache_salt="a", lora_name="bc") == 3
    assert kv.set_weight_version("others") == 1
    assert kv.lookup([1, 2, 3, 4], cache_salt="a", lora_name="bc") == 0
    assert kv.reset_prefix_cache() == 0


def test_wrong_values_are_named() -> None:
    with pytest.raises(UsageError, match="slots = 0"):
        SlotCache(0, 1)
    with pytest.raises(UsageError, match="length = 0"):
        SlotCache(1, 0)
    with pytest.raises(UsageError, match="least_copy = 0"):
        SlotCache(1, 1, least_copy=0)
    with pytest.raises(PluginError, match="lruu"):
        SlotCache(1, 1, policy="lruu")
    kv = SlotCache(1, 4)
    with pytest.raises(UsageError, match="prompt"):
        kv.allocate([])
    with pytest.raises(NeverFitsError):
        kv.allocate([0] * 5)
    with pytest.raises(UsageError, match=r"salt = 3"):
        kv.lookup([1], cache_salt=3)  # type: ignore[arg-type]


class Shortest(BatchedEviction):
    """The slot with the fewest tokens when it was first found goes first."""

    columns = ("depth",)

    def score(self, candidates: Candidates, out: npt.NDArray[np.float64]) -> None:
        out[:] = candidates["depth"]


def test_a_policy_in_python_says_which_slot_is_given_up() -> None:
    known = registry("shortest", lambda _: Shortest())
    resolved = Config(eviction=EvictionConfig(policy="shortest")).resolve(known)
    kv = SlotCache(3, 64, policy=resolved)
    for prompt in ([1] * 9, [2] * 3, [3] * 6):
        served(kv, prompt)
    assert served(kv, [4, 4, 4, 4])[0] == 1
    assert served(kv, [5] * 20)[0] == 1
    assert kv.stats()["policy_failures"] == 0
    assert kv.lookup([1] * 10) == 9


@pytest.mark.scenario("SA-6", "SA-B13")
def test_threads_may_share_a_cache() -> None:
    kv = SlotCache(8, 32)

    def work(seed: int) -> int:
        dice = Random(seed)
        refused = 0
        for _ in range(300):
            prompt = [dice.randrange(2) for _ in range(dice.randint(1, 30))]
            try:
                grant = kv.allocate(prompt)
            except CapacityError:
                refused += 1
                continue
            plan = kv.take_plan()
            if plan:
                kv.done(plan.ticket)
            assert kv.lookup(prompt) < len(prompt)
            kv.commit(grant.seq, len(prompt))
            kv.release(grant.seq)
        return refused

    with ThreadPoolExecutor(6) as threads:
        refused = sum(threads.map(work, range(6)))
    kv.check_integrity()
    assert kv.stats()["admitted"] + refused == 1800
    assert all(slot.state in ("cached", "empty") for slot in kv.slots())


@pytest.mark.scenario("F37")
def test_a_pinned_slot_is_not_given_up() -> None:
    kv = SlotCache(2, 16)
    served(kv, [1, 2, 3, 4])
    served(kv, [7, 8])
    pin = kv.pin([1, 2, 3, 9], owner="one")
    assert pin is not None
    assert (pin.slot, pin.tokens) == (0, 3)
    assert kv.pin([5], owner="one") is None
    assert kv.pin([1, 2], cache_salt="x") is None
    assert kv.eviction_order().tolist() == [1]
    for word in range(20, 30):
        assert served(kv, [word, word])[0] == 1
    assert kv.lookup([1, 2, 3, 4, 5]) == 4
    running = kv.allocate([50])
    with pytest.raises(CapacityError, match="all 2 slots are in use"):
        kv.allocate([60])
    kv.release(running.seq)
    assert [(held.pin, held.owner) for held in kv.pins()] == [(pin, "one")]
    assert kv.slots()[0].pins == 1
    kv.unpin(pin)
    assert kv.pins() == []
    assert kv.slots()[0].pins == 0
    assert sorted(kv.eviction_order().tolist()) == [0]


@pytest.mark.scenario("F37")
def test_a_prompt_goes_on_in_a_pinned_slot_but_overwrites_nothing_of_it() -> None:
    kv = SlotCache(2, 16)
    served(kv, [1, 2, 3, 4])
    pin = kv.pin([1, 2, 3, 4])
    assert pin is not None
    grant = kv.allocate([1, 2, 3, 4, 5])
    assert (grant.slot, grant.cached_tokens, grant.copied_from) == (0, 4, None)
    with pytest.raises(UsageError, match="4 tokens are pinned"):
        kv.truncate(grant.seq, 3)
    kv.truncate(grant.seq, 4)
    kv.release(grant.seq)
    kv.check_integrity()
    # Another way on is copied out of it, as the slot is not the policy's to give.
    assert served(kv, [1, 2, 9]) == (1, 2, 0)
    assert kv.lookup([1, 2, 3, 4, 5]) == 4


@pytest.mark.scenario("F37")
def test_pins_end_once_by_receipt_or_all_of_an_owner() -> None:
    kv = SlotCache(3, 16)
    served(kv, [1, 2, 3])
    served(kv, [4, 5, 6])
    one, two, three = kv.pin([1, 2]), kv.pin([1, 2, 3], owner="b"), kv.pin([4], owner="b")
    assert one is not None
    assert two is not None
    assert three is not None
    for wrong in (one._replace(slot=1), one._replace(receipt=one.receipt + (5 << 32))):
        with pytest.raises(HandleError, match=r"^pin \d+ of slot \d is not held: it was "):
            kv.unpin(wrong)
    with pytest.raises(UsageError, match="must be the receipt"):
        kv.unpin(0)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="owner"):
        kv.pin([1], owner=3)  # type: ignore[arg-type]
    kv.unpin(one)
    with pytest.raises(HandleError, match="handed back before"):
        kv.unpin(one)
    assert kv.slots()[0].pins == 1
    assert [held.pin for held in kv.pins("b")] == [two, three]
    assert kv.unpin_all("b") == 2
    assert (kv.unpin_all(), kv.pins()) == (0, [])
    kv.check_integrity()


@pytest.mark.scenario("F37")
@pytest.mark.parametrize(
    "forget", [SlotCache.reset_prefix_cache, lambda kv: kv.set_weight_version("new")]
)
def test_what_is_forgotten_is_held_no_more(forget: Any) -> None:
    kv = SlotCache(2, 16)
    served(kv, [1, 2, 3])
    pin, live = kv.pin([1, 2, 3]), kv.allocate([4, 5])
    kv.commit(live.seq, 2)
    other = kv.pin([4, 5])
    assert pin is not None
    assert other is not None
    forget(kv)
    kv.check_integrity()
    kv.release(live.seq)
    served(kv, [7, 8])
    served(kv, [9, 8])
    again = kv.pin([7, 8])
    assert again is not None
    # The old pins hold nothing of what came into their slots since.
    kv.unpin(pin)
    kv.unpin(other)
    kv.check_integrity()
    assert kv.slots()[again.slot].pins == 1


@pytest.mark.scenario("F37")
@pytest.mark.parametrize("policy", ["lru", "arc", "s3-fifo", "next-use"])
def test_random_pins_keep_what_they_hold(policy: str) -> None:
    dice, kv = Random(policy), SlotCache(6, 12, policy=policy)
    held: list[tuple[Any, list[int]]] = []
    live: list[int] = []
    for _ in range(1_500):
        prompt = [dice.randrange(3) for _ in range(dice.randint(1, 8))]
        match dice.randrange(7):
            case 0 if len(held) < 4:
                if (pin := kv.pin(prompt, owner=dice.choice("ab"))) is not None:
                    held.append((pin, prompt[: pin.tokens]))
            case 1 if held:
                kv.unpin(held.pop(dice.randrange(len(held)))[0])
            case 2 if live:
                kv.release(live.pop(dice.randrange(len(live))))
            case _:
                try:
                    grant = kv.allocate(prompt)
                except CapacityError:
                    continue
                if plan := kv.take_plan():
                    (kv.done if dice.random() < 0.8 else kv.failed)(plan.ticket)
                kv.commit(grant.seq, dice.randint(grant.cached_tokens, len(prompt)))
                live.append(grant.seq)
        kv.check_integrity()
        for pin, tokens in held:
            assert kv.lookup([*tokens, 99]) >= pin.tokens
            assert kv.slots()[pin.slot].found >= pin.tokens


@pytest.mark.scenario("F30")
def test_an_adapter_salt_or_session_is_forgotten() -> None:
    kv = SlotCache(6, 16)
    spaces: list[dict[str, str]] = [
        {},
        {"lora_name": "a"},
        {"lora_name": "a", "cache_salt": "s"},
        {"cache_salt": "s"},
    ]
    prompt = [1, 2, 3, 4]

    def found() -> list[int]:
        return [kv.lookup([*prompt, 9], **space) for space in spaces]

    for space in spaces:
        served(kv, prompt, **space)
    live = kv.allocate([1, 2, 3, 4, 5], lora_name="a")
    kv.commit(live.seq, 5)
    pin, other = kv.pin(prompt, lora_name="a", cache_salt="s"), kv.pin(prompt, cache_salt="s")
    assert pin is not None
    assert other is not None
    assert found() == [4] * 4
    assert kv.reset_prefix_cache(lora_name="a") == 1
    kv.check_integrity()
    assert found() == [4, 0, 0, 4]
    assert (kv.slots()[pin.slot].state, kv.slots()[live.slot].state) == ("empty", "live")
    # What runs keeps its slot and leaves nothing; pins of what stays hold it.
    kv.append(live.seq, [6])
    kv.commit(live.seq, 6)
    kv.release(live.seq)
    kv.unpin(pin)
    assert found() == [4, 0, 0, 4]
    assert [slot.pins for slot in kv.slots()] == [0, 0, 0, 1, 0, 0]
    assert kv.reset_prefix_cache(lora_name="a") == 0
    served(kv, prompt, lora_name="a")
    assert kv.reset_prefix_cache(lora_name="", cache_salt="s") == 1
    assert found() == [4, 4, 0, 0]
    assert kv.reset_prefix_cache(cache_salt="") == 2
    assert [slot.state for slot in kv.slots()] == ["empty"] * 6
    kv.unpin(other)
    kv.check_integrity()


@pytest.mark.scenario("F30", "F33")
def test_of_a_session_goes_what_it_alone_used() -> None:
    kv = SlotCache(4, 16)
    head = [1, 2, 3]
    served(kv, [*head, 4, 5], use=Access(session="chat 1"))
    assert served(kv, [*head, 6, 7], use=Access(session="chat 2"))[1:] == (3, 0)
    served(kv, [8, 9], use=Access(session="chat 2"))
    served(kv, [8, 9, 8], use=Access(session="chat 2"))
    pins = [kv.pin(tokens) for tokens in ([*head, 4, 5], head)]
    assert kv.reset_prefix_cache(session="chat 1") == 0
    kv.check_integrity()
    assert kv.lookup([*head, 4, 5, 0]) == 3
    assert [held.pin.tokens for held in kv.pins()] == [3, 3]
    assert kv.reset_prefix_cache(session="chat 2") == 1
    assert (kv.lookup([*head, 6, 7, 0]), kv.lookup([8, 9, 8, 0])) == (3, 0)
    # Another session goes on where the first ended: all before is shared from then on.
    served(kv, [*head, 9], use=Access(session="chat 3"))
    assert kv.reset_prefix_cache(session="chat 3", lora_name="a") == 0
    kv.reset_prefix_cache(session="chat 3")
    assert kv.lookup([*head, 9, 0]) == 3
    for pin in pins:
        assert pin is not None
        kv.unpin(pin)
    kv.check_integrity()
    for wrong in (0, "", -1, 1.5):
        with pytest.raises(UsageError, match="session = "):
            kv.reset_prefix_cache(session=wrong)  # type: ignore[arg-type]


@pytest.mark.scenario("F30")
@pytest.mark.parametrize("policy", ["lru", "arc"])
def test_nothing_of_what_was_forgotten_is_found_among_random_calls(policy: str) -> None:
    """Each token is one computation; who used it, and under which names, is written down."""
    dice, kv = Random(policy), SlotCache(5, 12, policy=policy)
    live: dict[int, tuple[list[int], str, int]] = {}
    # Sessions that have used a prefix, since anything of it was last forgotten.
    users: dict[tuple[str, tuple[int, ...]], set[int]] = {}
    pins: list[Any] = []
    plans: list[int] = []
    for _ in range(2_000):
        prompt = [dice.randrange(2) for _ in range(dice.randint(1, 8))]
        adapter, session = dice.choice(("", "a")), dice.randint(1, 3)
        match dice.randrange(9):
            case 0 | 1 if live:
                kv.release(seq := dice.choice(list(live)))
                del live[seq]
            case 2 if (pin := kv.pin(prompt, lora_name=adapter)) is not None:
                pins.append(pin)
                if len(pins) > 2:
                    kv.unpin(pins.pop(0))
            case 3 if dice.random() < 0.3:
                kv.reset_prefix_cache(lora_name=adapter)
                users = {name: who for name, who in users.items() if name[0] != adapter}
                assert kv.lookup([*prompt, 9], lora_name=adapter) == 0
            case 4 if dice.random() < 0.3:
                kv.reset_prefix_cache(session=session)
                users = {name: who for name, who in users.items() if who != {session}}
            case 5 if plans:
                (kv.done if dice.random() < 0.8 else kv.failed)(plans.pop(0))
            case _:
                try:
                    grant = kv.allocate(prompt, lora_name=adapter, use=Access(session=session))
                except CapacityError:
                    continue
                if plan := kv.take_plan():
                    plans.append(plan.ticket)
                else:
                    kv.commit(grant.seq, len(prompt))
                live[grant.seq] = prompt, adapter, session
                for end in range(1, len(prompt) + 1):
                    users.setdefault((adapter, tuple(prompt[:end])), set()).add(session)
        kv.check_integrity()
        reach = kv.lookup([*prompt, 9], lora_name=adapter)
        assert reach == 0 or (adapter, tuple(prompt[:reach])) in users
