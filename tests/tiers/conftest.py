"""Registers the `scenario` marker."""

from __future__ import annotations

from ..conformance.marker import pytest_configure

__all__ = ["pytest_configure"]
