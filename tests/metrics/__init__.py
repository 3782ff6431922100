"""Metrics over HTTP on this machine, read by the official parser."""
