"""SGLang is imported before any test: without a GPU it warns of what it lacks there."""

from __future__ import annotations

import warnings
from contextlib import suppress

with warnings.catch_warnings(), suppress(ImportError):
    warnings.simplefilter("ignore")
    import sglang.srt.mem_cache.base_prefix_cache as base_prefix_cache  # noqa: F401
