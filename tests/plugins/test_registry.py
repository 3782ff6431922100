"""Finding a policy by name: what is loaded, what is refused, and what the refusal says."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

import kvframe
from kvframe.cli import main
from kvframe.config import Resolved
from kvframe.errors import KVFrameError, PluginError, UsageError
from kvframe.registry import Registry

BUILTIN = [
    "lru",
    "fifo",
    "lfu",
    "lfuda",
    "slru",
    "foresight",
    "mru",
    "filo",
    "lfu-aged",
    "wlfu",
    "hpt",
    "gdsf",
    "cost",
    "priority",
    "longest-first",
    "ttl",
    "clock",
    "sieve",
    "2q",
    "arc",
    "mq",
    "s3-fifo",
    "slru-lists",
    "slru-decay",
    "lirs",
    "w-tinylfu",
    "lecar",
    "random-compute",
    "random-quick-demotion",
    "partial-node-random-compute",
    "asymcache",
    "rr-evict",
    "marconi",
    "workload",
    "session",
    "next-use",
    "opt",
    "opt-forced",
    "belady-compute",
    "infinite",
]

BUILTIN_ADMISSION = [
    "always",
    "second-use",
    "frequency",
    "branch-point",
    "size",
    "cost",
    "write-back",
    "write-through",
    "selective",
]

Install = Callable[..., object]


def refusal(registry: Registry, name: str) -> str:
    """The message with which a lookup of ``name`` fails; always one line."""
    with pytest.raises(PluginError) as caught:
        registry.eviction(name)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_built_in_policies_come_through_the_same_door() -> None:
    rows = [row for row in Registry().list() if row.distribution == "kvframe"]
    assert [row.name for row in rows if row.kind == "eviction"] == BUILTIN
    assert [row.name for row in rows if row.kind == "admission"] == BUILTIN_ADMISSION
    ways = [(row.name, row.way) for row in rows if row.kind == "prefix"]
    assert ways == [
        ("hash", "builtin"),
        ("radix", "builtin"),
        ("min-hit", "batched"),
        ("load-or-recompute", "batched"),
    ]
    assert {row.state for row in rows} == {"ok"}
    loaded = Registry().eviction("slru")
    assert (loaded.plugin, loaded.distribution) == ("builtin", "kvframe")
    assert loaded.descriptor.make is None


def test_only_replay_runs_what_needs_the_future() -> None:
    registry = Registry()
    replay_only = [name for name in BUILTIN if registry.eviction(name).descriptor.replay_only]
    assert replay_only == ["opt", "opt-forced", "belady-compute", "infinite"]


def test_only_the_named_plugin_is_imported(install: Install) -> None:
    install("good", "broken_import", "misspelt")
    registry = Registry()
    registry.eviction("lru")
    assert "kvframe_good" not in sys.modules
    loaded = registry.eviction("good")
    assert (loaded.distribution, loaded.version, loaded.plugin) == ("kvframe-good", "1.2.0", "good")
    assert "kvframe_good" in sys.modules
    assert "kvframe_misspelt" not in sys.modules


def test_packages_are_looked_through_once_a_resolution(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans: list[str] = []

    class Importer:
        """One of another kind, which is asked each time."""

        def find_spec(self, *_: object) -> None:
            return None

        def find_distributions(self, _: object) -> Iterable[metadata.Distribution]:
            scans.append("packages")
            return ()

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Importer()])
    resolved = kvframe.Config(
        eviction=kvframe.EvictionConfig(policy="slru", options={"protected_uses": 3})
    ).resolve()
    assert resolved.eviction.values == {"protected_uses": 3}
    assert scans == ["packages"]
    registry = Registry()
    assert "Found: lru, fifo, " in refusal(registry, "good")
    registry.eviction("lru")
    assert len(scans) == 2
    install("good")
    assert "good" in refusal(registry, "good"), "it looks once"
    assert len(scans) == 2
    registry.refresh()
    assert registry.eviction("good").distribution == "kvframe-good"
    assert Registry().eviction("good")
    assert len(scans) == 4


def test_one_module_may_hold_several_policies_and_kinds(install: Install) -> None:
    install("good")
    registry = Registry()
    assert registry.eviction("good").descriptor.name == "good"
    assert registry.eviction("steady").descriptor.options is None
    assert registry.admission("good").descriptor.kind == "admission"
    with pytest.raises(PluginError, match="no prefix matcher good: it is of kind "):
        registry.prefix("good")


def test_unknown_name_lists_what_was_found_and_where_from(install: Install) -> None:
    install("good")
    message = refusal(Registry(), "goood")
    assert message.startswith("no eviction policy goood; did you mean good? Found: lru, fifo, ")
    assert "infinite (kvframe " in message
    assert "good, steady (kvframe-good 1.2.0)" in message
    assert f"install that for {sys.executable} with pip" in message


def test_an_entry_point_of_the_old_group_is_told_the_new_one(install: Install) -> None:
    site = install()
    assert isinstance(site, Path)
    info = site / "old-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: old\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[kvframe]\naged = kvframe_aged\n")
    told = "old 1 names it in the entry-point group kvframe, which is now"
    assert refusal(Registry(), "aged") == (
        f"no eviction policy aged: {told} kvframe.eviction: install a version that does so"
    )
    (row,) = [row for row in Registry().list() if row.name == "aged"]
    groups = "kvframe.eviction, kvframe.admission, kvframe.prefix, kvframe.store, kvframe.trace"
    assert (row.kind, row.way) == (None, None)
    assert row.state == f"broken: {told} one of {groups}: install a version that does so"


def test_the_packages_of_this_repository_name_their_kind() -> None:
    root = Path(__file__).parents[2] / "plugins"
    rows = {(row.name, row.kind): row for row in Registry().list()}
    for project in root.glob("*/pyproject.toml"):
        about = tomllib.loads(project.read_text())["project"]
        for group, table in about["entry-points"].items():
            if not group.startswith("kvframe."):
                continue
            for name in table:
                kind = group.removeprefix("kvframe.")
                assert rows[name, kind].distribution == about["name"]


def test_name_of_another_kind_is_told_where_it_belongs() -> None:
    assert refusal(Registry(), "second-use") == (
        "no eviction policy second-use: it is of kind admission, "
        "named in admission.policy (bench: --admission)"
    )


def test_failed_import_names_the_distribution_and_keeps_the_traceback(install: Install) -> None:
    install("broken_import")
    with pytest.raises(PluginError) as caught:
        Registry().eviction("broken")
    assert str(caught.value) == (
        "plugin broken (kvframe-broken-import 0.3): cannot import kvframe_broken_import: "
        "ModuleNotFoundError: No module named 'a_package_that_nobody_has' "
        "(kvframe_broken_import.py:3)"
    )
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


@pytest.mark.parametrize(
    ("package", "name", "expected"),
    [
        (
            "misspelt",
            "misspelt",
            "plugin misspelt (kvframe-misspelt 0.4): unknown hook kvframe_evicton; "
            "did you mean kvframe_eviction?",
        ),
        (
            "wrong_type",
            "wrong-type",
            "plugin wrong-type (kvframe-wrong-type 0.6): kvframe_eviction must give EvictionPolicy "
            "descriptors, not \"{'name': 'wrong-type'}\"",
        ),
        (
            "raising",
            "raising",
            "plugin raising (kvframe-raising 0.7): kvframe_eviction raised ValueError: "
            "name 'Raising!' must be lower-case words joined by '-', '_' or '.' "
            "(kvframe_raising.py:10)",
        ),
        (
            "other_name",
            "announced",
            "plugin announced (kvframe-other-name 0.8): kvframe_other_name gives no eviction "
            "policy named announced, only eviction delivered",
        ),
        (
            "no_hook",
            "no-hook",
            "plugin no-hook (kvframe-no-hook 0.9): it has no hook; mark one of kvframe_eviction, "
            "kvframe_admission, kvframe_prefix, kvframe_store, kvframe_trace with "
            "@kvframe.hookimpl",
        ),
    ],
)
def test_broken_plugin_is_named(install: Install, package: str, name: str, expected: str) -> None:
    install(package)
    registry = Registry()
    assert refusal(registry, name) == expected
    # A second look says the same, and the others still work.
    assert refusal(registry, name) == expected
    assert registry.eviction("lru")


def test_duplicate_names_name_each_source(install: Install) -> None:
    install("good", "duplicate")
    registry = Registry()
    assert refusal(registry, "good") == (
        "eviction policy good has two sources: kvframe-duplicate 0.5 (kvframe_duplicate) and "
        "kvframe-good 1.2.0 (kvframe_good); uninstall one, or name its distribution in "
        "plugins.block"
    )
    assert "(kvframe.policies.builtin) and kvframe-duplicate 0.5" in refusal(registry, "lru")
    free = Registry(block=["kvframe-duplicate"])
    assert free.eviction("good").distribution == "kvframe-good"
    assert free.eviction("lru").distribution == "kvframe"


@pytest.mark.parametrize("entry", ["good", "kvframe-good", "Kvframe_Good"])
def test_lists_take_policies_and_distributions(install: Install, entry: str) -> None:
    install("good")
    assert Registry(allow=[entry]).eviction("good")
    assert refusal(Registry(block=[entry]), "good") == (
        "eviction policy good (kvframe-good 1.2.0) is blocked: plugins.block names it"
    )
    assert "kvframe_good" in sys.modules


def test_allow_list_leaves_the_built_in_policies(install: Install) -> None:
    install("good")
    registry = Registry(allow=["something-else"])
    assert registry.eviction("lru")
    assert refusal(registry, "good").endswith("is blocked: plugins.allow does not name it")
    assert refusal(Registry(allow=["lru"], block=["lru"]), "lru").endswith("plugins.block names it")
    assert "kvframe_good" not in sys.modules


def test_list_shows_broken_and_blocked_ones(install: Install) -> None:
    install("good", "broken_import", "misspelt", "no_hook", "other_name")
    rows = {(row.name, row.kind): row for row in Registry(block=["kvframe-no-hook"]).list()}
    assert rows["good", "eviction"].state == "ok"
    assert rows["good", "admission"].state == "ok"
    assert rows["good", "eviction"].source == "this test"
    assert rows["no-hook", "eviction"].state == "blocked: plugins.block names it"
    assert "unknown hook kvframe_evicton" in rows["misspelt", "eviction"].state
    assert rows["broken", "eviction"].state.startswith(
        "broken: plugin broken (kvframe-broken-import"
    )
    assert rows["announced", "eviction"].state == (
        "broken: plugin announced (kvframe-other-name 0.8): kvframe_other_name gives no eviction "
        "policy named announced, only eviction delivered"
    )


def test_list_marks_both_sides_of_a_duplicate(install: Install) -> None:
    install("duplicate")
    states = [row.state for row in Registry().list() if row.name == "lru"]
    assert len(states) == 2
    assert all(state.startswith("broken: two sources: ") for state in states)


def test_a_name_belongs_to_one_source_a_kind(install: Install) -> None:
    """A store named lru leaves the eviction policy lru, every configuration's default, alone."""
    install("namesake")
    registry = Registry()
    assert registry.eviction("lru").distribution == registry.store("disk").distribution == "kvframe"
    for loaded in (registry.store("lru"), registry.eviction("disk")):
        assert loaded.distribution == "kvframe-namesake"
    rows = {(row.name, row.kind): row for row in registry.list() if row.name in ("lru", "disk")}
    assert {row.state for row in rows.values()} == {"ok"}
    assert sorted(rows) == [
        ("disk", "eviction"),
        ("disk", "store"),
        ("lru", "eviction"),
        ("lru", "store"),
    ]
    assert (
        kvframe.KVCacheManager(kvframe.Config().resolve()).inspect.resolved.eviction.loaded.plugin
        == "builtin"
    )


