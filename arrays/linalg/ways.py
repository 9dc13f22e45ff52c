"""The ways in which a function of linear algebra runs, decided by shapes, layouts and p alone.

- *whole*: a matrix of at most REPLICATED_SIZE elements, a replicated one, one whose factors take few flops, or p = 1:
  it is brought to every process, and each element calls NumPy or LAPACK once for all of its processes.
- *stacks* (..., m, n): each matrix is in one piece on one process, the leading axes are dealt; NumPy takes each block.
- *tall* (m >= n·p, or n² small): TSQR; svd, lstsq, pinv, matrix_rank and cond follow from its R, which every process
  has.  Wide matrices are handled through their transposes.
- *large*: LU, Cholesky, Householder QR by panels (see `panels`).
- Functions without a distributed form (eig, eigh, svd of a large square matrix) gather the matrix on every process if
  it has at most 4096² elements, with a GatherWarning above 16 MB; for more elements they raise GatherRefused.

Functions that can raise LinAlgError because of values are procedures, computed when they are called, so that the error
is raised at this line, on every process.  Matrix products, norms by elements, diagonal, trace and cross are lazy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from bsp.abstract import table
from bsp.arrays import build
from bsp.arrays.api import ufuncs
from bsp.arrays.api.creation import asarray
from bsp.arrays.api.manipulation import matrix_transpose
from bsp.arrays.array import Array, wrap
from bsp.arrays.errors import GatherRefused
from bsp.arrays.execution.world import world
from bsp.arrays.expressions import layout as layouts
from bsp.arrays.expressions.graph import LEAF, Blocks, DType, leaf
from bsp.arrays.expressions.layout import Axis, automatic, layout_of
from bsp.arrays.gathering import SILENT_BYTES, warned
from bsp.arrays.linalg import row_blocks
from bsp.values.payload import as_array

_UFUNCS: dict[str, Callable[..., Array]] = ufuncs.FUNCTIONS

# Flops, for each element of REPLICATED_SIZE, that one element does no later than p do by panels, which are narrow and
# wait for each other; with more processes panels are narrower, and more messages spread each: 2n³/3 of an LU with
# n = 770 (p = 2), 1260 (64), 2370 (512).  `FEW` is for one process, as many again for each MANY.
FEW, MANY = 1 << 14, 16
GATHER_SIZE = 4096 * 4096  # most elements of a matrix that functions without a distributed form gather


def matrices(x: Any, name: str, square: bool = False) -> Array:
    """Return `x` as an array of matrices, of any dtype.  Raises NumPy's LinAlgError for other shapes."""
    array = wrap(build.strong(asarray(x)._node))
    if array.ndim < 2:
        raise LinAlgError(f"{name}: {array.ndim}-dimensional array given. Array must be at least two-dimensional")
    if square and array.shape[-1] != array.shape[-2]:
        raise LinAlgError(f"{name}: last 2 dimensions of the array must be square, not {array.shape[-2:]}")
    return array


def matrix_of(x: Any, name: str, square: bool = False) -> Array:
    """Return `x` as an array of matrices with the dtype that NumPy's linalg computes in: integers become float64."""
    return inexact(matrices(x, name, square), name)


def inexact(array: Array, name: str) -> Array:
    """Return an array in a dtype of NumPy's linalg, in native byte order; raise NumPy's TypeError if there is none."""
    if array.dtype.kind in "iub":
        return wrap(build.cast(array._node, np.dtype(np.float64)))
    if array.dtype.char not in "fdFD":
        raise TypeError(f"{name}: array type {array.dtype} is unsupported in linalg")
    if not array.dtype.isnative:  # LAPACK would write into a copy, and the result be lost
        return wrap(build.cast(array._node, array.dtype.newbyteorder("=")))
    return array


def is_whole(array: Array, flops: float = np.inf) -> bool:
    """Return True if an element has the function of NumPy done on all of the matrix, for all of its processes.

    That is so if it is small, replicated, of few flops, or p = 1.
    flops : of a real matrix, for a function that has a distributed form: a few do not repay its supersteps, in which
        all processes of an element have their turns.
    """
    node, here = array._node, world()
    if array.size <= layouts.REPLICATED_SIZE or here.nprocs == 1:
        return True
    few = FEW * layouts.REPLICATED_SIZE * here.machine.sharing(here.nprocs) * (1 + here.nprocs / MANY)
    if array.ndim == 2 and table.complexity(array.dtype) * flops <= few:
        return True
    return node.op is LEAF and node.layout is not None and node.layout.replicated


