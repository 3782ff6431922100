"""Pages: the bytes of a KV cache."""
