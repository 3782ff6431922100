"""Planted defects of the core, and what runs them."""
