"""Which tests `make test` runs, which continuous integration runs, and which `make test-rest` and `make chaos` do.

Continuous integration (`make test-all`) tries

1. Of the numbers of processes (`nprocs` or `p`, parametrised alone) the least, the largest and one between: 3, or else
   the middle one.
2. Of a test marked `crossed`, and of every test on MPI ranks as elements, not each combination of its parameters: so
   few that each value of each parameter occurs.
3. Of tests and parameters marked `rest` none.
4. Of the examples that hypothesis draws a quarter, the first ones.

`make test` (BSP_TESTS=few) takes minutes.  Of those it tries

5. of every test not each combination of its parameters, as of those marked `crossed`;
6. of a test that starts real processes (mark `jobs`) one choice of parameters, and of a file the first JOBS such tests;
7. of tests marked `thorough` none;
8. of the examples that hypothesis draws a twelfth.

`make test-rest` and, of faults and hosts, `make chaos` (BSP_REPEAT is set) run what continuous integration leaves out:
those tests get the mark `rest`, and so do those of hypothesis.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence

import hypothesis
import pytest

ALL = "BSP_REPEAT" in os.environ
FEW = os.environ.get("BSP_TESTS") == "few" and not ALL
COUNTS = ("nprocs", "p")
JOBS = 4  # tests of a file that start real processes, in `make test`


def examples(number: int) -> hypothesis.settings:
    """Return settings of hypothesis with so many examples in `make test-rest`, and fewer of them in other runs."""
    return hypothesis.settings(max_examples=number if ALL else max(10, number // (12 if FEW else 4)))


def some(counts: Sequence[int]) -> set[int]:
    """Return the least and the largest of at least four numbers of processes, and one between; of fewer all."""
    if len(counts) < 4:
        return set(counts)
    return {min(counts), 3 if 3 in counts else sorted(counts)[len(counts) // 2], max(counts)}


def _kept_counts(item: pytest.Function) -> bool:
    """Whether `make test` tries the number of processes of a test."""
    return all(
        item.callspec.params[mark.args[0]] in some(mark.args[1])
        for mark in item.iter_markers("parametrize")
        if mark.args[0] in COUNTS
    )


def _choice(item: pytest.Function) -> list[tuple[str, object]]:
    """Return what each `parametrize` or fixture gives to a test; names that one gives together are one parameter."""
    found: list[tuple[str, object]] = []
    left = dict(item.callspec.params)
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0].split(",") if isinstance(mark.args[0], str) else mark.args[0]
        found.append((str(mark.args[0]), tuple(id(left.pop(name.strip())) for name in names)))
    return found + [(name, id(value)) for name, value in left.items()]


def crossing(choices: Sequence[Iterable[tuple[str, object]]]) -> list[int]:
    """Return the positions of choices in which every value of all choices occurs: those with most new values first."""
    unseen = {value for choice in choices for value in choice}
    kept = []
    while unseen:
        best = max(range(len(choices)), key=lambda k: len(unseen & set(choices[k])))
        unseen -= set(choices[best])
        kept.append(best)
    return sorted(kept)


def left_out(items: Sequence[pytest.Item], crossed: bool, few: bool = FEW) -> list[pytest.Item]:
    """Return the tests that are not run.

    crossed : whether all are treated as marked so.  few : whether the rules of `make test` hold, too.
    """
    functions: dict[str, list[pytest.Function]] = {}
    out: list[pytest.Item] = []
    for item in items:
        if (
            item.get_closest_marker("rest")
            or (ALL and item.get_closest_marker("hypothesis"))
            or (few and item.get_closest_marker("thorough"))
        ):
            out.append(item)
        elif isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            if _kept_counts(item):
                functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
            else:
                out.append(item)
    for tests in functions.values():
        if crossed or few or tests[0].get_closest_marker("crossed"):
            kept = set(crossing([_choice(test) for test in tests]))
            out += [test for k, test in enumerate(tests) if k not in kept]
            tests[:] = [test for k, test in enumerate(tests) if k in kept]
        if few and tests[0].get_closest_marker("jobs"):
            out += tests[1:]
    return out + _many_jobs(items, out) if few else out


def _many_jobs(items: Sequence[pytest.Item], out: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the tests of real processes that come after the first JOBS of their file, besides those in `out`."""
    gone = set(out)
    seen: Counter[object] = Counter()
    found = []
    for item in items:
        if item not in gone and item.get_closest_marker("jobs"):
            seen[item.path] += 1
            if seen[item.path] > JOBS:
                found.append(item)
    return found
