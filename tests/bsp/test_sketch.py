"""`bsp.sketch` fills holes, and finds the index expressions of the thesis's case studies (Xu, chapter 8)."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import bsp
from bsp import sketch, verify
from bsp.sketch import choose, expr, generator, hole, repeat
from bsp.sketch.holes import NotCompleted

# ------------------------------------------------------------------------------ the language


def linear(x: Any) -> Any:
    return hole(range(5)) * x + hole(range(-3, 4))


def test_a_search_without_inputs_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^complete: inputs is empty"):
        sketch.complete(linear, lambda x: 2 * x + 1, inputs=[])
    with pytest.raises(ValueError, match="there is no case to check linear for"):
        sketch.complete(linear, lambda: 1, nprocs=())


def test_inputs_that_are_no_tuples_are_named() -> None:
    with pytest.raises(TypeError, match=r"^complete: inputs holds 3; each is a tuple of the arguments, such as \(1,\)"):
        sketch.complete(linear, lambda x: 2 * x + 1, inputs=[(1,), 3])  # type: ignore[list-item]


def test_a_sketch_that_is_a_lambda_is_refused() -> None:
    wrong = r"^<lambda>: its source is needed: a function that `def` makes"
    with pytest.raises(TypeError, match=wrong):
        sketch.complete(lambda x: x + hole(range(3)), lambda x: x + 2, inputs=[(1,)])
    with pytest.raises(TypeError, match=r"^abs: its source is needed"):
        sketch.complete(abs, lambda x: x, inputs=[(1,)])


def of_number(x: Any) -> Any:
    return x + hole(3)  # type: ignore[arg-type]


def of_nothing(x: Any) -> Any:
    return x + hole([])


def of_power(x: Any) -> Any:
    return expr((x, 2), "+^")


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (of_number, r"^hole\(3\): a hole has values to choose from, such as hole\(range\(3\)\)"),
        (of_nothing, r"^hole\(\[\]\): a hole has values"),
        (of_power, r"^expr: no operator '\^'; there are \+ - \* / %"),
    ],
)
def test_a_hole_that_nothing_fills_is_named(wrong: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        sketch.complete(wrong, lambda x: x, inputs=[(1,)])


def test_nan_equals_nan() -> None:
    def program(x: Any) -> Any:
        return x * hole(range(3))

    for value in (np.nan, np.array([1, np.nan])):
        found = sketch.complete(program, lambda x: 2 * x, inputs=[(value,), (3.0,)])
        assert found.source == "def program(x: Any) -> Any:\n    return x * 2"


def test_constants_are_found_and_folded() -> None:
    found = sketch.complete(linear, lambda x: 3 * x - 2, inputs=[(k,) for k in range(6)])
    assert found.source == "def linear(x: Any) -> Any:\n    return 3 * x + -2"
    assert found.function(100) == 298
    assert found.tried <= 5 * 7
    assert "candidates" in str(found)


def without_items(x: Any) -> Any:
    return len([0] * hole(range(3))) + x


def of_a_copy(x: Any) -> Any:
    y = x + 0
    y += hole(range(4))
    return y - x


def counted(x: Any) -> Any:
    return (x > 1) * 1 + ((x > 0) + hole(range(2)))


def rounded(x: Any) -> Any:
    return expr((x, 1), "/")


@pytest.mark.parametrize(
    ("program", "specification", "value"),
    [
        (without_items, lambda x: x, 5),
        (of_a_copy, lambda x: np.full(len(x), 2), np.arange(3)),
        (counted, lambda x: (x > 1) * 1 + (x > 0), np.arange(4)),
        (rounded, np.floor, 2.5),
    ],
)
def test_the_source_of_a_completion_computes_what_was_checked(program: Any, specification: Any, value: Any) -> None:
    found = sketch.complete(program, specification, inputs=[(value,)])
    wanted = specification(value)
    np.testing.assert_array_equal(found.function(value), wanted, strict=not np.isscalar(wanted))


def test_expressions_that_raise_are_refuted() -> None:
    def added(before: Any, x: Any) -> Any:
        return choose(x, expr((before, x), "+-"), x if before is None else expr((before, x), "+-"))

    found = sketch.complete(added, lambda before, x: x - (before or 0), inputs=[(None, 3), (1, 5)])
    assert found.source.endswith("return x if before is None else x - before")


SIGNS, DEEP, MOST = "+*", 2, 3


def test_arguments_of_holes_may_be_named_and_constants_of_the_module() -> None:
    def program(x: Any) -> Any:
        for _ in repeat(most=MOST):
            x = expr((x, hole(values=range(3))), operators=SIGNS, depth=DEEP)
        return np.repeat(x, 2).sum()  # no `repeat` of a sketch

    found = sketch.complete(program, lambda x: 2 * (x * x + x), inputs=[(k,) for k in range(4)])
    assert found.function(5) == 60


def test_operands_may_have_holes() -> None:
    def program(x: Any, y: Any) -> Any:
        return expr((x + hole(range(4)), choose(x, y)), "*")

    found = sketch.complete(program, lambda x, y: (x + 3) * y, inputs=itertools.product(range(3), repeat=2))
    assert found.source.endswith("return (x + 3) * y")


def test_a_hole_that_depends_on_what_the_sketch_computes_is_named() -> None:
    def program(x: Any) -> Any:
        return x + hole(range(x))

    with pytest.raises(ValueError, match=r"^range\(x\): name 'x' is not defined outside of the sketch"):
        sketch.complete(program, lambda x: x, inputs=[(1,)])

    def without(x: Any) -> Any:
        return x + hole()  # type: ignore[call-arg]

    with pytest.raises(TypeError, match=r"^hole\(\): missing a required argument: 'values'"):
        sketch.complete(without, lambda x: x, inputs=[(1,)])


def plane(x: Any, y: Any) -> Any:
    return hole(range(-9, 10)) * x + hole(range(-9, 10)) * y + hole(range(-9, 10))


def test_constants_that_depend_on_one_another_are_each_tried_once() -> None:
    inputs = list(itertools.product(range(4), repeat=2))
    found = sketch.complete(plane, lambda x, y: 7 * x - 8 * y + 9, inputs=inputs)
    assert found.function(100, 10) == 629
    assert found.tried <= 19**3
    with pytest.raises(sketch.NoCompletion, match=f"none of {19**3} candidates"):
        sketch.complete(plane, lambda x, y: 7 * x - 8 * y + 99, inputs=inputs)


def test_the_other_options_are_not_evaluated() -> None:
    def picked(x: Any) -> Any:
        return choose(x[5], x[-1], 1 / 0)

    found = sketch.complete(picked, lambda x: x[1], inputs=[([1, 2],), ([3, 4],)])
    assert "return x[-1]" in found.source


@pytest.mark.thorough
def test_expressions_of_equal_values_stand_for_each_other() -> None:
    def area(a: Any, b: Any, c: Any) -> Any:
        return expr((a, b, c, 2), "+-*/%", 2)

    found = sketch.complete(area, lambda a, b, c: a * b - c % 2, inputs=itertools.product(range(1, 5), repeat=3))
    assert found.tried < 400  # of 60,000 expressions
    assert all(
        found.function(*each) == each[0] * each[1] - each[2] % 2 for each in itertools.product(range(1, 9), repeat=3)
    )


@generator
def size(n: Any, p: Any) -> Any:
    """A factor of an index expression, as the thesis's dim()."""
    return choose(hole(range(1, 3)), n, n // p, size(n, p) * n)


def test_each_call_of_a_generator_has_holes_of_its_own() -> None:
    def both(n: Any, p: Any) -> Any:
        return size(n, p) + size(p, n)

    found = sketch.complete(both, lambda n, p: n // p * n + p, inputs=[(6, 2), (8, 4), (9, 3)])
    assert found.function(10, 5) == 2 * 10 + 5


def test_the_least_number_of_repetitions() -> None:
    def power(x: Any) -> Any:
        total = 1
        for _ in repeat(6):
            total = choose(total * x, total + x)
        return total

    found = sketch.complete(power, lambda x: x**3, inputs=((k,) for k in range(1, 5)))
    assert found.source.count("total = total") == 3


def test_holes_nobody_can_fill() -> None:
    with pytest.raises(sketch.NoCompletion, match=r"linear: none of \d+ candidates computes \d of \(\d,\)"):
        sketch.complete(linear, lambda x: x * x, inputs=[(0,), (1,), (2,), (3,)])
    with pytest.raises(NotCompleted, match="complete fills it"):
        linear(1)


def test_an_spmd_sketch_is_checked_by_verify() -> None:
    def rotated(proc: bsp.Process, x: Any) -> Any:
        target = (proc.pid + hole(range(-1, 3))) % proc.nprocs
        proc.send(target, x)
        proc.sync()
        return choose(proc.inbox[-1].payload, x)

    def spec(x: Any) -> Any:
        return np.roll(x, 2)

    found = sketch.complete(rotated, spec, nprocs=[1, 2, 3, 4], sizes=range(1, 13),
                            assume=lambda nprocs, n: n == 2 * nprocs)  # fmt: skip
    assert "proc.pid + 1" in found.source
    verify.equivalent(
        found.function, spec, nprocs=[5, 6, 7], sizes=range(1, 15), assume=lambda nprocs, n: n == 2 * nprocs
    )


# --------------------------------------------------------------- SpMV's exchange (section 8.3)


def peer(pid: Any, d: Any, m: Any) -> Any:
    """The partner of a butterfly's step inside rows of m processes; as printed it is wrong for rows from 1 on."""
    c = pid % m
    return expr((c, d, 2 * d), "+%", 2) + c // (2 * d) * (2 * d) + expr((pid, m), "*/", 2)


def butterflies(rows: int, widths: tuple[int, ...]) -> list[tuple[int, int, int]]:
    return [
        (row * m + c, d, m) for m in widths for row in range(rows) for c in range(m)
        for d in (1, 2, 4, 8, 16) if d < m
    ]  # fmt: skip


def test_reduce_peer() -> None:
    found = sketch.complete(peer, lambda pid, d, m: pid ^ d, inputs=butterflies(4, (2, 4, 8)))
    assert all(found.function(*each) == each[0] ^ each[1] for each in butterflies(8, (2, 4, 8, 16, 32)))


# ------------------------------------------------------------------ 3-D transpose (section 8.1)


def packed(a: Any, p: int) -> Any:
    return a.transpose(2, 1, 0).reshape(-1)


def pack(a: Any, p: Any) -> Any:
    """What goes to each process, one after the other: its planes of the last axis, transposed."""
    n1, n2, n3 = a.shape
    i, j, k = np.indices(a.shape)
    out = np.zeros(a.size, a.dtype)
    out[i * expr((1, n1, n2, n3), "*", 1) + j * expr((1, n1, n2, n3), "*", 1) + k * expr((1, n1, n2, n3), "*", 1)] = a
    return out


def unpack(got: Any, n1: Any, n2: Any, n3: Any, p: Any) -> Any:
    """Rows of p·n1 elements from the parts of p processes, each (n3/p, n2, n1)."""
    q, i, j, k = np.indices((p, n3 // p, n2, n1))
    out = np.zeros(got.size, got.dtype)
    out[q * expr((1, n1, n2, p), "*", 2) + i * expr((1, n1, n2, p), "*", 2) + j * expr((1, n1, p), "*", 1) + k] = (
        got.reshape(q.shape)
    )
    return out


def unpacked(got: Any, n1: int, n2: int, n3: int, p: int) -> Any:
    return np.moveaxis(got.reshape(p, n3 // p, n2, n1), 0, 2).reshape(-1)


def local_blocks(sizes: tuple[int, ...], counts: tuple[int, ...]) -> list[tuple[Any, int]]:
    found = []
    for n1, n2, n3 in itertools.product(sizes, repeat=3):
        found += [(np.arange(n1 * n2 * n3 * p).reshape(n1, n2, n3 * p), p) for p in counts]
    return found


@pytest.mark.thorough
def test_transpose_pack_and_unpack() -> None:
    packing = sketch.complete(pack, packed, inputs=local_blocks((1, 2, 3), (1, 2)))
    assert all((packing.function(a, p) == packed(a, p)).all() for a, p in local_blocks((2, 4, 5), (1, 3)))
    parts = [(np.arange(n1 * n2 * n3), n1, n2, n3, p) for n1, n2 in itertools.product((1, 2, 3), repeat=2)
             for p in (1, 2, 3) for n3 in (p, 2 * p)]  # fmt: skip
    unpacking = sketch.complete(unpack, unpacked, inputs=parts)

    def transposed(proc: bsp.Process, a: Any) -> Any:
        p = proc.nprocs
        got = np.concatenate(proc.alltoall(np.split(packing.function(a, p), p)))
        n1, n2, n3 = a.shape
        return unpacking.function(got, n1, n2, n3, p).reshape(n3 // p, n2, n1 * p)

    found = verify.equivalent(  # beyond the bound of the search
        transposed, lambda a: a.transpose(2, 1, 0), shapes=[("z", "y", "x")], nprocs=[1, 2, 3, 4],
        sizes={"z": range(1, 9), "y": (1, 4), "x": range(1, 9)},
        assume=lambda nprocs, z, y, x: z % nprocs == x % nprocs == 0,
    )  # fmt: skip
    assert len(found.proven) == 2 * (64 + 16 + 4 + 4)


def test_transpose_on_two_axes_of_processes() -> None:
    """Inside a group of N processes, whose blocks are (z/N, y/M, x), the same completed functions do."""
    packing = sketch.complete(pack, packed, inputs=local_blocks((1, 2, 3), (1, 2)))
    for n, m in itertools.product((1, 2, 3), repeat=2):
        z, y, x = 2 * n, 3 * m, 4 * n
        a = np.arange(z * y * x).reshape(z, y, x)
        for group in range(m):
            rows = slice(y // m * group, y // m * (group + 1))
            blocks = [a[z // n * k : z // n * (k + 1), rows] for k in range(n)]
            sent = [np.split(packing.function(block, n), n) for block in blocks]
            for k in range(n):
                got = np.concatenate([sent[source][k] for source in range(n)])
                found = unpacked(got, z // n, y // m, x, n).reshape(x // n, y // m, z)
                assert (found == a.transpose(2, 1, 0)[x // n * k : x // n * (k + 1), rows]).all()


# ----------------------------------------------------------------------------- MG (section 8.2)


def face(u: Any, axis: Any, up: Any) -> Any:
    """What a neighbour along an axis needs: the plane inside the halo, on the lower or on the upper side."""
    n = u.shape[axis]
    return u.take(up * expr((n, 1, 2), "+-", 1) + (1 - up) * expr((n, 1, 2), "+-", 1), axis=choose(0, 2 - axis, axis))


def test_six_packing_functions_are_one() -> None:
    faces = {  # the six functions
        (0, 0): lambda u: u[1], (0, 1): lambda u: u[-2], (1, 0): lambda u: u[:, 1], (1, 1): lambda u: u[:, -2],
        (2, 0): lambda u: u[:, :, 1], (2, 1): lambda u: u[:, :, -2],
    }  # fmt: skip
    shapes = [(3, 4, 5), (5, 3, 4), (4, 4, 4)]
    inputs = [(np.arange(np.prod(shape)).reshape(shape), *which) for shape in shapes for which in faces]
    found = sketch.complete(face, lambda u, axis, up: faces[axis, up](u), inputs=inputs)
    big = np.arange(6 * 7 * 8).reshape(6, 7, 8)
    assert all((found.function(big, *which) == of(big)).all() for which, of in faces.items())


def smoothed(r: Any, c: Any) -> Any:
    """psinv at one point, as it is specified: a weighted sum over the 27 neighbours, by their distance."""
    total = 0
    for dx, dy, dz in itertools.product((-1, 0, 1), repeat=3):
        distance = abs(dx) + abs(dy) + abs(dz)
        if distance < 3:
            total += c[distance] * int(r[1 + dx, 1 + dy, 1 + dz])
    return total


def psinv(r: Any, c: Any) -> Any:
    """The same with sums that neighbouring points share: r1 of four faces, r2 of four edges, at i - 1, i and i + 1."""
    r1 = r[0, 1] + r[2, 1] + r[1, 0] + r[1, 2]
    r2 = r[0, 0] + r[0, 2] + r[2, 0] + r[2, 2]
    t1 = t2 = 0
    for _ in repeat(3):
        t1 = t1 + choose(r[1, 1, 0], r[1, 1, 2], r1[1])
        t2 = t2 + choose(r1[0], r1[2], r2[1], r2[0])
    return int(c[0] * r[1, 1, 1] + c[1] * t1 + c[2] * t2)


def test_common_subexpressions_of_psinv() -> None:
    rng = np.random.default_rng(0)
    inputs = [(rng.integers(-99, 99, (3, 3, 3)), [int(each) for each in rng.integers(1, 99, 3)]) for _ in range(20)]
    found = sketch.complete(psinv, smoothed, inputs=inputs)
    more = [(rng.integers(-999, 999, (3, 3, 3)), [3, 5, 7]) for _ in range(50)]
    assert all(found.function(*each) == smoothed(*each) for each in more)
    assert found.source.count("t1 = t1 +") == 3
