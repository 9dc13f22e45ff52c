"""The computing speed of one element: flop/s by class of work, the median of many short measurements.

The median, not the best: jobs take their time from the machine as it is, whose processors may be slowed by heat, by
other work, or by a host that gives them less, for some of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter

import numpy as np

from bsp.abstract.table import FEW, FUNCTIONS

_COPIED = 32 << 20  # bytes: far beyond the caches


def kernels() -> dict[str, tuple[Callable[[], object], float]]:
    """Return for each class of work a function to time and its flops; for bandwidth its bytes."""
    rng = np.random.default_rng(0)
    x, y, z = rng.random(8192), rng.random(8192), np.empty(8192)  # 192 KiB: in cache
    a, b, c = rng.random((512, 512)), rng.random((256, 256)), np.empty((256, 256))
    big = np.ones(_COPIED // 8)
    v = x[:512].copy()
    tall, one = rng.random((1024, FEW)), np.eye(FEW, order="F")  # 256 KiB, which division by 1 leaves as they are

    def elementwise() -> None:
        np.multiply(x, y, out=z)
        np.add(z, x, out=z)

    def divided() -> None:
        from scipy.linalg.blas import dtrsm  # here, where the call to warm up imports it: that takes long

        dtrsm(1.0, one, tall.T, trans_a=1, overwrite_b=1)

    def functions() -> None:
        np.exp(x, out=z)
        np.log(z, out=z)

    return {
        "blas1": (lambda: x @ y, 2.0 * x.size),
        "blas2": (lambda: a @ v, 2.0 * a.size),
        "blas3": (lambda: np.matmul(b, b, out=c), 2.0 * 256**3),
        "narrow": (lambda: tall.T @ tall, tall.size * float(FEW)),
        "triangle": (divided, tall.size * float(FEW)),
        "elementwise": (elementwise, 2.0 * x.size),
        "functions": (functions, (FUNCTIONS["exp"] + FUNCTIONS["log"]) * x.size),
        "bandwidth": (lambda: big + 1.0, 2.0 * _COPIED),  # as in NumPy expressions: the result is in new memory
    }


def rate(run: Callable[[], object], amount: float, seconds: float = 0.02) -> float:
    """Return the median rate of many runs within `seconds`; one run has this `amount` of work."""
    run()
    times: list[float] = []
    repeat, end = 1, perf_counter() + seconds
    while not times or perf_counter() < end:
        began = perf_counter()
        for _ in range(repeat):
            run()
        times.append((perf_counter() - began) / repeat)
        repeat = max(1, int(2e-4 / min(times)))
    return amount / median(times)


def rates(seconds: float = 0.02) -> dict[str, float]:
    """Return flop/s by class of work, and bandwidth in bytes/s, of this core under its present load."""
    return {name: rate(run, amount, seconds) for name, (run, amount) in kernels().items()}


def quick_rate() -> float:
    """Return r, the rate of BLAS-1 work in cache, measured for a tenth of a second."""
    return rate(*kernels()["blas1"], 0.1)
