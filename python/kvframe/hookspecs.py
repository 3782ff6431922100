"""The hooks a plugin may implement, and the marker it implements them with.

A plugin is a module (or any object) whose functions carry `hookimpl`. Its package names it in the
entry-point group ``kvframe``, once for each policy: the entry point's name is the policy's name.

    [project.entry-points.kvframe]
    deep-first = "kvframe_deep_first"

Only the entry points that a configuration names are imported.
"""

from __future__ import annotations

from collections.abc import Iterable

import pluggy

from kvframe.descriptors import AdmissionPolicy, EvictionPolicy, PrefixMatcher, TierStore

PROJECT = "kvframe"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def kvframe_eviction() -> Iterable[EvictionPolicy]:  # type: ignore[empty-body]
    """Return or yield the eviction policies of this plugin.

    A whole plugin, in ``kvframe_deep_first.py``:

    .. code-block:: python

        from typing import Annotated

        import msgspec

        import kvframe
        from kvframe.policies import BatchedEviction


        class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
            depth_weight: Annotated[float, msgspec.Meta(ge=0)] = 1.0


        class DeepFirst(BatchedEviction):
            columns = ("last_use", "depth")

            def __init__(self, options):
                self.depth_weight = options.depth_weight

            def score(self, candidates, out):
                \"\"\"Write one score a candidate; the lowest dies first.\"\"\"
                out[:] = candidates["last_use"] - self.depth_weight * candidates["depth"]


        @kvframe.hookimpl
        def kvframe_eviction():
            yield kvframe.EvictionPolicy(
                name="deep-first",
                way="batched",
                summary="least recently used first; deeper blocks count as older",
                options=Options,
                make=DeepFirst,
            )

    kvframe.toml then names it:

    .. code-block:: toml

        [policy]
        eviction = "deep-first"

        [policy.options.deep-first]
        depth_weight = 2.0
    """


@hookspec
def kvframe_admission() -> Iterable[AdmissionPolicy]:  # type: ignore[empty-body]
    """Return or yield the admission policies of this plugin.

    A whole plugin, in ``kvframe_first_turns.py``:

    .. code-block:: python

        from typing import Annotated

        import msgspec

        import kvframe
        from kvframe.policies import BatchedAdmission


        class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
            turns: Annotated[int, msgspec.Meta(ge=1)] = 2


        class FirstTurns(BatchedAdmission):
            columns = ("turn",)

            def __init__(self, options):
                self.turns = options.turns

            def admit(self, blocks, tier, out):
                \"\"\"Keep what the first turns of a session computed; drop the rest.\"\"\"
                out[:] = blocks["turn"] < self.turns


        @kvframe.hookimpl
        def kvframe_admission():
            yield kvframe.AdmissionPolicy(
                name="first-turns",
                way="batched",
                summary="only the first turns of a session are kept",
                options=Options,
                make=FirstTurns,
            )

    kvframe.toml then names it:

    .. code-block:: toml

        [admission]
        policy = "first-turns"
    """


@hookspec
def kvframe_prefix() -> Iterable[PrefixMatcher]:  # type: ignore[empty-body]
    """Return or yield the prefix matchers of this plugin.

    A whole plugin, in ``kvframe_long_enough.py``:

    .. code-block:: python

        from typing import Annotated

        import msgspec

        import kvframe
        from kvframe.policies import BatchedPrefix


        class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
            min_tokens: Annotated[int, msgspec.Meta(ge=0)] = 256


        class LongEnough(BatchedPrefix):
            def __init__(self, options):
                self.min_tokens = options.min_tokens

            def take(self, prompts, found, out):
                \"\"\"Fill out with how many of the tokens found are taken of each prompt.\"\"\"
                out[found < self.min_tokens] = 0


        @kvframe.hookimpl
        def kvframe_prefix():
            yield kvframe.PrefixMatcher(
                name="long-enough",
                way="batched",
                summary="a found prefix is taken only from a minimum length on",
                options=Options,
                make=LongEnough,
            )

    kvframe.toml then names it:

    .. code-block:: toml

        [prefix]
        policy = "long-enough"
    """


@hookspec
def kvframe_tier() -> Iterable[TierStore]:  # type: ignore[empty-body]
    """Return or yield the stores for lower tiers of this plugin.

    A whole plugin, in ``kvframe_shelf.py``:

    .. code-block:: python

        import kvframe
        from kvframe.tiers import PageStore


        class Shelf(PageStore):
            def __init__(self, options):
                self.pages = {}

            def put(self, objects):
                self.pages.update(objects)
                return [True] * len(objects)

            def get(self, names):
                return [self.pages.get(name) for name in names]

            def remove(self, names):
                for name in names:
                    self.pages.pop(name, None)


        @kvframe.hookimpl
        def kvframe_tier():
            yield kvframe.TierStore(
                name="shelf", way="batched", summary="a dict of this process", make=Shelf
            )

    kvframe.toml then names it, below the host tier:

    .. code-block:: toml

        [cache]
        fingerprint = "my-model@2f1c"

        [[tiers]]
        name = "host"
        store = "host"
        capacity = 1024

        [[tiers]]
        name = "below"
        store = "shelf"
        capacity = 65536
    """
