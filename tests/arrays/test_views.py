"""Views: what is written through an array shows in every array that NumPy lets share its elements, and in no other."""

from __future__ import annotations

import contextlib
import copy
import gc
import pickle
import re
import warnings
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aliases import programs, start, viewed, written
from expressions import nothing_replicated
from hypothesis import given
from numpys_answers import as_numpys
from thinning import examples

import bsp
import bsp.arrays as ba
import bsp.arrays.views
from bsp.arrays.expressions.graph import capture
from tools import arrays_coverage as coverage


def agree(mine: Any, theirs: Any) -> None:
    """One value of both libraries."""
    assert mine.shape == np.shape(theirs)
    assert mine.dtype == theirs.dtype
    np.testing.assert_array_equal(mine.compute() if isinstance(mine, ba.Array) else mine, theirs)


def in_order(x: Any) -> Any:
    """A copy in C order, as ours always are."""
    return np.array(x, order="C") if isinstance(x, np.ndarray) else x


def carried_out(xp: Any, arrays: list[Any], step: Any, numbers: list[bool]) -> None:
    """One step; `arrays` are the living ones."""
    kind, name, seed = step
    k = seed % len(arrays)
    x = arrays[k]
    if kind == "view":
        arrays.append(viewed(xp, x, name, seed, numbers[k]))
    elif kind == "write":
        arrays[k] = written(xp, x, arrays, name, seed, numbers[k])
    elif name == "forget" and len(arrays) > 1:
        del arrays[k]
    elif name == "copy":
        arrays.append(in_order(x) if xp is np else x.copy())
    elif name == "arithmetic":
        arrays.append(in_order(x + 1) if xp is np else x + 1)
    elif name == "persist" and isinstance(x, ba.Array):
        x.persist()


def compared(p: int, sources: list[Any], steps: list[Any]) -> None:
    def main(proc: bsp.Process) -> None:
        theirs = [start(shape, is_complex) for shape, _, is_complex in sources]
        mine = [ba.asarray(start(shape, is_complex), grid=grid) for shape, grid, is_complex in sources]
        kept = []  # what was read must not change with the arrays
        for step in steps:
            errors = []
            numbers = [isinstance(each, np.generic) for each in theirs]
            for xp, arrays in ((np, theirs), (ba, mine)):
                error = None
                try:
                    carried_out(xp, arrays, step, numbers)
                except (ValueError, TypeError) as found:
                    error = type(found)
                errors.append(error)
            assert errors[0] is errors[1], step
            if step[1] == "read":
                k = step[2] % len(mine)
                agree(mine[k], theirs[k])
                kept.append((mine[k].compute(), mine[k].persist().to_local(), np.array(theirs[k])))
                kept[-1] += ({at: block.copy() for at, block in kept[-1][1].items()},)
        for a, b in zip(mine, theirs, strict=True):
            agree(a, b)
        for whole, blocks, values, before in kept:
            np.testing.assert_array_equal(whole, values)
            assert all(np.array_equal(blocks[at], before[at]) for at in blocks)

    bsp.run(main, nprocs=p)


@examples(400)
@given(programs())
def test_random_programs_of_views_and_writes_give_numpys_values(program: Any) -> None:
    compared(*program)


@examples(100)
@given(programs())
def test_nor_does_it_matter_whether_small_arrays_are_dealt(program: Any) -> None:
    with nothing_replicated():
        compared(*program)


# ---------------------------------------------------------------------------- idioms, one by one


def by_slices(x: Any, xp: Any) -> None:
    y = x[2:5]
    y += 1
    y[...] = y * 2
    y[1:, ::-2] = 7


def by_one_row(x: Any, xp: Any) -> None:
    row = x[3]
    row *= 2
    row[:4] = row[4:8]


def by_rows(x: Any, xp: Any) -> None:
    for k, row in enumerate(x):
        row *= k


def by_columns(x: Any, xp: Any) -> None:
    for column in x.T:
        column -= column[0]


def by_a_computed_position(x: Any, xp: Any) -> None:
    row = x[xp.argmax(x[:, 0])]
    row += 100


def by_an_ellipsis(x: Any, xp: Any) -> None:
    one = x[4, 5, ...]
    one[...] = -3
    one += 1


