"""What a setting of vLLM comes to, before vLLM starts: no GPU, and vLLM is not imported.

The release is that of the installed vLLM; all else needs none.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kvframe_vllm import choice, releases
from kvframe_vllm.check import MANAGER_SCHEDULER, PLUGINS, POOL_SCHEDULERS, main

SHADOW = {
    "kv_connector": "ShadowConnector",
    "kv_connector_module_path": "kvframe_vllm.shadow",
    "kv_role": "kv_producer",
}
POLICY = {
    **SHADOW,
    "kv_connector": "KvframeConnector",
    "kv_connector_module_path": "kvframe_vllm.connector",
}
FILE = """\
[cache]
capacity = 100
[model]
layers = 2
kv_heads = 1
head_dim = 8
[eviction]
policy = "lfu"
[admission]
policy = "second-use"
[[tiers]]
name = "host"
capacity = 8
"""

RELEASE = re.compile(r"vLLM \d.*: a known release")

Checked = tuple[int, str, str]
Check = Callable[..., Checked]


@pytest.fixture
def check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Check:
    """Exit code, stdout and stderr, of what is not about vLLM's release."""
    monkeypatch.chdir(tmp_path)
    if not installed():
        monkeypatch.setattr("kvframe_vllm.check._release", lambda _: ())
    for name in [*choice.VARIABLES, PLUGINS]:
        monkeypatch.delenv(name, raising=False)

    def checked(*arguments: str | None, **options: Any) -> Checked:
        words = [one for one in arguments if one is not None]
        for name, value in options.items():
            words += [f"--{name.replace('_', '-')}"]
            words += [value if isinstance(value, str) else json.dumps(value)]
        monkeypatch.setattr(sys, "argv", ["check", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        told = capsys.readouterr()
        out, err = (
            "\n".join(line for line in text.splitlines() if not RELEASE.match(line))
            for text in (told.out, told.err)
        )
        return int(str(ended.value.code)), out, err

    return checked


def test_a_release_that_is_not_known_has_no_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(releases.POOL, "unknown", "vLLM 9.9 is not one of the known releases")
    for policy, more in (("lfu", []), ("lfuu", ["error: eviction.policy = "])):
        monkeypatch.setattr(sys, "argv", ["check", policy])
        with pytest.raises(SystemExit, match="2"):
            main()
        told = capsys.readouterr()
        assert "will rule" not in told.out
        first, *rest = told.err.splitlines()
        assert first == "error: vLLM 9.9 is not one of the known releases"
        assert [line[: len(want)] for line, want in zip(rest, more, strict=True)] == more


def installed() -> bool:
    return importlib.util.find_spec("vllm") is not None


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        ("lfu", "lfu will rule the GPU prefix cache: KVFRAME_VLLM_POLICY = lfu"),
        (
            "s3-fifo:small_percent=20",
            "s3-fifo:small_percent=20 will rule the GPU prefix cache: "
            "KVFRAME_VLLM_POLICY = s3-fifo:small_percent=20",
        ),
        ("stock", "the pool stays under vLLM's LRU: KVFRAME_VLLM_POLICY = stock"),
    ],
)
def test_what_will_rule(
    check: Check, monkeypatch: pytest.MonkeyPatch, policy: str, told: str
) -> None:
    assert check(policy) == (0, told, "")
    monkeypatch.setenv(choice.VARIABLE, policy)
    assert check() == (0, told, "")


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        ("lfuu", "no eviction policy lfuu; did you mean lfu?"),
        ("lfu:nothing=1", "nothing"),
        ("opt", "needs to know the future"),
        ("none.toml", "none.toml: no such file (KVFRAME_VLLM_POLICY)"),
        ("wrong.toml", "wrong.toml:1: evction"),
        ("unquoted.toml", 'text needs quotes: "lfu" (KVFRAME_VLLM_POLICY)'),
        ("kvframe.tom", "kvframe.tom: a file must be named .toml"),
    ],
)
def test_a_policy_that_cannot_be_had_is_an_error(check: Check, policy: str, told: str) -> None:
    Path("wrong.toml").write_text("[evction]\npolicy = 'lfu'\n")
    Path("unquoted.toml").write_text("[eviction]\npolicy = lfu\n")
    Path("kvframe.tom").write_text("")
    code, out, err = check(policy)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert told in err
    assert "Traceback" not in err


