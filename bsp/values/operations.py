"""Operations that combine values, and the one tree in which reductions combine them.

D3: the result of a reduction is that of one balanced binary tree over ranks 0..n-1.  Level by level,
neighbours 2i and 2i+1 combine; a last one without a neighbour passes up.  Every algorithm of every
collective reproduces that tree, so the choice between them never shows in the bytes of the result.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from bsp.errors import UnknownOperation
from bsp.values.parts import Part, read_part
from bsp.values.payload import PLAIN, as_array, is_abstract


@dataclass(frozen=True)
class Reduction:
    """An associative operation: a ufunc on arrays, a function of two on Python objects.

    identity : the neutral value, None if there is none.
    """

    name: str
    ufunc: np.ufunc | None
    scalar: Callable[[Any, Any], Any]
    identity: Any = None

    @property
    def code(self) -> str:
        """The code of a Python function as text, equal for functions of equal code; "" for operations with names."""
        code = getattr(self.scalar, "__code__", None) if self.ufunc is None else None
        if code is None:
            return ""
        return repr((code.co_code, code.co_names, [value for value in code.co_consts if type(value) in PLAIN]))

    @property
    def elementwise(self) -> bool:
        """True if pieces of an array may be combined separately: for elementwise ufuncs; False for other functions."""
        return self.ufunc is not None and self.ufunc.signature is None

    def __call__(self, a: Any, b: Any, into: np.ndarray | None = None) -> Any:
        """Return `a` combined with `b`; arrays, and NumPy scalars of one type, keep it.

        into : an array for the result, of `a`'s shape and dtype.
        """
        if type(a) in PLAIN:
            return self.scalar(a, b)
        if into is not None and self.elementwise:
            assert self.ufunc is not None
            return self.ufunc(a, b, out=into, casting="unsafe")
        if self.ufunc is not None and (isinstance(a, (np.ndarray, np.generic)) or is_abstract(a)):
            result = self.ufunc(a, b)
            if isinstance(a, np.generic):
                return a.dtype.type(result) if type(b) is type(a) else result
            return (result if a.ndim else as_array(result)).astype(a.dtype, copy=False)  # NumPy makes arrays () scalars
        return self.scalar(a, b)

    def alone(self, value: Any) -> Any:
        """Return the reduction of a single value, in the type that the reduction of several like it would have."""
        if self.ufunc is None:  # a function of the program, which is not called for one value
            return value
        if self.name.startswith("logical_"):
            return KNOWN["logical_or"](value, value)  # the same truth value, as a bool like that of several
        return type(self.scalar(value, value))(value) if type(value) is bool else value

    def accumulate_at(self, target: np.ndarray, where: Any, values: np.ndarray, repeats: bool) -> None:
        """Set target[where] to target[where] op values; with `repeats` each repeated position counts."""
        assert self.ufunc is not None
        # no warnings: this runs on the owner of the memory, which did not make the call; overflow gives inf or wraps
        with np.errstate(all="ignore"):
            if repeats:
                self.ufunc.at(target, where, values)
            else:
                target[where] = self.ufunc(target[where], values)

    def identity_like(self, value: Any) -> Any:
        """Return the neutral value in the type and shape of `value`, or None if the operation has none."""
        if self.identity is None:
            return None
        if is_abstract(value):
            return value.copy()
        if isinstance(value, np.ndarray):
            return np.full(value.shape, self.identity, value.dtype)
        if isinstance(value, np.generic):
            return np.full((), self.identity, value.dtype)[()]
        if isinstance(value, (int, float, complex)):
            return type(self.alone(value))(self.identity)
        return None


def _smaller(a: Any, b: Any) -> Any:
    """Return the smaller of two Python objects; NaN if one is, as of arrays: no order of processes hides it."""
    if type(a) is float and a != a:
        return a
    return b if type(b) is float and b != b else builtins.min(a, b)


def _larger(a: Any, b: Any) -> Any:
    """Return the larger of two Python objects; NaN if one is."""
    if type(a) is float and a != a:
        return a
    return b if type(b) is float and b != b else builtins.max(a, b)


def _plain(result: Any) -> Any:
    """Return what a ufunc makes of two Python numbers as a Python number."""
    return result.item() if isinstance(result, np.generic) else result


KNOWN = {
    "add": Reduction("add", np.add, operator.add, 0),
    "multiply": Reduction("multiply", np.multiply, operator.mul, 1),
    "min": Reduction("min", np.minimum, _smaller),
    "max": Reduction("max", np.maximum, _larger),
    "and": Reduction("and", np.bitwise_and, operator.and_),
    "or": Reduction("or", np.bitwise_or, operator.or_, 0),
    "xor": Reduction("xor", np.bitwise_xor, operator.xor, 0),
    "logical_and": Reduction("logical_and", np.logical_and, lambda a, b: bool(a) and bool(b), True),
    "logical_or": Reduction("logical_or", np.logical_or, lambda a, b: bool(a) or bool(b), False),
}
_NUMBERED = tuple(KNOWN)  # by the byte that stands for an operation in a record
_NUMBERS = {name: bytes([k]) for k, name in enumerate(_NUMBERED)}
_ALIASES = {
    "sum": "add", "+": "add", "prod": "multiply", "mul": "multiply", "*": "multiply",
    "minimum": "min", "maximum": "max", "bitwise_and": "and", "bitwise_or": "or",
    "bitwise_xor": "xor", "&": "and", "|": "or", "^": "xor",
}  # fmt: skip


_FUNCTIONS: tuple[tuple[Callable[..., Any], str], ...] = (  # of whole sequences, and the operations that they mean
    (builtins.sum, "add"), (builtins.min, "min"), (builtins.max, "max"),
    (builtins.any, "logical_or"), (builtins.all, "logical_and"),
    (np.sum, "add"), (np.prod, "multiply"), (np.min, "min"), (np.amin, "min"), (np.max, "max"), (np.amax, "max"),
    (np.any, "logical_or"), (np.all, "logical_and"),
)  # fmt: skip


@lru_cache(maxsize=256)
def keeps(name: str, dtype: np.dtype[Any]) -> bool:
    """Return whether a known operation on items of this dtype gives items that can be stored as such."""
    ufunc = KNOWN[name].ufunc
    assert ufunc is not None
    sample = np.empty(0, dtype)  # the ufunc on no items gives the dtype of its result
    try:
        result = ufunc(sample, sample)
    except TypeError:
        return False
    return dtype.kind not in "SUV" and np.can_cast(result.dtype, dtype, "same_kind")


@lru_cache(maxsize=256)
def wider_result(ufunc: np.ufunc, dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """Return the dtype of what a ufunc makes of two items of `dtype` if `dtype` cannot hold it, else None."""
    try:
        result = ufunc.resolve_dtypes((dtype, dtype, None))[-1]
    except TypeError:  # the values do not combine, which is found where they are combined
        return None
    casting: Literal["safe", "same_kind"] = (
        "safe" if dtype.kind in "SU" else "same_kind"
    )  # texts may be cut by the latter
    return None if result.hasobject or np.can_cast(result, dtype, casting) else result


def number_of(name: str) -> bytes:
    """Return the byte that stands for a known operation in the record of a put."""
    return _NUMBERS[name]


def combination(data: bytes) -> tuple[str, Part]:
    """Return the operation and the part in the data of a record; raises ValueError if they are damaged."""
    if not data or data[0] >= len(_NUMBERED):
        raise ValueError("a record has an unknown operation")
    return _NUMBERED[data[0]], read_part(data[1:])


def operation(op: str | np.ufunc | Callable[[Any, Any], Any]) -> Reduction:
    """Return the operation for a name, a ufunc of two operands, or a function of two values (for collectives only).

    Raises UnknownOperation for anything else.
    """
    if isinstance(op, str):
        named = KNOWN.get(_ALIASES.get(op, op))
        if named is None:
            raise UnknownOperation(f"op {op!r} is not one of {', '.join(KNOWN)}")
        return named
    for function, name in _FUNCTIONS:
        if op is function:
            return KNOWN[name]
    if isinstance(op, np.ufunc):
        if op.nin != 2 or op.nout != 1:
            raise UnknownOperation(
                f"op {op.__name__} takes {op.nin} operands and gives {op.nout}; an op takes 2 and gives 1"
            )
        return KNOWN.get(_ALIASES.get(op.__name__, op.__name__)) or Reduction(
            op.__name__, op, lambda a, b: _plain(op(a, b))
        )
    if not callable(op):
        raise UnknownOperation(f"op is a name, a ufunc or a function of two values, not {type(op).__name__}")
    return Reduction(getattr(op, "__qualname__", "function"), None, op)


def combine(values: Sequence[Any], op: Reduction, into: np.ndarray | None = None) -> Any:
    """Return all values combined in the balanced binary tree of D3.  Work: len(values) - 1 operations.

    into : an array for the result of several arrays.
    """
    level = values
    while len(level) > 2:
        paired = [op(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
        level = [*paired, *level[len(paired) * 2 :]]
    return op(level[0], level[1], into) if len(level) == 2 else op.alone(level[0])


Node = tuple[int, int]  # (k, i): the values i·2^k ... (i + 1)·2^k - 1, as far as there are so many


def nodes_of(start: int, stop: int, n: int) -> list[Node]:
    """Return the fewest nodes of D3's tree over n values that hold the values start..stop-1, in order."""
    found = []
    while start < stop:
        k = (n - 1).bit_length() if start == 0 else (start & -start).bit_length() - 1
        while start + (1 << k) > stop and stop < n:
            k -= 1
        found.append((k, start >> k))
        start += 1 << k
    return found


