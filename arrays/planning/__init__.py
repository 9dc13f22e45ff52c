"""Planning: from expression graphs to stages, exchanges and supersteps.  Coordinates only, no data."""