def test_a_namesake_that_cannot_be_looked_into_is_told(install: Install) -> None:
    install("broken_namesake")
    assert refusal(Registry(), "lru").endswith(
        "(kvframe.policies.builtin) and kvframe-broken-namesake 1.2 (kvframe_broken_namesake); "
        "uninstall one, or name its distribution in plugins.block"
    )
    states = [row.state for row in Registry().list() if row.name == "lru"]
    assert states[0].startswith("broken: two sources: kvframe ")
    assert states[1].startswith("broken: plugin lru (kvframe-broken-namesake 1.2): cannot import")
    assert Registry(block=["kvframe-broken-namesake"]).eviction("lru").plugin == "builtin"


@pytest.mark.parametrize("told", [None, "", "Metadata-Version: 2.1\n"])
def test_a_package_without_metadata_is_told_and_takes_nobody_with_it(
    install: Install, told: str | None
) -> None:
    site = install()
    assert isinstance(site, Path)
    for name in ("left", "over"):
        info = site / f"{name}-1.dist-info"
        info.mkdir()
        (info / "entry_points.txt").write_text(
            "[kvframe.eviction]\nlru = gone\nodd = not a module:!\n"
        )
        if told is not None:
            (info / "METADATA").write_text(told)
    assert "unknown unknown (gone)" in refusal(Registry(), "lru")
    assert Registry().eviction("sieve").plugin == "builtin"
    states = [row.state for row in Registry().list() if row.name == "odd"]
    assert [state.startswith("broken: ") for state in states] == [True, True]
    assert Registry(block=["unknown"]).eviction("lru").plugin == "builtin"


