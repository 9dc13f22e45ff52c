"""One contender of the benchmark of algorithms: does a work when told to, and says how long it took.

    algorithms_contender.py FOLDER numpy|sklearn|glum|dask|dask_glm     one process, two threads
    algorithms_contender.py FOLDER hand|heat                             under `mpiexec -n 2`, one thread each
    algorithms_contender.py FOLDER ours                                  under `bsprun -p 2 -n 2`

See `turns`.  Answers of fits are the objective (the mean loss, nothing penalised) and the largest component of its
gradient at what was found; every iterative solver is told the tolerance that takes it to 1e-6 or below.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from turns import NAME, Answer, Work, np, serve_alone, serve_processes, serve_ranks, vector  # NumPy after its threads

ROWS, COLUMNS, SIDE, ITERATIONS = 1 << 20, 32, 4096, 6
CONDITION = 1e12
TOLERANCE = 1e-9  # at which ours stops after ITERATIONS
TRUTH = 2 * np.cos(np.arange(COLUMNS) * 1.7)


def columns(start: int = 0, stop: int = ROWS) -> np.ndarray:
    """Rows of X, in (-1/2, 1/2)."""
    return vector(1, ROWS * COLUMNS, start * COLUMNS, stop * COLUMNS).reshape(-1, COLUMNS) - 0.5


def outcomes(x: np.ndarray, start: int = 0, stop: int = ROWS) -> np.ndarray:
    """0 or 1, as the logistic model of TRUTH has it."""
    return (vector(2, ROWS, start, stop) < 1 / (1 + np.exp(-x @ TRUTH))).astype(float)


def mixing() -> np.ndarray:
    """What makes columns dependent to CONDITION."""
    v = np.linalg.qr(vector(3, COLUMNS * COLUMNS).reshape(COLUMNS, COLUMNS))[0]
    return v * np.logspace(0, -np.log10(CONDITION), COLUMNS) @ v.T


def quality(x: np.ndarray, y: np.ndarray, beta: Any) -> tuple[float, np.ndarray]:
    """The sum of losses and its gradient, for `answer`."""
    eta = x @ np.asarray(beta, float).reshape(-1)
    loss = np.logaddexp(0, eta).sum() - y @ eta
    return float(loss), x.T @ (1 / (1 + np.exp(-eta)) - y)


def answered(loss: float, gradient: np.ndarray) -> Answer:
    """Objective and gradient norm."""
    return [loss / ROWS, float(abs(gradient).max()) / ROWS]


# --------------------------------------------------------------------------------- contenders


def of_numpy() -> dict[str, Callable[[], Work]]:
    """NumPy, its BLAS with two threads."""

    def qr() -> Work:
        x = columns()
        return lambda: np.linalg.qr(x), lambda f: float(abs(f[1][0, 0]))

    def ill() -> Work:
        x = columns() @ mixing()
        return lambda: np.linalg.qr(x), lambda f: float(abs(f[1][0, 0]))

    def product() -> Work:
        a, b = (vector(k, SIDE * SIDE).reshape(SIDE, SIDE) for k in (1, 2))
        return lambda: a @ b, lambda c: float(c[::97, ::89].sum())

    return {name: made for name, made in locals().items() if name in WORKS}


def of_sklearn() -> dict[str, Callable[[], Work]]:
    """scikit-learn, two threads."""
    from sklearn.linear_model import LogisticRegression

    def fitted(solver: str, tol: float) -> Work:
        x = columns()
        y = outcomes(x)
        model = LogisticRegression(C=np.inf, fit_intercept=False, solver=solver, tol=tol, max_iter=1000)
        return lambda: model.fit(x, y), lambda m: answered(*quality(x, y, m.coef_))

    return {"lbfgs": lambda: fitted("lbfgs", 1e-6), "cholesky": lambda: fitted("newton-cholesky", 1e-6)}


def of_glum() -> dict[str, Callable[[], Work]]:
    """glum, two threads."""
    from glum import GeneralizedLinearRegressor

    def fit() -> Work:
        x = columns()
        y = outcomes(x)
        model = GeneralizedLinearRegressor(
            family="binomial", alpha=0, fit_intercept=False, gradient_tol=1e-6, max_iter=1000
        )
        return lambda: model.fit(x, y), lambda m: answered(*quality(x, y, m.coef_))

    return {"fit": fit}


def of_dask() -> dict[str, Callable[[], Work]]:
    """Dask with two threads, in chunks of 4096 rows for QR: its best."""
    import dask
    import dask.array as da

    dask.config.set(scheduler="threads", num_workers=2)
    fresh = iter(range(1 << 30))

    def array(x: np.ndarray, chunks: Any) -> Any:
        return da.from_array(x, chunks=chunks, name=f"x{next(fresh)}")

    def factored(x: np.ndarray) -> Work:
        return lambda: dask.persist(*da.linalg.qr(array(x, (4096, COLUMNS)))), lambda f: float(
            abs(f[1].compute()[0, 0])
        )

    def qr() -> Work:
        return factored(columns())

    def ill() -> Work:
        return factored(columns() @ mixing())

    def product() -> Work:
        a, b = (vector(k, SIDE * SIDE).reshape(SIDE, SIDE) for k in (1, 2))

        def work() -> np.ndarray:
            left, right = array(a, (SIDE // 2, SIDE)), array(b, (SIDE // 2, SIDE))
            return (left @ right.rechunk((SIDE, SIDE))).compute()

        return work, lambda c: float(c[::97, ::89].sum())

    return {name: made for name, made in locals().items() if name in WORKS}


def of_dask_glm() -> dict[str, Callable[[], Work]]:
    """dask-glm's L-BFGS, two threads."""
    import dask
    import dask.array as da
    from dask_glm.algorithms import lbfgs
    from dask_glm.families import Logistic

    dask.config.set(scheduler="threads", num_workers=2)
    warnings.simplefilter("ignore")

    def fit() -> Work:
        x = columns()
        y = outcomes(x)
        left, right = da.from_array(x, chunks=(ROWS // 16, COLUMNS)), da.from_array(y, chunks=ROWS // 16)

        def work() -> Any:
            return lbfgs(left, right, family=Logistic, regularizer="l2", lamduh=0.0, tol=1e-6 * ROWS, max_iter=1000)

        return work, lambda beta: answered(*quality(x, y, beta))

    return {"fit": fit}


def by_hand() -> dict[str, Callable[[], Work]]:
    """mpi4py and NumPy, as one writes it."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    p, me = comm.size, comm.rank

    def newton() -> Work:
        rows = ROWS * me // p, ROWS * (me + 1) // p
        x = columns(*rows)
        y = outcomes(x, *rows)

        def work() -> np.ndarray:
            beta = np.zeros(COLUMNS)
            for _ in range(ITERATIONS):
                mu = 1 / (1 + np.exp(-x @ beta))
                gradient = x.T @ (mu - y)
                hessian = (x * (mu * (1 - mu))[:, None]).T @ x
                comm.Allreduce(MPI.IN_PLACE, gradient)
                comm.Allreduce(MPI.IN_PLACE, hessian)
                beta -= np.linalg.solve(hessian, gradient)
            return beta

        def answer(beta: np.ndarray) -> Answer:
            loss, gradient = quality(x, y, beta)
            return answered(comm.allreduce(loss), comm.allreduce(gradient))

        return work, answer

    return {"newton": newton}


def of_heat() -> dict[str, Callable[[], Work]]:
    """Heat on two ranks, split by rows."""
    import heat as ht
    import torch
    from mpi4py import MPI

    torch.set_num_threads(1)
    comm = MPI.COMM_WORLD
    rows = ROWS * comm.rank // comm.size, ROWS * (comm.rank + 1) // comm.size

    def split(x: np.ndarray) -> Any:
        return ht.array(torch.from_numpy(np.ascontiguousarray(x)), is_split=0)

    def fit() -> Work:
        mine = columns(*rows)
        truth = outcomes(mine, *rows)
        x, y = split(mine), split(truth)

        def work() -> Any:
            beta = ht.zeros(COLUMNS, dtype=ht.float64)
            for _ in range(ITERATIONS):
                mu = 1 / (1 + ht.exp(-(x @ beta)))
                gradient = x.T @ (mu - y)
                hessian = x.T @ (x * ht.expand_dims(mu * (1 - mu), 1))
                step = torch.linalg.solve(hessian.resplit(None).larray, gradient.resplit(None).larray)
                beta = beta - ht.array(step)
            return beta

        def answer(beta: Any) -> Answer:
            loss, gradient = quality(mine, truth, beta.larray.numpy())
            return answered(comm.allreduce(loss), comm.allreduce(gradient))

        return work, answer

    def qr() -> Work:
        x = split(columns(*rows))
        return lambda: ht.linalg.qr(x), lambda f: float(abs(f[1].larray[0, 0]))

    def ill() -> Work:
        x = split(columns(*rows) @ mixing())
        return lambda: ht.linalg.qr(x), lambda f: float(abs(f[1].larray[0, 0]))

    def product() -> Work:
        half = SIDE * SIDE * comm.rank // comm.size, SIDE * SIDE * (comm.rank + 1) // comm.size
        a, b = (split(vector(k, SIDE * SIDE, *half).reshape(-1, SIDE)) for k in (1, 2))
        b = ht.resplit(b, 1)
        return lambda: a @ b, lambda c: np.nan

    return {name: made for name, made in locals().items() if name in WORKS}


def ours() -> dict[str, Callable[[], Work]]:
    """bsp.algorithms on two processes of two elements."""
    import bsp.arrays as ba
    from bsp.algorithms.glm import LogisticRegression
    from bsp.algorithms.matmul import matmul
    from bsp.algorithms.qr import qr as factors

    p, me = proc.nprocs, proc.pid
    rows = ROWS * me // p, ROWS * (me + 1) // p

    def fitted(**options: Any) -> Work:
        mine = columns(*rows)
        truth = outcomes(mine, *rows)
        x, y = ba.from_local(mine), ba.from_local(truth)
        model = LogisticRegression(fit_intercept=False, **options)

        def answer(found: Any) -> Answer:
            assert "max_iter" not in options or found.n_iter_ == ITERATIONS, found.solution_.history
            loss, gradient = quality(mine, truth, found.coef_)
            return answered(proc.allreduce(loss), proc.allreduce(gradient))

        return lambda: model.fit(x, y), answer

    def newton() -> Work:
        return fitted(solver="newton", max_iter=ITERATIONS, tol=TOLERANCE)

    def fit() -> Work:
        return fitted(tol=1e-6)

    def qr() -> Work:
        x = ba.from_local(columns(*rows))
        return lambda: factors(x), lambda f: float(f[1][0, 0])

    def ill() -> Work:
        x = ba.from_local(columns(*rows) @ mixing())

        def answer(f: Any) -> Answer:
            q = f[0]
            off = (q.T @ q).compute() - np.eye(COLUMNS)
            return [float(f[1][0, 0]), float(np.linalg.norm(off, 2))]

        return lambda: factors(x), answer

    def product() -> Work:
        half = SIDE * SIDE * me // p, SIDE * SIDE * (me + 1) // p
        a, b = (ba.from_local(vector(k, SIDE * SIDE, *half).reshape(-1, SIDE)) for k in (1, 2))
        return lambda: matmul(a, b).persist(), lambda c: float(c[::97, ::89].sum())

    return {name: made for name, made in locals().items() if name in WORKS}


WORKS = ("newton", "fit", "qr", "ill", "product")

if __name__ == "__main__":
    alone = {"numpy": of_numpy, "sklearn": of_sklearn, "glum": of_glum, "dask": of_dask, "dask_glm": of_dask_glm}
    if NAME in alone:
        serve_alone(alone[NAME]())
    elif NAME == "ours":
        import bsp

        proc = bsp.process()
        serve_processes(ours())
    else:
        serve_ranks({"hand": by_hand, "heat": of_heat}[NAME]())