def by_a_transpose(x: Any, xp: Any) -> None:
    x.T[0, 1] = 9
    y = xp.moveaxis(x, 0, -1)
    y += 1
    xp.swapaxes(x, 0, 1)[2] = 5
    x.mT[3] *= 2


def by_ravel(x: Any, xp: Any) -> None:
    x.ravel()[3] = 9
    flat = x.reshape(-1)
    flat[10:20] += 5
    x.reshape((x.shape[0], 2, -1))[:, 1, ::3] = 4


def by_a_copy_that_ravel_makes(x: Any, xp: Any) -> None:
    x.T.ravel()[3] = 9
    x[:, ::2].ravel()[3] = 9
    x.flatten()[3] = 9
    x.copy()[3] = 9
    x[[1, 2]][...] = 9
    x[x > 3][...] = 9
    (x + 0)[...] = 9
    x.astype(float)[...] = 9


def by_a_reshape_of_a_view(x: Any, xp: Any) -> None:
    y = x[2:7]
    y.reshape(-1)[4] = 9
    y[:, ::2].reshape((y.shape[0], -1, 1))[1] = 8
    x[:, 1:3].reshape(-1)[0] = 99


def by_axes_of_length_one(x: Any, xp: Any) -> None:
    xp.expand_dims(x, axis=1)[3, 0, 4] = 9
    xp.squeeze(x[5:6]).T[2] = 8
    x[:, None, :, None][7, 0, 3] = 7
    xp.atleast_3d(x)[2, 2] = 6


def by_flips(x: Any, xp: Any) -> None:
    xp.flip(x)[0, 0] = 9
    xp.flip(x, axis=1)[2, :3] = 8
    xp.rot90(x)[1] += 7
    y = x[::-1, ::-3]
    y -= y[0]


def by_parts(x: Any, xp: Any) -> None:
    left, right = xp.split(x, [3], axis=1)
    left += 1
    right[...] = left[:, :1]
    xp.unstack(x)[4][2] = 9
    xp.vsplit(x, [5])[1][0] = 8


def by_out(x: Any, xp: Any) -> None:
    y = x[1:6, 2:]
    xp.add(y, y[::-1], out=y)
    xp.multiply(x[0], 2, out=x[1])


def by_masks_and_positions(x: Any, xp: Any) -> None:
    y = x[2:].T
    y[y > 20] = -1
    y[[3, 0], 1:4] = 5
    xp.put(x[1], [2, 3], 7)
    xp.nan_to_num(y, copy=False)


def by_sharing_among_views(x: Any, xp: Any) -> None:
    low, high = x[:6], x[4:]
    low += 1
    high *= 2
    low[5] = high[3]
    x[4:6] = 0
    low[4] += high[0] + 1


def by_a_view_of_what_has_no_name(x: Any, xp: Any) -> None:
    def windows(y: Any) -> Any:
        return y[:6], y[4:]

    low, high = windows(x * 1)
    low += 1
    x[:6] = high[:6]


def by_in_place_assignments(x: Any, xp: Any) -> None:
    x[2:5] += 1
    x[3] *= x[4]
    x[:, 1] -= x[:, 2]
    x[x > 50] /= 2
    x[1, 1] += 4


def by_an_array_within_itself(x: Any, xp: Any) -> None:
    x[1:] = x[:-1]
    x[:-1] += x[1:]
    y = x[::2]
    y[...] = y[::-1]


IDIOMS = [
    by_slices, by_one_row, by_rows, by_columns, by_a_computed_position, by_an_ellipsis, by_a_transpose, by_ravel,
    by_a_copy_that_ravel_makes, by_a_reshape_of_a_view, by_axes_of_length_one, by_flips, by_parts, by_out,
    by_masks_and_positions, by_sharing_among_views, by_a_view_of_what_has_no_name, by_in_place_assignments,
    by_an_array_within_itself,
]  # fmt: skip


@pytest.mark.parametrize("p", [1, 3, 4])
@pytest.mark.parametrize("shape", [(10, 12), (61, 70)])
@pytest.mark.parametrize("idiom", IDIOMS)
def test_what_is_written_through_a_view_is_in_the_array(idiom: Any, shape: tuple[int, int], p: int) -> None:
    expected = start(shape, False)
    idiom(expected, np)

    def main(proc: bsp.Process) -> None:
        for grid in (None, (p, 1), (2, 2)):
            x = ba.asarray(start(shape, False), grid=grid)
            idiom(x, ba)
            agree(x, expected)

    bsp.run(main, nprocs=p)