def values_of(array: Array) -> Any:
    """Return all values on this process.  Collective: gathers them, with no superstep for a replicated array."""
    node = array._node
    if node.op is LEAF and node.layout is not None and node.layout.replicated and node.layout.blocks == 1:
        (found,) = node.value.values()
        return found
    return array.compute()


def brought(array: Array, name: str, advice: str, result: int = 0) -> Any:
    """Gather a matrix whose function has no distributed form.  Collective: warns or refuses if it is large.

    result : the number of elements of the result, if it has more than the matrix.
    """
    p, size = world().nprocs, max(array.size, result)
    if size > GATHER_SIZE:
        raise GatherRefused(
            f"{name} of shape {array.shape} has no distributed form; in one piece it takes "
            f"{size * array.itemsize / 1e9:.3g} GB on each of {p} processes; {advice}"
        )
    if size * array.itemsize > SILENT_BYTES:
        warned(
            f"{name} of shape {array.shape} takes {size * array.itemsize / 1e6:.3g} MB on each of {p} processes, "
            f"and each element does all of the work; {advice}"
        )
    return values_of(array)


def given(found: Any) -> Array:
    """Return an array of a result that every process has alike, and that nobody changes."""
    return wrap(build.from_own(as_array(found)))


def everywhere(name: str, function: Callable[..., Any], *arrays: Array) -> tuple[Array, ...]:
    """Call a NumPy function on every element.  The only words are those that gather the arrays."""
    values = [values_of(each) for each in arrays]
    world().passes(sum(each.size for each in values), values[0].dtype)  # LAPACK works on a copy
    return once(name, function, *values)


def once(name: str, function: Callable[..., Any], *values: Any) -> tuple[Array, ...]:
    """Call a NumPy function on values that all processes have, once an element.  The name tells functions apart."""
    return tuple(given(each) for each in world().once(name, lambda: as_tuple(function(*values)), values))


def as_tuple(found: Any) -> tuple[Any, ...]:
    """Return what NumPy's function gave as a tuple of arrays, of one if it gave one."""
    return tuple(found) if isinstance(found, tuple) else (found,)


def stacks(function: Callable[..., Any], arrays: Sequence[Array], cores: Sequence[int]) -> tuple[Array, ...]:
    """Call a NumPy function on stacks of matrices: leading axes broadcast and dealt, the core of each in one piece.

    cores : for each array, the number of its last axes that make its core.
    Cost: one total exchange where matrices are cut or leading axes dealt differently; one superstep more, one word, in
    which processes agree whether some matrix was singular.
    """
    here = world()
    outer = np.broadcast_shapes(*[each.shape[: each.ndim - core] for each, core in zip(arrays, cores, strict=True)])
    free = len(outer)
    first = arrays[0].layout
    if arrays[0].shape[:free] == outer and not first.replicated and first.table is None:
        lead = first.axes[:free]
    else:
        lead = automatic(outer, here.nprocs, False).axes
    if prod(axis.deal for axis in lead) == 1 and here.nprocs > 1:
        lead = automatic(outer, here.nprocs, False).axes
    placed = []
    owns = [array.shape[array.ndim - core :] for array, core in zip(arrays, cores, strict=True)]
    for array, own in zip(arrays, owns, strict=True):
        spread = wrap(build.broadcast(array._node, outer + own))
        placed.append(row_blocks.settled(spread, layout_of((*lead, *[Axis(length) for length in own]))))
    samples = as_tuple(function(*[here.empty((0, *own), array.dtype) for array, own in zip(arrays, owns, strict=True)]))
    made: list[Blocks] = [{} for _ in samples]
    said = ""
    for at in layout_of(lead).mine(here.pid):
        blocks = [found[at + (0,) * core] for found, core in zip(placed, cores, strict=True)]
        try:
            for k, each in enumerate(as_tuple(function(*blocks))):
                made[k][at + (0,) * (samples[k].ndim - 1)] = each
        except LinAlgError as error:
            said = str(error)
    told = [text for text in here.private.allgather(said) if text]
    if told:
        raise LinAlgError(told[0])
    results = []
    for sample, own_blocks in zip(samples, made, strict=True):
        layout = layout_of((*lead, *[Axis(length) for length in sample.shape[1:]]))
        results.append(wrap(leaf((*outer, *sample.shape[1:]), sample.dtype, layout, own_blocks)))
    return tuple(results)


def adjoint(array: Array) -> Array:
    """Return the conjugate transposes of matrices.  Lazy."""
    turned = matrix_transpose(array)
    return _UFUNCS["conjugate"](turned) if array.dtype.kind == "c" else turned


def real_of(dtype: DType) -> DType:
    """Return the dtype of absolute values."""
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype
