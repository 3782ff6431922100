"""One line on a terminal that says which cell runs; nothing anywhere else."""

import shutil
import sys

from kvframe.bench.cells import Plan


class Progress:
    """Rewrites its line on stderr; silent when stderr is no terminal or ``quiet`` is asked."""

    def __init__(self, quiet: bool) -> None:
        closed = sys.stderr is None  # `2>&-`
        self._on = not quiet and not closed and sys.stderr.isatty()

    def __call__(self, finished: int, total: int, plan: Plan) -> None:
        """Say that ``plan`` starts, after ``finished`` of ``total`` cells."""
        if self._on:
            width = shutil.get_terminal_size().columns - 1
            self._put(f"[{finished + 1}/{total}] {plan}"[:width])

    def clear(self) -> None:
        """Leave an empty line for what comes next."""
        if self._on:
            self._put("")

    def _put(self, line: str) -> None:
        # ESC [ K clears what a longer line before it left behind.
        sys.stderr.write(f"\r{line}\x1b[K")
        sys.stderr.flush()
