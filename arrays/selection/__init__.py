"""Selection by masks and positions: indexing, lookups, grids of indices, sliding windows, ufunc methods."""
