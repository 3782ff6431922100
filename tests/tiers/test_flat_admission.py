"""`FlatAdmission`: an admission policy for an engine's own tier, by key."""

from __future__ import annotations

import pytest

from kvframe.errors import ConfigError, PluginError
from kvframe.flat_admission import FlatAdmission

PROMPT = [b"first", b"second block", b"third"]


def test_a_prefix_enters_up_to_the_first_block_that_is_dropped() -> None:
    policy = FlatAdmission.named("second-use")
    assert policy.admitted(PROMPT, [0, 1, 2]) == []
    assert policy.admitted(PROMPT[:2], [0, 1]) == PROMPT[:2]
    assert policy.admitted([*PROMPT[:1], b"new", *PROMPT[2:]]) == PROMPT[:1]
    assert policy.admitted([]) == []


def test_options_stand_behind_the_name() -> None:
    policy = FlatAdmission.named("second-use:uses=3")
    assert [len(policy.admitted(PROMPT)) for _ in range(3)] == [0, 0, 3]
    assert FlatAdmission.named("always").admitted(PROMPT) == PROMPT


@pytest.mark.parametrize("name", ["no-such", "second-use:no=1"])
def test_a_wrong_name_is_refused(name: str) -> None:
    with pytest.raises((ConfigError, PluginError)):
        FlatAdmission.named(name)
