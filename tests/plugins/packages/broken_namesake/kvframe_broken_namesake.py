"""A plugin that cannot be imported: whether its lru is kvframe's lru, nobody can tell."""

raise SystemExit("not on this machine")
