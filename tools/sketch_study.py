"""Candidates of `bsp.sketch` by enumeration and by z3, and the proofs of `bsp.verify` by polynomials and by z3.

Needs z3-solver, which is no dependency of the project: `pip install z3-solver` into an environment of one's own.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import itertools
import signal
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from bsp import verify
from bsp.cost.whole_file import write_text
from bsp.sketch import expr, hole
from bsp.sketch.completing import _Completing, _Plain, _value
from bsp.sketch.sources import completed, prepared, sketched
from tests.bsp import test_sketch as studies

z3: Any = importlib.import_module("z3")
SECONDS = 4
SEARCHES = (
    "sketch", "enumeration: tried", "seconds", "z3, lazily: tried", "seconds", "z3, one query: tried", "seconds",
)  # fmt: skip
PROVEN = ("program", "polynomials: proven", "seconds", "z3: proven", "seconds")
HEAD = """# Sketches and proofs: with z3, and without

Made by `python -m tools.sketch_study --write docs/sketch-study.md`, which needs `pip install z3-solver` (5.4.1 here).
`bsp.sketch` enumerates candidates, and `bsp.verify` computes with polynomials; neither needs z3.  This page compares.

*Enumeration* is what `bsp.sketch` does: a run that fails rules out all candidates with the same options in the holes
that it has come to, and an expression stands for all that have its values there.  *z3, lazily* learns the same
clauses, and z3 finds options that they leave; it works for every sketch.  *z3, one query* runs the sketch on z3's
integers, once for each example: a hole is a table of its options' values, and z3 solves all examples at once.  It does
not apply where a hole is an index or an axis of NumPy's, or decides a branch (and no SPMD program was tried).

*Tried* are candidates run; *seconds* of CPU, the median of three runs side by side with other work.  A search is given
up after 4 seconds; `> 4` is one run.

## The case studies

"""
LARGER = """
## Larger spaces, and holes that depend on one another

"""
PROOFS = """
The enumeration completes all case studies, and is faster than z3 or about as fast (`reduce_peer` within a tenth). With
the same clauses z3 is slower wherever a search ended: it picks options anywhere, the enumeration the smallest
expressions first, and these are mostly meant. With all parts of `reduce_peer` open, no method ends in time.
One query needs few candidates, and is better where several
wide constants depend on one another: every failure then rules out one candidate only for the enumeration, and tells z3
an equation. It applies to plain functions of integers only, not to arrays that a hole indexes. So z3 is not part of
`bsp.sketch`: whoever looks for three or more wide constants may be better off with the `Symbolic` of this program.

The study has improved the enumeration: clauses of one option in each hole are found by hash, where a list was searched
(a sketch of three constants of 19 values each: 8.1 s before, 0.09 s since).

## Proofs for all values: polynomials, and z3's real numbers

Unknowns of both kinds go through the same runs of `verify.equivalent`, for sizes and numbers of processes from 1 to 3;
*proven* are cases that hold for all values, the others were tried with integers.

