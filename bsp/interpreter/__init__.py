"""The interpreter's state for each of the processes that share it: globals, random generators, imports, profiles."""
