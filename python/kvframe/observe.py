"""The name of `kvframe.stats` before the first release."""

raise ImportError("kvframe.observe is called kvframe.stats now", name="kvframe.stats")
