"""Options that nothing would look at are refused, and named, before anything is read or written."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from kvframe.cli import main


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("check", "any.toml", "--schema"), "file: --schema is the same for every file"),
        (("plugins", "--json", "lock"), "--json: only for the list, not for lock"),
        (("top", "--once", "--interval", "2"), "--interval: --once looks once"),
        (
            ("calibrate", "-o", "p.toml", "--from", "steps.csv", "--kv-tokens", "70000"),
            "--kv-tokens: only where a card is measured",
        ),
        (
            ("calibrate", "-o", "p.toml", "--from-log", "log.csv", "--model-shape", "layers=2"),
            "--model-shape: only where a card is measured",
        ),
        (
            ("trace", "info", "a", "--model-shape", "layers=1", "--bytes-per-token", "9"),
            "--bytes-per-token: --model-shape says it",
        ),
        (("trace", "merge", "a", "-o", "b", "--seed", "1"), "--seed: nothing is drawn without"),
        (
            ("trace", "synth", "edits", "-o", "b", "--turns", "2"),
            "--turns: the workload edits is always the same",
        ),
        (("bench", "curve", "--replays", "4"), "--replays: lru needs no replay"),
        (
            ("bench", "curve", "--json", "--model-shape", "layers=1"),
            "--model-shape: for the table alone",
        ),
        (("bench", "reuse", "--json", "--token-bytes", "9"), "--token-bytes: for the table alone"),
        (
            ("bench", "verify", "--metrics", "page", "--predicted", "page", "--repeat", "2"),
            "--repeat: only with --engine",
        ),
    ],
)
def test_an_option_without_effect_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("steps.csv", "log.csv", "page"):
        Path(name).touch()
    result = CliRunner().invoke(main, args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert told in result.stderr
    assert not Path("p.toml").exists()
    assert not Path("plugins.lock").exists()
