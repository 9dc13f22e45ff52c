"""One contender of the benchmark of kernels: does a kernel when told to, and says how long it took.

    kernels_contender.py FOLDER numpy            one process, two threads
    kernels_contender.py FOLDER ours             under `bsprun -p 2 -n 2`

Kernels may write into their arguments, so each call is of copies.  See `turns`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from turns import (  # NumPy from where its threads are told
    NAME,
    Work,
    np,
    serve_alone,
    serve_processes,
    vector,
)

sys.path.append(str(Path(__file__).parents[1] / "arrays" / "loops"))

import loop_kernels
from kernels import KERNELS

from bsp.arrays.array import Array, persist
from bsp.arrays.loops import parallel

Shaped = Callable[..., Any]  # from a shape to an array, of other numbers at each call


def arguments(name: str, a: Shaped) -> tuple[Any, ...]:
    """Return the arguments of a kernel."""
    made: dict[str, Callable[[], tuple[Any, ...]]] = {
        "gemm": lambda: (1.5, 0.5, a(600, 600), a(600, 600), a(600, 600)),
        "atax": lambda: (a(3000, 3000), a(3000)),
        "bicg": lambda: (a(3000, 3000), a(3000), a(3000), a(3000), a(3000)),
        "gesummv": lambda: (1.5, 0.5, a(2500, 2500), a(2500, 2500), a(2500)),
        "mvt": lambda: (a(3000, 3000), a(3000), a(3000), a(3000), a(3000)),
        "averages": lambda: (a(3000, 3000), a(3000), a(3000) + 1, a(3000)),
        "unit_rows": lambda: (a(3000, 3000),),
        "softmax_of_rows": lambda: (a(3000, 1000), a(3000, 1000)),
        "jacobi_1d": lambda: (5, a(1 << 22), a(1 << 22)),
        "jacobi_2d": lambda: (5, a(2048, 2048), a(2048, 2048)),
        "red_black_2d": lambda: (a(2048, 2048),),
        "steps": lambda: (a(1 << 22), a(1 << 22)),
        "heat_3d": lambda: (a(160, 160, 160), a(160, 160, 160)),
        "fdtd_2d": lambda: (5, a(1500, 1500), a(1500, 1500), a(1500, 1500)),
        "covariance": lambda: (a(2000, 48),),
        "correlation": lambda: (a(3000, 64),),
        "doitgen": lambda: (a(32, 32, 96), a(96, 96)),
        "conv2d": lambda: (a(1502, 1502), np.arange(9.0).reshape(3, 3), a(1500, 1500)),
        "mandelbrot": lambda: (3 * a(800) - 2, 2 * a(800) - 1, 10),
        "forces": lambda: (a(1500, 2), a(1500), a(1500, 2)),
        "distances": lambda: (a(20_000, 8), a(16, 8)),
        "k_means": lambda: (a(20_000, 4), a(8, 4), 3),
        "mlp": lambda: (a(4000, 512), a(512, 512), a(512), a(512, 64)),
        "channel": lambda: (a(1000, 1000), 1.0, 0.5, 0.05, 0.1),
        "clipped_energy": lambda: (a(1 << 22), a(1 << 22), 0.3),
    }
    return made[name]()


def leaves(value: Any) -> list[Any]:
    """Return the arrays and numbers of nested tuples."""
    if isinstance(value, (tuple, list)):
        return [leaf for each in value for leaf in leaves(each)]
    return [] if value is None else [value]


def kernel(name: str, array: Shaped, function: Callable[..., Any]) -> Work:
    """Return one kernel: the call, and the sum of all that it returns and may have written."""
    seeds = iter(range(1, 100))
    given = arguments(name, lambda *shape: array(next(seeds), shape))

    def work() -> list[Any]:
        own = [each.copy() if hasattr(each, "copy") else each for each in given]
        found = leaves((function(*own), own))
        persist(*(each for each in found if isinstance(each, Array)))
        return found

    return work, lambda found: sum(float(each.sum()) if hasattr(each, "sum") else float(each) for each in found)


def of_all(array: Shaped, called: str) -> dict[str, Callable[[], Work]]:
    """Return all kernels.  called : the method of what `parallel` gives that is timed."""

    def made(name: str) -> Callable[[], Work]:
        function = parallel(getattr(loop_kernels, name))
        return lambda: kernel(name, array, getattr(function, called))

    return {name: made(name) for name, _ in KERNELS}


if __name__ == "__main__":
    if NAME == "numpy":
        serve_alone(of_all(lambda seed, shape: vector(seed, int(np.prod(shape))).reshape(shape), "with_numpy"))
    else:
        import bsp
        import bsp.arrays as ba

        proc = bsp.process()

        def dealt(seed: int, shape: tuple[int, ...]) -> Any:
            """Return this process's lines of an array that NumPy's contender has whole."""
            wide, ends = int(np.prod(shape[1:])), [shape[0] * k // proc.nprocs for k in (proc.pid, proc.pid + 1)]
            part = vector(seed, int(np.prod(shape)), ends[0] * wide, ends[1] * wide)
            return ba.from_local(part.reshape(-1, *shape[1:])).persist()

        serve_processes(of_all(dealt, "__call__"))
