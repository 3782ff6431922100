"""The benchmark: real traces replayed under every policy, capacity and mode that was asked for.

The parts, in the order the data goes through them:

``options``   texts of the command line, split and checked
``capacity``  "8000" or "40 GiB" to virtual blocks
``traces``    a shipped name, a file or stdin to a parsed trace and its SHA-256
``policies``  a policy's text to its descriptor and checked options, through the registry
``cells``     what one cell is, its identity and its JSON form
``plan``      the cross product, each cell once
``run``       the cells one after the other, Ctrl-C and reuse included
``results``   the result directory
``report``, ``render``, ``verdict``, ``plot``   what a reader sees
"""
