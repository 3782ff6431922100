"""``python -m kvframe_vllm.check``: what will rule, before vLLM starts.

Reads what ``vllm serve`` would be given, by the same functions as the plugin does at start, without
a GPU and without importing vLLM: a line a finding, exit code 2 if one of them is an error. What
depends on the model (its layers, whether prefix caching is on) shows only at start.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from kvframe.errors import ConfigError, KVFrameError
from kvframe.spelling import did_you_mean, nearest
from kvframe_vllm import choice, releases
from kvframe_vllm.command import BAD_INPUT
from kvframe_vllm.shadow.config import LEAST, WHERE, ShadowConfig

CONNECTORS = {
    "kvframe_vllm.connector": "KvframeConnector",
    "kvframe_vllm.shadow": "ShadowConnector",
}
"""The connector of each module that vLLM may be told of."""

POOL_SCHEDULERS = (
    "kvframe_vllm.scheduler.KvframeScheduler",
    "kvframe_vllm.scheduler.SwitchableScheduler",
)
MANAGER_SCHEDULER = "kvframe_vllm.manager.KvframeManagerScheduler"

PLUGINS = "VLLM_PLUGINS"
"""vLLM's variable of the plugins that it loads; all of them without it."""

GROUP, PLUGIN = "vllm.general_plugins", "kvframe"


@dataclass(frozen=True)
class Finding:
    """One line.

    Attributes:
        text: What was found.
        wrong: Whether vLLM would not do as it is asked.
    """

    text: str
    wrong: bool = False


@dataclass(frozen=True)
class Setting:
    """What vLLM would be given.

    Attributes:
        scheduler_cls: Its option of that name.
        additional: ``additional_config``.
        transfer: ``kv_transfer_config``.
        environment: The variables of its process.
    """

    scheduler_cls: str | None
    additional: Mapping[str, Any]
    transfer: Mapping[str, Any]
    environment: Mapping[str, str]

    @property
    def extra(self) -> Mapping[str, Any]:
        """What the connector is given besides.

        Raises:
            ConfigError: It is no table.
        """
        found = self.transfer.get("kv_connector_extra_config") or {}
        if not isinstance(found, dict):
            raise ConfigError(f"{WHERE} = {found!r}: must be an object, as {{...}}")
        return found

    @property
    def connector(self) -> str | None:
        """Which connector of this package there is, if any."""
        return CONNECTORS.get(str(self.transfer.get("kv_connector_module_path")))

    def asked(self) -> str | None:
        """What a scheduler or the entry point would read.

        Raises:
            ConfigError: It is no text.
        """
        return choice.asked(SimpleNamespace(additional_config=self.additional), self.environment)

    @property
    def source(self) -> str:
        """Where that stands."""
        if self.additional.get(choice.KEY):
            return f"additional_config[{choice.KEY!r}]"
        named = self.environment.get(choice.VARIABLE)
        return choice.VARIABLE if named else "kvframe's own configuration"


@dataclass(frozen=True)
class Ruler:
    """Who puts which policy where.

    Attributes:
        text: As `kvframe_vllm.choice` takes it.
        by: Where that stands.
        whole: Whether it is the whole manager.
    """

    text: str | None
    by: str
    whole: bool = False


def main() -> None:
    """Print what was found: errors on stderr, the rest on stdout."""
    wrong = False
    try:
        for found in findings(given()):
            wrong |= found.wrong
            print(
                f"error: {found.text}" if found.wrong else found.text,
                file=sys.stderr if found.wrong else sys.stdout,
                flush=True,
            )
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        wrong = True
    sys.exit(BAD_INPUT if wrong else 0)


