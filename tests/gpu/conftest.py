"""Without CuPy and a card nothing here is collected; one line says so."""

from __future__ import annotations

import importlib.util

import pytest


def card() -> bool:
    if importlib.util.find_spec("cupy") is None:
        return False
    import cupy

    try:
        return int(cupy.cuda.runtime.getDeviceCount()) > 0
    except cupy.cuda.runtime.CUDARuntimeError:
        return False


CARD = card()
collect_ignore_glob = [] if CARD else ["test_*.py"]


def pytest_report_header(config: pytest.Config) -> str:
    return "GPU: tests/gpu run" if CARD else "GPU: none with CuPy, tests/gpu left out"
