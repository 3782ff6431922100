"""Where this package's messages go: vLLM's own log."""

import logging

logger = logging.getLogger("vllm.kvframe")
