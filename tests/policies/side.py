"""Run by a Python that has libcachesim: a stream on stdin, misses of each policy on stdout."""

from __future__ import annotations

import json
import sys
from importlib.metadata import version

import libcachesim

job = json.load(sys.stdin)
request = libcachesim.Request()
request.obj_size = 1
cells: dict[str, list[int]] = {}
for name, capacities in job["cells"].items():
    for capacity in capacities:
        cache = getattr(libcachesim, name)(capacity, hashpower=16)
        misses = 0
        for at, (node, after) in enumerate(zip(job["ids"], job["next"], strict=True)):
            request.obj_id, request.clock_time, request.next_access_vtime = node, at, after
            misses += not cache.get(request)
        cells.setdefault(name, []).append(misses)
print(json.dumps({"version": version("libcachesim"), "cells": cells}))