def given() -> Setting:
    """What the command line and the environment say.

    Raises:
        ConfigError: An option is no JSON object.
    """
    parser = argparse.ArgumentParser(prog="python -m kvframe_vllm.check", description=__doc__)
    parser.add_argument("policy", nargs="?", help=f"in place of {choice.VARIABLE}")
    parser.add_argument("--scheduler-cls", help="as of vllm serve", metavar="NAME")
    parser.add_argument("--additional-config", help="as of vllm serve", metavar="JSON")
    parser.add_argument("--kv-transfer-config", help="as of vllm serve", metavar="JSON")
    asked = parser.parse_args()
    environment = dict(os.environ)
    if asked.policy is not None:
        environment[choice.VARIABLE] = asked.policy
    return Setting(
        asked.scheduler_cls,
        _object("--additional-config", asked.additional_config),
        _object("--kv-transfer-config", asked.kv_transfer_config),
        environment,
    )


def _object(option: str, text: str | None) -> Mapping[str, Any]:
    if text is None:
        return {}
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{option}: is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{option}: must be a JSON object, as {{...}}")
    return found


def findings(setting: Setting) -> Iterator[Finding]:
    """All that there is to say of a setting.

    Raises:
        ConfigError: A value of it is of the wrong type.
    """
    yield from _misspelt(setting)
    yield from _connector(setting)
    ruler = ruling(setting)
    known = True
    for found in _release(ruler):
        known &= not found.wrong
        yield found
    yield from _plugin(setting, ruler)
    if ruler is not None:
        # On a release that is not known nothing is ruled: only what else is wrong is told.
        yield from (found for found in _rules(ruler) if known or found.wrong)
    elif setting.connector is None:
        named = [choice.VARIABLE] if setting.environment.get(choice.VARIABLE) else []
        named += ["additional_config"] if choice.KEY in setting.additional else []
        why = f"nothing reads {' or '.join(named)}" if named else "nothing names a policy"
        more = "" if named else f" (set {choice.VARIABLE}, or give an option of vllm serve)"
        yield Finding(f"{why}: vLLM's LRU rules{more}", wrong=True)
    else:
        yield Finding("the pool stays under vLLM's LRU")


def ruling(setting: Setting) -> Ruler | None:
    """Who rules by the end of vLLM's start; None if vLLM does.

    Raises:
        ConfigError: What names the policy is no text.
    """
    if setting.scheduler_cls == MANAGER_SCHEDULER:
        return Ruler(setting.asked(), setting.source, whole=True)
    named = setting.connector and choice.text_of(setting.extra.get("policy"), f"{WHERE}['policy']")
    if named:
        return Ruler(named, f"{WHERE}['policy']")
    entered = setting.environment.get(choice.VARIABLE) and is_loaded(setting.environment)
    schedules = setting.scheduler_cls in POOL_SCHEDULERS
    if schedules or setting.connector == "KvframeConnector" or entered:
        return Ruler(setting.asked(), setting.source)
    return None


def is_loaded(environment: Mapping[str, str]) -> bool:
    """Whether vLLM loads this package's entry point by itself."""
    found = any(
        one.name == PLUGIN and one.value.startswith("kvframe_vllm.")
        for one in importlib.metadata.entry_points(group=GROUP)
    )
    return found and PLUGIN in environment.get(PLUGINS, PLUGIN).split(",")


def _misspelt(setting: Setting) -> Iterator[Finding]:
    for name in sorted(setting.environment):
        if name not in choice.VARIABLES and nearest(name, choice.VARIABLES, 0.8):
            told = did_you_mean(name, choice.VARIABLES)
            yield Finding(f"{name}: no variable of that name is read{told}", wrong=True)
    known = (*POOL_SCHEDULERS, MANAGER_SCHEDULER)
    asked = setting.scheduler_cls
    if asked is not None and asked not in known and asked.startswith("kvframe"):
        yield Finding(f"--scheduler-cls {asked}: is not there{did_you_mean(asked, known)}", True)
    if (near := nearest_key(setting.additional)) is not None:
        yield Finding(f"additional_config[{near!r}]: did you mean {choice.KEY}?", wrong=True)


def nearest_key(additional: Mapping[str, Any]) -> str | None:
    """A key that was meant as this package's, if there is one."""
    keys = [key for key in additional if key != choice.KEY]
    return None if choice.KEY in additional else nearest(choice.KEY, keys, 0.7)


