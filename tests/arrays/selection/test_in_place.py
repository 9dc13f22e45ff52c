"""What changes an array where it is changes it as NumPy's does: sort, fill, flat, put, copyto, masks, diagonals."""

from __future__ import annotations

import cProfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpys_answers import as_numpys, dealt, dealt_always
from thinning import examples

import bsp
import bsp.arrays as ba
from bsp.arrays.errors import GatherRefused

RNG = np.random.default_rng(0)
A, V, J = RNG.normal(size=(7, 5)), RNG.normal(size=13), RNG.integers(-3, 4, 13)
SMALL = np.arange(13, dtype=np.int8)


def after(change: Callable[..., Any]) -> Callable[..., Any]:
    """The first array after a change."""

    def call(x: Any, *others: Any) -> Any:
        assert change(x, *others) is None
        return x

    return call


def assigned(x: Any, key: Any, value: Any) -> None:
    x.flat[key] = value


def test_sort_fill_partition_put_and_resize() -> None:
    as_numpys(
        {
            "sort": after(lambda a, v, j: a.sort()),
            "sort along an axis": after(lambda a, v, j: a.sort(0, "stable")),
            "sort in an order that is not there": after(lambda a, v, j: a.sort(order="f")),
            "sort of a kind that is not there": after(lambda a, v, j: a.sort(kind="bogo")),
            "sort along no axis": after(lambda a, v, j: a.sort(axis=2)),
            "fill": after(lambda a, v, j: a.fill(2)),
            "fill with an array": after(lambda a, v, j: a.fill([1, 2])),
            "put": after(lambda a, v, j: a.put([3, -1, 3], [1, 2, 3])),
            "put repeated": after(lambda a, v, j: a.put([3, -1, 4], [1, 2])),
            "put round": after(lambda a, v, j: a.put([3, 99], 7.0, "wrap")),
            "put nearest": after(lambda a, v, j: a.put([3, 99], 7.0, mode="clip")),
            "put beyond": after(lambda a, v, j: a.put([3, 99], 7.0)),
            "put in no mode": after(lambda a, v, j: a.put([3], 7.0, mode="none")),
            "shorter": after(lambda a, v, j: a.resize(3, 4, refcheck=False)),
            "longer": after(lambda a, v, j: a.resize((9, 6), refcheck=False)),
        },
        [A, V, J],
    )  # fmt: skip
    as_numpys(
        {
            "sort": after(lambda v: v.sort()),
            "fill of integers": after(lambda v: v.fill(2.7)),
            "fill with NaN": after(lambda v: v.fill(np.nan)),
            "fill with what does not fit": after(lambda v: v.fill(300)),
        },
        [SMALL[::-1]],
    )


@pytest.mark.parametrize("kth", [3, -2, [2, 9], [0]])
def test_partition_puts_ranks_in_their_places(kth: Any) -> None:
    def main(proc: bsp.Process, way: str) -> Any:
        v, a = dealt(proc, V, way), dealt(proc, A, way)
        found = [np.partition(v, kth), v[np.argpartition(v, kth)], np.partition(a, 2, 0), v[v.argpartition(kth)]]
        v.partition(kth)
        return [each.compute() for each in (*found, v)]

    want, wide = np.sort(V), np.sort(A, axis=0)
    with dealt_always():
        for way in ("blocks", "ragged"):
            for first, second, third, *rest in bsp.run(main, way, nprocs=3):
                for found in (first, second, *rest):
                    for rank in np.atleast_1d(kth):
                        assert found[rank] == want[rank]
                        at = rank % V.size
                        assert (found[:at] <= found[at]).all()
                        assert (found[at:] >= found[at]).all()
                    np.testing.assert_array_equal(np.sort(found), want)
                np.testing.assert_array_equal(third[2], wide[2])


def test_ranks_that_are_none_are_refused_as_numpy_does() -> None:
    as_numpys(
        {
            "beyond": lambda v, a: np.partition(v, 13),
            "no integer": lambda v, a: np.partition(v, 1.0),
            "of no kind": lambda v, a: np.argpartition(v, 1, kind="bogo"),
            "along no axis": lambda v, a: np.argpartition(a, 1, axis=2),
            "of too many axes": lambda v, a: np.partition(v, [[1]]),
            "of nothing": lambda v, a: np.partition(v[:0], 3),
            "of all": lambda v, a: np.partition(a, 3, axis=None)[3],
        },
        [V, A],
    )


