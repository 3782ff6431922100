"""The index of a router over many workers."""
