"""One contender of the array benchmark: does a work when told to, and says how long it took.

    arrays_contender.py FOLDER numpy|dask        one process, two threads
    arrays_contender.py FOLDER hand|heat         under `mpiexec -n 2`, one thread each
    arrays_contender.py FOLDER ours              under `bsprun -p 2 -n 2`

See `turns`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from same_code import works
from turns import (  # NumPy from where its threads are told
    NAME,
    Work,
    np,
    serve_alone,
    serve_processes,
    serve_ranks,
    vector,
)

N, SIDE, ROWS, COLUMNS, LONG = 1 << 24, 4096, 2_000_000, 64, 32_000_000


def chain(x: Any, y: Any) -> Any:
    """Six elementwise operations."""
    return ((x * 2.0 + y) * x - y) / (x + 3.0)


PERCENTILES = [10.0, 50.0, 99.0]


# --------------------------------------------------------------------------------- contenders


def of_numpy() -> dict[str, Callable[[], Work]]:
    """NumPy, its BLAS with two threads."""

    def two() -> tuple[np.ndarray, np.ndarray]:
        return vector(1, N), vector(2, N)

    def hypotenuse() -> Work:
        a, b = two()
        return lambda: np.sqrt(a**2 + b**2).sum(), float

    def chained() -> Work:
        x, y = vector(1, LONG), vector(2, LONG)
        return lambda: chain(x, y), lambda z: float(z[::1001].sum())

    def matmul() -> Work:
        a, b = (vector(k, SIDE * SIDE).reshape(SIDE, SIDE) for k in (1, 2))
        return lambda: a @ b, lambda c: float(c[::97, ::89].sum())

    def gram() -> Work:
        x = vector(1, ROWS * COLUMNS).reshape(ROWS, COLUMNS)
        return lambda: x.T @ x, lambda c: float(c.sum())

    def redistribute() -> Work:
        a = vector(1, SIDE * SIDE).reshape(SIDE, SIDE)
        return lambda: np.asfortranarray(a), lambda c: float(c[::97, ::89].sum())

    def moments() -> Work:
        x = vector(1, N).reshape(-1, COLUMNS)
        return lambda: (x.mean(axis=0), x.std(axis=0)), lambda m: float(m[0].sum() + m[1].sum())

    def masked() -> Work:
        x = vector(1, N)
        return lambda: x[x > 0.25].mean(), float

    def sort() -> Work:
        x = vector(1, LONG)
        return lambda: np.sort(x), lambda y: float(y[::1001].sum())

    def percentiles() -> Work:
        x = vector(1, N)
        return lambda: np.percentile(x, PERCENTILES), lambda q: float(q.sum())

    def array(seed: int, shape: Any) -> np.ndarray:
        return vector(seed, int(np.prod(shape))).reshape(shape)

    found = {name: made for name, made in locals().items() if name in WORKS}
    return found | works(np, array, lambda x: x)


def of_dask() -> dict[str, Callable[[], Work]]:
    """Dask with two threads; chunks so that both have work and pieces stay in the cache where that helps."""
    import dask
    import dask.array as da

    dask.config.set(scheduler="threads", num_workers=2)
    fresh = iter(range(1 << 30))

    def array(x: np.ndarray, chunks: Any) -> Any:
        return da.from_array(x, chunks=chunks, name=f"x{next(fresh)}")

    def hypotenuse() -> Work:
        a, b = array(vector(1, N), 1 << 18), array(vector(2, N), 1 << 18)
        return lambda: da.sqrt(a**2 + b**2).sum().compute(), float

    def chained() -> Work:
        x, y = array(vector(1, LONG), 1 << 20), array(vector(2, LONG), 1 << 20)
        return lambda: chain(x, y).compute(), lambda z: float(z[::1001].sum())

    def matmul() -> Work:
        a, b = (array(vector(k, SIDE * SIDE).reshape(SIDE, SIDE), (SIDE // 2, SIDE)) for k in (1, 2))
        return lambda: (a @ b.rechunk((SIDE, SIDE))).compute(), lambda c: float(c[::97, ::89].sum())

    def gram() -> Work:
        x = array(vector(1, ROWS * COLUMNS).reshape(ROWS, COLUMNS), (ROWS // 16, COLUMNS))
        return lambda: (x.T @ x).compute(), lambda c: float(c.sum())

    def redistribute() -> Work:
        a = array(vector(1, SIDE * SIDE).reshape(SIDE, SIDE), (SIDE // 2, SIDE))
        return lambda: a.rechunk((SIDE, SIDE // 2)).persist(), lambda c: float(c[::97, ::89].sum().compute())

    def moments() -> Work:
        x = array(vector(1, N).reshape(-1, COLUMNS), (1 << 14, COLUMNS))
        return lambda: dask.compute(x.mean(axis=0), x.std(axis=0)), lambda m: float(m[0].sum() + m[1].sum())

    def masked() -> Work:
        x = array(vector(1, N), 1 << 20)
        return lambda: x[x > 0.25].mean().compute(), float

    return {name: made for name, made in locals().items() if name in WORKS}


def by_hand() -> dict[str, Callable[[], Work]]:
    """mpi4py and NumPy, as one writes it: the same blocks, the collective that fits."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    p, me = comm.size, comm.rank

    def mine(seed: int, size: int) -> np.ndarray:
        return vector(seed, size, size * me // p, size * (me + 1) // p)

    def total(value: float) -> float:
        return float(comm.allreduce(value))

    def hypotenuse() -> Work:
        a, b = mine(1, N), mine(2, N)
        return lambda: total(np.sqrt(a**2 + b**2).sum()), float

    def chained() -> Work:
        x, y = mine(1, LONG), mine(2, LONG)
        return lambda: chain(x, y), lambda z: np.nan

    def matmul() -> Work:
        a, b = (mine(k, SIDE * SIDE).reshape(-1, SIDE) for k in (1, 2))
        whole = np.empty((SIDE, SIDE))

        def work() -> np.ndarray:
            comm.Allgather(b, whole)
            return a @ whole

        return work, lambda c: np.nan

    def gram() -> Work:
        x = vector(1, ROWS * COLUMNS, ROWS * me // p * COLUMNS, ROWS * (me + 1) // p * COLUMNS).reshape(-1, COLUMNS)

        def work() -> np.ndarray:
            c = x.T @ x
            comm.Allreduce(MPI.IN_PLACE, c)
            return c

        return work, lambda c: float(c.sum())

    def redistribute() -> Work:
        a = mine(1, SIDE * SIDE).reshape(-1, SIDE)
        width, height = SIDE // p, SIDE // p

        def work() -> np.ndarray:
            packed = np.ascontiguousarray(a.reshape(height, p, width).swapaxes(0, 1))
            got = np.empty((p, height, width))
            comm.Alltoall(packed, got)
            return got.reshape(SIDE, width)

        return work, lambda c: np.nan

    def moments() -> Work:
        x = mine(1, N).reshape(-1, COLUMNS)
        count = N // COLUMNS

        def work() -> tuple[np.ndarray, np.ndarray]:
            mean = x.sum(axis=0)
            comm.Allreduce(MPI.IN_PLACE, mean)
            mean /= count
            squares = ((x - mean) ** 2).sum(axis=0)
            comm.Allreduce(MPI.IN_PLACE, squares)
            return mean, np.sqrt(squares / count)

        return work, lambda m: float(m[0].sum() + m[1].sum())

    def masked() -> Work:
        x = mine(1, N)

        def work() -> float:
            chosen = x[x > 0.25]
            both = np.array([chosen.sum(), chosen.size])
            comm.Allreduce(MPI.IN_PLACE, both)
            return float(both[0] / both[1])

        return work, float

    return {name: made for name, made in locals().items() if name in WORKS}


def of_heat() -> dict[str, Callable[[], Work]]:
    """Heat on two ranks, split as its documentation advises for each work."""
    import heat as ht
    import torch

    torch.set_num_threads(1)

    def array(seed: int, shape: Any, split: int = 0) -> Any:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        size = int(np.prod(shape))
        lines = shape[0] if isinstance(shape, tuple) else shape
        wide = size // lines
        start, stop = lines * comm.rank // comm.size * wide, lines * (comm.rank + 1) // comm.size * wide
        part = vector(seed, size, start, stop).reshape(-1, *(shape[1:] if isinstance(shape, tuple) else ()))
        found = ht.array(torch.from_numpy(part), is_split=0)
        return found if split == 0 else ht.resplit(found, split)

    def hypotenuse() -> Work:
        a, b = array(1, N), array(2, N)
        return lambda: ht.sqrt(a**2 + b**2).sum(), lambda s: float(s.item())

    def chained() -> Work:
        x, y = array(1, LONG), array(2, LONG)
        return lambda: chain(x, y), lambda z: np.nan

    def matmul() -> Work:
        a, b = array(1, (SIDE, SIDE)), array(2, (SIDE, SIDE), 1)
        return lambda: a @ b, lambda c: np.nan

    def gram() -> Work:
        x = array(1, (ROWS, COLUMNS))
        return lambda: x.T @ x, lambda c: float(c.sum().item())

    def redistribute() -> Work:
        a = array(1, (SIDE, SIDE))
        return lambda: ht.resplit(a, 1), lambda c: np.nan

    def moments() -> Work:
        x = array(1, (N // COLUMNS, COLUMNS))
        # no answer to compare: its release divides by n - 1 for some layouts
        return lambda: (ht.mean(x, axis=0), ht.std(x, axis=0)), lambda m: np.nan

    def masked() -> Work:
        x = array(1, N)
        return lambda: ht.mean(x[x > 0.25]), lambda s: float(s.item())

    def sort() -> Work:
        x = array(1, LONG)
        return lambda: ht.sort(x)[0], lambda c: np.nan

    return {name: made for name, made in locals().items() if name in WORKS}


def ours() -> dict[str, Callable[[], Work]]:
    """bsp.arrays on two processes of two elements."""
    import bsp.arrays as ba

    def array(seed: int, shape: Any) -> Any:
        size = int(np.prod(shape))
        wide = size // (shape[0] if isinstance(shape, tuple) else shape)
        p, me = proc.nprocs, proc.pid
        lines = size // wide
        part = vector(seed, size, lines * me // p * wide, lines * (me + 1) // p * wide)
        return ba.from_local(part.reshape(-1, *(shape[1:] if isinstance(shape, tuple) else ())))

    def hypotenuse() -> Work:
        a, b = array(1, N), array(2, N)
        return lambda: float(ba.sqrt(a**2 + b**2).sum()), float

    def chained() -> Work:
        x, y = array(1, LONG), array(2, LONG)
        return lambda: chain(x, y).persist(), lambda z: float(z[::1001].sum())

    def matmul() -> Work:
        a, b = array(1, (SIDE, SIDE)), array(2, (SIDE, SIDE))
        return lambda: (a @ b).persist(), lambda c: float(c[::97, ::89].sum())

    def gram() -> Work:
        x = array(1, (ROWS, COLUMNS))
        return lambda: (x.T @ x).compute(), lambda c: float(c.sum())

    def redistribute() -> Work:
        a = array(1, (SIDE, SIDE))
        return lambda: a.rechunk(grid=(1, proc.nprocs)).persist(), lambda c: float(c[::97, ::89].sum())

    def moments() -> Work:
        x = array(1, (N // COLUMNS, COLUMNS))
        return lambda: ba.compute(x.mean(axis=0), x.std(axis=0)), lambda m: float(m[0].sum() + m[1].sum())

    def masked() -> Work:
        x = array(1, N)
        return lambda: float(x[x > 0.25].mean()), float

    def sort() -> Work:
        x = array(1, LONG)
        return lambda: ba.sort(x).persist(), lambda y: float(y[::1001].sum())

    def percentiles() -> Work:
        x = array(1, N)
        return lambda: ba.percentile(x, PERCENTILES).compute(), lambda q: float(q.sum())

    def expression() -> Work:
        x = ba.asarray(np.arange(100.0), grid=(proc.nprocs,))
        return lambda: [float((x * 2.0 + x).sum()) for _ in range(100)], lambda found: found[0]

    def building() -> Work:
        x = ba.asarray(np.arange(100.0), grid=(proc.nprocs,))

        def work() -> Any:
            for _ in range(100):
                y = x
                for _ in range(50):
                    y = y * 2.0 + x
            return y

        return work, lambda y: np.nan

    def overhead() -> Work:
        x = ba.asarray(np.arange(400.0).reshape(20, 20), grid=(proc.nprocs, 1))

        def work() -> float:  # of eight expressions, each of another kind, the longest
            longest = 0.0
            for make in (
                lambda: x + x.T, lambda: x @ x, lambda: x[1:] - x[:-1], lambda: ba.cumsum(x, axis=0),
                lambda: x.reshape(-1), lambda: ba.concat([x, x]), lambda: x.std(axis=0), lambda: x.rechunk(grid=(1, 2)),
            ):  # fmt: skip
                make().persist()
                began = time.perf_counter()
                for _ in range(20):
                    make().persist()
                longest = max(longest, (time.perf_counter() - began) / 20)
            return longest

        return work, float

    def scalars() -> Work:
        x = ba.zeros(N).persist()

        def work() -> Any:
            for k in range(100):
                x[k * 1000] = 1.0
            return x

        return work, lambda x: 100.0

    def small() -> Work:
        s = ba.ones(100).persist()

        def work() -> Any:
            for _ in range(100):
                found = (s + 1.0).persist()
            return found

        return work, lambda x: float(x.sum())

    def graph() -> Work:
        x = ba.asarray(np.arange(100.0))

        def work() -> Any:
            return ba.compute(*[(x + float(k)).sum() for k in range(3000)])

        return work, lambda sums: float(sums[7])

    def in_blocks(sums: bool) -> Work:
        whole, cut = (
            [array(k, (2048, 2048)).rechunk(grid=grid).persist() for k in (1, 2)]
            for grid in ((proc.nprocs, 1), (32, 32))
        )

        def work() -> float:
            taken = []
            for a, b in (whole, cut):
                began = time.perf_counter()
                for _ in range(5):
                    (a.sum(axis=0) if sums else a + b).persist()
                taken.append(time.perf_counter() - began)
            return taken[1] / taken[0]

        return work, float

    def blocked() -> Work:
        return in_blocks(False)

    def blocked_sums() -> Work:
        return in_blocks(True)

    found = {name: made for name, made in locals().items() if name in WORKS}
    return found | works(ba, array, lambda x: x.persist())


WORKS = (
    "hypotenuse", "chained", "matmul", "gram", "redistribute", "moments", "masked", "sort", "percentiles",
    "expression", "building", "overhead", "scalars", "small", "graph", "blocked", "blocked_sums",
)  # fmt: skip


if __name__ == "__main__":
    if NAME in ("numpy", "dask"):
        serve_alone({"numpy": of_numpy, "dask": of_dask}[NAME]())
    elif NAME == "ours":
        import bsp

        proc = bsp.process()
        serve_processes(ours())
    else:
        serve_ranks({"hand": by_hand, "heat": of_heat}[NAME]())