def test_flat_is_read_and_assigned_in_c_order() -> None:
    as_numpys(
        {
            "length": lambda a, v: len(a.flat),
            "one": lambda a, v: a.flat[7],
            "slice": lambda a, v: a.flat[3:20:4],
            "mask": lambda a, v: a.flat[np.arange(35) % 3 == 0],
            "positions": lambda a, v: a.flat[[3, -1, 3]],
            "beyond": lambda a, v: a.flat[35],
            "copy": lambda a, v: a.flat.copy(),
            "as an array": lambda a, v: np.asarray(a.flat),
            "iteration": lambda a, v: [float(each) for each in a.flat],
            "comparison": lambda a, v: (a.flat == a.flat.copy(), a.flat != 1),
            "base": lambda a, v: a.flat.base is a,
            "set one": after(lambda a, v: assigned(a, 3, 9)),
            "set all": after(lambda a, v: assigned(a, slice(None), 9)),
            "set repeated": after(lambda a, v: assigned(a, slice(None), [1, 2, 3])),
            "set some": after(lambda a, v: assigned(a, slice(2, 30, 5), v)),
            "set positions": after(lambda a, v: assigned(a, [1, 30, 1], [1, 2, 3])),
            "set from longer": after(lambda a, v: assigned(a, [0, 1], [1, 2, 3])),
            "set from nothing": after(lambda a, v: assigned(a, slice(None), [])),
            "set as a whole": after(lambda a, v: setattr(a, "flat", v)),
        },
        [A, V],
    )


def test_iteration_over_flat_of_a_large_array_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setattr(sys.modules["bsp.arrays.array"], "GATHER_LIMIT", 100)

    def main(proc: bsp.Process) -> None:
        a = ba.asarray(A)
        for call in (lambda: [*a.flat], a.tobytes):
            with pytest.raises(GatherRefused, match=r"would bring 2\.8e-07 GB to each of 2 processes"):
                call()

    bsp.run(main, nprocs=2)


def test_copyto_putmask_place() -> None:
    as_numpys(
        {
            "copyto": after(lambda v, j, s: np.copyto(v, j)),
            "copyto a number": after(lambda v, j, s: np.copyto(v, 3, where=j > 0)),
            "copyto where": after(lambda v, j, s: np.copyto(v, v[:1], where=j > 0)),
            "copyto refused": after(lambda v, j, s: np.copyto(j, v)),
            "copyto of a float refused": after(lambda v, j, s: np.copyto(j, 1.5)),
            "copyto unsafe": after(lambda v, j, s: np.copyto(j, v, casting="unsafe")),
            "copyto of another shape": after(lambda v, j, s: np.copyto(v, v[:2])),
            "copyto of what does not fit": after(lambda v, j, s: np.copyto(s, 300)),
            "copyto by a mask of numbers": after(lambda v, j, s: np.copyto(v, 1.0, where=j)),
            "putmask": after(lambda v, j, s: np.putmask(v, j > 0, -v)),
            "putmask a number": after(lambda v, j, s: np.putmask(v, j > 0, 7)),
            "putmask a float into integers": after(lambda v, j, s: np.putmask(j, j > 0, 1.5)),
            "putmask repeated": after(lambda v, j, s: np.putmask(v, j > 0, [1, 2, 3])),
            "putmask of more": after(lambda v, j, s: np.putmask(v[:3], j[:3] > 0, v)),
            "putmask by numbers": after(lambda v, j, s: np.putmask(v, j, 9.0)),
            "putmask of another size": after(lambda v, j, s: np.putmask(v, j[:3] > 0, 9.0)),
            "putmask unsafely": after(lambda v, j, s: np.putmask(s, j > 0, j)),
            "putmask a number of an array": after(lambda v, j, s: np.putmask(s, j > 0, j.max())),
            "putmask of what does not fit": after(lambda v, j, s: np.putmask(s, j > 0, 300)),
            "place": after(lambda v, j, s: np.place(v, j > 0, [1.0, 2.0])),
            "place of many": after(lambda v, j, s: np.place(v, j > 0, j * 1.0)),
            "place nowhere": after(lambda v, j, s: np.place(v, j > 99, [])),
            "place nothing": after(lambda v, j, s: np.place(v, j > 0, [])),
            "place a number of an array": after(lambda v, j, s: np.place(s, j > 0, np.int64(7))),
            "place unsafely": after(lambda v, j, s: np.place(s, j > 0, j)),
        },
        [V, J, SMALL],
    )


@examples(25)
@given(st.sampled_from([(3, 3), (7, 3), (3, 7), (1, 4), (13, 2), (4, 4, 4), (5,), (2, 3, 2)]), st.booleans(),
       st.sampled_from(["one", "list", "array", "none"]), st.integers(1, 4))  # fmt: skip
def test_diagonals_are_filled(shape: tuple[int, ...], wrap: bool, kind: str, nprocs: int) -> None:
    values: Any = {"one": 7, "list": [1, 2, 3], "array": np.arange(5.0), "none": []}[kind]
    as_numpys(
        {"fill_diagonal": after(lambda a: np.fill_diagonal(a, values, wrap))},
        [np.zeros(shape)], nprocs=nprocs, ways=("blocks", "fine"),
    )  # fmt: skip


def test_numbers_none_and_text() -> None:
    as_numpys(
        {
            "== None": lambda v: v == None,  # noqa: E711 - it is what users write
            "!= None": lambda v: v != None,  # noqa: E711
            "== text": lambda v: (v == "a", v != "a"),
            "< None": lambda v: v < None,
            "tobytes": lambda v: (v.tobytes(), v.reshape(1, 13).tobytes("F")),
            "round": lambda v: round(v, 2),
        },
        [V],
    )

    def main(proc: bsp.Process) -> Any:
        x = dealt(proc, V, "blocks")
        found = round(x[3], 2)
        return float(found), found.ndim, round(x[3]), type(round(x[3])).__name__

    assert bsp.run(main, nprocs=2) == [(round(float(V[3]), 2), 0, round(float(V[3])), "int")] * 2


