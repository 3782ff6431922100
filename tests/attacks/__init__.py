"""Published attacks on shared prefix caches, tried.

Each works inside one salt of one tenant, and tells nothing of another one. SECURITY.md has sources
and outcomes.
"""
