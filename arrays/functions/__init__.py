"""NumPy's and the standard's functions as nodes."""
