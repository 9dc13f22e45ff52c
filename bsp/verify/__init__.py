"""Whether an SPMD program computes what a sequential function specifies: for all small sizes and numbers of processes.

    from bsp import verify

    def program(proc, x):                          # each process has its block of x
        before = proc.exscan(x.sum()) or 0
        return before + np.cumsum(x)

    print(verify.equivalent(program, np.cumsum))   # or raises Counterexample: the smallest n, p and input

A program is run in one interpreter, in the order of turns that stands for all others: where processes meet at the same
boundaries, every interleaving ends in the same state (the reduction theorem of Xu's thesis, section 4.3).  Values are
exact, integers or polynomials, so that rounding hides nothing and refutes nothing.  `bsp verify FILE` runs what a
file's functions promise (`spec`); its status is 1 if one of them is refuted.
"""

from bsp.verify.cases import Case
from bsp.verify.distributions import Blocks, Cyclic, Distribution, Everywhere, OnRoot, lawful
from bsp.verify.equivalence import Counterexample, Equivalence, NotEnding, equivalent
from bsp.verify.mutants import Mutation, mutated
from bsp.verify.polynomials import NeedsValue, Polynomial
from bsp.verify.promises import Promise, promises_of, spec
from bsp.verify.refinement import refines

__all__ = [
    "Blocks", "Case", "Counterexample", "Cyclic", "Distribution", "Equivalence", "Everywhere", "Mutation", "NeedsValue",
    "NotEnding", "OnRoot", "Polynomial", "Promise", "equivalent", "lawful", "mutated", "promises_of", "refines", "spec",
]  # fmt: skip


def __dir__() -> list[str]:
    """Return the public names: what help and completion show."""
    return sorted(__all__)