@pytest.mark.parametrize("p", [1, 3])
def test_real_and_imaginary_parts_are_views(p: int) -> None:
    expected = start((7, 5), True)

    def change(z: Any) -> None:
        z.real += 1
        z.imag[2] = 9
        z.T.imag[1] *= 3
        z.real = z.imag[:, ::-1]
        z.conj()[0] = 1
        z[1].real[...] = np.inf
        z[3].imag[1:] = np.nan
        z.real.real[4, 4] = 5

    change(expected)

    def main(proc: bsp.Process) -> None:
        z = ba.asarray(start((7, 5), True), grid=(2, 2))
        change(z)
        agree(z, expected)
        x = ba.ones(5)
        x.real[2] = 7
        x.conj()[3] = 8
        x.astype(float, copy=False)[4] = 9
        np.testing.assert_array_equal(x.compute(), [1, 1, 7, 8, 9])

    bsp.run(main, nprocs=p)


def test_numbers_are_no_arrays_as_in_numpy() -> None:
    """What a reduction or an index of integers gives is a number: a name that is added to gets another one."""

    def main(proc: bsp.Process) -> None:
        x = ba.arange(10, grid=2)
        total = also = x.sum()
        total += 0.5
        assert (float(total), int(also)) == (45.5, 45)
        first = x[3]
        first += 1
        for each in x:
            each *= 2
        assert x.compute().tolist() == list(range(10))
        one = other = ba.zeros(())
        one += 1
        other[...] += 2
        assert float(one) == float(other) == 3

    bsp.run(main, nprocs=2)


# ------------------------------------------------------------------------------ what is not written to


def test_what_numpy_does_not_write_to_is_refused() -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.ones((6, 6), grid=(2, 2))
        ba.broadcast_to(x[0], (6, 6)).T.ravel()[:3] = 2  # ravel had to copy
        for view in (
            x.diagonal(), ba.diag(x), ba.linalg.diagonal(x), ba.broadcast_to(x, (2, 6, 6)), ba.broadcast_to(x, (6, 6)),
            ba.broadcast_arrays(x, ba.ones((2, 1, 1)))[0], x.diagonal()[2:], x.imag, ba.einsum("ii->i", x),
        ):  # fmt: skip
            with pytest.raises(ValueError, match=r"assignment destination is read-only: .*\.copy\(\)"):
                view[...] = 2
            with pytest.raises(ValueError, match="read-only"):
                view += 1
            with pytest.raises(ValueError, match="read-only"):
                ba.add(view, 1, out=view)
        np.asarray(x)[0] = np.array(x)[0] = 7  # conversions: copies, as np.may_share_memory says
        np.testing.assert_array_equal(x.compute(), np.ones((6, 6)))
        k = np.arange(6)
        x[k, k] = 5
        np.testing.assert_array_equal(x.diagonal().compute(), np.full(6, 5))

    bsp.run(main, nprocs=2)


def test_reshape_says_where_it_cannot_be_a_view() -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.ones((6, 4))
        assert ba.reshape(x, (3, 8), copy=False).shape == x.reshape((3, 8), copy=False).shape == (3, 8)
        with pytest.raises(ValueError, match=r"to \(24,\), copy=False: this view of \(4, 6\) is not in C order"):
            x.T.reshape(-1, copy=False)
        x.reshape((3, 8), copy=True)[...] = 0
        assert x.compute().all()

    bsp.run(main, nprocs=2)


def test_copies_and_pickles_share_nothing() -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.arange(12.0, grid=3)
        view = x[2:8].persist()
        for each in (view.copy(), ba.copy(view), ba.array(view), copy.copy(view), copy.deepcopy(view),
                     pickle.loads(pickle.dumps(view)), ba.asarray(view, copy=True), view.rechunk(grid=2)):  # fmt: skip
            each += 100
        both = pickle.loads(pickle.dumps([x, view]))
        both[1][...] = 100
        for each in (x, both[0]):
            np.testing.assert_array_equal(each.compute(), np.arange(12.0))
        assert ba.array(view, copy=None) is ba.asarray(view) is view

    bsp.run(main, nprocs=3)


