"""The exception tree, and that each message is shown as it was written."""

from __future__ import annotations

import pickle

import pytest

from kvframe import errors

TREE = {
    "ConfigError": (errors.KVFrameError, ValueError),
    "PluginError": (errors.KVFrameError,),
    "PolicyError": (errors.PluginError,),
    "AbiError": (errors.PolicyError,),
    "TraceError": (errors.KVFrameError, ValueError),
    "CapacityError": (errors.KVFrameError,),
    "HeldError": (errors.CapacityError,),
    "BusyError": (errors.CapacityError,),
    "TierError": (errors.KVFrameError,),
    "NeverFitsError": (errors.KVFrameError,),
    "HandleError": (errors.KVFrameError,),
    "StaleHandleError": (errors.HandleError,),
    "UnknownSequenceError": (errors.HandleError, KeyError),
    "UsageError": (errors.KVFrameError, ValueError),
    "IntegrityError": (errors.KVFrameError,),
}


def test_the_tree_is_whole() -> None:
    classes = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert classes == {*TREE, "KVFrameError"}


@pytest.mark.parametrize("name", TREE)
def test_each_error(name: str) -> None:
    error = getattr(errors, name)("block 3 was freed twice")
    assert isinstance(error, TREE[name])
    assert str(error) == "block 3 was freed twice"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_trace_error_knows_its_place() -> None:
    error = errors.TraceError("t.jsonl:17: a row without hash_ids", path="t.jsonl", line=17)
    again = pickle.loads(pickle.dumps(error))
    assert (again.path, again.line, str(again)) == ("t.jsonl", 17, str(error))
    assert (errors.TraceError("x").path, errors.TraceError("x").line) == (None, None)
