"""The count of what the program computes: flops by class of kernel, bytes moved, and memory held.

The predicted time is a sum over the classes.  So an operation counts in one class only, except for the bytes of
large arrays:

- blas1, blas2, blas3: flops of reductions and dot products, of matrix times vector, of matrix times matrix and
  factorisations;
- narrow, triangle: flops of xᴴ·x, and of x·r⁻¹ for a triangle r, for x of few columns, which take several times as
  long as those of large matrices, by a factor that depends on the processor; only declared costs count them;
- elementwise: flops of everything that visits its elements one by one: ufuncs, sorting (comparisons), Fourier
  transforms, random numbers, and products of dtypes that BLAS does not have;
- functions: flops of exponentials, logarithms, trigonometric functions and powers, of which processors with wide
  vectors make several times as many a second as others that add and multiply as fast;
- bytes: read and written by operations that compute nothing: copies, gathers, fills;
  and, beside their flops, by elementwise operations on arrays that no cache holds;
- calls: NumPy operations of any class, for prices that include the overhead of a call.

Memory is counted by the arrays that own it, when they are made and when they and all their views are gone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TypedDict

CACHED = 1 << 17  # elements: a result that is larger comes from memory and goes there


class Flops(TypedDict, total=False):
    """Flops by class."""

    blas1: float
    blas2: float
    blas3: float
    narrow: float
    triangle: float
    elementwise: float
    functions: float


FLOPS = tuple(Flops.__annotations__)


# what stands for the rates that machine files of older versions lack: shares of other classes.  Those of the last two
# were measured for 32 columns with OpenBLAS 0.3 on AVX2; wider vectors make them too short.
ADDED: dict[str, dict[str, float]] = {
    "functions": {"elementwise": 1},
    "narrow": {"blas2": 0.42, "blas3": 0.58},
    "triangle": {"elementwise": 0.21, "blas2": 0.79},
}


@dataclass(frozen=True, slots=True)
class Work:
    """An amount of work.  `upper_bound`: it depended on values, and the largest possible amount was counted."""

    blas1: float = 0
    blas2: float = 0
    blas3: float = 0
    narrow: float = 0
    triangle: float = 0
    elementwise: float = 0
    functions: float = 0
    bytes: float = 0
    calls: int = 0
    upper_bound: bool = False

    @property
    def flops(self) -> float:
        """The flops of all classes together."""
        return float(sum(getattr(self, name) for name in FLOPS))

    def __add__(self, other: Work) -> Work:
        amounts = {name: getattr(self, name) + getattr(other, name) for name in (*FLOPS, "bytes", "calls")}
        return Work(**amounts, upper_bound=self.upper_bound or other.upper_bound)

    def seconds(self, rates: Mapping[str, float]) -> float:
        """Return the predicted time: the sum of amount / rate over the classes.

        rates : flop/s by class; one may be absent if nothing of its class was counted, or if it is one of `ADDED`.
            'bytes' (byte/s) and 'calls' (1/s) cost nothing where absent.
        """
        total = sum(amount / rate_of(rates, name) for name in FLOPS if (amount := getattr(self, name)))
        total += sum(getattr(self, name) / rates[name] for name in ("bytes", "calls") if name in rates)
        return float(total)


def rate_of(rates: Mapping[str, float], kind: str) -> float:
    """Return flop/s of a class of work; for one of `ADDED` that was not measured, a guess from the others."""
    if kind in rates or kind not in ADDED:
        return rates[kind]
    return 1 / sum(share / rates[other] for other, share in ADDED[kind].items())


class HeldMemory:
    """The abstract memory of one process: bytes held now, and the most ever held."""

    __slots__ = ("live_bytes", "peak_bytes")

    def __init__(self) -> None:
        self.live_bytes = 0
        self.peak_bytes = 0


class Block:
    """The memory of one array, charged to an account until the array and all its views, which hold it, are gone."""

    __slots__ = ("_account", "_nbytes")

    def __init__(self, nbytes: int) -> None:
        account = counter.account
        self._account = account
        self._nbytes = nbytes
        live = account.live_bytes + nbytes
        account.live_bytes = live
        if live > account.peak_bytes:
            account.peak_bytes = live

    def __del__(self) -> None:
        self._account.live_bytes -= self._nbytes


class Counter:
    """The work counted since the last `take`, and the account that new arrays are charged to.

    A runner of many processes calls `take` at the end of each turn, and sets `account` to the next process's at its
    beginning.
    """

    __slots__ = ("account", *FLOPS, "bytes", "calls", "upper_bound")

    def __init__(self) -> None:
        self.account = HeldMemory()
        self._clear()

    def _clear(self) -> None:
        """Reset the counts."""
        self.blas1: float = 0
        self.blas2: float = 0
        self.blas3: float = 0
        self.narrow: float = 0
        self.triangle: float = 0
        self.elementwise: float = 0
        self.functions: float = 0
        self.bytes: float = 0
        self.calls = 0
        self.upper_bound = False

    def take(self) -> Work:
        """Return the work since the last take; counting starts again from zero."""
        work = Work(*[getattr(self, field.name) for field in fields(Work)])
        self._clear()
        return work

    @contextlib.contextmanager
    def divided(self, by: int) -> Iterator[None]:
        """Count one part in `by` of the flops and bytes inside the block."""
        amounts = *FLOPS, "bytes"
        before = [getattr(self, name) for name in amounts]
        try:
            yield
        finally:
            for name, amount in zip(amounts, before, strict=True):
                setattr(self, name, amount + (getattr(self, name) - amount) / by)

    @property
    def live_bytes(self) -> int:
        """The bytes of the abstract arrays that the current account holds."""
        return self.account.live_bytes

    @property
    def peak_bytes(self) -> int:
        """The most bytes that the current account ever held."""
        return self.account.peak_bytes

    def flops(self, kernel: str, amount: float) -> None:
        """Count one call of `amount` flops in a class of kernels; raises ValueNeeded if the amount is abstract."""
        setattr(self, kernel, getattr(self, kernel) + float(amount))
        self.calls += 1

    def factoring(self, amount: float, narrow: float) -> None:
        """Count a factorisation or substitution: a share `narrow` of the flops is BLAS-2, the rest BLAS-3."""
        self.blas2 += narrow * amount
        self.blas3 += (1 - narrow) * amount
        self.calls += 1

    def moved(self, nbytes: int) -> None:
        """Count one call that moves so many bytes and computes nothing."""
        self.bytes += nbytes
        self.calls += 1


counter = Counter()
