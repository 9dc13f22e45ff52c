"""An abstract array has exactly the shape and dtype, and raises exactly the kind of error, of NumPy's."""

from __future__ import annotations

import copy
import operator
import pickle
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import scipy.linalg
from abstract_oracle import abstract, agree, outcome, same
from hypothesis import given
from hypothesis import strategies as st
from thinning import examples

import bsp
from bsp.abstract import AbstractArray, NotCounted, counter
from bsp.errors import ValueNeeded

DTYPES = [np.dtype(code) for code in "?bBhHiIlLefdFD"]
UFUNCS = sorted(
    {f for f in vars(np).values() if isinstance(f, np.ufunc) and f.signature is None and f.__name__ != "isnat"},
    key=lambda f: f.__name__,
)
NUMBERS: list[Any] = [True, 0, 1, -1, 2, 127, 128, 300, -129, 70_000, 2**40, 0.5, 2.0, 1j, np.float32(2), np.int8(3)]
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
dtypes = st.sampled_from(DTYPES)


@st.composite
def arrays(draw: Any, shape: Any = shapes, dtype: Any = dtypes) -> np.ndarray:
    """Ones: what they hold does not matter."""
    return np.ones(draw(shape), draw(dtype))


# --------------------------------------------------------------------------------------- ufuncs


@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda f: f.__name__)
@examples(25)
@given(data=st.data())
def test_ufuncs_promote_and_broadcast_like_numpy(ufunc: np.ufunc, data: st.DataObject) -> None:
    agree(ufunc, *[data.draw(arrays()) for _ in range(ufunc.nin)])


@pytest.mark.parametrize(
    "op", [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
           operator.lt, operator.eq, operator.and_, operator.lshift, divmod]
)  # fmt: skip
@examples(60)
@given(a=arrays(), number=st.sampled_from(NUMBERS), reflected=st.booleans())
def test_numbers_are_weak_or_strong_like_numpys(op: Any, a: np.ndarray, number: Any, reflected: bool) -> None:
    if op is operator.pow and not a.size:
        return  # of nothing, even a negative power of an integer is none
    agree(op, *((number, a) if reflected else (a, number)))
    real = outcome(op, *((number, a) if reflected else (a, number)))
    same(real, outcome(op, *((number, abstract(a)) if reflected else (abstract(a), number))))


@given(a=arrays(), b=arrays())
def test_real_arrays_mix_with_abstract_ones(a: np.ndarray, b: np.ndarray) -> None:
    same(outcome(np.add, a, b), outcome(np.add, a, abstract(b)))
    same(outcome(np.add, a, b), outcome(lambda: a + abstract(b)))


@given(a=arrays(), b=arrays(), out=arrays())
def test_results_go_into_out_like_numpys(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    agree(lambda x, y, z: np.multiply(x, y, out=z), a, b, out)


@given(a=arrays(), b=st.one_of(arrays(), st.sampled_from(NUMBERS)))
def test_in_place_operators_keep_the_array_or_raise(a: np.ndarray, b: Any) -> None:
    agree(operator.iadd, a, b)
    kept = abstract(a)
    if not isinstance(got := outcome(operator.iadd, kept, abstract(b)), Exception):
        assert got is kept


def test_in_place_on_a_scalar_makes_a_new_one() -> None:
    total = AbstractArray(3, int).sum()
    before = total
    total += 0.5
    assert (before.dtype, total.dtype) == (np.dtype(int), np.dtype(float))


def test_methods_of_scalars_give_scalars() -> None:
    agree(lambda x: [x.astype(np.float32), x.copy(), x.real, x.imag, x.T, x.conj(), x.round(1), x[()]], np.float64(2))
    agree(lambda x: [x[...], np.copy(x), x.flatten(), x.reshape(1), x.sum(), x.view(np.int64)], np.float64(2))
    for wrong in (lambda x: x[0], lambda x: len(x), lambda x: iter(x), lambda x: operator.setitem(x, ..., 1)):
        agree(wrong, np.float64(2))


@given(a=arrays(), b=arrays(), mask=arrays(dtype=st.just(np.dtype(bool))))
def test_where_broadcasts_with_the_operands(a: np.ndarray, b: np.ndarray, mask: np.ndarray) -> None:
    agree(lambda x, y, z: np.add(x, y, where=z, dtype=complex), a, b, mask)


@pytest.mark.parametrize("ufunc", [np.add, np.multiply, np.maximum, np.logical_or, np.hypot])
@given(data=st.data())
def test_methods_of_ufuncs(ufunc: np.ufunc, data: st.DataObject) -> None:
    a, b = data.draw(arrays()), data.draw(arrays())
    axis = data.draw(st.integers(-2, 2))
    agree(ufunc.outer, a, b)
    agree(ufunc.reduce, a, axis=axis)
    agree(ufunc.accumulate, a, axis=axis)
    agree(ufunc.reduceat, a, [0, 2, 1], axis=axis)


@given(
    a=arrays(dtype=st.just(np.dtype(float))),
    where=st.lists(st.integers(-3, 3), max_size=3),
    b=arrays(dtype=st.just(np.dtype("f4"))),
)
def test_at_checks_indices_and_values(a: np.ndarray, where: list[int], b: np.ndarray) -> None:
    agree(lambda x, y: np.add.at(x, np.array(where, int), y), a, b)


@pytest.mark.parametrize(
    "ufunc", [np.matmul, *[getattr(np, n) for n in ("vecdot", "matvec", "vecmat") if hasattr(np, n)]]
)
@given(data=st.data())
def test_products_contract_like_numpys(ufunc: np.ufunc, data: st.DataObject) -> None:
    side = hnp.array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=3)
    agree(ufunc, data.draw(arrays(shape=side)), data.draw(arrays(shape=side)))


