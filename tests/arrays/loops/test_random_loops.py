"""Random loop nests: those that become array statements compute what the loops do.

Iterations of most of them depend on each other, in one loop or in several, so the dependence analysis decides here;
what it lets through by mistake differs from the loops with most values.  `nests` draws perfect nests, `trees` nests
with statements and several loops in each loop, steps, bounds that are known when the nest runs, positions that may be
counted from the end, and variables that iterations set for themselves, or hand on.
"""

from __future__ import annotations

import itertools
import linecache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from thinning import examples

import bsp
from bsp.arrays.loops import parallel

N = 14  # of each axis: loops go over parts of 1, ..., 6, so that every index is inside
TRIANGLES = ["range(1, {0})", "range(1, {0} + 1)", "range({0}, 6)", "range({0} + 1, n + 1)", "range(1, {0}, 2)",
             "range(5, {0}, -1)", "range({0}, 0, -1)", "range(7 - {0}, 6)"]  # fmt: skip
FROM_THE_FIRST = ["range({0})", "range({0} + 1)", "range({0}, {0} + 2)", "range({0}, -1, -1)"]
_count = itertools.count()


def function_of(lines: list[str]) -> Any:
    """A function of arrays A, B (two axes), x, y (one) and numbers, with a source that `inspect` finds."""
    source = "\n".join(["def nest(A, B, x, y, t, s=1.0, n=5, w=2):", *(f"    {line}" for line in lines), ""])
    name = f"<random nest {next(_count)}>"
    linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    space: dict[str, Any] = {"np": np}
    exec(compile(source, name, "exec"), space)
    return space["nest"]


def leaves(value: Any) -> list[Any]:
    return [leaf for each in value for leaf in leaves(each)] if isinstance(value, tuple) else [value]


diagonal = st.sampled_from(["i, i", "i, i", "i, i + 1", "i + 1, i", "i, 6 - i", "i, n + 1 - i", "2 * i, i", "i - 2, i"])


@st.composite
def nests(draw: Any) -> list[str]:
    """The lines of one to three loops, one inside the other, with one to three statements."""
    names = ["i", "j", "k"][: draw(st.integers(1, 3))]
    ranges = ["range(1, 6)", "range(2, 5)", "range(5, 0, -1)", "range(1, 4)", "range(3, 6)", "range(4, 2)",
              "range(1, 6, 2)", "range(2, 6, 2)", "range(6, 0, -2)", "range(6, 1, -3)"]  # fmt: skip
    moved = [form.format(v) for v in names for form in ("{}", "{}", "{} - 1", "{} + 1", "6 - {}", "2 * {}")]
    index = st.sampled_from([*moved, "0", "3", *(f"{u} + {v}" for u in names for v in names if u < v)])

    def element() -> str:
        array = draw(st.sampled_from("AABxy"))
        if array in "AB" and draw(st.integers(0, 3)) == 0:
            return f"{array}[{draw(diagonal).replace('i', draw(st.sampled_from(names)))}]"
        return f"{array}[{draw(index)}, {draw(index)}]" if array in "AB" else f"{array}[{draw(index)}]"

    def value() -> str:
        forms = ["#", "# * #", "# + #", "0.5 * #", "# - #", "max(#, #)", "# * t", "sum(# * # for m in range(2, 5))"]
        form = draw(st.sampled_from(forms))
        text = "".join(element() if letter == "#" else letter for letter in form)
        return text.replace(f"[{names[-1]}", "[m") if "for m" in form else text

    def span(k: int) -> str:
        return draw(st.sampled_from([*ranges, *(form.format(v) for v in names[:k] for form in TRIANGLES)]))

    lines = [f"{'    ' * k}for {name} in {span(k)}:" for k, name in enumerate(names)]
    pad = "    " * len(names)
    for _ in range(draw(st.integers(1, 3))):
        target = draw(st.sampled_from(["element", "element", "element", "t"]))
        written = element() if target == "element" else "t"
        forms = ["{0} = {1}", "{0} += {1}", "{0} -= {1}", "{0} = max({0}, {1})", "{0} = min({1}, {0})", "{0} *= {1}"]
        line = draw(st.sampled_from(forms)).format(written, value())
        if draw(st.integers(0, 4)) == 0:
            lines += [f"{pad}if {element()} > 1:", f"{pad}    {line}"]
        else:
            lines.append(pad + line)
    return [*lines, "return t"]