"""


class OutOfTime(BaseException):
    """A search has not ended in time; no Exception, since these refute candidates."""


REASONS = """
Polynomials prove the usual exchanges, products and stencils, several times as fast as z3, and their counterexamples
are short to read. z3 proves a division by an unknown, too, where it takes x / 0 for some number. Neither
proves a branch on values: it has to be a number in Python. Given bare, z3's terms are worse than that: an `if a == b`
compares how the terms are written and goes on. The terms here refuse as polynomials do.
"""

# ------------------------------------------------------------------------- candidates by z3


class Options:
    """The options of all holes as Boolean unknowns, of which one of each hole holds."""

    def __init__(self, openings: Sequence[Any]) -> None:
        self.solver = z3.Solver()
        self.solver.set("timeout", SECONDS * 1000)
        self.picked = [
            [z3.Bool(f"h{k}_{option}") for option in range(len(each.options))] for k, each in enumerate(openings)
        ]
        for each in self.picked:
            self.solver.add(z3.PbEq([(one, 1) for one in each], 1))
        self._sets: dict[tuple[int, frozenset[int]], Any] = {}

    def among(self, number: int, options: frozenset[int]) -> Any:
        """Return an unknown that holds if a hole has one of some options."""
        if len(options) == 1:
            return self.picked[number][next(iter(options))]
        found = self._sets.get((number, options))
        if found is None:
            found = self._sets[number, options] = z3.Bool(f"s{len(self._sets)}")
            self.solver.add(*[z3.Implies(self.picked[number][option], found) for option in options])
        return found

    def solved(self) -> dict[int, int] | None:
        """Return options that nothing rules out; None if there are none."""
        answer = self.solver.check()
        if answer == z3.unsat:
            return None
        if answer != z3.sat:
            raise OutOfTime
        model = self.solver.model()
        return {
            k: next((o for o, one in enumerate(each) if z3.is_true(model[one])), 0)
            for k, each in enumerate(self.picked)
        }


class Lazy(_Completing):
    """The search of `bsp.sketch` with the same clauses; z3 finds the options that they leave."""

    def run(self) -> dict[int, int] | None:
        """Return the options of the holes; None if there are none."""
        self.unknown = Options(self.sketch.openings)
        return super().run()

    def _learn(self) -> None:
        like = {number: self._like(number, seen) for number, seen in self.choices.touched.items()}
        self.unknown.solver.add(z3.Or([z3.Not(self.unknown.among(*each)) for each in like.items()]))

    def _next(self) -> bool:
        found = self.unknown.solved()
        self.choices.chosen = found or {}
        return found is not None


# ------------------------------------------------------------------------------- z3's terms


class NeedsValue(Exception):
    """The sketch needs a number where z3 has a term."""


class Term:
    """An integer that z3 chooses; division and remainder are Python's."""

    def __init__(self, term: Any) -> None:
        self.term = term

    def _by(self, other: Any, how: Callable[[Any, Any], Any], turned: bool = False) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        right = other.term if isinstance(other, Term) else z3.IntVal(int(other))
        return Term(how(right, self.term) if turned else how(self.term, right))

    def __add__(self, other: Any) -> Any:
        return self._by(other, lambda a, b: a + b)

    def __sub__(self, other: Any) -> Any:
        return self._by(other, lambda a, b: a - b)

    def __rsub__(self, other: Any) -> Any:
        return self._by(other, lambda a, b: a - b, True)

    def __mul__(self, other: Any) -> Any:
        return self._by(other, lambda a, b: a * b)

    def __floordiv__(self, other: Any) -> Any:
        return self._by(other, _quotient)

    def __mod__(self, other: Any) -> Any:
        return self._by(other, lambda a, b: a - b * _quotient(a, b))

    __radd__, __rmul__ = __add__, __mul__

    def _undecided(self, *_: Any) -> Any:
        raise NeedsValue("a number is needed")

    __bool__ = __index__ = __int__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__ = _undecided
    __hash__ = None  # type: ignore[assignment]


def _quotient(a: Any, b: Any) -> Any:
    return z3.If(b > 0, a / b, (-a) / (-b))  # z3's remainder is never negative, Python's has the divisor's sign


class Terms:
    """Holes as terms: one run of a sketch stands for all candidates."""

    def __init__(self, openings: Sequence[Any], unknown: Options) -> None:
        self.openings, self.unknown = openings, unknown
        self._under: list[Any] = []  # the options of `choose` that the run is inside
        self._made = itertools.count()

    def _table(self, number: int, values: Sequence[Any]) -> Any:
        """Return the value of the option that the hole has; None: an option that cannot be."""
        picked, found = self.unknown.picked[number], Term(z3.Int(f"t{next(self._made)}"))
        for one, value in zip(picked, values, strict=True):
            if value is not None and not isinstance(value, (int, np.integer, Term)):
                raise NeedsValue(f"an option is a {type(value).__name__}")
            means = False if value is None else found.term == (value.term if isinstance(value, Term) else int(value))
            self.unknown.solver.add(z3.Implies(z3.And(*self._under, one), means))
        return found

    def hole(self, number: int) -> Any:
        """Return the term of a constant."""
        return self._table(number, [each.value for each in self.openings[number].options])

    def choose(self, number: int, *options: Callable[[], Any]) -> Any:
        """Return the term of a choice; all options are evaluated."""
        values = []
        for one, option in zip(self.unknown.picked[number], options, strict=True):
            self._under.append(one)
            try:
                values.append(option())
            except (ArithmeticError, LookupError):
                values.append(None)
            self._under.pop()
        return self._table(number, values)

    def expr(self, number: int, *operands: Any) -> Any:
        """Return the term of an expression."""
        return self._table(number, [_value(code, operands) for code in self.openings[number].codes])


