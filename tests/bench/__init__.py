"""The benchmark, as a user runs it."""