@st.composite
def trees(draw: Any) -> list[str]:
    """The lines of a loop with statements and loops inside it, these with statements and perhaps loops."""
    ranges = ["range(1, 6)", "range(1, 6, 2)", "range(5, 0, -2)", "range(6, 1, -3)", "range(1, n)", "range(n, 0, -2)",
              "range(n + 1, 7, 2)", "range(2, n + 1, 3)", "range(w + 3, 6)", "range(1, 7, 2)"]  # fmt: skip

    def loop(names: list[str]) -> list[str]:
        name = draw(st.sampled_from([each for each in "ijk" if each not in names]))
        body = block([*names, name])
        spans = [*ranges, *(form.format(v) for v in names for form in TRIANGLES)]
        return [f"for {name} in {draw(st.sampled_from(spans))}:", *(f"    {line}" for line in body)]

    def index(names: list[str]) -> str:
        form = draw(st.sampled_from([*["{}"] * 6, "{} - 1", "{} + 1", "2 * {}", "6 - {}", "w", "0", "n + {}"]))
        return form.format(draw(st.sampled_from(names)))

    def element(names: list[str]) -> str:
        array = draw(st.sampled_from("AABxy"))
        if array in "AB" and draw(st.integers(0, 3)) == 0:
            return f"{array}[{draw(diagonal).replace('i', draw(st.sampled_from(names)))}]"
        first = index(names)
        return f"{array}[{first}, {index(names)}]" if array in "AB" else f"{array}[{first}]"

    def value(names: list[str]) -> str:
        forms = ["#", "# * #", "# + #", "0.5 * #", "# - s", "max(#, #)", "# * t", "s", "s * #", "0.0"]
        return "".join(element(names) if letter == "#" else letter for letter in draw(st.sampled_from(forms)))

    def statement(names: list[str]) -> list[str]:
        written = draw(st.sampled_from(["s", "s", "t", "#", "#", "#", "#", "#"])).replace("#", element(names))
        forms = ["{0} = {1}", "{0} = {1}", "{0} += {1}", "{0} -= {1}", "{0} = max({0}, {1})", "{0} *= {1}"]
        line = draw(st.sampled_from(forms)).format(written, value(names))
        return [f"if {element(names)} > 1:", f"    {line}"] if draw(st.integers(0, 5)) == 0 else [line]

    def block(names: list[str]) -> list[str]:
        lines = [f"s = {value(names)}"] if draw(st.booleans()) else []
        for _ in range(draw(st.integers(1, 3))):
            lines += loop(names) if len(names) < 3 and draw(st.integers(0, 2)) == 0 else statement(names)
        return lines

    return [*loop([]), draw(st.sampled_from(["return t", "return t", "return t, s"]))]


