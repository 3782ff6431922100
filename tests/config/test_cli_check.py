"""``kvframe check`` as a user and a script see it."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from kvframe.cli import COMMANDS, main
from kvframe.config import Config, Resolved

from ..tiers.helpers import key_file

FILE = """\
[cache]
block_size = 32
capacity = { max_seq_len = 8192, max_requests = 64 }

[[groups]]
name = "full"

[[groups]]
name = "window"
kind = "sliding_window"
window = 1024

[eviction]
policy = "slru"

[[tiers]]
name = "host"
capacity = 64
admission = { policy = "selective:uses=3" }
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("kvframe.toml").write_text(FILE)
    return Path("kvframe.toml")


def kvframe(*arguments: str, **env: str) -> Result:
    return CliRunner().invoke(main, arguments, env=env)


def test_a_key_that_the_policy_never_looks_at_is_hinted_at(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("[eviction]\nwindow = 500\n[admission]\nbudget_ms = 5\n")
    result = kvframe("check", str(tmp_path / "a.toml"))
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        "hint: eviction.window = 500: without effect on lru, which is builtin",
        "hint: admission.budget_ms = 5.0: without effect on always, which is builtin",
    ]


def test_tiers_that_are_off_are_hinted_at(file: Path) -> None:
    file.write_text(FILE.replace("capacity = 64\n", "capacity = 0\n"))
    result = kvframe("check", str(file))
    assert result.stderr.splitlines() == [
        "hint: tiers: all have capacity = 0 and are off; a kvframe.tiers.Tiers keeps nothing"
    ]


def test_shows_each_value_with_its_origin(file: Path) -> None:
    result = kvframe("check", str(file), KVFRAME_CACHE__HASH="blake3")
    hint = "hint: tiers (host): kept only where the engine makes a kvframe.tiers.Tiers\n"
    assert (result.exit_code, result.stderr) == (0, hint)
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert lines[:3] == [
        "# kvframe.toml: fine",
        "# 32,768 blocks of 32 tokens (1,048,576 tokens)",
        f"# eviction by slru: builtin, from kvframe {version()}",
    ]
    assert "block_size = 32 # kvframe.toml:2" in lines
    assert "capacity = { max_seq_len = 8192, max_requests = 64 } # kvframe.toml:3" in lines
    assert 'hash = "blake3" # env KVFRAME_CACHE__HASH' in lines
    assert "event_log = false # default" in lines
    assert "protected_uses = 2 # default" in lines


def version() -> str:
    return kvframe("--version").stdout.split()[1]


def test_output_is_toml_that_resolves_to_the_same(file: Path) -> None:
    shown = kvframe("check", str(file)).stdout
    Path("again.toml").write_text(shown)
    assert Config.load("again.toml", env={}) == Config.load(file, env={})


