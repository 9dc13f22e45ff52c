"""Arrays that carry shape and dtype only, and count what NumPy would do with them: for `--predict --abstract`.

    with abstract_numpy():
        x = np.random.rand(10**6, 100)           # <float64[1000000, 100]>
        np.linalg.solve(x.T @ x, x.T @ x[:, 0])
    counter.take().seconds(rates)                # of 2e10 flops of blas3, ...

The array and its rules are in `array`; the work that is counted and its prices in `work` and `table`; the functions
of NumPy that create abstract arrays in `creation`.  What NumPy writes in Python runs as it is (`numpys`); what it
writes in C has rules, in `elementwise`, `reductions`, `linear`, `shaping` and `selecting`.
"""

from __future__ import annotations

# importing these modules enters their rules into the table
from bsp.abstract import elementwise, linear, numpys, reductions, selecting, shaping  # noqa: F401
from bsp.abstract.array import AbstractArray
from bsp.abstract.creation import INDEX_BYTES, abstract_numpy, active, carried
from bsp.abstract.errors import NotCounted, value_needed
from bsp.abstract.expectation import expect
from bsp.abstract.generator import AbstractGenerator, AbstractRandomState, abstract_generator
from bsp.abstract.work import Counter, HeldMemory, Work, counter

__all__ = [
    "INDEX_BYTES",
    "AbstractArray",
    "AbstractGenerator",
    "AbstractRandomState",
    "Counter",
    "HeldMemory",
    "NotCounted",
    "Work",
    "abstract_generator",
    "abstract_numpy",
    "active",
    "carried",
    "counter",
    "expect",
    "value_needed",
]
