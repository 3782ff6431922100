"""What every command of this package does with an error that kvframe raises on purpose."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable

from kvframe.errors import KVFrameError

BAD_INPUT = 2
"""The exit code of wrong usage or data, as of the command ``kvframe``."""


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
