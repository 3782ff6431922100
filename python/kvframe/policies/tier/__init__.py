"""The old name of `kvframe.flat`."""

raise ImportError(
    "kvframe.policies.tier is kvframe.flat: from kvframe.flat import TierPolicy, Access"
)
