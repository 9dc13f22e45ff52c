"""Expressions before they are planned: typed nodes, the layouts of their blocks, element types."""
