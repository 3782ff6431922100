"""Compiled policies: in C, by ctypes and by numba, well behaved and not."""