def test_without_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The defaults are shown, and a script in the wrong folder goes no further."""
    monkeypatch.chdir(tmp_path)
    result = kvframe("check")
    assert result.stdout.startswith(
        "# no file and no variable: the defaults\n# 4,096 blocks of 16 tokens"
    )
    assert tomllib.loads(result.stdout)["eviction"]["policy"] == "lru"
    assert (result.exit_code, result.stderr) == (
        2,
        "error: no kvframe.toml, and no pyproject.toml with [tool.kvframe], here, and no variable: "
        "these are the defaults\n",
    )
    Path("pyproject.toml").write_text('[tool.other]\n[project]\nname = "x"\n')
    assert kvframe("check").exit_code == 2


def test_variables_alone_are_a_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = kvframe("check", KVFRAME_EVICTION__POLICY="lfu")
    assert (result.exit_code, result.stderr) == (0, "")
    assert tomllib.loads(result.stdout)["eviction"]["policy"] == "lfu"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("lfu", 'Invalid value: text needs quotes: "lfu"'),
        ("  s3-fifo  # the best", 'Invalid value: text needs quotes: "s3-fifo"'),
        (
            "s3-fifo:small_percent=20",
            'Invalid value: text needs quotes: "s3-fifo:small_percent=20"',
        ),
        ("2q", 'after a statement: text needs quotes: "2q"'),
        ("[lru, lfu]", 'Invalid value: text needs quotes: "lru"'),
        ("{ x = lru }", 'Invalid value: text needs quotes: "lru"'),
        ("True", "Invalid value"),
        ('"lru" lfu', "after a statement"),
        ("", "Invalid value"),
    ],
)
def test_a_word_without_quotes_is_named(tmp_path: Path, value: str, told: str) -> None:
    file = tmp_path / "kvframe.toml"
    file.write_text(f"[eviction]\npolicy = {value}\n")
    result = kvframe("check", str(file))
    assert result.exit_code == 2
    error = result.stderr.splitlines()[0]
    assert error.startswith(f"error: {file}:2: is not TOML: ")
    assert error.endswith(told)


@pytest.mark.parametrize(
    ("arguments", "stderr"),
    [
        (["check", "nowhere.toml"], "error: nowhere.toml: no such file\n"),
        (["check", "bad.toml"], "error: bad.toml:2: cache.block_size = 0: must be between 1 and"),
        (["chek"], "error: no command chek; did you mean check?\nhint: kvframe --help\n"),
        (
            ["bench", "rum"],
            "error: no command rum; did you mean run?\nhint: kvframe bench --help\n",
        ),
        (["check", "a", "b"], "error: Got unexpected extra argument (b)\nhint: kvframe check --h"),
        (["check", "--sceme"], "error: No such option"),
        (
            ["bench", "run", "--json"],
            "error: No such option '--json': here it is --format json\nhint: kvframe bench run --h",
        ),
        (
            ["bench", "tune", "lru", "--format", "json"],
            "error: No such option '--format': here it is --json\nhint: kvframe bench tune --help",
        ),
        (["check", "--json"], "error: No such option '--json'"),
    ],
)
def test_faults_leave_stdout_empty(file: Path, arguments: list[str], stderr: str) -> None:
    Path("bad.toml").write_text("[cache]\nblock_size = 0\n")
    result = kvframe(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(stderr)
    assert len(result.stderr.splitlines()) <= 2


def test_every_fault_of_every_section_is_told(file: Path) -> None:
    """Rules, policies and tiers too; not what would follow from a section that is wrong."""
    file.write_text(
        "[cache]\nremap_duplicates = true\nindex = 'radix'\n"
        "[model]\nlayers = 2\nkv_heads = 1\n"
        "[[groups]]\nname = 'a'\nlag = -1\n"
        "[eviction]\npolicy = 'lruu'\n"
        "[admission]\npolicy = 'second-use:use=1'\n"
        "[prefix]\npolicy = 'min-hits'\n"
        "[pressure]\nlow = 0.9\nhigh = 0.8\n"
        "[[tiers]]\nname = 'h'\ncapacity = '1 GiB'\nlow = 0.9\nhigh = 0.8\n"
        "[tiers.eviction]\npolicy = 'opt'\n"
        "[[tiers]]\nname = 'h'\nstore = 'diks'\ncapacity = 4\n"
    )
    result = kvframe("check", str(file))
    assert (result.exit_code, result.stdout) == (2, "")
    *errors, hint = result.stderr.splitlines()
    assert hint == "hint: every key: docs/reference/configuration.md in kvframe's repository"
    places = [line.removeprefix("error: kvframe.toml:") for line in errors]
    assert [re.match(r"\d+: ([\w.\[\]]+)", place)[1] for place in places] == [  # type: ignore[index]
        "cache.remap_duplicates",
        "model.head_dim",
        "groups[0].lag",
        "eviction.policy",
        "admission.options.use",
        "prefix.policy",
        "pressure.high",
        "tiers[0].low",
        "tiers[0].eviction.policy",
        "tiers[1].name",
        "tiers[1].store",
    ]


@pytest.mark.parametrize("key", ["eviction", "admission"])
def test_policies_of_tiers_are_made_too(
    tmp_path: Path, install: Callable[..., object], key: str
) -> None:
    install("good")
    file = tmp_path / "kvframe.toml"
    file.write_text(f'[[tiers]]\nname = "host"\ncapacity = 8\n{key} = {{ policy = "good" }}\n')
    result = kvframe("check", str(file))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: good (kvframe-good 1.2.0): make() gave a ")


def test_schema_knows_every_key_and_every_option(install: Callable[..., object]) -> None:
    install("good", "broken_import")
    schema = json.loads(kvframe("check", "--schema").stdout)
    definitions = schema["$defs"]
    assert set(definitions["Config"]["properties"]) == {
        "cache", "model", "groups", "eviction", "admission", "prefix", "pressure",
        "observe", "plugins", "tenants", "tiers", "retention", "security",
    }  # fmt: skip
    assert definitions["CacheConfig"]["properties"]["block_size"]["maximum"] == 65536
    assert definitions["CacheConfig"]["additionalProperties"] is False
    options = {
        rule["if"]["properties"]["policy"]["const"]: rule["then"]["properties"]["options"]
        for rule in definitions["EvictionConfig"]["allOf"]
    }
    assert options["slru"]["properties"]["protected_uses"]["minimum"] == 1
    assert options["good"]["properties"]["weight"]["maximum"] == 10.0
    assert options["lru"]["additionalProperties"] is False
    stores = [rule["if"]["properties"] for rule in definitions["TierConfig"]["allOf"]]
    assert {"store": {"const": "disk"}} in stores
    assert definitions["TierAdmissionConfig"]["allOf"] == definitions["AdmissionConfig"]["allOf"]
    keys = [key for name in definitions for key in definitions[name]["properties"].values()]
    assert all("description" in key or "$ref" in json.dumps(key) for key in keys)


def test_help_names_the_commands_as_they_name_themselves() -> None:
    shown = kvframe("--help").stdout
    for name, summary in COMMANDS.items():
        command = main.get_command(click.Context(main), name)
        assert command is not None
        assert command.get_short_help_str(100) == summary
        assert summary in " ".join(shown.split())


def test_check_waits_for_no_other_command(file: Path) -> None:
    code = (
        "import sys; from kvframe.cli import main\n"
        "try: main(['check', 'kvframe.toml'])\n"
        "except SystemExit as exit: assert exit.code == 0\n"
        "assert 'kvframe.bench' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize("command", ["check kvframe.toml", "plugins --json", "bench --help"])
def test_a_reader_that_leaves_is_no_error(file: Path, command: str) -> None:
    program = [sys.executable, "-c", "from kvframe.cli import main; main()", *command.split()]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 141


def test_every_value_is_shown(file: Path) -> None:
    """What `show` prints and what `provenance` holds are the same keys."""
    shown = tomllib.loads(kvframe("check", str(file)).stdout)
    assert shown == Resolved.load(file, env={}).config.plain()


@pytest.mark.parametrize("command", ["check", "plugins --json", "--help"])
@pytest.mark.parametrize(
    ("stdout", "said"), [("> /dev/full", "No space left on device"), (">&-", "closed")]
)
def test_an_output_that_cannot_be_written_is_told(
    file: Path, command: str, stdout: str, said: str
) -> None:
    program = shlex.join([sys.executable, "-c", "from kvframe.cli import main; main()"])
    done = subprocess.run(
        ["sh", "-c", f"{program} {command} {stdout}"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (2, f"error: stdout: {said}\n")


def test_a_store_without_a_name_of_the_weights_is_hinted_at(file: Path) -> None:
    tiers = "[[tiers]]\nname = 'host'\ncapacity = 8\n"
    store = "[[tiers]]\nname = 'd'\nstore = 'disk'\ncapacity = 8\noptions = { path = 'pages' }\n"
    for text, hinted in (
        (tiers, False),
        (tiers + store, True),
        ("[cache]\nweight_version = 'm@1'\n" + tiers + store, False),
    ):
        file.write_text(text)
        result = kvframe("check", str(file))
        assert (result.exit_code, "cache.weight_version" in result.stderr) == (0, hinted)


def test_the_command_is_a_module_too() -> None:
    told = [sys.executable, "-m", "kvframe", "--version"]
    done = subprocess.run(told, capture_output=True, text=True, check=True)
    assert done.stdout.split()[:2] == ["kvframe", version()]


def test_files_that_a_start_would_read_are_read(file: Path) -> None:
    text = """\
