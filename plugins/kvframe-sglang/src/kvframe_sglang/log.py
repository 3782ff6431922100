"""Where this package's messages go: SGLang's own log."""

import logging

logger = logging.getLogger("sglang.kvframe")
