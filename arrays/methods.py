"""What arrays have as methods: functions of the namespace, and NumPy's protocols."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

from bsp.arrays import build, namespace
from bsp.arrays import in_place as changing
from bsp.arrays.api import contraction, interchange, manipulation, reductions, ufuncs
from bsp.arrays.array import Array, _takes, wrap
from bsp.arrays.expressions.element_types import element_type
from bsp.arrays.files import formats
from bsp.arrays.kernels import elementwise as ew
from bsp.arrays.selection import masks, ufunc_methods
from bsp.arrays.views import view


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the namespace as a method: it takes NumPy's arguments, as all there do."""

    def method(self: Array, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    method.__name__ = method.__qualname__ = function.__name__
    method.__doc__ = function.__doc__
    return method


for _name in (
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "choose", "clip", "copy", "cumprod", "cumsum",
    "diagonal", "dot", "max", "mean", "min", "nonzero", "prod", "ravel", "rechunk", "repeat", "round", "searchsorted",
    "squeeze", "std", "sum", "swapaxes", "take", "trace", "var",
):  # fmt: skip
    setattr(Array, _name, _method(namespace.FUNCTIONS[_name]))


def _reshape(self: Array, *shape: Any, order: str = "C", copy: bool | None = None) -> Array:
    """reshape, of a shape or of its lengths."""
    return manipulation.reshape(self, shape[0] if len(shape) == 1 else shape, order=order, copy=copy)


def _transpose(self: Array, *axes: Any) -> Array:
    """Axes in another order."""
    if len(axes) == 1 and not isinstance(axes[0], (int, np.integer)):
        return manipulation.permute_dims(self, axes[0])
    return manipulation.permute_dims(self, axes or None)


def _t(self: Array) -> Array:
    """The transpose: a view."""
    node = self._node
    return view(self, build.permuted(node, tuple(reversed(range(len(node.kind.shape))))))


def _namespace(self: Array, /, *, api_version: str | None = None) -> Any:
    """The module that has the standard's functions."""
    import bsp.arrays

    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        raise ValueError(f"api_version={api_version!r}: arrays follow 2024.12")
    return bsp.arrays


def _to_device(self: Array, device: Any, /, *, stream: Any = None) -> Array:
    """Itself: there is one device."""
    if device != "cpu" or stream is not None:
        raise ValueError(f"to_device({device!r}): arrays live on 'cpu', in the memory of processes")
    return self


def _matmul(self: Array, other: Any) -> Any:
    return contraction.matmul(self, other) if _takes(other) else NotImplemented


def _rmatmul(self: Array, other: Any) -> Any:
    return contraction.matmul(other, self) if _takes(other) else NotImplemented


def _imatmul(self: Array, other: Any) -> Any:
    found = contraction.matmul(self, other)
    if found.shape != self.shape:
        raise ValueError(f"@= of shapes {self.shape} and {np.shape(other)} gives {found.shape}")
    return ufuncs.stored(found, self, name="matmul")


def _rdivmod(self: Array, other: Any) -> Any:
    return ufuncs.called(np.divmod, other, self) if _takes(other) else NotImplemented


def _contains(self: Array, value: Any) -> bool:
    """Whether some element equals a value.  A collective."""
    return bool(reductions.any(self == value))


def _divmod(self: Array, other: Any) -> Any:
    return ufuncs.called(np.divmod, self, other) if _takes(other) else NotImplemented


def _to_local(self: Array) -> dict[tuple[int, ...], np.ndarray]:
    """This process's blocks by their coordinates, computed if need be (a collective then); read-only views."""
    self.persist()
    node = self._node
    found = {}
    for at, block in node.value.items():
        found[at] = view = block.view() if isinstance(block, np.ndarray) else block
        if isinstance(block, np.ndarray):
            view.flags.writeable = False
    return found


def _array_function(self: Array, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    ours = namespace.OF_NUMPY.get(function)
    if ours is None:
        raise TypeError(
            f"numpy.{getattr(function, '__name__', function)} has no distributed form; "
            "x.compute() brings an array to every process, where NumPy takes it"
        )
    return ours(*args, **kwargs)


def _conj(self: Array) -> Array:
    """Complex conjugates; of real numbers the array itself, as NumPy has it."""
    if self.dtype.kind != "c":
        return self
    return wrap(build.apply(ew.of_ufunc(np.conjugate), self._node))


def _flatten(self: Array, order: str = "C") -> Array:
    """All elements in C order, or Fortran's."""
    if order == "F":
        self = manipulation.permute_dims(self)
    return manipulation.reshape(self, (self.size,), copy=True)


def _astype(
    self: Array, dtype: Any, order: str = "K", casting: Any = "unsafe", subok: bool = True, copy: bool = True,
    *, device: Any = None,
) -> Array:  # fmt: skip
    """As another dtype; TypeError where `casting` does not allow it."""
    found = element_type(dtype, "astype")
    if not np.can_cast(self.dtype, found, casting):
        raise TypeError(f"Cannot cast array data from {self.dtype!r} to {found!r} according to the rule '{casting}'")
    return ufuncs.astype(self, found, copy=copy, device=device)


def _view(self: Array, dtype: Any = None, type: Any = None) -> Array:
    """A view: the same bytes as elements of another dtype of the same length."""
    if type is not None or (isinstance(dtype, builtins.type) and issubclass(dtype, np.ndarray)):
        raise TypeError("view: arrays of bsp.arrays have no other type; view(dtype) takes a dtype")
    if dtype is None:
        return view(self, self._node)
    found = element_type(dtype, "view")
    if found.itemsize != self.itemsize:
        raise TypeError(
            f"view: {self.dtype} has {self.itemsize} bytes, {found} {found.itemsize}: only dtypes of one length are "
            "views of each other here; of complex numbers .real and .imag are views"
        )
    node = build.strong(self._node)
    return view(self, node if found == self.dtype else build.apply(ew.bits_as(found), node))


def _compress(self: Array, condition: Any, axis: int | None = None, out: Any = None) -> Array:
    """The slices of an axis where a condition holds; None: of all elements in C order."""
    return masks.compress(condition, self, axis=axis, out=out)


def _tobytes(self: Array, order: str = "C") -> bytes:
    """All elements' bytes.  Collective: brings the whole array to every process; refused above a gigabyte."""
    found: bytes = self._gathered("tobytes").tobytes(order)
    return found


def _round_number(self: Array, ndigits: int | None = None) -> Any:
    """`round` of an array of no axes: rounded to so many digits; of none, Python's integer (a collective)."""
    if self.ndim:
        raise TypeError("type Array doesn't define __round__ method; numpy.round takes arrays of any shape")
    return round(self.item()) if ndigits is None else ufuncs.round(self, ndigits)


for _name, _function in {
    "reshape": _reshape, "transpose": _transpose, "flatten": _flatten, "astype": _astype, "compress": _compress,
    "tobytes": _tobytes, "__round__": _round_number, "view": _view, "conj": _conj, "conjugate": _conj,
    "to_device": _to_device, "to_local": _to_local, "__array_namespace__": _namespace, "__matmul__": _matmul,
    "__rmatmul__": _rmatmul, "__imatmul__": _imatmul, "__divmod__": _divmod, "__rdivmod__": _rdivmod,
    "__contains__": _contains, "__array_ufunc__": ufunc_methods.array_ufunc,
    "__array_function__": _array_function, **interchange.METHODS, **changing.METHODS, **formats.METHODS,
}.items():  # fmt: skip
    setattr(Array, _name, _function)


def _assigned(part: Callable[[Array], Array]) -> Callable[[Array, Any], None]:
    def setter(self: Array, value: Any) -> None:
        part(self)[...] = value

    return setter


for _name, _getter in {"T": _t, "mT": manipulation.matrix_transpose}.items():
    setattr(Array, _name, property(_getter))
for _name, _getter in {"real": ufuncs.real, "imag": ufuncs.imag}.items():
    setattr(Array, _name, property(_getter, _assigned(_getter)))
for _name, _property in changing.PROPERTIES.items():
    setattr(Array, _name, _property)