[prefix]
public = "{public}"
[[tenants]]
name = "a"
key_file = "{own}"
[[tenants]]
name = "all"
floor = {floor}
public = true
[[tiers]]
name = "host"
capacity = 8
[[tiers]]
name = "d"
store = "disk"
capacity = 8
options = {{ path = "pages" }}
encryption = "aes-256-gcm"
key_file = "{key}"
"""
    key_file(Path("good.key"), b"k" * 32)
    key_file(Path("short.key"), b"short")
    Path("good.jsonl").write_text(f"{[*range(32)]}\n")
    Path("words.jsonl").write_text('["a"]\n')
    good = {"public": "good.jsonl", "own": "good.key", "key": "good.key", "floor": "2"}
    looked = f"looked for {re.escape(str(Path.cwd()))}"
    none, few = "No such file or directory", "has 5 bytes: must be at least 32"
    for wrong, told in (
        ({}, []),
        (
            {"public": "none.jsonl"},
            [f'kvframe.toml:2: prefix.public = "none.jsonl": {none}: {looked}/none.jsonl$'],
        ),
        ({"public": "words.jsonl"}, [r"prefix.public = \"words.jsonl\": line 1: .*must be token"]),
        ({"floor": "1"}, [r"tenants\[1\].floor = 1: is 1 blocks: the prefixes of .* have 2"]),
        (
            {"own": "none.key"},
            [rf'kvframe.toml:5: tenants\[0\].key_file = "none.key": {none}: {looked}/none.key$'],
        ),
        (
            {"public": "none.jsonl", "key": "short.key"},
            [
                f"prefix.public = .*{none}",
                rf'kvframe.toml:19: tiers\[1\].key_file = "short.key": {few}',
            ],
        ),
    ):
        file.write_text(text.format(**good | wrong))
        result = kvframe("check")
        said = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
        assert (result.exit_code, len(said)) == (2 if told else 0, len(told)), result.stderr
        for line, pattern in zip(said, told, strict=True):
            assert re.search(pattern, line), line