def test_repr_shows_values_that_every_process_has_and_takes_no_superstep() -> None:
    def main(proc: bsp.Process) -> list[str]:
        small, many, lazy = ba.asarray([1.5, 2.5]), ba.arange(100_000), ba.asarray([1.5]) + 1
        before = proc.superstep
        texts = [repr(each) for each in (small, ba.asarray([[1, 2], [3, 4]]), ba.arange(100), many, lazy, ba.zeros(()))]
        assert proc.superstep == before
        return texts

    here = [
        "; here [0:50000]: [    0,     1,     2, ..., 49997, 49998, 49999]",
        "; here [50000:100000]: [50000, 50001, 50002, ..., 99997, 99998, 99999]",
    ]
    for pid, texts in enumerate(bsp.run(main, nprocs=2)):
        assert texts == [
            "<float64[2] on every process: [1.5, 2.5]>",
            "<int64[2, 2] on every process:\n[[1, 2],\n [3, 4]]>",
            "<int64[100] on every process: [ 0,  1,  2, ..., 97, 98, 99]>",
            f"<int64[100000] 2 blocks on 2 processes{here[pid]}>",
            "<float64[1] lazy>",
            "<float64[] on every process: 0.>",
        ]


def test_memory_is_shared_by_views_that_overlap() -> None:
    as_numpys(
        {
            "itself": lambda a, v: np.shares_memory(a, a),
            "a copy": lambda a, v: np.may_share_memory(a, a.copy()),
            "another": lambda a, v: np.shares_memory(a, v),
            "a transpose": lambda a, v: np.shares_memory(a.T, a[2:4]),
            "parts": lambda a, v: (np.shares_memory(a[:3], a[3:]), np.shares_memory(a[:4], a[3:])),
            "steps": lambda a, v: np.shares_memory(v[::2], v[1::2]),
            "of a reshape": lambda a, v: np.may_share_memory(a.reshape(35), a),
            "a result": lambda a, v: np.shares_memory(a, a + 0),
            "nothing": lambda a, v: np.shares_memory(a[:0], a),
        },
        [A, V],
        ways=("blocks",),
    )


def test_changes_show_in_views_and_flat_is_no_view() -> None:
    def changed(a: Any) -> Any:
        part, turned = a[1:4], a.T
        a.sort(axis=0)
        part.fill(2)
        a.flat[3] = 9
        one = a.flat[:3]
        one[:] = 7
        np.put(turned, [0, 1], 5)
        np.copyto(part, 1, where=part > 1)
        np.add.at(turned, ([0, 0], [1, 1]), 1)
        return a, part, turned, one

    as_numpys({"views": changed}, [A], ways=("blocks", "fine"))

    def main(proc: bsp.Process) -> None:
        x = ba.asarray(A)
        part = x[:2]
        for each in (x, part):
            with pytest.raises(ValueError, match="cannot resize an array that references or is referenced"):
                each.resize(3)
        copies = [np.resize(x, (7, 5)), np.block(x), np.meshgrid(x[0], sparse=True)[0], x.flatten("F"), x.flat.copy()]
        before = [each.compute() for each in copies]
        x[...] = 0
        for each, old in zip(copies, before, strict=True):
            np.testing.assert_array_equal(each.compute(), old)

    bsp.run(main, nprocs=2)


def test_changes_run_abstractly() -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.asarray(np.random.rand(100_000))
        x.sort()
        x.fill(3)
        x.flat[5:10] = 1
        np.putmask(x, x > 0, 1.0)
        np.place(x, x > 0, [1.0, 2.0])
        np.copyto(x, 1.0)
        np.partition(x, 5)
        m = x.reshape(1000, 100)
        np.fill_diagonal(m, 1)
        assert m.persist().shape == (1000, 100)

    assert bsp.predict(main, nprocs=4, machine=bsp.Machine(p=4), abstract=True).per_superstep


def calls_of(rounds: int) -> int:
    """The calls of functions that so many updates in place take, each of which reads what the one before wrote."""
    count = 0

    def main(proc: bsp.Process) -> None:
        nonlocal count
        x = ba.zeros(40, grid=(3,))
        for k in range(rounds):
            x[(k + 1) % 40] = x[k % 40] + 1
        profile = cProfile.Profile()
        profile.enable()
        x.compute()
        profile.disable()
        count += sum(entry.callcount for entry in profile.getstats())

    bsp.run(main, nprocs=3)
    return count


def test_updates_that_nobody_has_asked_for_are_planned_in_time_that_grows_with_their_number() -> None:
    few = calls_of(50)  # what is done once is in all of them
    assert calls_of(400) - few < 1.2 * 7 * (calls_of(100) - few)


def test_real_numbers_have_no_imaginary_part_to_set() -> None:
    x = ba.ones(3)
    with pytest.raises(TypeError, match="array does not have imaginary part to set"):
        x.imag = 2.0
