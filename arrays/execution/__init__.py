"""Plans carried out: supersteps, memory for blocks, and errors and warnings that all processes share."""
