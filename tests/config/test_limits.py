"""A configuration of any size, kind or depth is refused in one line, and in bounded work."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec.inspect
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kvframe.config import Resolved
from kvframe.config.limits import MAX_DEPTH, MAX_ERRORS, MAX_ITEMS, MAX_KEY, MAX_NUMBER, MAX_TEXT
from kvframe.errors import ConfigError, KVFrameError
from kvframe.files import CONFIG_BYTES

from .test_cli_check import kvframe

pytestmark = pytest.mark.scenario("F18")

HINT = "hint: every key: docs/reference/configuration.md in kvframe's repository"
LONGEST = 3_000
"""Characters of an error, the file's name apart."""


def complaint(text: str | bytes, folder: Path, **sections: Any) -> str:
    file = folder / "kvframe.toml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(KVFrameError) as caught:
        Resolved.load(file, env={}, **sections)
    said = str(caught.value).removeprefix(str(file))
    assert "\n" not in said
    assert len(said) < LONGEST
    return said


@pytest.mark.parametrize(
    "number",
    [
        "0x" + "f" * 6_000,
        "0o" + "7" * 6_000,
        "0b" + "1" * 6_000,
        "9" * 6_000,
        "-" + "9" * 6_000,
        "0." + "3" * 6_000,
        "1e" + "9" * 6_000,
        "1_0" * 3_000,
    ],
    ids=["hex", "octal", "binary", "decimal", "negative", "fraction", "exponent", "underscores"],
)
@pytest.mark.parametrize("key", ["cache.capacity", "eviction.window", "eviction.options.x"])
def test_a_number_of_many_digits(tmp_path: Path, number: str, key: str) -> None:
    said = complaint(f"\n{key} = {number}", tmp_path)
    assert said == f":2: a number of {len(number)} characters: must have at most {MAX_NUMBER}"
    variable = "KVFRAME_" + key.upper().replace(".", "__")
    with pytest.raises(ConfigError, match=variable):
        Resolved.load(os.devnull, env={variable: number})


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (16**6_000, "an integer of 24001 bits: must be between"),
        ([[16**6_000]], "[[an integer of 24001 bits]]: must be"),
    ],
    ids=["bare", "in lists"],
)
def test_a_number_by_keyword(value: object, shown: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Resolved.load(os.devnull, env={}, cache={"capacity": value})
    assert str(caught.value).startswith(f"cache.capacity = {shown}")


DEEP = [
    ("x = " + "[" * 5_000 + "]" * 5_000, f":1: tables and arrays more than {MAX_DEPTH} deep"),
    ("x = " + "{a=" * 5_000 + "1", f":1: tables and arrays more than {MAX_DEPTH} deep"),
    (".".join(["a"] * 5_000) + " = 1", f":1: a key of more than {MAX_DEPTH} parts"),
    ("[" + ".".join(["'a'"] * 5_000) + "]", f":1: a key of more than {MAX_DEPTH} parts"),
    ("x = {" + " . ".join(['"a"'] * 5_000) + " = 1}", f":1: a key of more than {MAX_DEPTH} parts"),
    (
        "".join(f"[[{'.'.join(['a'] * n)}]]\n" for n in range(1, 32)),
        f": a{'[0].a' * 16}: tables and arrays more than {MAX_DEPTH} deep",
    ),
]


@pytest.mark.parametrize(
    ("text", "said"),
    DEEP,
    ids=["arrays", "inline tables", "dotted", "header", "quoted", "arrays of tables"],
)
def test_nesting(tmp_path: Path, text: str, said: str) -> None:
    assert complaint(text, tmp_path).startswith(said)


def test_nesting_by_keyword_and_by_variable() -> None:
    table: dict[str, Any] = {}
    table["options"] = table
    items: list[Any] = []
    items.append(items)
    for value in (table, {"options": {"x": items}}):
        with pytest.raises(ConfigError, match=f"more than {MAX_DEPTH} deep"):
            Resolved.load(os.devnull, env={}, eviction=value)
    wide = [0] * (MAX_ITEMS + 1)
    with pytest.raises(ConfigError, match=f"more than {MAX_ITEMS} keys and items"):
        Resolved.load(os.devnull, env={}, eviction={"options": {"x": {"y": wide}}})
    name = "KVFRAME_" + "__".join(["A"] * 5_000)
    with pytest.raises(ConfigError, match=f"5000 parts: must be at most {MAX_DEPTH}"):
        Resolved.load(os.devnull, env={name: "1"})
    with pytest.raises(ConfigError, match=f"must be at most {MAX_TEXT}"):
        Resolved.load(os.devnull, env={"KVFRAME_EVICTION__POLICY": "x" * (MAX_TEXT + 1)})


def test_size_keys_and_items(tmp_path: Path) -> None:
    said = complaint(b"#" * (CONFIG_BYTES + 1), tmp_path)
    assert said == f": {CONFIG_BYTES + 1} bytes: must be at most {CONFIG_BYTES}"
    long = "k" * (MAX_KEY + 1)
    for text in (f"[{long}]", f'[cache]\n"{long}" = 1', f"[eviction.options.{long}]\nx = 1"):
        assert f"a key of {MAX_KEY + 1} characters: must have at most" in complaint(text, tmp_path)
    many = "".join(f"a{n}=1\n" for n in range(MAX_ITEMS + 1))
    assert f"more than {MAX_ITEMS} keys and items" in complaint(many, tmp_path)


def test_errors_are_listed_and_then_counted(tmp_path: Path) -> None:
    file = tmp_path / "kvframe.toml"
    file.write_text("[cache]\n" + "".join(f"key{n} = 1\n" for n in range(50)) + "[model]\nx = 1\n")
    done = kvframe("check", str(file))
    assert (done.exit_code, done.stdout) == (2, "")
    *errors, rest, hint = done.stderr.splitlines()
    assert len(errors) == MAX_ERRORS
    assert all(error.startswith(f"error: {file}:") for error in errors)
    assert rest == "… and 32 more"  # [model] misses layers, too
    assert hint == HINT
    with pytest.raises(ConfigError) as caught:
        Resolved.load(file, env={})
    assert (len(caught.value.others), caught.value.unlisted) == (MAX_ERRORS - 1, 32)


def test_a_few_errors_are_all_told(tmp_path: Path) -> None:
    file = tmp_path / "kvframe.toml"
    file.write_text("[cache]\nblok_size = 1\nhash = 'md5'\n[[groups]]\nkind = 'half'\n")
    *told, hint = kvframe("check", str(file)).stderr.splitlines()
    assert hint == HINT
    keys = ("cache.blok_size", "cache.hash", "groups[0].name", "groups[0].kind")
    assert [key in line for key, line in zip(keys, told, strict=True)] == [True] * 4


@contextlib.contextmanager
def _socket(path: Path) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX) as one, contextlib.chdir(path.parent):
        one.bind(path.name)
        yield


