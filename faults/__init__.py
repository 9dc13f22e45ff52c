"""Cloned execution: a job that keeps running, with the same answer, while its elements crash, hang and slow down.

The model is McColl's (2022, section 1.8).  `protocol` decides, `simulate` tries it on thousands of seeded schedules,
`engine` runs it on real processes, which talk over `carrier`, and `advise` says what it is worth.
"""