def test_what_of_a_file_does_not_count_is_named(check: Check) -> None:
    Path("kvframe.toml").write_text(FILE)
    code, out, err = check("kvframe.toml")
    assert (code, err) == (0, "")
    assert out.splitlines()[1] == (
        "kvframe.toml: ignored here: cache.capacity, model, admission, tiers (the pool, its size "
        "and the model are vLLM's; tiers go by vLLM's kv_offload (docs/how-to/vllm.md); "
        "admission: under the whole manager alone)"
    )
    _, out, _ = check("kvframe.toml", scheduler_cls=MANAGER_SCHEDULER)
    first, second = out.splitlines()
    assert first.startswith("lfu will rule the whole manager (experimental): ")
    assert ": ignored here: cache.capacity, model, tiers (" in second
    Path("kvframe.toml").write_text('[eviction]\npolicy = "lfu"\n[plugins]\nblock = ["other"]\n')
    assert len(check("kvframe.toml")[1].splitlines()) == 1


@pytest.mark.parametrize("scheduler", POOL_SCHEDULERS)
def test_a_scheduler_reads_the_additional_configuration(check: Check, scheduler: str) -> None:
    asked = {"additional_config": {"kvframe": "arc"}}
    told = "arc will rule the GPU prefix cache: additional_config['kvframe'] = arc"
    assert check("lfu", scheduler_cls=scheduler, **asked) == (0, told, "")
    assert check(**asked)[2] == "error: nothing reads additional_config: vLLM's LRU rules"
    wrong = check(scheduler_cls=scheduler.removesuffix("r"), **asked)[2]
    assert f"did you mean {scheduler}?" in wrong
    misspelt = check(scheduler_cls=scheduler, additional_config={"kvfrane": "arc"})[2]
    assert misspelt == "error: additional_config['kvfrane']: did you mean kvframe?"
    # Without any name it is kvframe's own configuration.
    Path("kvframe.toml").write_text('[eviction]\npolicy = "lfu"\n')
    told = "lfu will rule the GPU prefix cache: kvframe's own configuration"
    assert check(scheduler_cls=scheduler) == (0, told, "")


def test_the_variable_needs_the_entry_point(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PLUGINS, "other,another")
    told = "VLLM_PLUGINS = other,another: leaves kvframe out, so KVFRAME_VLLM_POLICY is not read"
    code, out, err = check("lfu")
    assert (code, out) == (2, "")
    assert err.splitlines() == [
        f"error: {told}",
        "error: nothing reads KVFRAME_VLLM_POLICY: vLLM's LRU rules",
    ]
    code, out, err = check("lfu", scheduler_cls=POOL_SCHEDULERS[0])
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == told
    monkeypatch.setenv(PLUGINS, "other,kvframe")
    assert check("lfu")[0] == 0