class Symbolic(_Completing):
    """One query of z3 for all examples so far: the sketch runs on terms, once for each example."""

    def run(self) -> dict[int, int] | None:
        """Return the options of the holes; None if there are none."""
        assert isinstance(self.check, _Plain)
        self.unknown = Options(self.sketch.openings)
        terms = Terms(self.sketch.openings, self.unknown)
        space = {**self.sketch.space, "int": lambda value: value if isinstance(value, Term) else int(value)}
        meant = prepared(self.sketch._replace(space=space), terms)
        new = list(self.examples)
        while True:
            for args, wanted in new:
                given = [each.astype(object) if isinstance(each, np.ndarray) else each for each in args]
                found = np.asarray(meant(*given), object).reshape(-1)
                for got, value in zip(found, np.asarray(wanted).reshape(-1), strict=True):
                    self.unknown.solver.add(got.term == int(value) if isinstance(got, Term) else bool(got == value))
            chosen = self.unknown.solved()
            if chosen is None:
                return None
            self.choices.chosen = chosen
            self.tried += 1
            refuted = self.check.refuted(self.candidate)
            if refuted is None:
                return chosen
            new = [refuted]
            self.examples.append(refuted)
            self.unknown.solver.add(z3.Not(z3.And([self.unknown.picked[k][o] for k, o in chosen.items()])))


# --------------------------------------------------------------------------- what is searched


class Study(NamedTuple):
    """A sketch, its specification and the inputs; `more` are inputs that the answer is checked on."""

    name: str
    sketch: Callable[..., Any]
    specification: Callable[..., Any]
    inputs: list[Any]
    more: list[Any]
    times: int = 0


def packed_at(i: Any, j: Any, k: Any, n1: Any, n2: Any, n3: Any) -> Any:
    """Return the place of an element in 3-D pack, as a function of integers."""
    return i * expr((1, n1, n2, n3), "*", 1) + j * expr((1, n1, n2, n3), "*", 1) + k * expr((1, n1, n2, n3), "*", 1)


def packed_deeper(i: Any, j: Any, k: Any, n1: Any, n2: Any, n3: Any) -> Any:
    """Return the same with products of three, and sums."""
    return i * expr((1, n1, n2, n3), "+*", 2) + j * expr((1, n1, n2, n3), "+*", 2) + k * expr((1, n1, n2, n3), "+*", 2)


def packed_four(i: Any, j: Any, k: Any, m: Any, n1: Any, n2: Any, n3: Any, n4: Any) -> Any:
    """Return the place of an element of a 4-D transpose."""
    return (
        i * expr((1, n1, n2, n3, n4), "*", 2)
        + j * expr((1, n1, n2, n3, n4), "*", 2)
        + k * expr((1, n1, n2, n3, n4), "*", 2)
        + m * expr((1, n1, n2, n3, n4), "*", 2)
    )


def wider_peer(pid: Any, d: Any, m: Any) -> Any:
    """`peer` with every part open, of four operands and four operators."""
    c = pid % m
    return expr((c, d, 2 * d, 1), "+-%*", 2) + expr((c, d, 2, m), "*/", 2) * 2 * d + expr((pid, m), "*/", 2)


