"""What arrays have as methods: functions of the namespace, and NumPy's protocols."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bsp.arrays import namespace
from bsp.arrays.array import Array, _takes, wrap
from bsp.arrays.functions import build, contraction, interchange, manipulation, reductions, ufuncs
from bsp.arrays.planning import elementwise as ew
from bsp.arrays.views import view


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Array, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    method.__name__ = method.__qualname__ = function.__name__
    method.__doc__ = function.__doc__
    return method


for _name in (
    "all", "any", "argmax", "argmin", "clip", "cumprod", "cumsum", "diagonal", "dot", "max", "mean", "min", "prod",
    "ravel", "repeat", "round", "squeeze", "std", "sum", "swapaxes", "trace", "var", "astype", "copy", "rechunk",
    "argsort", "searchsorted", "take", "nonzero",
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


def _array_ufunc(self: Array, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    if not all(_takes(each) for each in inputs):
        return NotImplemented
    if "out" in kwargs and isinstance(kwargs["out"], tuple) and ufunc.nout == 1:
        (kwargs["out"],) = kwargs["out"]
    if method == "__call__" and ufunc in (np.matmul, np.vecdot):
        return _product(ufunc, *inputs, **kwargs)
    if ufunc.signature is not None:
        return NotImplemented
    if method == "__call__":
        return ufuncs.called(ufunc, *inputs, **kwargs)
    if method == "reduce":
        return _ufunc_reduce(ufunc, *inputs, **kwargs)
    if method == "accumulate" and ufunc in (np.add, np.multiply):
        plain = reductions.cumsum if ufunc is np.add else reductions.cumprod
        return plain(inputs[0], axis=kwargs.get("axis", 0), dtype=kwargs.get("dtype"))
    if method == "outer":
        a, b = (wrap(build.strong(build.operand(each))) for each in inputs)
        return ufuncs.called(ufunc, a[(..., *[None] * b.ndim)], b, **kwargs)
    raise TypeError(f"numpy.{ufunc.__name__}.{method} of distributed arrays is not supported")


def _product(ufunc: np.ufunc, a: Any, b: Any, /, out: Any = None, dtype: Any = None, **others: Any) -> Any:
    """matmul and vecdot, as ufuncs take arguments."""
    axis = others.pop("axis", -1) if ufunc is np.vecdot else -1
    if others:
        raise TypeError(f"{ufunc.__name__}: arrays take out, dtype and axis, not {sorted(others)}")
    if dtype is not None:
        a, b = (ufuncs.astype(wrap(build.strong(build.operand(each))), dtype) for each in (a, b))
    found = contraction.matmul(a, b) if ufunc is np.matmul else contraction.vecdot(a, b, axis=axis)
    return ufuncs.stored(found, out, name=ufunc.__name__)


_REDUCTIONS = {
    np.add: reductions.sum, np.multiply: reductions.prod, np.minimum: reductions.min, np.maximum: reductions.max,
    np.logical_and: reductions.all, np.logical_or: reductions.any,
}  # fmt: skip


def _ufunc_reduce(ufunc: np.ufunc, x: Any, axis: Any = 0, **kwargs: Any) -> Any:
    if ufunc not in _REDUCTIONS:
        raise TypeError(f"numpy.{ufunc.__name__}.reduce of distributed arrays is not supported")
    return _REDUCTIONS[ufunc](x, axis=axis, **{k: v for k, v in kwargs.items() if v is not None})


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


def _flatten(self: Array) -> Array:
    """All elements in C order."""
    return wrap(build.reshaped(self._node, (self.size,)))


for _name, _function in {
    "reshape": _reshape, "transpose": _transpose, "flatten": _flatten, "conj": _conj, "conjugate": _conj,
    "to_device": _to_device, "to_local": _to_local, "__array_namespace__": _namespace, "__matmul__": _matmul,
    "__rmatmul__": _rmatmul, "__imatmul__": _imatmul, "__divmod__": _divmod, "__rdivmod__": _rdivmod,
    "__contains__": _contains, "__array_ufunc__": _array_ufunc,
    "__array_function__": _array_function, **interchange.METHODS,
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
