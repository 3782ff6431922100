"""Traces through a simulated server."""