def _connector(setting: Setting) -> Iterator[Finding]:
    """The connector's name and role, and the shadows."""
    transfer = setting.transfer
    if not transfer:
        return
    name, module = transfer.get("kv_connector"), transfer.get("kv_connector_module_path")
    meant = nearest(str(name), CONNECTORS.values(), 0.85)
    if setting.connector is None:
        if meant is not None or str(module).startswith("kvframe"):
            known = " or ".join(f"{name} of {module}" for module, name in CONNECTORS.items())
            yield Finding(f"{name} of {module}: is not there; must be {known}", wrong=True)
        else:
            yield Finding(f"{name}: is not kvframe's, and not checked")
        return
    if name != setting.connector:
        yield Finding(f"kv_connector = {name!r}: {module} has {setting.connector}", wrong=True)
    if (role := transfer.get("kv_role")) != choice.ROLE:
        why = f"must be {choice.ROLE!r}: with another one vLLM frees blocks late, and hits less"
        yield Finding(f"kv_role = {role!r}: {why}", wrong=True)
    if setting.connector == "ShadowConnector":
        yield _shadows(setting.extra)
    else:
        unknown = [key for key in setting.extra if key != "policy"]
        told = [f"{key!r}]: unknown key{did_you_mean(key, ['policy'])}" for key in unknown]
        yield from (Finding(f"{WHERE}[{one}", True) for one in told)


def _shadows(extra: Mapping[str, Any]) -> Finding:
    try:
        config = ShadowConfig.of(extra)
        config.shadows(2 * LEAST, 16).close()
    except KVFrameError as error:
        return Finding(f"no shadows: {error}", wrong=True)
    sizes = ", ".join(f"{size:g}" for size in config.sizes)
    return Finding(f"shadows: {', '.join(config.policies)}, each at {sizes} times the pool")


def _release(ruler: Ruler | None) -> Iterator[Finding]:
    table = releases.MANAGER if ruler is not None and ruler.whole else releases.POOL
    if table.unknown is None:
        yield Finding(f"vLLM {importlib.metadata.version('vllm')}: a known release")
    else:
        yield Finding(table.unknown, wrong=ruler is not None or _is_missing())


def _is_missing() -> bool:
    try:
        importlib.metadata.version("vllm")
    except importlib.metadata.PackageNotFoundError:
        return True
    return False


def _plugin(setting: Setting, ruler: Ruler | None) -> Iterator[Finding]:
    """Whether vLLM loads the entry point, which the variable alone needs."""
    if is_loaded(setting.environment):
        return
    needed = ruler is None and bool(setting.environment.get(choice.VARIABLE))
    if PLUGINS in setting.environment:
        told = f"{PLUGINS} = {setting.environment[PLUGINS]}: leaves {PLUGIN} out"
    else:
        told = f"kvframe-vllm is not installed beside vLLM ({sys.prefix})"
    yield Finding(f"{told}, so {choice.VARIABLE} is not read", wrong=needed)


def _rules(ruler: Ruler) -> Iterator[Finding]:
    """The policy, made as the plugin makes it, and what of its file does not count."""
    if ruler.text == choice.STOCK:
        yield Finding(f"the pool stays under vLLM's LRU: {ruler.by} = {choice.STOCK}")
        return
    try:
        resolved = choice.resolved(ruler.text)
        choice.tried(resolved)
    except KVFrameError as error:
        for said in (str(error), *getattr(error, "others", ())):
            yield Finding(f"{said} ({ruler.by})", wrong=True)
        return
    what = "the whole manager (experimental)" if ruler.whole else "the GPU prefix cache"
    told = ruler.by if ruler.text is None else f"{ruler.by} = {ruler.text}"
    yield Finding(f"{choice.named(resolved)} will rule {what}: {told}")
    if passed_over := choice.ignored(resolved, whole=ruler.whole):
        yield Finding(passed_over)


if __name__ == "__main__":
    main()