KINDS: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a directory": Path.mkdir,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a socket": _socket,
}

TRIED = {
    "check": ["check", "{}"],
    "found": ["check"],
    "plot": ["bench", "plot", "{}", "-o", "x.svg"],
    "prompts": ["bench", "reuse", "{}"],
    "trace": ["bench", "run", "--trace", "{}"],
    "policy": ["bench", "check", "{}"],
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_file_is_refused_without_waiting(tmp_path: Path, kind: str) -> None:
    """In one process for all, which a read that waits would keep from ending."""
    path = tmp_path / "kvframe.toml"
    plugin = tmp_path / "mine.py"
    with contextlib.ExitStack() as stack:
        for each in (path, plugin):
            made = KINDS[kind](each)
            if isinstance(made, contextlib.AbstractContextManager):
                stack.enter_context(made)
        waits = {"plot", "prompts", "trace"} if kind == "a pipe" else set()
        tried = [
            [word.format(plugin if name == "policy" else path) for word in words]
            for name, words in TRIED.items()
            if name not in waits and (name, kind) != ("plot", "a directory")
        ]
        code = (
            "import sys; from kvframe.cli import main\n"
            f"for words in {tried!r}:\n"
            "    try: main(words)\n"
            "    except SystemExit as end: print(end.code)\n"
        )
        run = [sys.executable, "-c", code]
        done = subprocess.run(
            run, cwd=tmp_path, timeout=300, capture_output=True, text=True, check=False
        )
    assert done.stdout.split() == ["2"] * len(tried), done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == len(tried)
    for words, line in zip(tried, errors, strict=True):
        own = words[0] == "check"
        assert not own or line.endswith(f"kvframe.toml: is {kind}: must be a regular file")


def test_a_trace_comes_through_a_pipe_but_from_no_endless_device(tmp_path: Path) -> None:
    row = '{"timestamp": 0, "input_length": 512, "output_length": 1, "hash_ids": [1]}\n'
    words = [
        "bench",
        "run",
        "--policy",
        "lru",
        "--capacity",
        "8",
        "--format",
        "json",
        "--quiet",
        "--trace",
    ]
    program = [sys.executable, "-m", "kvframe", *words]
    done = subprocess.run(
        [*program, "/dev/stdin"], input=row, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen([*program, str(pipe)], stdout=subprocess.PIPE) as running:
        pipe.write_text(row)
        assert running.wait(timeout=300) == 0
    with open("/dev/zero", "rb") as zero:
        done = subprocess.run(
            [*program, "-"], stdin=zero, capture_output=True, text=True, check=False
        )
    assert done.returncode == 2
    assert "is a device: must be a file or a pipe" in done.stderr


# --- files of a grammar ---------------------------------------------------------------------------

SECTIONS = ["cache", "model", "eviction", "eviction.options", "policy", "admission", "prefix",
            "pressure", "retention", "observe", "plugins", "strange"]  # fmt: skip
KEYS = ["block_size", "capacity", "hash", "policy", "window", "options", "layers", "name", "kind",
        "low", "high", "allow", "ghosts", "protected_uses", "weight_version",
        "blok_size"]  # fmt: skip
numbers = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.sampled_from(["0x", "0o", "0b", "", "-", "1.", "1e"]).flatmap(
        lambda start: st.sampled_from([1, 5, 127, 200, 7_000]).map(lambda n: start + "1" * n)
    ),
    st.sampled_from(["nan", "inf", "-inf", "1979-05-27", "07:32:00", "true", "1_000", "1__0"]),
)
texts = st.one_of(
    st.text(max_size=8).map(lambda text: f'"{text}"'),
    st.sampled_from(
        [
            '"lru"',
            '"40 GiB"',
            "'md5'",
            '"\\ud800"',
            '"\\u0000"',
            "'" + "x" * 9_000 + "'",
            '"' + "9" * 5_000 + ' GiB"',
            '"""a\nb"""',
            "'''",
        ]
    ),
)
values = st.recursive(
    numbers | texts,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.dictionaries(st.sampled_from(KEYS), inner, max_size=2).map(
            lambda table: "{" + ", ".join(f"{k} = {v}" for k, v in table.items()) + "}"
        )
    ),
    max_leaves=6,
) | st.sampled_from([1, 31, 33, 3_000]).map(lambda n: "[" * n + "]" * n)
keys = st.one_of(
    st.sampled_from(KEYS),
    st.lists(st.sampled_from([*KEYS, '"q.q"', "''"]), min_size=2, max_size=4).map(".".join),
    st.sampled_from([1, 30, 33, 2_000]).map(lambda n: ".".join(["a"] * n)),
    st.sampled_from([200, 300, 20_000]).map(lambda n: "k" * n),
)
lines = st.one_of(
    st.sampled_from(SECTIONS).map(lambda name: f"[{name}]"),
    st.sampled_from(["groups", "tiers", "cache", "a.b"]).map(lambda name: f"[[{name}]]"),
    st.tuples(keys, values).map(" = ".join),
    st.sampled_from(["", "# x", "]", "a =", "= 1", "\\", "\x00", "[cache", "x = 'y"]),
)
files = st.lists(lines, max_size=8).map("\n".join)