# ------------------------------------------------------------------------------------- reductions

REDUCTIONS = [
    np.sum, np.prod, np.min, np.max, np.any, np.all, np.mean, np.var, np.std, np.ptp, np.median, np.argmin, np.argmax,
    np.count_nonzero, np.nansum, np.nanprod, np.nanmean, np.nanvar, np.nanstd, np.nanmin, np.nanmax, np.average,
]  # fmt: skip


@pytest.mark.parametrize("function", REDUCTIONS, ids=lambda f: f.__name__)
@examples(40)
@given(a=arrays(), axis=st.none() | st.integers(-3, 2), keepdims=st.booleans())
def test_reductions_like_numpys(function: Any, a: np.ndarray, axis: int | None, keepdims: bool) -> None:
    if not a.shape and (function is np.median or "nan" in function.__name__):
        return  # an array of dimension 0 or a number, an AxisError or none, as it comes
    if 0 in a.shape and (function in (np.average,) or "nan" in function.__name__ or function is np.median):
        return  # of nothing: what these warn of or raise is their own story
    agree(function, a, axis=axis, keepdims=keepdims)


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "std", "min", "max", "any", "all", "cumsum", "argmax"])
@given(a=arrays(), axis=st.none() | st.integers(-3, 2))
def test_methods_are_the_functions(name: str, a: np.ndarray, axis: int | None) -> None:
    agree(lambda x: getattr(x, name)(axis=axis), a)


@given(
    a=arrays(), axis=st.tuples(st.integers(-2, 2), st.integers(-2, 2)), dtype=st.sampled_from([None, float, "f4", "D"])
)
def test_sums_over_several_axes_in_a_dtype(a: np.ndarray, axis: Any, dtype: Any) -> None:
    agree(np.sum, a, axis=axis, dtype=dtype)


# --------------------------------------------------------------------------------------- indexing


@examples(400)
@given(data=st.data())
def test_basic_indices_select_like_numpys(data: st.DataObject) -> None:
    a = data.draw(arrays())
    index = data.draw(
        hnp.basic_indices(a.shape, allow_newaxis=True) | st.tuples(st.integers(-4, 4), st.integers(-4, 4))
    )
    agree(lambda x: x[index], a)


