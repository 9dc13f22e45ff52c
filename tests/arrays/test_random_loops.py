"""Random loop nests: those that become array statements compute what the loops do.

Iterations of most of them depend on each other, in one loop or in several, so the dependence analysis decides here;
what it lets through by mistake differs from the loops with most values.
"""

from __future__ import annotations

import itertools
import linecache
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from thinning import examples

from bsp.arrays.loops import parallel

N = 11  # of each axis: loops go over parts of 1, ..., 5, so that every index is inside
_count = itertools.count()


def function_of(lines: list[str]) -> Any:
    """A function of arrays A, B (two axes), x, y (one) and a number t, with a source that `inspect` finds."""
    source = "\n".join(["def nest(A, B, x, y, t):", *(f"    {line}" for line in lines), "    return t", ""])
    name = f"<random nest {next(_count)}>"
    linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    space: dict[str, Any] = {"np": np}
    exec(compile(source, name, "exec"), space)
    return space["nest"]


@st.composite
def nests(draw: Any) -> list[str]:
    """The lines of one to three loops, one inside the other, with one to three statements."""
    names = ["i", "j", "k"][: draw(st.integers(1, 3))]
    ranges = ["range(1, 6)", "range(2, 5)", "range(5, 0, -1)", "range(1, 4)", "range(3, 6)", "range(4, 2)"]
    moved = [form.format(v) for v in names for form in ("{}", "{}", "{} - 1", "{} + 1", "6 - {}")]
    index = st.sampled_from([*moved, "0", "3", *(f"{u} + {v}" for u in names for v in names if u < v)])

    def element() -> str:
        array = draw(st.sampled_from("AABxy"))
        return f"{array}[{draw(index)}, {draw(index)}]" if array in "AB" else f"{array}[{draw(index)}]"

    def value() -> str:
        forms = ["#", "# * #", "# + #", "0.5 * #", "# - #", "max(#, #)", "# * t", "sum(# * # for m in range(2, 5))"]
        form = draw(st.sampled_from(forms))
        text = "".join(element() if letter == "#" else letter for letter in form)
        return text.replace(f"[{names[-1]}", "[m") if "for m" in form else text

    lines = [f"{'    ' * k}for {name} in {draw(st.sampled_from(ranges))}:" for k, name in enumerate(names)]
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
    return lines


def arguments(seed: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    return (*(rng.random(shape) + 0.5 for shape in [(N, N), (N, N), (N,), (N,)]), 1.25)


@given(nests(), st.integers(0, 3))
@examples(400)
def test_what_becomes_array_statements_computes_what_the_loops_do(lines: list[str], seed: int) -> None:
    made = parallel(function_of(lines))
    with np.errstate(all="ignore"):
        made.check(*arguments(seed))
