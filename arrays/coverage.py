"""What there is of NumPy and of the array API standard, found by calling it.

    python -m bsp.arrays.coverage                                  # the page
    python -m bsp.arrays.coverage --write docs/arrays-coverage.md

Every public function of NumPy is called on arrays that are really dealt to three processes (nothing is small here:
REPLICATED_SIZE is 0), its words are counted, and what it gives is compared with NumPy's values, shape and dtype.
A function is called by NumPy's own name; if that has no distributed form, by the same name in `bsp.arrays`.

    distributed    right, and no process receives what would be the whole of the operands
                   lazy: an expression, planned with what uses it; made: each process makes its blocks, no words;
                   collective: supersteps of its own; local: an answer that needs no values
    gathered       right, but some process receives the whole, or NumPy's array is what comes back
    refused        an error that says why
    missing        no distributed form
    wrong          anything else; there must be none
"""

from __future__ import annotations

NPROCS = 3
WHOLE = 0.6  # of the operands' words, received by one process: with p = 3 all of them are 2/3, a total exchange is 1/3
STATUSES = ("distributed", "gathered", "refused", "missing", "wrong")
