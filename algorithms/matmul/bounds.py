"""Lower bounds on the words that a process moves, whatever the algorithm, if it does 1/p of the elementary products.

A process that does V = mnk/p of them needs a elements of A, b of B, and c sums of C, and V² <= a·b·c (Loomis and
Whitney 1949).  It has 1/p of each matrix.  So words come in that are not its own, or go out as sums that are not.
All bounds are for the classical m·n·k products; Strassen's recursion has others.
"""

from __future__ import annotations

from math import sqrt


def loomis_whitney(m: int, k: int, n: int, p: int) -> float:
    """Return a bound on the words of A and B that come in and of partial sums that go out, together.

    It is the least a + b + c with a·b·c >= V², less what a process has; for cubes 3n²/p^(2/3) - 3n²/p.

    Each of a, b, c is at least 1/p of its matrix, for V products need so many: this decides for long matrices.
    With the constant, whatever the shape: Al Daas, Ballard, Grigori, Kumar, Rouse (SPAA 2022).
    """
    own = sorted((m * k / p, k * n / p, m * n / p), reverse=True)
    left, rest = float((m * n * k / p) ** 2), 3
    total = 0.0
    for least in own:
        even = float(left ** (1 / rest))
        if least <= even or rest == 1:
            return total + rest * even - sum(own)
        total, left, rest = total + least, left / least, rest - 1
    return 0.0


def memory_independent(m: int, k: int, n: int, p: int) -> float:
    """Return a bound on the words that come in, or on those that go out, for any memory.

    The largest of a, b, c is at least V^(2/3), of which a process has 1/p of a matrix; for cubes n²/p^(2/3) - n²/p.

    The order of the 3-D bound of Irony, Toledo and Tiskin (JPDC 2004) and of McColl 1.6.2; our constant.
    """
    return max(0.0, float((m * n * k / p) ** (2 / 3)) - max(m * k, k * n, m * n) / p)


def memory_dependent(m: int, k: int, n: int, p: int, memory: float) -> float:
    """Return a bound on the words of A and B that come in and of partial sums that go out, for words of memory.

    With M words of memory on each process it is 2V/√M - 2M - mn/p.

    Cut the run of a process into times in which 2M elements of A and B came in and sums were begun.  In such a time it
    has at most 3M elements of A, B and C to work with, M from before, so it does at most M^(3/2) products (Loomis and
    Whitney).  V products take V/M^(3/2) times, the last one not full.  A sum that was begun goes out, or is one of C's
    mn elements in the end.  Added up over processes, the work need not be divided evenly.
    M is all of a process's memory, its blocks of A and B among it, so the bound is 0 where M is more than V^(2/3); of
    cubes it is above `loomis_whitney` from some thousand processes on.
    Source: Irony, Toledo, Tiskin (JPDC 2004); the constant 2: Smith, Lowery, Langou, van de Geijn (2019).
    """
    return max(0.0, 2 * m * n * k / p / sqrt(memory) - 2 * memory - m * n / p)