def deep(a: Any, b: Any, c: Any) -> Any:
    """One expression of 60,000."""
    return expr((a, b, c, 2), "+-*/%", 2)


def weights3(x: Any, y: Any) -> Any:
    """Three constants of 41 each."""
    return hole(range(-20, 21)) * x + hole(range(-20, 21)) * y + hole(range(-20, 21))


def weights4(x: Any, y: Any, z: Any) -> Any:
    """Four constants of 41 each."""
    return hole(range(-20, 21)) * x + hole(range(-20, 21)) * y + hole(range(-20, 21)) * z + hole(range(-20, 21))


def places(extents: Sequence[int], dimensions: int) -> list[Any]:
    """Return all indices, with the extents, of arrays of some extents."""
    return [
        (*at, *shape)
        for shape in itertools.product(extents, repeat=dimensions)
        for at in itertools.product(*map(range, shape))
    ]


def case_studies() -> list[Study]:
    """Return the case studies of the thesis: the tests' sketches and inputs."""
    rng = np.random.default_rng(0)
    blocks = studies.local_blocks((1, 2, 3), (1, 2))
    parts = [(np.arange(n1 * n2 * n3), n1, n2, n3, p) for n1, n2 in itertools.product((1, 2, 3), repeat=2)
             for p in (1, 2, 3) for n3 in (p, 2 * p)]  # fmt: skip
    butterflies = studies.butterflies
    sums = [(rng.integers(-99, 99, (3, 3, 3)), [int(c) for c in rng.integers(1, 99, 3)]) for _ in range(20)]
    which = list(itertools.product(range(3), range(2)))
    faces = [(np.arange(np.prod(n)).reshape(n), *each) for n in [(3, 4, 5), (5, 3, 4), (4, 4, 4)] for each in which]

    def plane(u: Any, axis: int, up: int) -> Any:
        return u.take(-2 if up else 1, axis=axis)

    return [
        Study("transpose: pack", studies.pack, studies.packed, blocks, studies.local_blocks((2, 4), (3,))),
        Study("transpose: unpack", studies.unpack, studies.unpacked, parts, parts),
        Study("SpMV: reduce_peer", studies.peer, lambda pid, d, m: pid ^ d, butterflies(4, (2, 4, 8)),
              butterflies(8, (16, 32))),
        Study("MG: halo packing", studies.face, plane, faces, faces),
        Study("MG: psinv, 3 sums", studies.psinv, studies.smoothed, sums, sums, 3),
    ]  # fmt: skip


def larger() -> list[Study]:
    """Return larger spaces, and holes that depend on one another."""
    triples = list(itertools.product(range(1, 5), repeat=3))
    three = places((1, 2, 3), 3)
    return [
        Study("pack's index, depth 1", packed_at, lambda i, j, k, n1, n2, n3: (k * n2 + j) * n1 + i, three,
              places((2, 5), 3)),
        Study("pack's index, + and *, depth 2", packed_deeper, lambda i, j, k, n1, n2, n3: (k * n2 + j) * n1 + i, three,
              places((2, 5), 3)),
        Study("4-D transpose's index, depth 2", packed_four,
              lambda i, j, k, m, n1, n2, n3, n4: ((m * n3 + k) * n2 + j) * n1 + i, places((1, 2, 3), 4),
              places((2, 5), 4)),
        Study("reduce_peer, all parts open", wider_peer, lambda pid, d, m: pid ^ d, studies.butterflies(4, (2, 4, 8)),
              studies.butterflies(8, (16, 32))),
        Study("one expression of depth 2", deep, lambda a, b, c: a * b - c % 2, triples, triples),
        Study("3 constants of 41", weights3, lambda x, y: 17 * x - 13 * y + 5,
              list(itertools.product(range(5), repeat=2)), [(99, -7)]),
        Study("4 constants of 41", weights4, lambda x, y, z: 17 * x - 13 * y + 11 * z + 5, triples, [(99, -7, 3)]),
    ]  # fmt: skip


