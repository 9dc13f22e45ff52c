"""The names of the schedules by which blocks travel between elements, for launchers, which load neither MPI nor NumPy.

To add a schedule: its name here, and in `exchange` a function with the decorator `_named` and a price in
`choose_small` or `choose_large`.  Each fails loudly without the other.
"""

from __future__ import annotations

SCHEDULES = ("latin", "bruck", "two-phase")
CHOICES = ("auto", *SCHEDULES)  # auto: the cheapest by the machine
