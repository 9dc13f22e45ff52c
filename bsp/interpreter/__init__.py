"""What processes that share one Python interpreter have each of their own: globals, random generators, profiles."""
