"""The benchmark: real traces replayed under every policy, capacity and mode that was asked for.

The parts, in the order the data goes through them:

``options``   texts of the command line, split and checked
``sweep``     the same from a file
``capacity``  "8000", "5%" or "40 GiB" to blocks of the trace
``room``      sizes where none is asked for, and requests that are larger than one
``traces``    a shipped name, a file or stdin to a parsed trace and its SHA-256
``arrivals``  the same trace at other times, or in larger blocks
``policies``, ``admissions``, ``matchers``   a text to a policy of that kind (``named``)
``cells``     what one cell is, its identity and its JSON form
``plan``, ``shards``   the cross product, each cell once; a part of it
``estimate``  what it would take
``run``       the cells one after the other, Ctrl-C and reuse included (``progress``, ``build``)
``executors`` several cells at a time, in threads or on a cluster
``outcomes``  what a replay did for each request
``metrics``   figures made of these
``misses``    why tokens missed, from bounds
``results``   the result directory
``field``, ``comparison``, ``bootstrap``   what is compared; differences; their intervals
``verdict``   the sentence
``remarks``   what a table would hide
``content``   what a cache holds over time, from a replay's log
``report``, ``render``, ``first_screen``   what a reader sees in a terminal
``charts``    what a reader sees in a page or a picture
``job``       all of these, from texts to outputs

``study``     the same from Python, for notebooks
``difference``   ``kvframe bench compare``: two results
``curve``     ``kvframe bench curve``: lru from one pass, others from replays
``tune``      ``kvframe bench tune``: options, judged on a part held out
``check``     ``kvframe bench check``: a policy (``locate``) on a ``leaderboard``, ``beside`` lru
``reuse``     ``kvframe bench reuse``: what hits inside a block would save, on ``prompts``
"""
