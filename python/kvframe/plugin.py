"""One plugin: registered with pluggy, its hooks checked, its descriptors collected.

pluggy lets a misspelt hook pass in silence and says nothing of who raised; both are mended here.
Hooks are called once, at registration, and never again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from traceback import walk_tb

import pluggy

from kvframe.descriptors import (
    AdmissionPolicy,
    Descriptor,
    EvictionPolicy,
    PrefixMatcher,
    TierStore,
)
from kvframe.errors import PluginError
from kvframe.hookspecs import PROJECT
from kvframe.spelling import did_you_mean

HOOKS: dict[str, type[Descriptor]] = {
    "kvframe_eviction": EvictionPolicy,
    "kvframe_admission": AdmissionPolicy,
    "kvframe_prefix": PrefixMatcher,
    "kvframe_tier": TierStore,
}


def register(
    manager: pluggy.PluginManager, holder: object, name: str, origin: str
) -> tuple[Descriptor, ...]:
    """Register ``holder``, the module or object whose hooks carry `hookimpl`.

    Args:
        manager: Where to register it; it must know kvframe's hookspecs.
        holder: Not registered there yet.
        name: The plugin's name.
        origin: The distribution it comes from and its version, for messages.

    Returns:
        Its descriptors, in the order it gave them.

    Raises:
        PluginError: A hook is misspelt, takes unknown arguments, raises, or gives something that is
            not its descriptor, or of a way that is kvframe's alone; or there is no hook at all.
            ``holder`` is then not registered.
    """
    key = f"{origin}: {name} at {id(holder)}"  # two objects may bear one name
    try:
        manager.register(holder, name=key)
        _check_spelling(manager, holder)
        return _collect(manager, holder, is_own=origin.startswith("kvframe "))
    except (PluginError, pluggy.PluginValidationError) as error:
        manager.unregister(name=key)
        ours = isinstance(error, PluginError)
        reason = (
            str(error)
            if ours
            else " ".join(str(error).split()).removeprefix(f"Plugin {key!r} for ")
        )
        raise PluginError(f"plugin {name} ({origin}): {reason}") from (error.__cause__ or error)


def _check_spelling(manager: pluggy.PluginManager, holder: object) -> None:
    callers = manager.get_hookcallers(holder) or []
    if not callers:
        raise PluginError(
            f"it has no hook; mark one of {', '.join(HOOKS)} with @{PROJECT}.hookimpl"
        )
    try:
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        wrong = [caller.name for caller in callers if not caller.has_spec()]
        hint = did_you_mean(wrong[0], HOOKS)
        known = f"; the hooks are {', '.join(HOOKS)}"
        raise PluginError(f"unknown hook {wrong[0]}{hint or known}") from error


def _collect(
    manager: pluggy.PluginManager, holder: object, *, is_own: bool
) -> tuple[Descriptor, ...]:
    offers: list[Descriptor] = []
    for hook in HOOKS:
        # Not called through pluggy: that would hash the plugin, which need not be hashable.
        for impl in getattr(manager.hook, hook).get_hookimpls():
            if impl.plugin is holder:
                offers += _given(impl.function, hook)
    names = [(offer.kind, offer.name) for offer in offers]
    for kind, name in names:
        if names.count((kind, name)) > 1:
            raise PluginError(f"it gives {kind} {name} twice")
    for offer in offers:
        if offer.way == "builtin" and not is_own:
            raise PluginError(
                f"way of {offer.name} is builtin, which kvframe's own are: say batched or native"
            )
    return tuple(offers)


def _given(hook: Callable[[], object], name: str) -> Sequence[Descriptor]:
    expected = HOOKS[name]
    form = f"return a list of {expected.__name__} descriptors, or yield each"
    try:
        result = hook()
        if result is None or isinstance(result, Descriptor):
            given = "None" if result is None else "one descriptor"
            raise PluginError(f"{name} returned {given}: {form}")
        # A generator runs only while it is listed.
        items: list[Descriptor] = list(result)  # type: ignore[call-overload]
    except PluginError:
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise PluginError(f"{name} raised {one_line(error)}") from error
    for item in items:
        if not isinstance(item, expected):
            raise PluginError(
                f"{name} must give {expected.__name__} descriptors, not {str(item)[:60]!r}"
            )
    return items


def one_line(error: BaseException) -> str:
    """The error's type, its message, its notes and where in a plugin it was raised, on one line."""
    try:
        said = "; ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])
    except KeyboardInterrupt:
        raise
    except BaseException:  # Its own __str__ may be what is wrong.
        said = type(error).__name__
    said = " ".join(said.split()).rstrip(":")
    return f"{said if len(said) <= 500 else f'{said[:500]}...'}{_place(error)}"


_OWN = os.path.dirname(__file__) + os.sep
_STDLIB = os.path.dirname(os.__file__) + os.sep


def _place(error: BaseException) -> str:
    """`` (policy.py:12)``: the deepest line in the folder of the first code that is a plugin's."""
    called = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    theirs = [(file, line) for file, line in called if _is_theirs(file)]
    if not theirs:
        return ""
    home = os.path.dirname(theirs[0][0])
    file, line = next(at for at in reversed(theirs) if os.path.dirname(at[0]) == home)
    return f" ({os.path.basename(file)}:{line})"


def _is_theirs(file: str) -> bool:
    installed = "site-packages" in file or "dist-packages" in file
    stdlib = file.startswith(_STDLIB) and not installed
    return os.path.isabs(file) and not stdlib and not file.startswith(_OWN)
