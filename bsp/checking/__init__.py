"""`bsprun --check`: finds overlapping accesses, nondeterminism, and state that a restarted process would lack."""
