"""One suite over two KV cache managers, kvframe's and vLLM's: what differs is listed, with why."""
