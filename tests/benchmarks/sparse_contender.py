"""One contender of the benchmark of sparse arrays: does a work when told to, and says how long it took.

    sparse_contender.py FOLDER scipy|networkx|igraph     one process
    sparse_contender.py FOLDER petsc                     under Debian's `mpirun -n 2`
    sparse_contender.py FOLDER ours                      under `bsprun -p 2 -n 2`

See `turns`.  The random graph is made by ours and by scipy's contender alike; the others read its edges from a file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from turns import FOLDER, NAME, Work, np, serve_alone, serve_processes, serve_ranks  # NumPy after its threads

SIDE, SCALE, STEPS, ROUNDS, DAMPING, PRODUCTS = 2000, 20, 200, 20, 0.85, 10
WORKS = ("mesh", "power law", "cg", "product", "pagerank", "ranks", "bfs")


def mesh_parts(low: int, high: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of the five-point Laplacian as parts of a CSR matrix: values, columns, where rows begin."""
    n = SIDE * SIDE
    row = np.arange(low, high)
    column = row % SIDE
    places = np.stack([row - SIDE, row - 1, row, row + 1, row + SIDE], 1)
    there = np.stack([row >= SIDE, column > 0, row >= 0, column < SIDE - 1, row < n - SIDE], 1)
    values = np.broadcast_to([-1.0, -1.0, 4.0, -1.0, -1.0], places.shape)[there]
    starts = np.concatenate([[0], np.cumsum(there.sum(1))])
    return values, places[there].astype(np.int32), starts.astype(np.int32)


def mesh_rows(low: int, high: int) -> Any:
    """Rows of the five-point Laplacian, as scipy's CSR array."""
    import scipy.sparse as ss

    return ss.csr_array(mesh_parts(low, high), shape=(high - low, SIDE * SIDE))


def right_hand_side(low: int, high: int) -> np.ndarray:
    """Elements of b, which are smooth and not symmetric."""
    return np.sin(np.arange(low, high) * 1e-3) + 1.0


def edges_file(scale: int) -> str:
    """Where the random graph of a scale is kept for those who cannot make it."""
    return os.path.join(FOLDER, f"rmat{scale}.npz")


def graph_here(scale: int) -> Any:
    """The random graph, made in this process alone; its edges are written for the others."""
    import bsp  # noqa: F401 - a program without bsprun is one process
    from bsp import graphs

    adjacency = graphs.rmat(scale).adjacency.local()
    if not os.path.exists(edges_file(scale)):
        np.savez(edges_file(scale) + ".part.npz", indptr=adjacency.indptr, indices=adjacency.indices)
        os.replace(edges_file(scale) + ".part.npz", edges_file(scale))
    return adjacency


def graph_read(scale: int) -> tuple[np.ndarray, np.ndarray]:
    """The places of the random graph's edges in CSR form, as soon as they are written."""
    while not os.path.exists(edges_file(scale)):
        time.sleep(0.1)
    with np.load(edges_file(scale)) as found:
        return found["indptr"], found["indices"]


def first_source(indptr: np.ndarray) -> int:
    """The vertex with most edges, where searches begin."""
    return int(np.diff(indptr).argmax())


# --------------------------------------------------------------------------------- contenders


def of_ours() -> dict[str, Callable[[], Work]]:
    """Sparse arrays on two processes."""
    import bsp
    import bsp.arrays as ba
    from bsp import graphs
    from bsp.algorithms import krylov
    from bsp.arrays import sparse

    def of_mesh() -> Any:
        return sparse.of_function((SIDE * SIDE,) * 2, mesh_rows)

    def products(a: Any, x: Any) -> Work:
        x = a.vector(x)

        def work() -> Any:
            y = x
            for _ in range(PRODUCTS):
                y = (a @ x).persist()
            return y

        return work, lambda y: float((y @ y).item())

    def mesh() -> Work:
        return products(of_mesh(), ba.asarray(right_hand_side(0, SIDE * SIDE)))

    def power_law() -> Work:
        return products(graphs.rmat(SCALE).adjacency, ba.asarray(right_hand_side(0, 1 << SCALE)))

    def cg() -> Work:
        a, b = of_mesh(), ba.asarray(right_hand_side(0, SIDE * SIDE))
        return lambda: krylov.cg(a, b, rtol=0.0, maxiter=STEPS)[0], lambda x: float((x @ x).item())

    def product() -> Work:
        a = sparse.random(20_000, 20_000, density=0.01, seed=1)
        return lambda: a @ a, lambda c: float(c.sum().item())

    def ranks(scale: int = 17) -> Work:
        graph = graphs.rmat(scale)
        return (lambda: graphs.pagerank(graph, DAMPING, tol=0.0, rounds=ROUNDS)), lambda r: float((r @ r).item())

    def bfs() -> Work:
        graph = graphs.rmat(SCALE)
        degrees = bsp.process().allgather(graph.out_degree)
        source = int(np.concatenate(degrees).argmax())
        return (lambda: graphs.bfs(graph, source)), lambda found: float((found[0] >= 0).sum().item())

    return {"mesh": mesh, "power law": power_law, "cg": cg, "product": product, "ranks": ranks,
            "pagerank": lambda: ranks(SCALE), "bfs": bfs}  # fmt: skip