def test_a_misspelt_variable_and_nothing_at_all_are_errors(
    check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = check()
    assert (code, out) == (2, "")
    assert err.startswith("error: nothing names a policy: vLLM's LRU rules")
    monkeypatch.setenv("KVFRAME_VLM_POLICY", "lfu")
    assert check()[2].startswith(
        "error: KVFRAME_VLM_POLICY: no variable of that name is read; "
        "did you mean KVFRAME_VLLM_POLICY?"
    )


def test_shadows_are_made_as_at_start(check: Check) -> None:
    asked = {**SHADOW, "kv_connector_extra_config": {"policies": ["lru", "lfu"], "sizes": [0.5, 1]}}
    code, out, err = check(kv_transfer_config=asked)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "shadows: lru, lfu, each at 0.5, 1 times the pool",
        "the pool stays under vLLM's LRU",
    ]
    _, out, _ = check("lfu", kv_transfer_config=asked)
    assert out.splitlines()[1].startswith("lfu will rule")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"kv_connector_extra_config": {"polices": ["lru"]}}, "did you mean policies?"),
        ({"kv_connector_extra_config": {"policies": ["lfuu"]}}, "did you mean lfu?"),
        ({"kv_connector_extra_config": {"policies": ["lru", "lru"]}}, "one is named twice"),
        ({"kv_connector_extra_config": {"sizes": [0]}}, "['sizes']"),
        ({"kv_connector_extra_config": ["lru"]}, "must be an object"),
        ({"kv_connector_extra_config": {"policy": "lfuu"}}, "(kv_connector_extra_config['policy']"),
        ({"kv_connector": "ShadowConector"}, "kvframe_vllm.shadow has ShadowConnector"),
        ({"kv_connector_module_path": "kvframe_vllm.shadows"}, "is not there; must be Kvframe"),
        ({"kv_connector_module_path": None}, "is not there; must be Kvframe"),
        ({"kv_role": "kv_both"}, "kv_role = 'kv_both': must be 'kv_producer'"),
        ({**POLICY, "kv_connector_extra_config": {"polcy": "lfu"}}, "did you mean policy?"),
        ({**POLICY, "kv_connector_extra_config": {"policy": 1}}, "must be a policy's name"),
    ],
)
def test_a_wrong_connector_is_an_error(check: Check, given: dict[str, Any], told: str) -> None:
    code, _, err = check("lfu", kv_transfer_config={**SHADOW, **given})
    assert code == 2
    assert told in err
    assert all(line.startswith("error: ") for line in err.splitlines())


def test_the_connectors_policy_rules_before_the_variable(check: Check) -> None:
    told = "arc will rule the GPU prefix cache: kv_connector_extra_config['policy'] = arc"
    for connector in (POLICY, SHADOW):
        asked = {**connector, "kv_connector_extra_config": {"policy": "arc"}}
        assert told in check("lfu", kv_transfer_config=asked)[1]
    told = "lfu will rule the GPU prefix cache: KVFRAME_VLLM_POLICY = lfu"
    assert check("lfu", kv_transfer_config=POLICY) == (0, told, "")


def test_anothers_connector_is_not_checked(check: Check) -> None:
    out = check("lfu", kv_transfer_config={"kv_connector": "OffloadingConnector"})[1]
    assert out.splitlines()[0] == "OffloadingConnector: is not kvframe's, and not checked"


@pytest.mark.parametrize("text", ["{", "[]", '"lfu"'])
def test_an_option_that_is_no_object_is_an_error(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["check", "--kv-transfer-config", text])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("error: --kv-transfer-config: ")


def test_the_command_imports_neither_vllm_nor_torch() -> None:
    code = (
        "import runpy, sys; sys.argv = ['check', 'lfu']\n"
        "try: runpy.run_module('kvframe_vllm.check', run_name='__main__')\n"
        "except SystemExit as end: print('code', end.code)\n"
        "print([name for name in ('vllm', 'torch') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={name: value for name, value in os.environ.items() if name not in choice.VARIABLES},
    )
    *told, code, imported = done.stdout.splitlines()
    assert imported == "[]"
    if installed():
        assert (told[0].endswith(": a known release"), code) == (True, "code 0")
    else:
        assert code == "code 2"
        assert "PackageNotFoundError" in done.stderr


@pytest.mark.skipif(installed(), reason="vLLM is installed")
@pytest.mark.parametrize("command", ["replay", "replay.cost", "compatibility", "suite SOURCE"])
def test_without_vllm_a_command_says_so_in_a_line(command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *f"kvframe_vllm.{command}".split()],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: vLLM is not installed beside ")
    assert line.endswith("(pip install 'vllm==0.33.*')")