METHODS = {"enumeration": _Completing, "z3, lazily": Lazy, "z3, one query": Symbolic}


def searched(study: Study, method: type[_Completing]) -> tuple[str, int, float]:
    """Return the outcome of a search, the candidates tried, and CPU seconds."""
    sketch = sketched(study.sketch, study.times)
    began = time.process_time()

    def late(*_: Any) -> None:
        raise OutOfTime

    signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, SECONDS, 0.5)  # again, if it was lost in a destructor
    search = method(sketch, _Plain(study.specification, study.inputs), 10**9)
    try:
        chosen = search.run()
    except (NeedsValue, IndexError):  # NumPy's, of an index that is no number
        return "does not apply", 0, 0.0
    except (OutOfTime, z3.Z3Exception, ctypes.ArgumentError):  # ctypes turns OutOfTime into its own error
        return "out of time", search.tried, time.process_time() - began
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    spent = time.process_time() - began
    if chosen is None:
        return "none", search.tried, spent
    _, function = completed(sketch, chosen)
    right = all(np.array_equal(function(*each), study.specification(*each)) for each in study.more)
    return "" if right else "wrong beyond", search.tried, spent


# ----------------------------------------------------------------------- proofs for all values


class RealTerm:
    """A real number of z3's; two are equal if z3 proves that no values tell them apart."""

    sent: ClassVar[list[RealTerm]] = []

    def __init__(self, term: Any) -> None:
        self.term = term

    def __reduce__(self) -> Any:
        """Send a number in the place of the term, which cannot be pickled: all processes are in one interpreter."""
        self.sent.append(self)
        return _received, (len(self.sent) - 1,)

    def _by(self, other: Any, how: Callable[[Any, Any], Any]) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        return RealTerm(how(self.term, other.term if isinstance(other, RealTerm) else z3.RealVal(str(other))))

    def __add__(self, other: Any) -> Any:
        return self._by(other, lambda a, b: a + b)

    def __sub__(self, other: Any) -> Any:
        return self._by(other, lambda a, b: a - b)

    def __mul__(self, other: Any) -> Any:
        return self._by(other, lambda a, b: a * b)

    def __truediv__(self, other: Any) -> Any:
        return self._by(other, lambda a, b: a / b)

    __radd__, __rmul__ = __add__, __mul__

    def __eq__(self, other: object) -> bool:
        """Return whether z3 proves that both are equal."""
        solver = z3.Solver()
        solver.set("timeout", SECONDS * 1000)
        solver.add(self._by(other, lambda a, b: a != b).term)
        return bool(solver.check() == z3.unsat)

    def _undecided(self, *_: Any) -> Any:
        raise verify.NeedsValue("the program decides by a term")

    __bool__ = __int__ = __float__ = __lt__ = __le__ = __gt__ = __ge__ = _undecided
    __hash__ = None  # type: ignore[assignment]


def _received(number: int) -> RealTerm:
    return RealTerm.sent[number]


def terms(shape: tuple[int, ...], name: str) -> np.ndarray:
    """Return an array of unknowns for z3, as `bsp.verify` makes them of polynomials."""
    found = np.empty(shape, object)
    for at in np.ndindex(*shape):
        found[at] = RealTerm(z3.Real(f"{name}{at}"))
    return found


