"""Array works whose code is the same for NumPy and bsp.arrays: selecting, assigning, broadcasting, small operations.

`works(xp, array, done)` returns them by name.  `array(seed, shape)` makes data; `done(x)` computes what is lazy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # it sets the threads of a contender's BLAS, and this module's names are read by others, too
    from turns import Work

SIDE, LONG, SWEEPS = 4096, 1 << 24, 200

# work, what it is, at most so many times NumPy's time
SAME_CODE: list[tuple[str, str, float]] = [
    ("outer", "`sin(x)[:, None] * cos(x)[None, :]`, 4096", 0.6),
    ("tensordot", "`tensordot` of 200³ and 200³ over two axes", 1.0),
    ("transposed", "`x.reshape(4096, 4096).T + 0`", 1.0),
    ("taken", "`take(A, 2048 columns, axis=1)`, 4096²", 1.2),
    ("rows", "`A[2048 rows]`, 4096²", 1.2),
    ("by mask", "`y[y > t] = 0` of a copy, 2^24", 1.2),
    ("by index", "`y[2^20 places] = 0` of a copy, 2^24", 1.2),
    ("by slice", "`y[::3] = 0` of a copy, 2^24", 1.2),
    ("argmax", "`argmax`, 2^24", 1.0),
    ("norm", "`linalg.norm`, 2^24", 1.0),
    ("cholesky", "`cholesky`, 1000²", 1.0),
    ("solve", "`solve`, 1000²", 1.0),
    ("inv", "`inv`, 1000²", 1.0),
    ("eigh", "`eigh`, 1000²", 1.0),
    ("standardised", "`(X - mean) / std`, 2^21 × 32", 1.0),
    ("jacobi", "Jacobi by slices, 2048², 200 sweeps", 1.0),
    ("running", "50 × `t = t + M[k]`, 100 elements", 5.0),
]


def works(xp: Any, array: Callable[[int, Any], Any], done: Callable[[Any], Any]) -> dict[str, Callable[[], Work]]:
    """Return the works for NumPy, or for a library that follows it."""
    import numpy as np  # after the number of threads is told

    rng = np.random.default_rng(5)
    some = np.sort(rng.permutation(SIDE)[: SIDE // 2])
    places = rng.permutation(LONG)[: 1 << 20]

    def square(seed: int) -> Any:
        return array(seed, (SIDE, SIDE))

    def corners(c: Any) -> float:
        return float(done(c[::97, ::89].sum()))

    def total(c: Any) -> float:
        return float(done(c.sum()))

    def outer() -> Work:
        x = array(1, SIDE)
        return lambda: done(xp.sin(x)[:, None] * xp.cos(x)[None, :]), corners

    def tensordot() -> Work:
        a, b = array(1, (200, 200, 200)), array(2, (200, 200, 200))
        return lambda: done(xp.tensordot(a, b, axes=([1, 2], [0, 1]))), total

    def transposed() -> Work:
        a = array(1, SIDE * SIDE)
        return lambda: done(a.reshape(SIDE, SIDE).T + 0.0), corners

    def taken() -> Work:
        a = square(1)
        return lambda: done(xp.take(a, some, axis=1)), corners

    def rows() -> Work:
        a = square(1)
        return lambda: done(a[some]), corners

    def assigning(where: Callable[[Any], Any]) -> Work:
        x = array(1, LONG)

        def work() -> Any:
            y = x.copy()
            y[where(y)] = 0.0
            return done(y)

        return work, lambda y: float(done(y[::1001].sum()))

    def solving(function: Callable[[Any], Any]) -> Work:
        a = definite_matrix()
        return lambda: done(function(a)), total

    def definite_matrix() -> Any:
        x = array(1, (1000, 1000))
        return done(x @ x.T + 1000.0 * xp.eye(1000))

    def standardised() -> Work:
        x = array(1, (1 << 21, 32))
        return lambda: done((x - x.mean(axis=0)) / x.std(axis=0)), corners

    def jacobi() -> Work:
        start = array(1, (2048, 2048))

        def work() -> Any:
            x = start.copy()
            for _ in range(SWEEPS):
                x[1:-1, 1:-1] = 0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])
                x = done(x)
            return x

        return work, corners

    def running() -> Work:
        m = array(1, (50, 100))

        def work() -> Any:
            t = xp.zeros(100)
            for k in range(50):
                t = t + m[k]
            return done(t)

        return work, total

    return {
        "outer": outer, "tensordot": tensordot, "transposed": transposed, "taken": taken, "rows": rows,
        "by mask": lambda: assigning(lambda y: y > 0.25),
        "by index": lambda: assigning(lambda y: places),
        "by slice": lambda: assigning(lambda y: slice(None, None, 3)),
        "argmax": lambda: _of(array(1, LONG), lambda x: done(xp.argmax(x))),
        "norm": lambda: _of(array(1, LONG), lambda x: done(xp.linalg.norm(x))),
        "cholesky": lambda: solving(xp.linalg.cholesky),
        "solve": lambda: solving(lambda a: xp.linalg.solve(a, a[0])),
        "inv": lambda: solving(xp.linalg.inv),
        "eigh": lambda: solving(lambda a: xp.linalg.eigh(a)[0]),
        "standardised": standardised, "jacobi": jacobi, "running": running,
    }  # fmt: skip


def _of(x: Any, function: Callable[[Any], Any]) -> Work:
    return lambda: function(x), float
