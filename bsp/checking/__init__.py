"""`bsprun --check`: overlapping accesses, nondeterminism, and state that a restarted process would miss."""
