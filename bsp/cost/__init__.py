"""What a program costs on a machine known by (p, r, g, L)."""

from bsp.cost.machine import DEFAULT, Machine

__all__ = ["DEFAULT", "Machine"]
