"""The benchmark: real traces replayed under every policy, capacity and mode that was asked for.

The parts, in the order the data goes through them:

``options``   texts of the command line, split and checked
``capacity``  "8000" or "40 GiB" to blocks of the trace
``traces``    a shipped name, a file or stdin to a parsed trace and its SHA-256
``policies``, ``admissions``, ``matchers``   a text to a policy of that kind (``named``)
``cells``     what one cell is, its identity and its JSON form
``plan``      the cross product, each cell once
``run``       the cells one after the other, Ctrl-C and reuse included (``progress``, ``build``)
``results``   the result directory
``report``, ``render``, ``verdict``, ``plot``   what a reader sees
``job``       all of these, from texts to outputs

``check``     ``kvframe bench check``: a policy (``locate``) on a ``leaderboard``, ``beside`` lru
``reuse``     ``kvframe bench reuse``: what hits inside a block would save, on ``prompts``
"""
