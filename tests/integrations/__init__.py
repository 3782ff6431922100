"""Engines on kvframe. They need their engine; see tests/integrations/run_transformers.py."""
