"""Fixed slots."""
