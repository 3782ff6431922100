"""Every snippet of README.md and docs/**/*.md is run, so that none can go stale.

The convention, page by page:

- One page is one empty folder and one Python namespace. Its blocks run from top to bottom.
- ``python`` blocks are executed. ``toml`` blocks must parse.
- A block of any language becomes a file of the page's folder if ``<!-- file: NAME -->`` stands
  before it or its first line is a comment that is a file name (``# plugin/kvframe.toml``). A Python
  file is not executed: later blocks import it.
- ``console`` blocks: a line after ``$`` is a command, what follows is its output (stdout and stderr
  as they come). In ``bash`` blocks, and where no line has a ``$``, every line is a command. A
  backslash joins lines; one that is to fail says so: ``$ kvframe check bad.toml  # exit 2``.
- ``kvframe`` and ``python`` commands are run. A target of ``make`` must exist in the Makefile.
  ``pip install -e ./FOLDER`` makes a package of the page importable, with its entry points.
  Commands of `LEFT_OUT` set a machine up and are not run; any other command is an error.
- Output is compared word by word; ``...`` stands for anything, so write it for timings.
- ``<!-- output -->`` before a ``text`` block compares it with what the Python block above printed.
- ``<!-- needs: MODULE -->`` leaves a block out where MODULE is not installed (``cupy``).

Other languages are not looked at.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kvframe.bench.policies import DEFAULT
from kvframe.cli import main

from .pages import Block, Command, blocks, commands, make_targets, matches

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Its commands need an environment of their own, and are run there: test_tutorial.py.
TUTORIAL = ROOT / "docs" / "tutorial" / "your-first-policy.md"
PAGES.remove(TUTORIAL)
LEFT_OUT = {"cargo", "cd", "git", "pip", "python3", "source", "uv"}


@pytest.mark.parametrize("page", [*PAGES, TUTORIAL], ids=lambda page: page.name)
def test_a_reader_sees_what_a_file_is_called(page: Path) -> None:
    text = page.read_text()
    seen = re.sub(r"<!--.*?-->", "", text)
    assert not [one.file for one in blocks(text) if one.file and Path(one.file).name not in seen]


def kvframe_here(words: list[str], path: list[str]) -> tuple[int, str]:
    """Exit code and output of ``kvframe``, run in this process and the current folder.

    That its script is installed and starts is tried in tests/bench and tests/config.
    """
    if words == ["bench"]:
        done = first_command()
    else:
        sys.path[:0] = [folder for folder in path if folder not in sys.path]
        done = invoked(words)
    return done.exit_code, done.output


def invoked(words: list[str]) -> Result:
    return CliRunner().invoke(
        main, words, env={"COLUMNS": "120"}, prog_name="kvframe", catch_exceptions=False
    )


@cache
def first_command() -> Result:
    """``kvframe bench``, which reads nothing of a page's: every page shows the same run."""
    return invoked(["bench"])


