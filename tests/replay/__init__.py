"""Traces through the manager."""
