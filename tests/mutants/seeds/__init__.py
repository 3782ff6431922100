"""Defects of the five superseded managers, planted back into the core: a file for each of them."""