def of_scipy() -> dict[str, Callable[[], Work]]:
    """scipy, one thread."""
    import scipy.sparse.linalg as linalg
    from scipy.sparse.csgraph import breadth_first_order

    def products(a: Any, x: np.ndarray) -> Work:
        def work() -> np.ndarray:
            y = x
            for _ in range(PRODUCTS):
                y = a @ x
            return y

        return work, lambda y: float(y @ y)

    def mesh() -> Work:
        return products(mesh_rows(0, SIDE * SIDE), right_hand_side(0, SIDE * SIDE))

    def power_law() -> Work:
        return products(graph_here(SCALE), right_hand_side(0, 1 << SCALE))

    def cg() -> Work:
        a, b = mesh_rows(0, SIDE * SIDE), right_hand_side(0, SIDE * SIDE)
        return lambda: linalg.cg(a, b, rtol=0.0, maxiter=STEPS)[0], lambda x: float(x @ x)

    def product() -> Work:
        from bsp.arrays import sparse

        a = sparse.random(20_000, 20_000, density=0.01, seed=1).local()
        return lambda: a @ a, lambda c: float(c.sum())

    def bfs() -> Work:
        a = graph_here(SCALE)
        source = first_source(a.indptr)
        return lambda: breadth_first_order(a, source), lambda found: float(len(found[0]))

    return {"mesh": mesh, "power law": power_law, "cg": cg, "product": product, "bfs": bfs, "pagerank": _writing(SCALE),
            "ranks": _writing(17)}  # fmt: skip


def _writing(scale: int) -> Callable[[], Work]:
    """A work that only leaves the graph for others, and is no contender's."""

    def made() -> Work:
        graph_here(scale)
        return lambda: None, lambda _: float("nan")

    return made


def of_networkx() -> dict[str, Callable[[], Work]]:
    """networkx, whose PageRank is scipy's product in a loop."""
    import networkx as nx

    def ranks() -> Work:
        indptr, indices = graph_read(17)
        rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        graph = nx.DiGraph()
        graph.add_nodes_from(range(len(indptr) - 1))
        graph.add_edges_from(zip(rows.tolist(), indices.tolist(), strict=True))

        def work() -> Any:
            try:
                return nx.pagerank(graph, DAMPING, max_iter=ROUNDS, tol=0.0)
            except nx.PowerIterationFailedConvergence:  # always: it is to do all rounds
                return None

        return work, lambda found: float("nan")

    return {"ranks": ranks}


def of_igraph() -> dict[str, Callable[[], Work]]:
    """igraph, whose PageRank (PRPACK) takes as many rounds as it needs."""
    import igraph

    def pagerank() -> Work:
        indptr, indices = graph_read(SCALE)
        rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        graph = igraph.Graph(len(indptr) - 1, np.stack([rows, indices], 1), directed=True)
        return lambda: graph.pagerank(damping=DAMPING), lambda found: float("nan")

    return {"pagerank": pagerank}


def of_petsc() -> dict[str, Callable[[], Work]]:
    """PETSc on two ranks, rows in equal blocks."""
    import petsc4py

    petsc4py.init()
    from petsc4py import PETSc

    world = PETSc.COMM_WORLD

    def products(a: Any, low: int, high: int) -> Work:
        x, y = a.createVecs()
        x.array[:] = right_hand_side(low, high)

        def work() -> Any:
            for _ in range(PRODUCTS):
                a.mult(x, y)
            return y

        return work, lambda y: float(y.dot(y))

    def dealt(indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, n: int, rows: int) -> Any:
        csr = indptr.astype(np.int32), indices.astype(np.int32), values
        return PETSc.Mat().createAIJ(size=((rows, n), (rows, n)), csr=csr, comm=world)

    def bounds(n: int) -> tuple[int, int]:
        return n * world.rank // world.size, n * (world.rank + 1) // world.size

    def of_mesh() -> tuple[Any, int, int]:
        low, high = bounds(SIDE * SIDE)
        values, columns, starts = mesh_parts(low, high)
        return dealt(starts, columns, values, SIDE * SIDE, high - low), low, high

    def mesh() -> Work:
        return products(*of_mesh())

    def power_law() -> Work:
        indptr, indices = graph_read(SCALE)
        low, high = bounds(1 << SCALE)
        a, b = int(indptr[low]), int(indptr[high])
        return products(
            dealt(indptr[low : high + 1] - a, indices[a:b], np.ones(b - a), 1 << SCALE, high - low), low, high
        )

    def cg() -> Work:
        a, low, high = of_mesh()
        x, b = a.createVecs()
        b.array[:] = right_hand_side(low, high)
        solver = PETSc.KSP().create(world)
        solver.setOperators(a)
        solver.setType("cg")
        solver.getPC().setType("none")
        solver.setNormType(PETSc.KSP.NormType.UNPRECONDITIONED)
        solver.setTolerances(rtol=1e-300, atol=1e-300, max_it=STEPS)

        def work() -> Any:
            x.set(0.0)
            solver.solve(b, x)
            return x

        return work, lambda found: float(found.dot(found))

    return {"mesh": mesh, "power law": power_law, "cg": cg}


if __name__ == "__main__":
    if NAME == "ours":
        serve_processes(of_ours())
    elif NAME == "petsc":
        serve_ranks(of_petsc())
    else:
        serve_alone({"scipy": of_scipy, "networkx": of_networkx, "igraph": of_igraph}[NAME]())
