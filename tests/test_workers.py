"""Workers of a test cannot fail in silence; no test runs bare threads or unseen processes."""

from __future__ import annotations

import ast
import threading
from functools import cache
from pathlib import Path

import pytest

from .workers import beside, together

TESTS = Path(__file__).parent
FILES = sorted([*TESTS.rglob("*.py"), *TESTS.parent.glob("plugins/*/tests/*.py")])


def raises() -> None:
    raise ArithmeticError("of a worker")


@pytest.mark.scenario("F29")
def test_what_a_worker_raises_fails_its_test() -> None:
    assert together(lambda: 1, lambda: 2) == [1, 2]
    with pytest.raises(ArithmeticError, match="of a worker"):
        together(lambda: 1, raises)
    stop = threading.Event()
    with (
        pytest.raises(ArithmeticError, match="of a worker"),
        beside(lambda: stop.wait(20), raises, stop=stop.set),
    ):
        pass
    stop.clear()
    with (
        pytest.raises(KeyError, match="of the test"),
        beside(lambda: stop.wait(20), raises, stop=stop.set),
    ):
        raise KeyError("of the test")
    assert stop.is_set(), "the other worker was told to end"


@pytest.mark.scenario("F29")
def test_a_worker_that_hangs_fails_its_test() -> None:
    never = threading.Event()
    with pytest.raises(TimeoutError, match="did not end"):
        together(never.wait, seconds=0.05)
    never.set()


@cache
def calls(path: Path) -> list[ast.Call]:
    """All of a file."""
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]


def called(call: ast.Call) -> str:
    """The last name of what is called, however it is reached."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)


@pytest.mark.scenario("F29")
def test_tests_run_no_bare_threads() -> None:
    """An exception in a bare thread fails nothing but by a warning."""
    bare = [
        f"{path.relative_to(TESTS.parent)}:{call.lineno}"
        for path in FILES
        if path.name != "workers.py"
        for call in calls(path)
        if called(call) == "Thread" and any(keyword.arg == "target" for keyword in call.keywords)
    ]
    assert not bare, f"use tests.workers: {', '.join(bare)}"


@pytest.mark.scenario("F29")
def test_tests_look_at_how_a_child_process_ended() -> None:
    unseen = []
    for path in FILES:
        text = path.read_text()
        for call in calls(path):
            if called(call) != "run" or ast.unparse(call.func) != "subprocess.run":
                continue
            check = [ast.unparse(k.value) for k in call.keywords if k.arg == "check"]
            # A helper hands the outcome on, to a caller that looks.
            handed_on = path.name == "peer.py"
            if check != ["True"] and "returncode" not in text and not handed_on:
                unseen.append(f"{path.relative_to(TESTS.parent)}:{call.lineno}")
    assert not unseen, f"nobody looks at the status of {', '.join(unseen)}"
