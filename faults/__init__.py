"""Cloned execution: a job that keeps running, with the same answer, while its elements crash, hang and slow down.

The model is McColl's (2022, section 1.8).  `protocol` decides, `simulation` tries it on thousands of
seeded schedules, `nonstop`, `agent` and `worker` run it over MPI, `models` says what it is worth.
"""
