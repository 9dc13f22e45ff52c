"""The commands `bsprun` and `bsp`: their options, and the start and supervision of a job's elements."""
