"""A reader of a package: found by its entry point, tried after the built-in ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvframe.bench.traces import ReadOptions, read
from kvframe.errors import TraceError
from kvframe.traces.recognise import names

from .conftest import lines

MODULE = """
from kvframe.registry import TraceForm, hookimpl
from kvframe.traces import Row, TraceReader


class Ours(TraceReader):
    name = "ours"
    title = "our log"

    def recognises(self, head):
        return "ours_v1" in head.first

    def rows(self, records, given):
        for number, record in records:
            yield number, Row(record["at"], 32, 1, record["blocks"], 16)


@hookimpl
def kvframe_trace():
    return [TraceForm(name="ours", way="batched", summary="our log", make=lambda _: Ours())]
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    info = site / "ours_traces-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "ours_traces.py").write_text(MODULE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ours-traces\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[kvframe.trace]\nours = ours_traces\n")
    monkeypatch.syspath_prepend(site)


@pytest.mark.usefixtures("installed")
def test_an_installed_reader_is_found(tmp_path: Path) -> None:
    assert "ours" in names()
    path = tmp_path / "t"
    path.write_bytes(lines({"ours_v1": 1, "at": 4, "blocks": [1, 2]}, {"at": 5, "blocks": [1, 3]}))
    source = read(str(path), ReadOptions())
    assert (source.form, source.trace.request(1)[4]) == ("ours", [0, 2])
    path.write_bytes(lines({"at": 4, "blocks": [1]}))
    with pytest.raises(
        TraceError, match="hash_ids has 1 ids, but input_length 32 at block size 16"
    ):
        read(str(path), ReadOptions(form="ours"))
