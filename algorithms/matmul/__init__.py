"""Products of dense matrices that trade memory for words: `matmul`, `matvec`, and their cost, `cost`.

McColl 1.6.2 has several ways to multiply two n × n matrices on p processes, none best in everything (Irony, Toledo,
Tiskin 2004):

    method                       H (words)        S         M (words a process)
    1   all blocks at once       2n²/√p           1         3n²/√p
    2   a pair at a time         2n²/√p           √p        6n²/p
    4   three-dimensional        3n²/p^(2/3)      2         3n²/p^(2/3)
    recursive                    from 4's to 1's by the memory there is (McColl, Tiskin 1999; 1.6.3)
    summa                        the usual baseline: broadcasts of panels

All are `schedules`: a process grid, a number of rounds, and the side of the box that rounds are pieces of.  `grids`
estimates the cost of thousands of them; `counts` counts the words of the best, exactly; `running` runs one
(`summa` the baseline); `methods` has the formulas and the choice; `python -m tools.matmul_study` prints
words and memory beside the lower bounds.
"""

from bsp.algorithms.matmul.counts import Counted
from bsp.algorithms.matmul.product import cost, laid_out, matmul
from bsp.algorithms.matmul.vector import matvec
from bsp.algorithms.matmul.vector_counts import matvec_cost

__all__ = ["Counted", "cost", "laid_out", "matmul", "matvec", "matvec_cost"]


def __dir__() -> list[str]:
    """Return the public names: what help and completion show."""
    return sorted(__all__)
