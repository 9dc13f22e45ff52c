"""Random arrays whose numbers depend on the seed and the shape, and on nothing else."""

from bsp.arrays.random.generator import Generator, default_rng

__all__ = ["Generator", "default_rng"]
