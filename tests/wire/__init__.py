"""KV events on real sockets, on this machine alone."""
