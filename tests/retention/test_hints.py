"""Hints on sessions, each answered."""

from __future__ import annotations

import pytest

from kvframe import Keep, UsageError

from .helpers import SIZE, manager, prompt, serve, squeeze, start, there


@pytest.mark.scenario("V6")
def test_each_hint_is_answered(index: str) -> None:
    kv = manager(index, 10, sessions=True, pin_cap=0.2)
    serve(kv, 1, 2, 3, session=1)
    assert kv.pins.hint(7, "retain").status == "missing"
    clipped = kv.pins.hint(1, "pin", owner="an agent")
    assert clipped.status == "clipped"
    assert clipped.pin is not None
    assert (clipped.pin.tokens, clipped.pin.found) == (2 * SIZE, 3 * SIZE)
    serve(kv, 5, session=2)
    assert kv.pins.hint(2, "pin").status == "refused"
    seq = start(kv, 6, session=3)
    assert kv.pins.hint(3, "pin").status == "deferred"
    assert kv.pins.hint(3, "demote").status == "deferred"
    kv.release(seq)
    assert kv.pins.hint(1, "retain").status == "accepted"
    assert kv.pins.hint(1, "release").status == "accepted"
    assert kv.pins.held() == [], "its pins end with it"
    kv.check_integrity()
    assert manager(index).pins.hint(1, "retain").status == "refused"


def test_what_is_retained_or_demoted_moves(index: str) -> None:
    kv = manager(index, 8, sessions=True)
    for session in (1, 2, 3):
        serve(kv, 9, session, session=session)
    assert kv.pins.hint(1, "retain", keep=Keep(60, 5)).blocks == 1
    assert kv.pins.hint(3, "demote").blocks == 1
    squeeze(kv, 2)
    assert [there(kv, 9, session) for session in (1, 2, 3)] == [2, 1, 1]
    kv.expire_until(5)
    serve(kv, 9, 2, session=2)
    squeeze(kv, 1)
    assert [there(kv, 9, session) for session in (1, 2)] == [1, 2]


def test_a_hint_on_a_running_session_is_done_once_it_has_ended(index: str) -> None:
    kv = manager(index, 8, sessions=True)
    first, second = start(kv, 1, 2, session=1), start(kv, 1, 3, session=1)
    assert kv.pins.hint(1, "release").status == "deferred"
    serve(kv, 5)
    kv.release(first)
    kv.release(second)
    kv.check_integrity()
    squeeze(kv, 3)
    assert (there(kv, 1), there(kv, 5)) == (0, 1)


def test_what_others_use_again_is_theirs_too(index: str) -> None:
    kv = manager(index, 8, sessions=True)
    serve(kv, 1, 2, session=1)
    kv.pins.hint(1, "release")
    serve(kv, 1, 2, session=2)
    assert kv.pins.hint(1, "retain").status == "missing", "nothing is its alone any more"
    block = int(kv.lookup([*prompt(1), 9]).blocks[0][0])
    assert kv.pins.block_priority(block).priority == 35, "somebody used it who asked for nothing"


def test_a_hint_with_the_wrong_arguments_is_refused(index: str) -> None:
    kv = manager(index, sessions=True)
    with pytest.raises(UsageError, match="must be pin, retain, release or demote"):
        kv.pins.hint(1, "keep")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="goes with retain and demote, not with release"):
        kv.pins.hint(1, "release", keep=Keep(3))
    with pytest.raises(UsageError, match="go with pin, not with demote"):
        kv.pins.hint(1, "demote", lease=3)
