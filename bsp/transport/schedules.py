"""The names of the schedules by which blocks travel between elements, for launchers, which load neither MPI nor NumPy.

To add a schedule: its name here, and in `exchange` a function with the decorator `_schedule`, which takes its costs.
A name without a function, and a function without a name, are errors at import.
"""

from __future__ import annotations

SCHEDULES = ("latin", "matched", "bruck", "two-phase")
CHOICES = ("auto", *SCHEDULES)  # auto: the cheapest on the machine
