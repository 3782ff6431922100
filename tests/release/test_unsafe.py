"""Every use of ``unsafe`` has its reason and a test: docs/explanation/memory.md lists them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/explanation/memory.md"
USE = re.compile(r"\bunsafe\s*(\{|fn\b|impl\b)")
ROW = re.compile(r"^\| `(rust/\S+)` \| (\d+) \| [^|]+ \| `([^`]+)::(\w+)` \|$", re.MULTILINE)
ABOVE = 9
"""Lines above a use in which its reason stands."""


def uses(path: Path) -> list[tuple[int, bool]]:
    """The lines of a file with a use of ``unsafe``, and whether a reason stands there or above."""
    lines = path.read_text().splitlines()
    return [
        (
            at + 1,
            any(
                "SAFETY:" in one or "# Safety" in one for one in lines[max(0, at - ABOVE) : at + 1]
            ),
        )
        for at, line in enumerate(lines)
        if USE.search(line.split("//")[0])
    ]


def sources() -> dict[str, list[tuple[int, bool]]]:
    """The same of every source of a crate that has any."""
    paths = sorted((ROOT / "rust").glob("*/src/**/*.rs"))
    found = {str(path.relative_to(ROOT)): uses(path) for path in paths}
    return {name: at for name, at in found.items() if at}


def test_every_use_of_unsafe_says_why_it_is_sound() -> None:
    bare = [f"{name}:{line}" for name, at in sources().items() for line, told in at if not told]
    assert not bare, f"no SAFETY comment: {bare}"


def test_the_page_counts_every_use_and_names_a_test_of_it() -> None:
    listed = {name: int(count) for name, count, _, _ in ROW.findall(PAGE.read_text())}
    assert listed == {name: len(at) for name, at in sources().items()}
    for _, _, file, test in ROW.findall(PAGE.read_text()):
        assert f"def {test}(" in (ROOT / file).read_text(), (file, test)


def test_a_use_without_a_reason_is_seen(tmp_path: Path) -> None:
    bare, told = tmp_path / "bare.rs", tmp_path / "told.rs"
    bare.write_text("fn f() {\n    unsafe { g() }\n}\n")
    told.write_text("// SAFETY: g does nothing.\nunsafe { g() }\n// unsafe { h() }\n")
    assert uses(bare) == [(2, False)]
    assert uses(told) == [(2, True)]


def test_what_decides_has_no_unsafe_code() -> None:
    for crate in ("core", "trace", "server"):
        assert "#![forbid(unsafe_code)]" in (ROOT / "rust" / crate / "src/lib.rs").read_text()