def combine_nodes(nodes: dict[Node, Any], n: int, op: Reduction) -> dict[Node, Any]:
    """Return the values of D3's tree over n values that follow from some of its nodes: `nodes_of` what they hold.

    A single value is not changed, as it is by `combine`.
    """
    held = dict(nodes)
    for level in range((n - 1).bit_length()):
        for k, i in sorted(held):
            if k != level:
                continue
            if i + 1 << k >= n and i % 2 == 0:
                held[k + 1, i // 2] = held.pop((k, i))  # without a neighbour it passes up
            elif i % 2 == 0 and (k, i + 1) in held:
                held[k + 1, i // 2] = op(held.pop((k, i)), held.pop((k, i + 1)))
    return {node: held[node] for node in sorted(held, key=lambda node: node[1] << node[0])}


class Prefixes:
    """The first values of a sequence combined, for any number of them: the bytes of `combine(values[:count], op)`.

    The tree over `count` values is its aligned blocks of 2^j values, largest first, folded from the right.  Blocks are
    combined once: all prefixes of n values take O(n log n) operations.
    """

    def __init__(self, values: Sequence[Any], op: Reduction) -> None:
        self._op = op
        self._levels = [list(values)]  # of level j: blocks of 2^j values
        while len(self._levels[-1]) > 1:
            below = self._levels[-1]
            self._levels.append([op(below[i], below[i + 1]) for i in range(0, len(below) - 1, 2)])

    def first(self, count: int) -> Any:
        """Return values[:count] combined, for at least one; a single value as it is."""
        blocks, start = [], 0
        for level in range(count.bit_length() - 1, -1, -1):
            if count >> level & 1:
                blocks.append(self._levels[level][start >> level])
                start += 1 << level
        result = blocks.pop() if count > 1 else self._op.alone(blocks.pop())
        while blocks:
            result = self._op(blocks.pop(), result)
        return result