@pytest.mark.parametrize(
    ("file", "data"),
    [
        ("entry_points.txt", b"[kvframe.eviction]\nlru\n"),
        ("entry_points.txt", b"[kvframe.eviction]\nlru = \xff\n"),
        ("METADATA", b"\xff\xfe"),
    ],
)
def test_a_package_with_damaged_metadata_takes_nobody_with_it(
    install: Install, file: str, data: bytes
) -> None:
    site = install("good")
    assert isinstance(site, Path)
    info = site / "damaged-1.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text("[kvframe.eviction]\nodd = gone\n")
    (info / file).write_bytes(data)
    loaded = Registry().eviction("good")
    assert (loaded.distribution, loaded.version) == ("kvframe-good", "1.2.0")
    assert Registry().eviction("lru").plugin == "builtin"
    odd = [row.distribution for row in Registry().list() if row.name == "odd"]
    assert odd == (["unknown"] if file == "METADATA" else [])
    assert "plugin odd" in refusal(Registry(), "odd") if odd else refusal(Registry(), "odd")


@pytest.mark.parametrize("name", [None, 3, b"lru", ["lru"]])
def test_a_name_of_another_type_is_refused_as_one(name: Any) -> None:
    with pytest.raises(UsageError, match=r"eviction policy .*: must be named by a string"):
        Registry().eviction(name)