def transposed(proc: Any, a: Any) -> Any:
    """Rows of blocks become columns of blocks."""
    p, columns = proc.nprocs, a.shape[1]
    cuts = [columns * k // p for k in range(p + 1)]
    parts = proc.alltoall([a[:, cuts[k] : cuts[k + 1]] for k in range(p)])
    return np.concatenate([part.T for part in parts], axis=1)


def product(proc: Any, a: Any, b: Any) -> Any:
    """Every process has all rows of b."""
    return a @ np.concatenate(proc.allgather(b))


def squared_sum(proc: Any, x: Any) -> Any:
    """Each element times the sum of all, after the sum was squared piece by piece."""
    whole = np.concatenate(proc.allgather(x))
    return np.array([sum(each * other * other for other in whole) for each in x], x.dtype)


def averaged(proc: Any, x: Any) -> Any:
    """Means of neighbours, around the ring."""
    whole, first = np.concatenate(proc.allgather(x)), proc.exscan(len(x)) or 0
    n = len(whole)
    return np.array([(whole[k - 1] + whole[k] + whole[(k + 1) % n]) / 3 for k in range(first, first + len(x))], x.dtype)


def shares(proc: Any, x: Any) -> Any:
    """Each element divided by one plus the sum of squares."""
    return x / (1 + sum(proc.allgather((x * x).sum())))


def positive(proc: Any, x: Any) -> Any:
    """Negative elements become zero."""
    return np.array([each if each > 0 else 0 * each for each in x], x.dtype)


def proofs() -> list[list[str]]:
    """Return rows of the table of proofs: cases, proven and CPU seconds by polynomials and by z3."""
    cases: Any = importlib.import_module("bsp.verify.cases")
    own, rows = cases.unknowns, []
    programs: list[tuple[str, Any, Any, dict[str, Any]]] = [
        ("transpose", transposed, lambda a: a.T, {"shapes": [("n", "m")]}),
        ("matrix product", product, lambda a, b: a @ b, {"shapes": [("n", "m"), ("m", "k")]}),
        ("cubic form", squared_sum, lambda x: x * (x * x).sum(), {}),
        ("stencil, divided by 3", averaged, lambda x: (np.roll(x, 1) + x + np.roll(x, -1)) / 3, {}),
        ("divided by a sum", shares, lambda x: x / (1 + (x * x).sum()), {}),
        ("a branch on values", positive, lambda x: np.array([e if e > 0 else 0 * e for e in x], x.dtype), {}),
    ]
    for name, program, specification, options in programs:
        row = [name]
        for unknowns in (own, terms):
            cases.unknowns = unknowns
            try:
                began = time.process_time()
                found = verify.equivalent(program, specification, sizes=range(1, 4), nprocs=[1, 2, 3], orders=0,
                                          seconds=60.0, **options)  # fmt: skip
                row += [
                    f"{len(found.proven)} of {len(found.proven) + len(found.tried)}",
                    f"{time.process_time() - began:.2f}",
                ]
            except verify.Counterexample as wrong:
                row += [str(wrong).partition(chr(10))[0], ""]
            finally:
                cases.unknowns = own
        rows.append(row)
    return rows


# ------------------------------------------------------------------------------------ the page


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def compared(every: Sequence[Study], runs: int) -> list[list[str]]:
    """Return rows of the table of searches: medians of several runs; one run for what has not ended."""
    rows = []
    for study in every:
        row = [study.name]
        for method in METHODS.values():
            outcome, tried, spent = searched(study, method)
            if outcome == "does not apply":
                row += ["does not apply", ""]
                continue
            times = [spent] + [searched(study, method)[2] for _ in range(runs - 1) if outcome != "out of time"]
            row += [f"{tried}", f"> {SECONDS}" if outcome == "out of time" else f"{statistics.median(times):.3f}"]
            if outcome not in ("", "out of time"):
                row[-1] += f" ({outcome})"
        print(row, file=sys.stderr, flush=True)
        rows.append(row)
    return rows


def page(searches: tuple[str, str], proven: str) -> str:
    """Return the document for the tables of the case studies, of larger spaces, and of proofs."""
    return HEAD + searches[0] + LARGER + searches[1] + PROOFS + proven + REASONS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.sketch_study", description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--write", metavar="FILE.md", help="the document, made anew")
    parser.add_argument("--runs", type=int, default=3, help="searches of which the median is shown (3)")
    asked_for = parser.parse_args(arguments)
    searches = [table(SEARCHES, compared(every, asked_for.runs)) for every in (case_studies(), larger())]
    text = page((searches[0], searches[1]), table(PROVEN, proofs()))
    if asked_for.write is None:
        print(text)
        return 0
    write_text(text, asked_for.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
