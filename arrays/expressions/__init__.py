"""Expressions before planning: typed nodes, the layouts of their blocks, and element types."""
