"""The simulated server, by its command."""

from ..bench.conftest import bench as bench