def test_copies_of_an_array_that_is_not_computed_share_nothing() -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.arange(12.0) + 1
        first, (second, same) = copy.copy(x), copy.deepcopy([x, x])
        assert second is same and second is not x
        for each in (first, second):
            each[::2] = 100
        np.testing.assert_array_equal(x.compute(), np.arange(1.0, 13.0))
        np.testing.assert_array_equal(first.compute()[:2], [100, 2])

    bsp.run(main, nprocs=3)


def test_a_shape_that_is_assigned_is_told_with_what_to_write() -> None:
    x = ba.arange(6)
    with pytest.raises(AttributeError, match=r"write x = x\.reshape\(shape\)"):
        x.shape = (2, 3)  # type: ignore[assignment]


# ------------------------------------------------------------------------------ every function there is


def _written(value: Any, kind: type) -> None:
    """Ones wherever they can be put."""
    for each in value if isinstance(value, (tuple, list)) else (value,):
        if isinstance(each, (tuple, list)):
            _written(each, kind)
        elif isinstance(each, kind):
            with contextlib.suppress(ValueError, TypeError):
                each[...] = 1  # type: ignore[index]


def test_results_of_every_function_share_their_operands_elements_where_numpys_do(tmp_path: Any) -> None:
    wrong = []

    def main(proc: bsp.Process) -> int:
        calls = 0
        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
            for case in coverage.cases():
                if case.section.startswith(("ufunc.", "numpy.random", "samplers")) or ".partition(" in case.expression:
                    continue  # nothing is shared, or the order is NumPy's own
                theirs = coverage.used(case.expression)
                _written(eval(case.expression, coverage.scope(theirs, case.numpy(), str(tmp_path))), np.ndarray)
                for name, get in case.ways:
                    mine = {each: ba.asarray(value) for each, value in coverage.used(case.expression).items()}
                    try:
                        found = eval(case.expression, coverage.scope(mine, get(), str(tmp_path)))
                    except Exception:  # noqa: BLE001 - what is missing or refused shares nothing
                        continue
                    if not isinstance(found, np.ndarray):  # of ours
                        _written(found, ba.Array)
                        calls += 1
                        wrong.extend(
                            (name or case.expression, operand) for operand, value in theirs.items()
                            if not np.array_equal(value, mine[operand].compute(), equal_nan=value.dtype.kind in "fc")
                        )  # fmt: skip
        return calls

    (calls,) = bsp.run(main, nprocs=1)
    assert wrong == []
    assert calls > 800


def test_copies_are_copies_of_arrays_that_could_be_shown_as_they_are() -> None:
    """Where nothing is repeated, moved or joined, too."""
    calls = [
        lambda xp, x: xp.repeat(x[:, :1], 3, axis=1), lambda xp, x: xp.repeat(x, 1, axis=0),
        lambda xp, x: xp.tile(x, 1),
        lambda xp, x: xp.tile(x[:1], (3, 1)), lambda xp, x: xp.roll(x, 0), lambda xp, x: xp.roll(x, 0, axis=1),
        lambda xp, x: xp.concat([x]), lambda xp, x: xp.stack([x[0]]), lambda xp, x: xp.where(x == x, x, 0),
        lambda xp, x: xp.clip(x, None, None), lambda xp, x: xp.round(x, 20), lambda xp, x: xp.asarray(x, copy=True),
        lambda xp, x: xp.astype(x, x.dtype), lambda xp, x: xp.conj(x), lambda xp, x: xp.positive(x), lambda xp, x: +x,
        lambda xp, x: xp.floor(xp.astype(x, int)), lambda xp, x: xp.flip(x)[:0],
        lambda xp, x: xp.cumsum(x[:, :1], axis=1),
        lambda xp, x: xp.tril(x, k=99), lambda xp, x: xp.sort(x[:1], axis=0), lambda xp, x: x.take([0], axis=0),
        lambda xp, x: xp.moveaxis(x, 0, 0).copy(), lambda xp, x: xp.linalg.matrix_power(x[:3, :3], 1) * 1,
    ]  # fmt: skip

    def main(proc: bsp.Process) -> None:
        for k, call in enumerate(calls):
            mine, theirs = ba.asarray(start((5, 4), False), grid=(2, 1)), start((5, 4), False)
            for xp, x in ((ba, mine), (np, theirs)):
                found = call(xp, x)
                found += 1
            assert np.array_equal(mine.compute(), theirs), k

    bsp.run(main, nprocs=2)


