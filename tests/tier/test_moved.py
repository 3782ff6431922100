"""Names that TierPolicy had before: each says the new one."""

from __future__ import annotations

import importlib

import pytest


def test_the_old_module_says_the_new_one() -> None:
    with pytest.raises(ImportError, match=r"kvframe\.policies\.tier is kvframe\.flat"):
        importlib.import_module("kvframe.policies.tier")
