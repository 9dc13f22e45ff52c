"""A nonstop job as real processes: agents, workers, the connections between them, and bsprun."""
