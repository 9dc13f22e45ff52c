"""Programs with holes, completed so that they compute what a specification does.

    from bsp import sketch
    from bsp.sketch import choose, expr, hole

    def peer(pid, d, m):                                  # the partner in a butterfly within rows of m processes
        c = pid % m
        return expr((c, d, 2 * d), "+%", 2) + c // (2 * d) * (2 * d) + expr((pid, m), "*/", 2)

    found = sketch.complete(peer, lambda pid, d, m: pid ^ d, inputs=...)
    print(found.source)                                   # ordinary Python, without holes

Counterexample-guided synthesis (Solar-Lezama, 2008; Xu, chapter 5): a candidate that computes a growing set of examples
is checked against the specification, for SPMD programs by `bsp.verify`; an input that refutes it becomes an example.
Candidates are enumerated.  A run that fails rules out all candidates with the same values in the holes that it has
come to, and an expression stands for all that have its values there.
"""

from bsp.sketch.completing import Completion, NoCompletion, complete
from bsp.sketch.holes import choose, expr, generator, hole, repeat

__all__ = ["Completion", "NoCompletion", "choose", "complete", "expr", "generator", "hole", "repeat"]


def __dir__() -> list[str]:
    """Return the public names: what help and completion show."""
    return sorted(__all__)
