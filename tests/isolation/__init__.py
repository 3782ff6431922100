"""Isolation: no request receives a block of another namespace, whatever way the block took."""