@pytest.mark.parametrize("names", ["lru", None, 3, [3]])
def test_a_list_of_names_is_no_text(names: Any) -> None:
    with pytest.raises(UsageError, match=r"allow = .*: must be a collection of names"):
        Registry(allow=names)
    with pytest.raises(UsageError, match=r"block = .*: must be a collection of names"):
        Registry(block=names)


@pytest.mark.parametrize("value", ["module:", "a module", ":object"])
def test_a_value_that_names_no_module_is_told(install: Install, value: str) -> None:
    site = install()
    assert isinstance(site, Path)
    info = site / "odd-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[kvframe.eviction]\nodd = {value}\n")
    said = refusal(Registry(), "odd")
    assert f"plugin odd (odd 1): cannot import {value}: ValueError: an entry point's" in said


def in_process_plugin() -> ModuleType:
    module = ModuleType("notebook")

    @kvframe.hookimpl
    def kvframe_eviction() -> list[kvframe.EvictionPolicy]:
        return [kvframe.EvictionPolicy(name="mine", way="batched", summary="", make=print)]

    module.kvframe_eviction = kvframe_eviction  # type: ignore[attr-defined]
    return module


def test_a_policy_of_this_process_needs_no_package() -> None:
    registry, module = Registry(), in_process_plugin()
    registry.register(module, "notebook")
    registry.register(module, "notebook")
    assert registry.eviction("mine").distribution == "this process"
    assert [row.state for row in registry.list() if row.name == "mine"] == ["ok"]
    registry.register(in_process_plugin(), "notebook")
    assert "has two sources: this process (notebook)" in refusal(registry, "mine")


def hook(gives: Callable[..., object]) -> object:
    """A plugin whose one hook does as ``gives``."""
    return SimpleNamespace(kvframe_eviction=kvframe.hookimpl(gives))


def test_a_plugin_need_not_be_hashable() -> None:
    registry = Registry()
    policy = kvframe.EvictionPolicy(name="mine", way="batched", summary="", make=print)
    plugin = hook(lambda: [policy])
    with pytest.raises(TypeError):
        hash(plugin)
    registry.register(plugin, "notebook")
    assert registry.eviction("mine").descriptor is policy