# ---------------------------------------------------------------------------- plans, laziness, memory


def test_writing_through_views_plans_what_assignment_plans() -> None:
    def main(proc: bsp.Process) -> None:
        def x() -> ba.Array:
            return ba.ones((4000, 30), grid=(4, 1))

        values = ba.zeros((300, 30), grid=(2, 1))
        plain, through, deep = x(), x(), x()
        plain[200:500] = values
        view = through[200:500]
        view[...] = values
        deep[100:][:2000][50:1000].T.T[50:350][...] = values
        assert plain.explain() == through.explain() == deep.explain()

        plain, through, deep = x(), x(), x()
        plain[200:500] = plain[200:500] * values
        view = through[200:500]
        view *= values
        deep[200:500] *= values
        assert plain.explain() == through.explain() == deep.explain()

        turned = x()
        view = turned.T
        view += 1
        assert turned.plan().words == 0
        assert turned.plan().flops == (x() + 1).plan().flops

    bsp.run(main, nprocs=4)


def test_views_and_writes_end_no_superstep() -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.ones((400, 30), grid=(2, 2))
        before = proc.superstep
        for idiom in IDIOMS:
            if idiom not in (by_a_computed_position, by_a_copy_that_ravel_makes, by_masks_and_positions,
                             by_in_place_assignments):  # fmt: skip
                idiom(x[:20, :20], ba)
        assert proc.superstep == before

    bsp.run(main, nprocs=2)


def test_a_loop_that_writes_through_views_plans_the_same_in_each_round() -> None:
    """The views read the array's blocks once it is computed, not what those were computed from."""

    def main(proc: bsp.Process) -> None:
        u = ba.zeros(20_000, grid=4)
        expected = np.zeros(20_000)
        inner, red, black = u[1:-1], u[::2], u[1::2]
        told = []
        for k in range(6):
            for one, two, three in ((inner, red, black), (expected[1:-1], expected[::2], expected[1::2])):
                one += k
                two[1:] += three[:-1] * 0.5
                three -= two * 0.25
            told.append((u.explain(), len(capture([inner._node, red._node, black._node]).nodes)))
            u.persist()
            assert all(len(capture([view._node]).nodes) <= 2 for view in (inner, red, black))
        assert told[1:] == told[:-1]
        np.testing.assert_array_equal(u.compute(), expected)

    bsp.run(main, nprocs=4)


def blocks_of(x: ba.Array) -> list[Any]:
    return [weakref.ref(block) for block in x.persist()._node.value.values()]


def gone(blocks: list[Any]) -> bool:
    return all(block() is None for block in blocks)


def test_a_base_without_a_name_goes_unless_its_views_overlap() -> None:
    """At once, not when garbage is collected."""

    def main(proc: bsp.Process) -> None:
        def x() -> ba.Array:
            return ba.from_function(lambda i, j: 1.0 * i - j, (600, 80), grid=(proc.nprocs, 1))

        base = x()
        blocks = blocks_of(base)
        part = base[3:9].persist()
        del base
        assert gone(blocks)
        part += 1

        base = x()
        blocks = blocks_of(base)
        data, target, every = base[:, 1:].persist(), base[:, 0].persist(), base.T.persist()
        del base
        assert not gone(blocks)  # `every` shows what is written through the others
        del every
        assert gone(blocks)
        data += 1
        target += 2

        base = x()
        blocks = blocks_of(base)
        low, high = base[:400].persist(), base[300:].persist()
        del base
        low[350] = 77
        assert (high[50].compute() == 77).all()
        del low
        high.persist()
        assert gone(blocks)

        base = x()
        blocks = blocks_of(base)
        for _ in range(5):
            base = base[1:]
        base.persist()
        assert gone(blocks)

    gc.disable()
    try:
        bsp.run(main, nprocs=2)
    finally:
        gc.enable()


