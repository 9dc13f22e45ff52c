"""Linear maps that each process carries out on its own share of a vector, by a function of its own.

block = A.local()[:, A.row_bounds[pid] : A.row_bounds[pid + 1]]
M = sparse.LocalOperator(A, scipy.sparse.linalg.splu(block.tocsc()).solve)
y = M @ x                                # lazy, part of the same plan as all other operations; moves nothing
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bsp.arrays.api.creation import asarray
from bsp.arrays.array import Array, wrap
from bsp.arrays.errors import ArrayError
from bsp.arrays.sparse import operations as do
from bsp.arrays.sparse.array import SparseArray
from bsp.arrays.sparse.pattern import Pattern
from bsp.arrays.typing import ArrayLike


class HeldPattern(Pattern):
    """A pattern with a function of this process, which a plan's kernels get in place of the pattern."""

    def __init__(self, pattern: Pattern, call: Callable[[Any], Any]) -> None:
        super().__init__(pattern.outline, pattern.indptr, pattern.indices, pattern.pid)
        self.pattern, self.call = pattern, call

    def __reduce__(self) -> Any:
        return HeldPattern, (self.pattern, self.call)


OWN_CALL = do.SparseWork("own rows mapped", ("rows",), "rows", "local", lambda held, x: held.call(x))


class LocalOperator:
    """A linear map of vectors that are dealt as the rows of a square sparse array: each process maps its own share.

    call : returns a process's share of the result from that of a vector (n_s,) or matrix (n_s, k); it must be linear,
        and depend on nothing but its argument.
    Cost: W as a product with the array, H = 0.
    """

    def __init__(self, like: SparseArray, call: Callable[[Any], Any]) -> None:
        if like.shape[0] != like.shape[1]:
            raise ArrayError(f"LocalOperator: an array of shape {like.shape} is not square")
        self.shape, self.dtype = like.shape, like.dtype
        self._held = HeldPattern(like.pattern, call)

    def __matmul__(self, other: ArrayLike) -> Array:
        """Return the map of a vector, or of the columns of a matrix.  Lazy."""
        x = asarray(other)
        if x.ndim not in (1, 2) or x.shape[0] != self.shape[1]:
            raise ArrayError(f"@: shapes {self.shape} and {x.shape} do not fit")
        dtype, wide = np.result_type(self.dtype, x.dtype), x.shape[1] if x.ndim == 2 else None
        return wrap(do.applied(OWN_CALL, self._held, [x._node], dtype, wide))
