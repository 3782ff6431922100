"""Uses what ``make dist`` built, in clean environments: ``make dist-check``.

Nothing of the checkout is on the path there, and pip installs kvframe from ``dist`` alone.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path

DIST = Path(__file__).parents[1] / "dist"
GLIBC = (2, 28)
"""What the wheels may ask for at most."""

LIMIT_MS = 100
"""Milliseconds of a processor that `import kvframe` may take beyond NumPy's own."""

IMPORTS = """
import resource, subprocess, sys

def spent(code):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

codes = "import numpy", "import numpy, kvframe"
numpy, both = (min(spent(code) for _ in range(10)) for code in codes)
print(round(numpy * 1000), round((both - numpy) * 1000))
"""
SERVE = """
from kvframe import KVCacheManager
kv = KVCacheManager(block_size=4, capacity=16, eviction="lfuda")
kv.commit(kv.allocate(range(13)).seq, 13)
assert kv.lookup(range(13)).tokens == 12
"""


def main() -> int:
    """Raises `subprocess.CalledProcessError`, with all that was printed, at what does not work."""
    (wheel,) = DIST.glob(f"kvframe-*{platform.machine()}.whl")
    (source,) = DIST.glob("kvframe-*.tar.gz")
    plugins = sorted(DIST.glob("kvframe_*.whl"))
    for built in DIST.glob("kvframe-*.whl"):
        most = newest_glibc(built)
        print(
            f"{built.name}: glibc {most[0]}.{most[1]} or newer, {built.stat().st_size / 1e6:.2f} MB"
        )
        assert most <= GLIBC, f"{built.name} needs glibc {most}"
    with tempfile.TemporaryDirectory() as folder:
        bare = Environment(Path(folder) / "bare")
        bare.pip("install", wheel)
        bare.python("-c", SERVE)
        bare.python("-m", "kvframe", "bench", "run", "--policy", "lru,lfuda", "--capacity", "2000")
        numpy, over = map(int, bare.python("-c", IMPORTS).split())
        print(f"import kvframe: {over} ms of a processor beyond NumPy's {numpy} ms")
        bare.pip("install", *plugins)
        listed = bare.python("-m", "kvframe", "plugins")
        assert "broken" not in listed, listed
        print(f"{len(plugins)} plugins are installed and listed")
        sources = Environment(Path(folder) / "source")
        sources.pip("install", source)
        sources.python("-c", SERVE)
        print(f"{source.name}: built where pip and Rust are")
    if over > LIMIT_MS:
        print(f"import kvframe is meant to take {LIMIT_MS} ms beyond NumPy, on an idle machine")
    return 0


class Environment:
    """A virtual environment with pip and no more."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)

    def pip(self, verb: str, *what: object) -> None:
        """Run pip quietly."""
        self.python("-m", "pip", verb, "--quiet", "--disable-pip-version-check", *what)

    def python(self, *arguments: object) -> str:
        """What the environment's Python prints."""
        kept = {name: os.environ[name] for name in os.environ if not name.startswith("PYTHON")}
        done = subprocess.run(
            [self._folder / "bin" / "python", *map(str, arguments)],
            cwd=self._folder,
            env=kept,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return done.stdout


def newest_glibc(wheel: Path) -> tuple[int, int]:
    """The newest version of glibc's symbols that the wheel's extension module asks for.

    Raises:
        ValueError: It asks for none: it is no wheel of Linux with glibc.
    """
    import zipfile

    with zipfile.ZipFile(wheel) as files:
        data = b"".join(files.read(name) for name in files.namelist() if name.endswith(".so"))
    found = re.findall(rb"GLIBC_(\d+)\.(\d+)", data)
    return max((int(major), int(minor)) for major, minor in found)


if __name__ == "__main__":
    sys.exit(main())