def python(words: list[str], path: list[str]) -> tuple[int, str]:
    """Exit code and output of ``python``, in the current folder."""
    done = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "COLUMNS": "120", "PYTHONPATH": os.pathsep.join(path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout


RUN = {"kvframe": kvframe_here, "python": python}


class Page:
    """Runs the blocks of one page in a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.namespace: dict[str, Any] = {"__name__": f"page {name}"}
        self.printed = ""
        self.path = [str(folder)]

    def run(self, block: Block) -> None:
        if block.needs is not None and importlib.util.find_spec(block.needs) is None:
            return
        if block.file is not None:
            self.write(block, block.file)
        if block.language == "toml":
            tomllib.loads(block.text)
        elif block.language == "python" and block.file is None:
            self.execute(block)
        elif block.language in ("console", "bash", "sh"):
            for command in commands(block):
                self.command(command, block)
        elif block.output:
            assert matches(block.text, self.printed), self.differs(block.text, self.printed, block)

    def write(self, block: Block, name: str) -> None:
        path = (self.folder / name).resolve()
        assert path.is_relative_to(self.folder.resolve()), f"{self.name}:{block.line}: {name}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text)
        importlib.invalidate_caches()

    def execute(self, block: Block) -> None:
        # Empty lines before it make tracebacks name the page's own lines.
        code = compile("\n" * (block.line - 1) + block.text, self.name, "exec")
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(code, self.namespace)
        self.printed = printed.getvalue()

    def install(self, package: Path) -> None:
        """What pip leaves behind: a folder on the path, and a description of the package."""
        project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
        info = self.folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
        info.mkdir()
        about = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
        (info / "METADATA").write_text(about)
        points = [
            f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in table.items())
            for group, table in project.get("entry-points", {}).items()
        ]
        (info / "entry_points.txt").write_text("\n".join(points))
        source = package / "src"
        self.path.append(str(source if source.is_dir() else package))

    def command(self, command: Command, block: Block) -> None:
        words = shlex.split(command.text)
        place = f"{self.name}:{block.line}: {command.text}"
        if words[0] == "make":
            missing = {w for w in words[1:] if "=" not in w} - make_targets(ROOT / "Makefile")
            assert not missing, f"{place}: the Makefile has no target {', '.join(missing)}"
            return
        if words[:3] == ["pip", "install", "-e"] and len(words) == 4:
            self.install(self.folder / words[3])
            return
        if words[0] in LEFT_OUT:
            return
        assert words[0] in RUN, f"{place}: not known how to run this"
        code, printed = RUN[words[0]](words[1:], self.path)
        assert code == command.exit_code, f"{place}: {code}\n{printed}"
        if command.output:
            assert matches(command.output, printed), self.differs(command.output, printed, block)

    def differs(self, shown: str, printed: str, block: Block) -> str:
        return f"{self.name}:{block.line} shows\n{shown}\nand it is\n{printed}"


def run_page(text: str, folder: Path, name: str = "page.md") -> Page:
    page = Page(folder, name)
    for block in blocks(text):
        page.run(block)
    return page


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """What a page sets up of logging ends with it."""
    log, handlers = logging.getLogger("kvframe.manager"), [*logging.root.handlers]
    level = log.level
    yield
    log.setLevel(level)  # and not its attribute: loggers remember what is enabled
    logging.root.handlers[:] = handlers


@pytest.fixture
def folder(own_modules: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page's folder: current, and modules written there can be imported till the test ends."""
    monkeypatch.chdir(own_modules)
    sys.path.insert(0, str(own_modules))
    return own_modules


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_page(path: Path, folder: Path) -> None:
    run_page(path.read_text(), folder, str(path.relative_to(ROOT)))


def test_the_first_screen_can_be_run() -> None:
    """README names its two commands and shows a configuration with its use in an engine loop."""
    found = list(blocks((ROOT / "README.md").read_text()))
    told = [c.text for b in found if b.language in ("console", "bash") for c in commands(b)]
    assert [text for text in told if text.startswith("make")][:2] == ["make bench", "make test"]
    assert any(b.language == "toml" and b.file for b in found)
    assert any(b.language == "python" for b in found)


def test_the_first_command_ends_with_the_answer() -> None:
    done = first_command()
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 100
    text = " ".join(done.stdout.split())
    assert "asked which policy would have served conversation best? 12,031 requests" in text
    assert re.search(r"answer mq is better than lru by \S+ \[\S+ \S+\] points on the mean", text)
    assert (
        "doubt 95% intervals by 2,000 paired resamplings of 8,056 sessions, told by prompts" in text
    )
    table = [line.split() for line in lines]
    sizes = ["1,000", "2,000", "4,000", "8,000", "16,000", "32,000"]
    head = table.index(["token", "hit,", "%", *sizes])
    names = [row[0] for row in table[head + 1 : head + 2 + len(DEFAULT)]]
    assert sorted(names) == sorted([*DEFAULT, "infinite"])
    assert names[0] == "mq"
    assert names[-2:] == ["opt", "infinite"]


GOOD = """
# A page

<!-- file: kvframe.toml -->
```toml
[cache]
capacity = 12
```

- in a list:

  ```python
  from kvframe import KVCacheManager
  kv = KVCacheManager.from_toml("kvframe.toml")
  ```

```python
print(kv.counts().total, "blocks")
```

<!-- output -->
```text
12 blocks
```

<!-- file: helper.py -->
```python
VALUE = 3
```
```python
import helper
assert helper.VALUE == 3
```
```toml
# other/kvframe.toml
[cache]
blok_size = 1
```
```console
$ kvframe check \\
    kvframe.toml
... capacity = 12 ...:2 ...
$ kvframe check other/kvframe.toml  # exit 2
error: other/kvframe.toml:3: cache.blok_size = 1: unknown key; did you mean ...?
hint: ... docs/reference/configuration.md ...
```
```bash
# sets up
make setup
pip install kvframe
```
<!-- needs: a_module_that_nobody_has -->
```python
raise SystemExit
```
```rust
anything at all
```
"""


def test_a_page_that_keeps_the_convention_passes(folder: Path) -> None:
    page = run_page(GOOD, folder)
    assert page.namespace["kv"].counts().total == 12
    assert (folder / "other" / "kvframe.toml").exists()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("```python\n1 / 0\n```", ZeroDivisionError),
        ("```toml\na = \n```", tomllib.TOMLDecodeError),
        ("```python\nprint(3)\n```\n<!-- output -->\n```text\n4\n```", AssertionError),
        ("```console\n$ kvframe --version\nnothing like it\n```", AssertionError),
        ("```console\n$ kvframe check none.toml\n```", AssertionError),
        ("```console\n$ make no-such-target\n```", AssertionError),
        ("```bash\ncurl example.org\n```", AssertionError),
        ("```console\noutput first\n$ kvframe --help\n```", ValueError),
        ("<!-- file: ../x.toml -->\n```toml\n```", AssertionError),
        ("```python\nnever closed", ValueError),
    ],
)
def test_a_stale_snippet_fails(text: str, error: type[Exception], folder: Path) -> None:
    with pytest.raises(error):
        run_page(text, folder)