def test_what_a_view_was_does_not_depend_on_whether_its_base_is_there() -> None:
    def main(proc: bsp.Process) -> None:
        kept = ba.ones((6, 8))
        for base in (kept, ba.ones((6, 8))):
            every_other = base[:, ::2]
            del base
            assert every_other.ravel().shape == (24,)
            every_other.ravel()[...] = 5  # NumPy copies: it is not in C order
            assert (every_other.compute() == 1).all()
            every_other.reshape((6, 2, 2))[0] = 7
            assert (every_other[0].compute() == 7).all()

    bsp.run(main, nprocs=2)


def test_garbage_that_is_collected_on_some_processes_only_changes_no_plan() -> None:
    """Bases held by cycles live longer here than there; all plan the same and have the same bytes."""

    def main(proc: bsp.Process) -> tuple[list[int], list[str], list[float]]:
        tops, plans, views = [], [], []
        for k in range(3):
            base = ba.arange(40.0, grid=4)
            cycle: list[Any] = [base]
            cycle.append(cycle)
            views.append((base[2:8], base[8:20], base[30:].reshape((2, -1)).T))
            del base, cycle
            if proc.pid == 1:
                gc.collect()
            for low, high, rest in views:
                low[2:] = 7
                high *= 2
                high[::2][1:] += low[3]
                rest[1, :] = k
                rest.T[0] -= 1
            tops.append(sum(link.base is None for each in views for array in each if (link := array._link)))
            plans += [array.explain() for each in views for array in each]
        return tops, plans, [float((low.sum() + high.sum() + rest.sum()).compute()) for low, high, rest in views]

    gc.disable()
    try:
        found = bsp.run(main, nprocs=3)
    finally:
        gc.enable()
    tops, plans, sums = zip(*found, strict=True)
    assert tops[0] != tops[1]  # bases did go at different times
    assert plans[0] == plans[1] == plans[2]
    assert sums[0] == sums[1] == sums[2]


def test_nothing_but_store_changes_an_array() -> None:
    """What sets the node of an array that others share elements with would leave those as they were."""
    folder = Path(bsp.arrays.views.__file__).parent
    for path in [*folder.rglob("*.py"), *(folder.parent / "algorithms").rglob("*.py")]:
        if path.relative_to(folder.parent) not in (Path("arrays/views.py"), Path("arrays/array.py")):
            assert re.search(r"\._node\s*=[^=]", path.read_text()) is None, path


def by_bits(x: Any) -> Any:
    bits = x.view(np.int64)
    bits[3:9] = 7
    x[0] = 1.5
    return x, bits


def by_bits_of_slices(x: Any) -> Any:
    bits = x[::2].view(np.uint64)
    x[4] = 1.5
    bits[1] = 0
    return x, bits


def by_bits_of_a_transpose(x: Any) -> Any:
    bits = x[:18].reshape(3, 6).T.view("i8")
    bits[2] = 5
    return x, bits


def test_bits_as_another_dtype_of_the_same_length_are_a_view() -> None:
    calls = {each.__name__: each for each in (by_bits, by_bits_of_slices, by_bits_of_a_transpose)}
    calls |= {
        "there and back": lambda x: x.view("M8[s]").view("i8").view(float),
        "single": lambda x: x.astype("f4").view("u4"),
        "lazy": lambda x: (x + 1).view("i8"),
        "itself": lambda x: (x.view(), np.shares_memory(x, x.view("i8"))),
    }
    for nprocs in (1, 3):
        as_numpys(calls, [np.random.default_rng(0).normal(size=20)], nprocs=nprocs, tolerance=0)


@pytest.mark.parametrize("given", [np.float32, "c16", np.matrix])
def test_a_view_of_another_length_or_type_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match="view: "):
        ba.ones(4).view(given)


def test_numpys_array_without_axes_is_a_position_that_selects_a_copy() -> None:
    at = np.array(1)

    def changed(select: Any) -> Any:
        def call(x: Any) -> Any:
            part = select(x)
            part += 7
            return x, part

        return call

    calls = {
        "row": lambda x: x[at], "column": lambda x: x[:, at], "element": lambda x: x[at, at, ...],
        "new axis": lambda x: x[at, None], "a number": lambda x: x[np.int64(1)], "an integer": lambda x: x[1],
    }  # fmt: skip
    as_numpys({name: changed(select) for name, select in calls.items()}, [np.arange(12.0).reshape(3, 4)], tolerance=0)
