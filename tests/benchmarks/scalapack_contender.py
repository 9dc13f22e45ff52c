"""ScaLAPACK's pdgemm, under the system's `mpirun -n 2`, one BLAS thread each: a contender (see `turns`).

scalapack_contender.py FOLDER pdgemm
"""

from __future__ import annotations

import ctypes
import ctypes.util
from ctypes import byref, c_char_p, c_double, c_int
from typing import Any

from turns import Answer, Work, np, serve, vector  # NumPy after its threads

SIDE, BLOCK = 4096, 256
LIBRARY = "libscalapack-openmpi.so.2.2"


class Grid:
    """Two processes side by side: each has all rows of every other block of columns."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(LIBRARY, mode=ctypes.RTLD_GLOBAL)
        self.me, self.count = c_int(), c_int()
        self.library.Cblacs_pinfo(byref(self.me), byref(self.count))
        self.context = c_int()
        self.library.Cblacs_get(-1, 0, byref(self.context))
        self.library.Cblacs_gridinit(byref(self.context), c_char_p(b"R"), 1, self.count.value)

    def barrier(self) -> None:
        """All are here."""
        self.library.Cblacs_barrier(self.context, c_char_p(b"A"))

    def slowest(self, seconds: float) -> float:
        """The largest of all."""
        value, none = c_double(seconds), c_int(-1)
        self.library.Cdgamx2d(
            self.context, c_char_p(b"A"), c_char_p(b" "), 1, 1, byref(value), 1, byref(none), byref(none), -1, -1, -1
        )
        return value.value

    def matrix(self, seed: int | None) -> tuple[np.ndarray, Any]:
        """This process's blocks of columns, and their descriptor."""
        mine = [k for k in range(SIDE) if k // BLOCK % self.count.value == self.me.value]
        local = np.zeros((SIDE, len(mine)), order="F")
        if seed is not None:
            local[...] = vector(seed, SIDE * SIDE).reshape(SIDE, SIDE)[:, mine]
        described, failed = (c_int * 9)(), c_int()
        zero, side, block = c_int(0), c_int(SIDE), c_int(BLOCK)
        self.library.descinit_(
            described, byref(side), byref(side), byref(block), byref(block), byref(zero), byref(zero),
            byref(self.context), byref(side), byref(failed),
        )  # fmt: skip
        assert failed.value == 0
        return local, described


def product(grid: Grid) -> Work:
    """C = A B."""
    (a, in_a), (b, in_b), (c, in_c) = (grid.matrix(seed) for seed in (1, 2, None))
    one, zero, first, side = c_double(1), c_double(0), c_int(1), c_int(SIDE)

    def work() -> np.ndarray:
        grid.library.pdgemm_(
            c_char_p(b"N"), c_char_p(b"N"), byref(side), byref(side), byref(side), byref(one),
            a.ctypes, byref(first), byref(first), in_a, b.ctypes, byref(first), byref(first), in_b,
            byref(zero), c.ctypes, byref(first), byref(first), in_c,
        )  # fmt: skip
        return c

    def answer(c: np.ndarray) -> Answer:
        mine = [k for k in range(SIDE) if k // BLOCK % grid.count.value == grid.me.value]
        own = sum(float(c[::97, mine.index(k)].sum()) for k in range(0, SIDE, 89) if k in mine)
        value = c_double(own)
        grid.library.Cdgsum2d(grid.context, c_char_p(b"A"), c_char_p(b" "), 1, 1, byref(value), 1, -1, -1)
        return value.value

    return work, answer


if __name__ == "__main__":
    grid = Grid()
    serve({"product": lambda: product(grid)}, grid.barrier, grid.slowest, grid.me.value == 0)
    grid.library.Cblacs_exit(0)
