"""The commands `bsprun` and `bsp`: options, and how the elements of a job are started and watched."""