@st.composite
def triangles(draw: Any) -> list[str]:
    """The lines of two or three loops, each over a range that depends on one outside of it, and what may not meet."""
    inner = draw(st.sampled_from([*TRIANGLES, *FROM_THE_FIRST])).format("i")
    third = draw(st.sampled_from(["", "range(6)", *TRIANGLES, *FROM_THE_FIRST])).format(draw(st.sampled_from("ij")))
    names = "ijk" if third else "ij"
    index = st.sampled_from([*names, *names, *names, f"{names[-1]} + 1", "i - 1", "2"])
    pairs = st.sampled_from(["i, j", "j, i", "i, i", "j, j", "i, i + 1", "j, i + 1", "{0}, {1}", "{0}, {1}"])

    def element() -> str:
        if draw(st.booleans()):
            return f"{draw(st.sampled_from('AAB'))}[{draw(pairs).format(draw(index), draw(index))}]"
        return f"{draw(st.sampled_from('xy'))}[{draw(index)}]"

    def value() -> str:
        forms = ["#", "# * #", "# / (# + 1)", "np.sqrt(#) - #", "# / (j - i)", "sum(# * A[m, j] for m in range(n))"]
        return "".join(element() if letter == "#" else letter for letter in draw(st.sampled_from(forms)))

    lines = [
        f"for i in {draw(st.sampled_from(['range(n)', 'range(1, n)', 'range(n - 1, -1, -1)', 'range(0, 6, 2)']))}:"
    ]
    lines.append(f"    for j in {inner}:")
    pad = "    " * (3 if third else 2)
    lines += [f"        for k in {third}:"] if third else []
    for _ in range(draw(st.integers(1, 2))):
        forms = [
            "{0} = {1}",
            "{0} += {1}",
            "{0} -= {1}",
            "{0} = max({0}, {1})",
            "{0} *= {1}",
            "t += {1}",
            "t = min(t, {1})",
        ]
        lines.append(pad + draw(st.sampled_from(forms)).format(element(), value()))
        if draw(st.integers(0, 2)) == 0:
            test = draw(st.sampled_from([f"{element()} > 1", "i != j", "j > i and 1 / (j - i) < 0.4"]))
            lines[-1:] = [f"{pad}if {test}:", "    " + lines[-1]]
    return [*lines, "return t"]


def arguments(seed: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    return (*(rng.random(shape) + 0.5 for shape in [(N, N), (N, N), (N,), (N,)]), 1.25)


@given(nests(), st.integers(0, 3))
@examples(400)
def test_what_becomes_array_statements_computes_what_the_loops_do(lines: list[str], seed: int) -> None:
    made = parallel(function_of(lines))
    with np.errstate(all="ignore"):
        made.check(*arguments(seed))


@given(trees(), st.integers(0, 3), st.sampled_from([(5, 2), (6, 0), (4, -1), (1, -2), (0, 1)]))
@examples(600)
def test_parts_of_imperfect_nests_compute_what_the_loops_do(
    lines: list[str], seed: int, bounds: tuple[int, int]
) -> None:
    made = parallel(function_of(lines))
    with np.errstate(all="ignore"):
        made.check(*arguments(seed), 1.0, *bounds)


@given(triangles(), st.integers(0, 3), st.sampled_from([5, 6, 1, 0]))
@examples(600)
def test_triangles_compute_what_the_loops_do(lines: list[str], seed: int, n: int) -> None:
    """Also that nothing is divided by 0 which the loops do not divide by 0."""
    function = function_of(lines)
    made = parallel(function)
    try:
        with np.errstate(all="raise"):
            function(*arguments(seed), 1.0, n)
    except (FloatingPointError, ZeroDivisionError):
        return
    with np.errstate(all="raise"):
        made.check(*arguments(seed), 1.0, n)


@pytest.mark.parametrize("nprocs", [1, 3, 8])
@given(st.one_of(nests(), trees(), triangles()), st.integers(0, 3))
@examples(60)
def test_random_nests_on_processes(nprocs: int, lines: list[str], seed: int) -> None:
    made = parallel(function_of(lines))
    wanted = arguments(seed)
    with np.errstate(all="ignore"):
        result = made.function(*wanted)

        def main(proc: bsp.Process) -> None:
            given = arguments(seed)
            found = made(*given)
            for a, b in zip(leaves((result, wanted)), leaves((found, given)), strict=True):
                np.testing.assert_allclose(b, a, rtol=1e-9, atol=0, equal_nan=True)

        bsp.run(main, nprocs=nprocs)
