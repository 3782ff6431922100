"""What every command of this package says where SGLang is not installed."""

from __future__ import annotations

import argparse
import importlib.util
import sys

NEEDED = ("sglang", "torch")


def needs_sglang(parser: argparse.ArgumentParser) -> None:
    """End a command that runs SGLang's cache, with one line, where that is not there.

    Args:
        parser: The command's own.

    Raises:
        SystemExit: With 2; the line says what is missing and how to install it.
    """
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        parser.exit(
            2,
            f"error: not installed beside {sys.executable}: {' and '.join(missing)}; this command "
            "runs SGLang's cache (pip install 'sglang==0.5.23')\n",
        )
