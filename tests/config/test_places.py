"""Policies named by their place in a configuration: where they lie, and who may name one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kvframe import Config, KVCacheManager
from kvframe.cli import main
from kvframe.config import Resolved
from kvframe.errors import ConfigError, KVFrameError, PluginError

MINE = """
from typing import Annotated

import msgspec

from kvframe.policies import BatchedAdmission, BatchedEviction
from kvframe.tiers import PageStore


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sign: Annotated[float, msgspec.Meta(ge=-1, le=1)] = 1.0


class Untyped(BatchedEviction):
    def __init__(self, options):
        self.sign = options.sign


class Mine(BatchedEviction):
    def __init__(self, options: Options):
        self.sign = options.sign

    def score(self, candidates, out):
        out[:] = self.sign * candidates["last_use"]


class Heads(BatchedAdmission):
    columns = ("depth",)

    def admit(self, blocks, tier, out):
        out[:] = blocks["depth"] < 1


class Shelf(PageStore):
    def put(self, objects):
        return [False] * len(objects)

    def get(self, names):
        return [None] * len(names)

    def remove(self, names):
        pass
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration in a folder that is not the current one, beside a module of policies."""
    folder = tmp_path / "conf"
    folder.mkdir()
    (folder / "places_of_mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "places_of_mine", raising=False)
    return folder / "kvframe.toml"


def test_a_file_may_name_the_places_that_it_allows(file: Path) -> None:
    place = "places_of_mine.py"
    file.write_text(
        f'[eviction]\npolicy = "{place}:Mine:sign=-1"\nwindow = 8\n'
        f'[admission]\npolicy = "{place}:Heads"\n[plugins]\nplaces = ["{place}"]\n'
        f'[cache]\nweight_version = "a@1"\n'
        f'[[tiers]]\nname = "host"\ncapacity = 4\neviction = {{ policy = "{place}:Mine" }}\n'
        f'[[tiers]]\nname = "shelf"\nstore = "{place}:Shelf"\ncapacity = 4\n'
    )
    resolved = Resolved.load(file, env={})
    assert (resolved.eviction.name, resolved.eviction.values) == ("mine", {"sign": -1.0})
    assert resolved.provenance["eviction.options.sign"] == f"{file}:2"
    assert resolved.admission.name == "heads"
    store = resolved.tiers[1].store
    assert store is not None
    assert (resolved.tiers[0].eviction.name, store.name) == ("mine", "shelf")
    kv = KVCacheManager(resolved)
    assert kv.inspect.options()["policy"] == "mine"


def test_a_policy_that_fails_is_called_by_its_place(file: Path) -> None:
    (file.parent / "fails.py").write_text(
        "from kvframe.policies import BatchedEviction\n\n\nclass Bad(BatchedEviction):\n"
        "    def score(self, candidates, out):\n        raise ValueError('no')\n"
    )
    file.write_text(
        '[cache]\nblock_size = 4\ncapacity = 4\n[eviction]\npolicy = "fails.py:Bad"\n'
        '[plugins]\nplaces = ["fails.py"]\n'
    )
    kv = KVCacheManager(Resolved.load(file, env={}))
    seq = kv.allocate(range(16)).seq
    kv.commit(seq, 16)
    kv.release(seq)
    with pytest.warns(RuntimeWarning, match=r"bad \((.*/)?fails\.py:Bad\)"):
        kv.allocate(range(100, 116))


@pytest.mark.parametrize(
    "entry", [".", "places_of_mine.py", "../conf", "../conf/places_of_mine.py"]
)
def test_a_folder_stands_for_all_in_it(file: Path, entry: str) -> None:
    file.write_text(
        f'[eviction]\npolicy = "places_of_mine.py:Mine"\n[plugins]\nplaces = ["{entry}"]\n'
    )
    assert Resolved.load(file, env={}).eviction.name == "mine"


@pytest.mark.parametrize("entry", ["other.py", "below", "places_of_mine", "../con", ""])
def test_a_place_that_is_not_allowed_is_not_imported(file: Path, entry: str) -> None:
    places = f'["{entry}"]' if entry else "[]"
    file.write_text(
        f'[eviction]\npolicy = "places_of_mine.py:Mine"\n[plugins]\nplaces = {places}\n'
    )
    with pytest.raises(ConfigError) as caught:
        Resolved.load(file, env={})
    assert str(caught.value) == (
        f'{file}:2: eviction.policy = "places_of_mine.py:Mine": imports code: allow it by '
        'plugins.places = ["places_of_mine.py"]'
    )
    assert "places_of_mine" not in sys.modules


def test_a_variable_needs_leave_too_and_a_keyword_does_not(file: Path) -> None:
    name = "KVFRAME_EVICTION__POLICY"
    env = {name: "conf/places_of_mine.py:Mine"}
    with pytest.raises(ConfigError, match=f"^{name}: .* allow it by plugins.places"):
        Resolved.load("/dev/null", env=env)
    assert Resolved.load("/dev/null", env=env, plugins={"places": ["conf"]}).eviction.name == "mine"
    kv = KVCacheManager(Config.of(capacity=8, eviction="conf/places_of_mine.py:Mine:sign=0.5"))
    assert kv.inspect.resolved.eviction.values == {"sign": 0.5}


def test_a_module_is_allowed_by_its_name_or_its_package(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(file.parent)
    file.write_text('[eviction]\npolicy = "places_of_mine:Mine"\n')
    with pytest.raises(ConfigError, match=r'plugins.places = \["places_of_mine"\]'):
        Resolved.load(file, env={})
    allowed = {"places": ["places_of_mine"]}
    assert Resolved.load(file, env={}, plugins=allowed).eviction.name == "mine"


def test_a_check_imports_no_place(file: Path) -> None:
    file.with_name("places_of_mine.py").write_text("raise SystemExit\n")
    file.write_text(
        '[eviction]\npolicy = "places_of_mine.py:Mine"\noptions = { sign = 3 }\n'
        '[plugins]\nplaces = ["."]\n'
    )
    result = CliRunner().invoke(main, ["check", str(file)])
    assert (result.exit_code, result.stderr) == (0, "")
    place = f"{file.with_name('places_of_mine.py')}:Mine"
    assert f"# eviction by mine: {place}, not imported\n" in result.stdout
    assert "# eviction.options: not checked, for a check imports no place\n" in result.stdout
    assert "places_of_mine" not in sys.modules
    with pytest.raises(PluginError, match="cannot import"):
        Resolved.load(file, env={})


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("no.py:Mine", ".*no.py: no such file"),
        ("places_of_mine.py:Mien", "has no Mien; did you mean Mine?"),
        ("places_of_mine.py:Untyped", "names no type of options: write `options: Options`"),
        ("places_of_mine.py:Heads", "it gives an admission policy .heads.; must be an eviction"),
        ("places_of_mine.py:Mine:sign=2", "eviction.options.sign = 2: must be between -1 and 1"),
        ("places_of_mine.py:Mine:sgn=2", "eviction.options.sgn = .* did you mean eviction.options"),
    ],
)
def test_what_is_wrong_at_a_place_is_told(file: Path, place: str, told: str) -> None:
    file.write_text(f'[eviction]\npolicy = "{place}"\n[plugins]\nplaces = ["."]\n')
    with pytest.raises(KVFrameError, match=told) as caught:
        Resolved.load(file, env={})
    assert str(caught.value).startswith(f"{file}:2: eviction.")


@pytest.mark.parametrize(
    "name", ["a\\u0000.py:Mine", "é.py:É", "x:", ":x", "x y:z", "a.py:b:c", ".py", "1:2"]
)
def test_a_place_that_cannot_be_is_refused_or_left_alone(file: Path, name: str) -> None:
    """Whatever it is: no error of another kind, and nothing is imported for a check."""
    file.write_text(f'[eviction]\npolicy = "{name}"\n[plugins]\nplaces = ["."]\n')
    result = CliRunner().invoke(main, ["check", str(file)])
    assert result.exit_code in (0, 2)
    assert isinstance(result.exception, SystemExit | None)
    with pytest.raises(KVFrameError, match=r"eviction\.policy = "):
        Resolved.load(file, env={})


def test_a_class_that_cannot_be_described_is_told(file: Path) -> None:
    body = "from kvframe.policies import BatchedEviction\n"
    body += "class Mine(BatchedEviction):\n    def __init__(self, options: 'Nowhere'): pass\n"
    file.with_name("places_of_mine.py").write_text(body)
    with pytest.raises(PluginError, match=r"places_of_mine\.py:Mine: NameError: name 'Nowhere'"):
        Config.of(eviction=f"{file.with_name('places_of_mine.py')}:Mine").resolve()
