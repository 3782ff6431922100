"""What `kvframe.__version__` says, and what `import kvframe` does where its core is not built."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import kvframe


def test_the_version_is_that_which_is_installed() -> None:
    assert kvframe.__version__ == version("kvframe")


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
