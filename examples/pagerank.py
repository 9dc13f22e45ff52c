"""PageRank by messages: think like a vertex, send like a process.

Vertices are dealt cyclically.  A superstep sends every process one message with the shares of rank for
its vertices, combined at the sender; what vertices without links hold is spread over all.
H = vertices reached on other processes, one message a pair.  Run as: bsprun -p 4 examples/pagerank.py [vertices]
"""

import sys

import numpy as np

import bsp

DAMPING, TOLERANCE = 0.85, 1e-12

proc = bsp.process()
p, n = proc.nprocs, int(sys.argv[1]) if len(sys.argv) > 1 else 300


def links(vertex: int) -> np.ndarray:
    """Where a vertex points: the same graph for any p."""
    rng = np.random.default_rng([n, vertex])
    return rng.integers(0, n, rng.integers(0, 6))


mine = np.arange(proc.pid, n, p)
out = [links(int(vertex)) for vertex in mine]
degree = np.array([targets.size for targets in out], int)
source = np.repeat(np.arange(mine.size), degree)
target = np.concatenate([*out, np.empty(0, int)]).astype(int)

# for each process I reach: the edges that lead there, their places among its vertices, each place once
routes = []
for dest in np.unique(target % p):
    edges = np.flatnonzero(target % p == dest)
    places, index = np.unique(target[edges] // p, return_inverse=True)
    routes.append((int(dest), source[edges], places, index))

state = bsp.State(rank=np.full(mine.size, 1 / n))
for _ in proc.rounds(200, state):
    share = np.divide(state.rank, degree, out=np.zeros(mine.size), where=degree > 0)
    for dest, sources, places, index in routes:
        proc.send(dest, np.bincount(index, share[sources]), tag=places)
    dangling = float(state.rank[degree == 0].sum())
    idle = proc.allreduce(dangling)  # a boundary: the messages arrive with it
    received = np.zeros(mine.size)
    for message in proc.inbox:
        received[message.tag] += message.payload
    new = (1 - DAMPING + DAMPING * idle) / n + DAMPING * received
    change = proc.allreduce(float(np.abs(new - state.rank).sum()))
    state.rank = new
    if change < TOLERANCE:
        break

ranks = proc.gather(state.rank)
if proc.pid == 0:  # the same fixed point, by dense linear algebra
    matrix = np.zeros((n, n))
    for vertex in range(n):
        targets = links(vertex)
        np.add.at(matrix[:, vertex], targets, 1 / max(targets.size, 1))
        if not targets.size:
            matrix[:, vertex] = 1 / n
    exact = np.linalg.solve(np.eye(n) - DAMPING * matrix, np.full(n, (1 - DAMPING) / n))
    error = max(float(np.abs(part - exact[pid::p]).max(initial=0)) for pid, part in enumerate(ranks))
    print(f"PageRank of {n} vertices on {p} processes: largest error {error:.1e}")
    if error > 1e-11:
        sys.exit("not the fixed point")
