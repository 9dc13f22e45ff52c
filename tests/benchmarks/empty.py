"""A program of nothing: what start-up costs."""
