"""Microbenchmarks of kvframe beside its peers; see perf/README.md.

Run from the checkout's root: ``python -m perf.core``, ``python -m perf.replay``,
``python -m perf.policies``. Nothing of the package imports this.
"""
