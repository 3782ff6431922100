"""What `kvframe.__version__` says."""

from __future__ import annotations

from importlib.metadata import version

import kvframe


def test_the_version_is_that_which_is_installed() -> None:
    assert kvframe.__version__ == version("kvframe")
