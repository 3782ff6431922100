"""Where `kvframe.flat` was."""

raise ImportError(
    "kvframe.policies.tier is kvframe.flat: from kvframe.flat import TierPolicy, Access"
)