@st.composite
def advanced(draw: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Integers, slices, ..., None, arrays of integers and masks, in range or not, fitting or not."""
    entries: list[Any] = []
    axis = 0
    while axis < len(shape) and draw(st.booleans() | st.just(True)):
        length = shape[axis]
        kind = draw(st.sampled_from(["int", "slice", "array", "array", "list", "mask", "none", "dots"]))
        if kind == "none":
            entries.append(None)
        elif kind == "dots":
            if any(entry is Ellipsis for entry in entries):
                break
            entries.append(...)
        else:
            bound = max(length, 1) - 1 + draw(st.sampled_from([0, 0, 0, 0, 0, 1]))
            if kind == "int":
                entries.append(draw(st.integers(-bound, bound)))
            elif kind == "slice":
                entries.append(draw(st.slices(max(length, 1))))
            elif kind == "array":
                size = draw(st.sampled_from([(), (1,), (2,), (2,), (3, 1), (0,)]))
                entries.append(np.full(size, draw(st.integers(-bound, bound))))
            elif kind == "list":
                entries.append([draw(st.integers(-bound, bound)) for _ in range(draw(st.integers(0, 2)))])
            else:
                ndim = draw(st.integers(1, 2))
                mask = shape[axis : axis + ndim]
                entries.append(np.arange(int(np.prod(mask))).reshape(mask) % draw(st.integers(1, 3)) == 0)
                axis += len(mask) - 1
            axis += 1
    return tuple(entries)


@examples(1500)
@given(data=st.data())
def test_arrays_and_masks_select_like_numpys(data: st.DataObject) -> None:
    a = np.ones(data.draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=3)))
    index = data.draw(advanced(a.shape))
    same(outcome(lambda: a[index]), outcome(lambda: abstract(a)[index]))
    as_abstract = tuple(abstract(e) if isinstance(e, np.ndarray) and e.dtype.kind == "i" else e for e in index)
    if not isinstance(expected := outcome(lambda: a[index]), Exception):
        same(expected, outcome(lambda: abstract(a)[as_abstract]))


@examples(600)
@given(data=st.data())
def test_storing_fits_or_fails_like_numpys(data: st.DataObject) -> None:
    a = np.ones(data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=3)))
    index = data.draw(advanced(a.shape) | hnp.basic_indices(a.shape))
    values = np.ones(data.draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=3)), int)
    expected, got = outcome(operator.setitem, a, index, values), outcome(operator.setitem, abstract(a), index, values)
    if {type(expected), type(got)} == {IndexError, ValueError}:
        return  # wrong in both ways: which is found first is NumPy's own affair
    same(expected, got)
    same(expected, outcome(operator.setitem, abstract(a), index, abstract(values)))


def test_an_abstract_mask_selects_all_it_covers_and_says_so() -> None:
    counter.take()
    x = AbstractArray((4, 5))
    picked = x[x > 0]
    assert (picked.shape, picked.upper_bound, repr(picked)) == ((20,), True, "<float64[<=20]>")
    assert x[x[:, 0] > 0].shape == (4, 5)
    assert counter.take().upper_bound and not counter.take().upper_bound
    x[x > 0] = picked
    x[x > 0] = np.ones(3)
    with pytest.raises(IndexError, match="boolean index did not match"):
        x[AbstractArray(3, bool)]


def test_the_lengths_of_what_depends_on_values_are_upper_bounds() -> None:
    x = AbstractArray((3, 4))
    assert [part.shape for part in np.nonzero(x)] == [(12,), (12,)]
    assert np.flatnonzero(x > 0).upper_bound and np.unique(x).shape == (12,)
    assert counter.take().upper_bound


def test_iteration_runs_over_the_first_axis() -> None:
    assert [row.shape for row in AbstractArray((3, 4))] == [(4,)] * 3
    assert len(AbstractArray((3, 4))) == 3
    for of_nothing in (lambda: len(AbstractArray()), lambda: list(AbstractArray())):
        with pytest.raises(TypeError):
            of_nothing()


# ---------------------------------------------------------------------------------- other methods


@given(data=st.data())
def test_shapes_change_like_numpys(data: st.DataObject) -> None:
    a = data.draw(arrays())
    shape = data.draw(st.lists(st.integers(-1, 4), max_size=3))
    agree(lambda x: x.reshape(shape), a)
    agree(lambda x: x.reshape(*shape) if shape else x.T, a)
    agree(lambda x: [x.ravel(), x.flatten(), x.T, x.squeeze(), x.copy(), x.real, x.imag, x.conj()], a)
    agree(lambda x: x.transpose(*range(x.ndim)[::-1]), a)
    agree(lambda x: x.swapaxes(0, data.draw(st.just(-1))), a)
    agree(lambda x: x.astype(complex), a)
    agree(lambda x: x.astype(np.float32, casting="same_kind"), a)
    agree(lambda x: x.view(np.uint8), a)
    agree(lambda x: x.view(np.complex128), a)


def test_views_share_the_memory_account() -> None:
    before = counter.live_bytes
    x = AbstractArray((100, 10))
    assert counter.live_bytes - before == 8000
    views = [x.T, x[3], x[:, 2:4], x.reshape(-1), np.moveaxis(x, 0, 1), x.real, x.view(np.uint8), *np.split(x, 2)]
    assert counter.live_bytes - before == 8000
    assert all(np.shares_memory(view, x) for view in views)
    del x
    assert counter.live_bytes - before == 8000
    y = views[0] + 1
    assert counter.live_bytes - before == 16000
    del views, y
    assert counter.live_bytes == before


@examples(200)
@given(data=st.data())
def test_a_view_is_contiguous_where_numpys_is(data: st.DataObject) -> None:
    a = data.draw(arrays())
    key = data.draw(hnp.basic_indices(a.shape, allow_newaxis=True))
    real = a[key]
    if isinstance(real, np.ndarray):
        assert abstract(a)[key].flags.c_contiguous == real.flags.c_contiguous


def test_contiguity_decides_between_a_view_and_a_copy() -> None:
    x = AbstractArray((6, 4))
    assert np.shares_memory(x.ravel(), x) and np.shares_memory(x[1:3].reshape(8), x)
    assert not np.shares_memory(x.T.ravel(), x) and not np.shares_memory(x[:, 1:].ravel(), x)
    assert x.flags.c_contiguous and not x.T.flags.c_contiguous and x.T.flags["F_CONTIGUOUS"]
    assert x.T.T.flags.c_contiguous
    assert x.strides == (32, 8)


def test_placeholders_take_any_format() -> None:
    x = AbstractArray((3, 4))
    assert f"{x.sum():.1e} {x} {x[0, 0]!r} {np.max(x):>12}" == "<float64> <float64[3, 4]> <float64> <float64>"


def test_copies_and_pickles_keep_shape_and_dtype() -> None:
    x = AbstractArray((3, 4), "f4")
    for y in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), pickle.loads(pickle.dumps(x[0, 0]))):
        assert y.dtype == x.dtype and y.shape in ((3, 4), ()) and y.is_scalar == (y.ndim == 0)
        assert not np.shares_memory(x, y)


# -------------------------------------------------------------------------------- what is refused


def test_the_text_of_a_branch() -> None:
    error = AbstractArray((3, 4)).sum()
    with pytest.raises(ValueNeeded) as raised:
        while error > 1e-9:
            pass
    assert str(raised.value) == (
        f"a branch needs the values of <bool> at test_abstract_arrays.py:{raised.tb.tb_lineno}: --abstract carries "
        "shapes, not values; choose by np.where or np.maximum, give a loop a number of rounds (proc.rounds), or say "
        "how long it is assumed to run (bsp.expect(condition, times=k)), or run without --abstract"
    )
    assert issubclass(ValueNeeded, bsp.BspError)


def test_the_line_is_the_programs_where_another_library_asks_for_values() -> None:
    with pytest.raises(ValueNeeded) as raised:
        scipy.linalg.solve(AbstractArray((3, 3)), np.eye(3))
    assert f"at test_abstract_arrays.py:{raised.tb.tb_lineno}: " in str(raised.value)


SCALAR = AbstractArray(1, int)[0]
ASKED = {
    "float": lambda: float(SCALAR),
    "int": lambda: int(SCALAR),
    "complex": lambda: complex(SCALAR),
    "range": lambda: range(SCALAR),
    "slice": lambda: [1, 2][:SCALAR],
    "item": lambda: SCALAR.item(),
    "tolist": lambda: AbstractArray(3).tolist(),
    "tobytes": lambda: AbstractArray(3).tobytes(),
    "in": lambda: 3 in AbstractArray(3),
    "array": lambda: np.array(AbstractArray(3)),
    "list of lists": lambda: np.array([AbstractArray(3), AbstractArray(3)]),
    "into real": lambda: operator.setitem(np.zeros(3), slice(3), AbstractArray(3)),
    "onto real": lambda: operator.iadd(np.zeros(3), AbstractArray(3)),
    "repeat": lambda: np.repeat(AbstractArray(3), AbstractArray(3, int)),
    "bincount": lambda: np.bincount(AbstractArray(3, int)),
    "save": lambda: np.save("nowhere", AbstractArray(3)),
    "shape": lambda: AbstractArray(3).reshape(SCALAR, 1),
    "split": lambda: np.split(AbstractArray(9), np.searchsorted(AbstractArray(9), [0.2, 0.5])),
    "split by a list": lambda: np.split(AbstractArray(9), [3, SCALAR]),
    "split of a real array": lambda: np.array_split(np.arange(5), AbstractArray(2, int)),
    "moveaxis": lambda: np.moveaxis(AbstractArray((2, 3)), SCALAR, 1),
    "rot90": lambda: np.rot90(AbstractArray((2, 3)), k=SCALAR),
    "windows": lambda: np.lib.stride_tricks.sliding_window_view(AbstractArray(9), SCALAR),
    "tile": lambda: np.tile(AbstractArray(3), SCALAR),
    "split into some": lambda: np.array_split(AbstractArray(9), SCALAR),
    "split by keyword": lambda: np.array_split(AbstractArray(9), indices_or_sections=AbstractArray(2, int)),
    "hsplit": lambda: np.hsplit(AbstractArray((4, 4)), AbstractArray(2, int)),
    "vsplit": lambda: np.vsplit(AbstractArray((4, 4)), AbstractArray(2, int)),
    "dsplit": lambda: np.dsplit(AbstractArray((4, 4, 4)), AbstractArray(2, int)),
    "vander": lambda: np.vander(AbstractArray(4), SCALAR),
    "tensordot": lambda: np.tensordot(AbstractArray((4, 4)), AbstractArray((4, 4)), SCALAR),
    "fftshift": lambda: np.fft.fftshift(AbstractArray(4), SCALAR),
    "bins": lambda: np.histogram(AbstractArray(4), SCALAR),
    "axis": lambda: np.sum(AbstractArray((4, 4)), axis=SCALAR),
    "axis of a method": lambda: AbstractArray((4, 4)).max(axis=SCALAR),
    "decimals": lambda: np.round(AbstractArray(4), SCALAR),
    "key": lambda: {SCALAR: 1},
}


@pytest.mark.parametrize("asked", ASKED)
def test_values_are_refused_with_the_line(asked: str) -> None:
    with pytest.raises(ValueNeeded, match=r"at test_abstract_arrays\.py:\d+: --abstract carries shapes"):
        ASKED[asked]()


def test_what_is_refused_leaves_no_trace_in_the_counts() -> None:
    """A number of flops that is abstract itself would make every later count abstract."""
    counter.take()
    for ask in ASKED.values():
        with pytest.raises(ValueNeeded):
            ask()
    work = counter.take()
    assert all(
        type(getattr(work, name)) in (int, float) for name in ("blas1", "blas2", "blas3", "elementwise", "bytes")
    )
    assert np.add(AbstractArray(3), 1).shape == (3,)


def test_arrays_are_no_keys_as_numpys() -> None:
    with pytest.raises(TypeError, match=r"unhashable type: 'numpy\.ndarray'"):
        hash(AbstractArray(3))


def test_numpys_own_errors_come_first() -> None:
    for branch in (AbstractArray(2), AbstractArray(0)):
        with pytest.raises(ValueError, match="ambiguous"):
            bool(branch)
    with pytest.raises(TypeError):
        float(AbstractArray(2))
    with pytest.raises(TypeError, match="unhashable"):
        hash(AbstractArray(2))
    with pytest.raises(TypeError, match="not support item assignment"):
        AbstractArray(2)[0][...] = 1


def test_what_is_not_in_the_table_is_named() -> None:
    with pytest.raises(NotCounted, match=r"numpy.packbits at test_abstract_arrays.py:\d+: --abstract has no entry"):
        np.packbits(AbstractArray((3, 4), bool))


class _Distributed:
    """Another library's arrays, with protocols of their own."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> str:
        return "theirs"

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> str:
        return "theirs"


def test_other_array_types_are_left_to_themselves() -> None:
    x, theirs = AbstractArray(3), _Distributed()
    assert [x + theirs, theirs.__array_ufunc__(np.add, "__call__"), np.concatenate([x, theirs])] == ["theirs"] * 3
