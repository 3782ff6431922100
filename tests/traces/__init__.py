"""Traces of every form: recognised, read, refused, rewritten."""