def test_a_wrapper_goes_around_the_hooks_of_what_is_loaded_after_it(install: Install) -> None:
    """Pluggy calls the hooks: a program may look at, or change, what plugins bring."""
    seen: list[str] = []

    class Wrapper:
        @kvframe.hookimpl(wrapper=True)
        def kvframe_eviction(self) -> Generator[None, Any, list[list[kvframe.EvictionPolicy]]]:
            given: Any = yield
            offers = [offer for answer in given for offer in answer]
            seen.extend(offer.name for offer in offers)
            return [[replace(offer, summary=f"wrapped {offer.summary}") for offer in offers]]

    install("good")
    registry = Registry()
    registry.register(Wrapper(), "notebook")
    assert seen == []
    assert registry.eviction("lru").descriptor.summary == "least recently used first"
    assert registry.eviction("good").descriptor.summary == "wrapped a policy with options"
    assert seen == ["good", "steady"]
    assert registry.admission("good").descriptor.summary == "an admission of the same name"


def test_what_a_hook_gets_wrong_is_told_with_what_is_right() -> None:
    policy = kvframe.EvictionPolicy(name="mine", way="batched", summary="", make=print)
    form = "return a list of EvictionPolicy descriptors, or yield each"
    theirs = kvframe.EvictionPolicy(name="lru", way="builtin", summary="")
    cases: list[tuple[Callable[..., object], str]] = [
        (lambda: None, f"kvframe_eviction returned None: {form}"),
        (lambda: policy, f"kvframe_eviction returned one descriptor: {form}"),
        (lambda: 3, "kvframe_eviction raised TypeError: 'int' object is not iterable"),
        (lambda config: [policy], "hook 'kvframe_eviction' hookimpl definition: <lambda>(config)"),
        (lambda: [theirs], "way of lru is builtin, which kvframe's own are: say batched or native"),
        (lambda: 1 / 0, "kvframe_eviction raised ZeroDivisionError: division by zero (test_reg"),
    ]
    for gives, message in cases:
        with pytest.raises(PluginError) as caught:
            Registry().register(hook(gives), "notebook")
        assert str(caught.value).startswith(f"plugin notebook (this process): {message}")


@pytest.mark.scenario("F25")
@pytest.mark.parametrize("kind", ["eviction", "admission", "prefix", "store"])
def test_an_unknown_name_is_told_those_of_its_own_kind(
    kind: str, install: Callable[..., object]
) -> None:
    """Of packages too, and nothing is imported for it."""
    install("good")
    registry = Registry()
    rows = [row for row in registry.list() if row.state == "ok"]
    own = {row.name for row in rows if row.kind == kind}
    others = {row.name for row in rows} - own
    assert own
    assert others
    with pytest.raises(PluginError) as caught:
        getattr(registry, kind)("a-name-that-nothing-has")
    _, found = str(caught.value).split("Found: ")
    listed = {word.strip(",;.") for word in found.split(" One comes")[0].split()}
    assert own <= listed
    assert not others & listed


@pytest.mark.scenario("F25")
@pytest.mark.parametrize(
    ("sections", "key", "strangers"),
    [
        ({"eviction": {"policy": "redi"}}, "eviction.policy", ("redis", "write-back", "min-hit")),
        ({"admission": {"policy": "diks"}}, "admission.policy", ("disk", "lru", "min-hit")),
        ({"prefix": {"policy": "second-hits"}}, "prefix.policy", ("second-hit,", "lru", "disk")),
        (
            {"tiers": [{"name": "h", "capacity": 4, "eviction": {"policy": "diks"}}]},
            "tiers[0].eviction.policy",
            ("disk",),
        ),
        (
            {"tiers": [{"name": "h", "capacity": 4, "admission": {"policy": "diks"}}]},
            "tiers[0].admission.policy",
            ("disk",),
        ),
    ],
)
def test_no_name_of_another_kind_is_told_or_suggested(
    sections: dict[str, Any], key: str, strangers: tuple[str, ...]
) -> None:
    with pytest.raises(KVFrameError) as caught:
        Resolved.load(os.devnull, env={}, **sections)
    said = str(caught.value)
    assert said.startswith(key)
    assert not [name for name in strangers if f" {name}" in said]


@pytest.mark.scenario("F25")
@pytest.mark.parametrize("option", ["--policy", "--admission", "--prefix"])
def test_the_bench_tells_those_of_the_kind(option: str) -> None:
    words = ["bench", "run", "--trace", "synthetic", option, "a-name-that-nothing-has"]
    said = CliRunner().invoke(main, words, prog_name="kvframe").stderr
    own = {"--policy": "lru", "--admission": "write-back", "--prefix": "min-hit"}
    for which, name in own.items():
        assert (f" {name}" in said) == (which == option)
