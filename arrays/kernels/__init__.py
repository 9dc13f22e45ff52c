"""Kernels: the computations of a plan's tasks on blocks that are already local."""