class Work:
    """Lines of Python that run, counted."""

    def __init__(self) -> None:
        self.lines = 0

    def __enter__(self) -> Work:
        sys.setprofile(self._see)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _see(self, *_: object) -> None:
        self.lines += 1


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=files)
@example(text="[cache]\ncapacity = 0x" + "f" * 6_000)
@example(text="[eviction.options]\n" + "\n".join(f"slr{n} = {{}}" for n in range(200)))
@example(text="\n".join(f"[eviction.options.{'x' * 250}{n}]\na = 1" for n in range(100)))
def test_files_of_a_grammar(tmp_path: Path, text: str) -> None:
    """A resolved configuration or one typed line; the work grows with the file, and no faster."""
    file = tmp_path / "kvframe.toml"
    file.write_bytes(text.encode(errors="surrogatepass"))
    error = None
    with Work() as work:
        try:
            Resolved.load(file, env={})
        except KVFrameError as told:
            error = told
    assert work.lines < 200_000 + 200 * len(text)
    if error is None:
        return
    others = error.others if isinstance(error, ConfigError) else ()
    for said in (str(error), *others):
        assert said.startswith((str(file), "a ", "no "))
        assert "\n" not in said
        assert len(said) < len(str(file)) + LONGEST
    assert len(others) < MAX_ERRORS


@pytest.mark.parametrize("section", ["tiers", "groups"])
def test_the_hints_of_a_schema_are_evaluated_once_however_many_tables_there_are(
    section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    real = msgspec.inspect.type_info

    def counting(hint: Any) -> Any:
        asked.append(hint)
        return real(hint)

    monkeypatch.setattr(msgspec.inspect, "type_info", counting)
    table = f'[[{section}]]\nname = "a"\nkind = 1\ncapacity = -1\n'
    file = tmp_path / "kvframe.toml"
    file.write_text(table * 500)
    with pytest.raises(KVFrameError) as caught:
        Resolved.load(file, env={})
    assert len(caught.value.others) + caught.value.unlisted >= 499  # type: ignore[attr-defined]
    assert len(asked) < 500
