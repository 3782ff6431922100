"""What every command of this package does with an error that kvframe raises on purpose."""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable

from kvframe.errors import KVFrameError

BAD_INPUT = 2
"""The exit code of wrong usage or data, as of the command ``kvframe``."""


def needs_vllm() -> None:
    """End a command with one line if vLLM is not there.

    Raises:
        SystemExit: With `BAD_INPUT`.
    """
    if importlib.util.find_spec("vllm") is None:
        why = f"vLLM is not installed beside {sys.executable}; this command runs its scheduler"
        print(f"error: {why} (pip install 'vllm==0.33.*')", file=sys.stderr)
        raise SystemExit(BAD_INPUT)


def commands_need_vllm() -> None:
    """The same, of a package of commands that import vLLM, called where ``python -m`` loads it.

    Python does that first, and ``sys.argv[0]`` is ``-m`` until it has found the command. An import
    is left alone.
    """
    if sys.argv[0] == "-m":
        needs_vllm()


def one_line(main: Callable[[], None]) -> Callable[[], None]:
    """The same ``main``; a `KVFrameError` ends it with its line in place of a traceback.

    Raises:
        SystemExit: With `BAD_INPUT`; what else was wrong with the same file has lines of its own.
    """

    @functools.wraps(main)
    def told() -> None:
        try:
            main()
        except KVFrameError as error:
            for said in (str(error), *getattr(error, "others", ())):
                print(f"error: {said}", file=sys.stderr)
            raise SystemExit(BAD_INPUT) from None

    return told
