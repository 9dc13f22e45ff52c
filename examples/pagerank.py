"""PageRank as a vertex program: a page gives its rank to the pages that it links to, in equal shares.

A line is about all pages of a process at once.  A round is one superstep: shares go along links and are summed where
they arrive, at the sender first; what pages without links hold, and by how much ranks have changed, is summed over all
processes besides.  H = pages reached on other processes, and 4 words for each process.
Run as: bsprun -p 4 examples/pagerank.py [pages]
"""

import sys

import numpy as np

import bsp
from bsp import graphs

DAMPING, TOLERANCE = 0.85, 1e-12

proc = bsp.process()
n = int(sys.argv[1]) if len(sys.argv) > 1 else 300


def links(page: int) -> np.ndarray:
    """Where a page points: the same graph for any p."""
    rng = np.random.default_rng([n, page])
    return np.unique(rng.integers(0, n, rng.integers(0, 6)))


mine = range(proc.pid, n, proc.nprocs)
targets = [links(page) for page in mine]
sources = np.repeat(np.array(mine, int), [len(each) for each in targets])
graph = graphs.from_edges(sources, np.concatenate([np.empty(0, int), *targets]), size=n)

state, linked = bsp.State(rank=graph.values(1 / n), change=np.inf), graph.out_degree > 0
for _ in proc.rounds(200, state):
    share = np.divide(state.rank, graph.out_degree, out=graph.values(0.0), where=linked)
    heard = graph.send(share, totals=[state.rank[~linked].sum(), state.change])
    idle, change = heard.totals
    if change < TOLERANCE:
        break
    rank = (1 - DAMPING + DAMPING * idle) / n + DAMPING * heard.values
    state.change, state.rank = abs(rank - state.rank).sum(), rank

ranks = graph.array(state.rank).compute()  # graphs.pagerank is the same program
if proc.pid == 0:  # the same fixed point, by dense linear algebra
    matrix = np.zeros((n, n))
    for page in range(n):
        out = links(page)
        matrix[out if len(out) else slice(None), page] = 1 / (len(out) or n)
    exact = np.linalg.solve(np.eye(n) - DAMPING * matrix, np.full(n, (1 - DAMPING) / n))
    error = float(abs(ranks - exact).max())
    print(f"PageRank of {n} pages on {proc.nprocs} processes: largest error {error:.1e}")
    if error > 1e-11:
        sys.exit("not the fixed point")
