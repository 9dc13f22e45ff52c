"""What a fit costs: words and supersteps exactly, operations to leading order, memory as a bound.

The same sums as in `solve`, in the order in which it makes them; each is one allreduce.
"""

from __future__ import annotations

from bsp.algorithms.costs import Cost, added, allreduced
from bsp.algorithms.glm.families import FAMILIES
from bsp.algorithms.glm.fitting import chosen_solver
from bsp.algorithms.glm.inference.covariance import matrices_wanted
from bsp.algorithms.glm.inference.likelihood import TERMS
from bsp.algorithms.glm.problem import Model
from bsp.algorithms.glm.solvers.passes import chunk_length
from bsp.cost.model import DEFAULT, Machine

VECTORS = 10  # a chunk's predictor, loss, score, curvature and what they are made from
MATRICES = 7  # (d, d): a point's Hessian and the next one's, whole, packed, summed and factored


def cost(model: Model, n: int, k: int, p: int, machine: Machine | None = None, iterations: int = 6) -> Cost:
    """Of `solve` for n dense rows of k columns on p processes, n/p each; d = k + 1 with an intercept, else k.

    iterations : Newton's, or L-BFGS's.  Steps that are halved, and line searches that look twice, take points more.
    machine : decides how sums are made (`allreduce`); None: the default one.
    Newton and proximal Newton, i iterations: sums of 7 + 2k, 3, i + 1 times 1 + d + d(d + 1)/2, and 5 numbers, each a
    superstep or two; W = (i + 1)((n/p)(d² + 4d) + d³/3).  L-BFGS: 1 + 2d numbers at the first point, 1 + d at others;
    W = (i + 1)·4(n/p)d.  Each matrix that covariances are made from and the solver has not: d(d + 1)/2 numbers more
    in the last sum, (n/p)d² flops.
    M = 3n/p + 2kl + 10l + 7d² + 20d, l = max(64, 2^16/k, k): vectors as long as the rows; a chunk of l rows shifted
    and scaled, and its vectors; Hessians.  Of matrices that are missing kl more for each but the first, 4d² for each.
    """
    machine = machine or DEFAULT
    d, local = k + model.fit_intercept, -(-n // p)
    half = d * (d + 1) // 2
    newton = chosen_solver(model, d) != "lbfgs"
    first, others = (1 + d + half, 1 + d + half) if newton else (1 + 2 * d, 1 + d)
    known = {"hessian"} if newton else set()
    missing = len(matrices_wanted(model, FAMILIES[model.family], d) - known)
    sums = [7 + 2 * k, 3, first, *[others] * iterations, 2 + TERMS + missing * half]
    steps = [allreduced(count, p, machine) for count in sums]
    a_pass = 4.0 * local * d
    squared = float(local) * d * d
    work = (iterations + 2) * a_pass + missing * squared
    if newton:
        work += (iterations + 1) * (squared + d**3 / 3)
    rooms = 1 + max(1, missing)  # chunks of X: shifted, and scaled for each matrix
    squares = MATRICES + 4 * missing if newton or missing else 0
    memory = 3 * local + (rooms * k + VECTORS) * min(local, chunk_length(k)) + squares * d * d + 20 * d
    return added(steps, work, memory)
