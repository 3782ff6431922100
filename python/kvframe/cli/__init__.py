"""The command ``kvframe``: data on stdout, everything else on stderr, readable without colour.

Exit codes: 0 success; 1 a result below a threshold, or a broken promise; 2 wrong usage or data; 130
interrupted; 141 the reader of stdout has closed it.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from traceback import extract_tb
from typing import Any

import click

from kvframe.cli import pages
from kvframe.errors import KVFrameError
from kvframe.spelling import did_you_mean

BELOW_THRESHOLD, BAD_INPUT, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141

# A command is imported when it is used: `check` and the help must not wait for `bench`.
COMMANDS = {
    "bench": "Replay real traffic under every policy.",
    "calibrate": "Measure how long a step of a server takes on this card.",
    "check": "Check FILE and print what it resolves to.",
    "events": "Read the KV events that running engines publish (vLLM, SGLang, kvframe.wire).",
    "new-plugin": "Write a package that installs, passes its tests and runs.",
    "plugins": "List every policy and store that is installed.",
    "shadow": "What other policies and sizes would have hit on a recorded log.",
    "tiers": "Count what lies in the stores of a configuration, and clear it.",
    "top": "Watch a running manager: usage, hits, who holds what.",
    "trace": "Look at traces, check them, and make others of them.",
}


class _ReaderLeftError(Exception):
    """The reader of stdout has closed it (`| head`)."""


@contextmanager
def _reading() -> Iterator[None]:
    # click would exit with 1, the code of a missed threshold.
    try:
        yield
    except BrokenPipeError as error:
        raise _ReaderLeftError from error


class NearestGroup(click.Group):
    """Names the nearest command where one is misspelt; its commands' help names their pages."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = super().get_command(ctx, cmd_name)
        return command and self.with_page(command, ctx, cmd_name)

    @staticmethod
    def with_page(command: click.Command, ctx: click.Context, cmd_name: str) -> click.Command:
        """The command, with its page at the end of its help."""
        words = [cmd_name]
        while ctx.parent is not None:  # the outermost is kvframe itself, by whatever name
            words.insert(0, str(ctx.command.name))
            ctx = ctx.parent
        command.epilog = pages.told(" ".join(words))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args[0] not in known and not args[0].startswith("-"):
            ctx.fail(f"no command {args[0]}{did_you_mean(args[0], known)}")
        return super().resolve_command(ctx, args)


class _Commands(NearestGroup):
    """Subcommands loaded by name, and errors of one or two lines instead of a page of usage."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        module = importlib.import_module(f"kvframe.cli.{name}")
        return self.with_page(getattr(module, name), ctx, cmd_name)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _reading():  # --help and --version print here
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _reading():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        run = partial(super().main, args, prog_name, complete_var, standalone_mode=False, **extra)
        if not standalone_mode:
            return run()
        sys.exit(_exit_code(run))


def _exit_code(run: Callable[[], object]) -> int:
    if sys.stdout is None:  # `>&-`
        fail("stdout: closed")
        return BAD_INPUT
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        # The terminal's encoding may lack a character of a name: it is shown escaped.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = run()
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 0
    except click.UsageError as error:
        fail(_said(error))
        if error.ctx is not None:
            click.echo(f"hint: {error.ctx.command_path} --help", err=True)
        return BAD_INPUT
    except click.ClickException as error:
        fail(error.format_message())
        return BAD_INPUT
    except KVFrameError as error:
        fail(str(error))
        return BAD_INPUT
    except ImportError as error:
        if error.__cause__ is None:
            raise
        fail(str(error))  # an optional package is not there, and kvframe's own error says which
        return BAD_INPUT
    except (_ReaderLeftError, BrokenPipeError):
        _leave_stdout()
        return BROKEN_PIPE
    except OSError as error:
        _leave_stdout()
        fail(f"{error.filename or 'stdout'}: {error.strerror or error}")
        return BAD_INPUT
    except SystemExit as error:  # no command exits this way: a plugin has called sys.exit
        at = extract_tb(error.__traceback__)[-1]
        fail(f"{at.filename}:{at.lineno}: has ended the program: SystemExit: {error}")
        return BAD_INPUT
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    # A command that calls ctx.exit(n) returns n here; others return None.
    return code if isinstance(code, int) else 0


def _said(error: click.UsageError) -> str:
    """Click's message; of what is no number, with the limits that the number has, and of one
    spelling of JSON with the command's own.
    """
    said = error.format_message()
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        known = {name for parameter in error.ctx.command.params for name in parameter.opts}
        right = {"--json": "--format json", "--format": "--json"}.get(error.option_name, "")
        if right.split(" ")[0] in known:
            return f"No such option '{error.option_name}': here it is {right}"
    kind = error.param.type if isinstance(error, click.BadParameter) and error.param else None
    if not isinstance(kind, click.IntRange | click.FloatRange):
        return said
    what = "a whole number" if isinstance(kind, click.IntRange) else "a number"
    limits = [f"{word} {limit}" for word, limit in (("from", kind.min), ("to", kind.max)) if limit]
    wanted = " ".join(["must be", what, *limits])
    return said.replace(f"is not a valid {kind.name}", wanted)


def _leave_stdout() -> None:
    """Nothing more can be written there, and Python must not try to at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def fail(message: str) -> None:
    """Report an error on one line of stderr."""
    click.echo(f"error: {' '.join(message.split())}", err=True)


def _version(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        from kvframe.bench.build import build_name

        version, _plus, build = build_name().partition("+")
        click.echo(f"kvframe {version} (build {build})" if build else f"kvframe {version}")
        context.exit()


@click.group(
    "kvframe",
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=pages.told(""),
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Show the version and the build, and exit.",
)
def main() -> None:
    """Which KV-cache blocks live where, who shares them, and which are evicted next."""
