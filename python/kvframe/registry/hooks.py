"""Checks and calls the hooks of one plugin, and collects its descriptors.

pluggy accepts a misspelt hook without an error and does not say which plugin raised. This module
adds both.
"""

from __future__ import annotations

from collections.abc import Sequence

import pluggy

from kvframe.arguments import shown
from kvframe.errors import PluginError
from kvframe.registry import hookspecs
from kvframe.registry.descriptors import DESCRIPTORS, Descriptor
from kvframe.registry.raised import one_line
from kvframe.spelling import did_you_mean

HOOKS = {f"kvframe_{kind}": descriptor for kind, descriptor in DESCRIPTORS.items()}

_RENAMED = {"kvframe_tier": "kvframe_store"}


def offers_of(
    holder: object, name: str, origin: str, wrappers: Sequence[object] = ()
) -> tuple[Descriptor, ...]:
    """The descriptors of ``holder``, the module or object whose hooks carry `hookimpl`.

    Args:
        holder: The plugin.
        name: Its name, for messages.
        origin: The distribution it comes from and its version, for messages.
        wrappers: Plugins whose hook wrappers go around these hooks.

    Returns:
        Its descriptors, in the order of `HOOKS` and within each as it gave them.

    Raises:
        PluginError: It needs a later plugin API. Or a hook is misspelt, takes unknown arguments,
            raises, or gives something that is not its descriptor, or of a way that is kvframe's
            alone; or there is no hook at all.
    """
    # Each plugin gets a plugin manager of its own. So nothing of a refused plugin stays registered,
    # a hook call reaches only this plugin, and the plugin need not be hashable.
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    try:
        _check_version(holder)
        manager.register(holder, name=name)
        _check_spelling(manager, holder)
        for at, wrapper in enumerate(wrappers):
            manager.register(wrapper, name=f"wrapper {at}")
        offers = [offer for hook in HOOKS for offer in _given(manager, hook)]
        _check(offers, is_own=origin.startswith("kvframe "))
    except (PluginError, pluggy.PluginValidationError) as error:
        reason = " ".join(str(error).split()).removeprefix(f"Plugin {name!r} for ")
        raise PluginError(f"plugin {name} ({origin}): {reason}") from (error.__cause__ or error)
    return tuple(offers)


def wraps(holder: object) -> bool:
    """Whether some hook of ``holder`` is a wrapper, which goes around those of other plugins."""
    options = (getattr(getattr(holder, hook, None), "kvframe_impl", None) for hook in HOOKS)
    return any(found and (found["wrapper"] or found["hookwrapper"]) for found in options)


def _check_version(holder: object) -> None:
    needed = getattr(holder, "KVFRAME_PLUGIN_API", 1)
    spoken = hookspecs.PLUGIN_API
    if type(needed) is not int or needed < 1:
        raise PluginError(f"KVFRAME_PLUGIN_API = {shown(needed)}: must be a number from 1 on")
    if needed > spoken:
        raise PluginError(
            f"it is written for version {needed} of the plugin API, and this kvframe speaks "
            f"{spoken}: install a newer kvframe"
        )


def _check_spelling(manager: pluggy.PluginManager, holder: object) -> None:
    callers = manager.get_hookcallers(holder) or []
    if not callers:
        raise PluginError(
            f"it has no hook; mark one of {', '.join(HOOKS)} with @{hookspecs.PROJECT}.hookimpl"
        )
    try:
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        wrong = next(caller.name for caller in callers if not caller.has_spec())
        if wrong in _RENAMED:
            raise PluginError(f"the hook {wrong} is now {_RENAMED[wrong]}") from error
        hint = did_you_mean(wrong, HOOKS)
        known = f"; the hooks are {', '.join(HOOKS)}"
        raise PluginError(f"unknown hook {wrong}{hint or known}") from error


def _given(manager: pluggy.PluginManager, name: str) -> list[Descriptor]:
    hook: pluggy.HookCaller = getattr(manager.hook, name)
    if all(impl.wrapper or impl.hookwrapper for impl in hook.get_hookimpls()):
        return []
    expected = HOOKS[name]
    form = f"return a list of {expected.__name__} descriptors, or yield each"
    try:
        results = hook()
        if not results or isinstance(results[0], Descriptor):
            given = "one descriptor" if results else "None"
            raise PluginError(f"{name} returned {given}: {form}")
        # A generator runs only while it is listed.
        items: list[Descriptor] = [item for result in results for item in result]
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


def _check(offers: Sequence[Descriptor], *, is_own: bool) -> None:
    names = [(offer.kind, offer.name) for offer in offers]
    for kind, name in names:
        if names.count((kind, name)) > 1:
            raise PluginError(f"it gives {kind} {name} twice")
    for offer in offers:
        if offer.way == "builtin" and not is_own:
            raise PluginError(
                f"way of {offer.name} is builtin, which kvframe's own are: say batched or native"
            )
