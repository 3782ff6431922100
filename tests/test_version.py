"""What `kvframe.__version__` says, and what `import kvframe` does where its core is not built."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from click.testing import CliRunner

import kvframe
from kvframe import _core
from kvframe.bench.build import build_name
from kvframe.cli import main


def test_the_version_is_that_which_is_installed() -> None:
    assert kvframe.__version__ == version("kvframe")


def test_the_command_says_the_build_too() -> None:
    said = CliRunner().invoke(main, ["--version"]).stdout
    version, build = build_name().split("+")
    assert said == f"kvframe {version} (build {build})\n"
    assert hashlib.sha256(Path(str(_core.__file__)).read_bytes()).hexdigest().startswith(build)


def test_a_core_that_is_not_there_says_what_to_do(tmp_path: Path) -> None:
    package = tmp_path / "kvframe"
    package.mkdir()
    shutil.copy(Path(kvframe.__file__), package)
    done = subprocess.run(
        [sys.executable, "-c", "import kvframe"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ImportError: kvframe's compiled core cannot be loaded: in a checkout build it with "
        "`make setup`, else install kvframe again"
    )
