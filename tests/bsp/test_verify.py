"""`bsp.verify` tells equivalent programs from others, with the smallest counterexample, and says how much it knows."""

from __future__ import annotations

import subprocess
import sys
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from thinning import examples

import bsp
from bsp import verify
from bsp.verify.distributions import Unlawful

EXAMPLES = Path(__file__).parents[2] / "examples"


def running_sums(proc: bsp.Process, x: Any) -> Any:
    before = proc.exscan(x.sum())
    return np.cumsum(x) if before is None else before + np.cumsum(x)


def shifted(proc: bsp.Process, x: Any) -> Any:
    """Each element goes one place to the right, the last to the front: by one-sided puts."""
    p, pid = proc.nprocs, proc.pid
    if not len(x):
        raise ValueError("needs an element on each process")
    edge = proc.register(np.zeros(1, x.dtype))
    edge.put((pid + 1) % p, x[-1:])
    proc.sync()
    return np.concatenate([edge.local, x[:-1]])


# ---------------------------------------------------------------------------------- what holds


def test_a_polynomial_program_is_proven_for_all_values() -> None:
    found = verify.equivalent(running_sums, np.cumsum)
    assert len(found.proven) == 7 * 4
    assert not found.tried
    assert "28 of them proven for all values" in str(found)


def test_a_program_with_coarrays_is_tried_with_numbers() -> None:
    found = verify.equivalent(shifted, lambda x: np.roll(x, 1), assume=lambda nprocs, n: n >= nprocs)
    assert not found.proven
    assert {case.nprocs for case in found.tried} == {1, 2, 3, 4}
    assert "needs numbers" in found.why


@pytest.mark.parametrize("by", [verify.Blocks(), verify.Cyclic()])
def test_any_distribution(by: verify.Distribution) -> None:
    def doubled(proc: bsp.Process, x: Any) -> Any:
        return 2 * x

    assert verify.equivalent(doubled, lambda x: x + x, distribute=by, collect=by).proven


def test_results_on_every_process_and_on_one() -> None:
    def total(proc: bsp.Process, x: Any, y: Any) -> Any:
        return proc.allreduce((x * y).sum())

    def gathered(proc: bsp.Process, x: Any) -> Any:
        parts = proc.gather(x)
        return None if parts is None else np.concatenate(parts)

    def scaled(proc: bsp.Process, x: Any, factor: Any) -> Any:
        return x * factor

    verify.equivalent(total, lambda x, y: x @ y, collect=verify.Everywhere())
    verify.equivalent(gathered, lambda x: x, collect=verify.OnRoot())
    verify.equivalent(
        scaled, lambda x, c: x * c, distribute=[verify.Blocks(), verify.Everywhere()], shapes=[("n",), ()]
    )


def test_the_transpose_of_the_thesis() -> None:
    """Blocks of planes of a 3-D array become blocks of the last axis (Xu, section 8.1)."""

    def transposed(proc: bsp.Process, a: Any) -> Any:
        p, last = proc.nprocs, a.shape[2]
        cuts = [last * k // p for k in range(p + 1)]
        parts = proc.alltoall([a[:, :, cuts[k] : cuts[k + 1]] for k in range(p)])
        return np.concatenate([part.transpose(2, 1, 0) for part in parts], axis=2)

    sizes = {"z": range(4), "y": range(1, 3), "x": range(4)}
    found = verify.equivalent(transposed, lambda a: a.transpose(2, 1, 0), shapes=[("z", "y", "x")], sizes=sizes)
    assert len(found.proven) == 4 * 2 * 4 * 4


def test_floats_agree_within_a_tolerance() -> None:
    def mean(proc: bsp.Process, x: Any) -> Any:
        return proc.allreduce(x.sum()) / proc.allreduce(len(x))

    options: Any = {"collect": verify.Everywhere(), "sizes": range(1, 8), "values": lambda rng, n: [rng.normal(size=n)]}
    verify.equivalent(mean, np.mean, exact=False, tolerance=1e-12, **options)
    with pytest.raises(verify.Counterexample):
        verify.equivalent(mean, lambda x: np.mean(x) + 1e-6, exact=False, tolerance=1e-12, **options)


@pytest.mark.parametrize("nprocs", [1, 2, 3])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_nan_equals_nan(nprocs: int) -> None:
    """NaN equals NaN, as in numpy.testing.assert_array_equal; complex numbers are compared part by part."""
    assert verify.equivalent(lambda proc, x: np.sqrt(x), np.sqrt, nprocs=[nprocs]).tried
    parts = {"nan": complex(np.nan, 1), "other": complex(np.nan, 2), "inf": complex(np.inf, 1), "number": 1 + 2j}
    for mine, theirs in [(mine, theirs) for mine in parts for theirs in parts]:
        for exact in (True, False):

            def check(left: complex = parts[mine], right: complex = parts[theirs], exact: bool = exact) -> None:
                verify.equivalent(
                    lambda proc, x: np.full(len(x), left), lambda x: np.full(len(x), right), exact=exact,
                    tolerance=1e-9, sizes=[3], nprocs=[nprocs],
                )  # fmt: skip

            if mine == theirs:
                check()
            else:
                with pytest.raises(verify.Counterexample, match="is specified"):
                    check()


def test_copies_that_are_nan_agree() -> None:
    def total(proc: bsp.Process, x: Any) -> Any:
        return proc.allreduce(x.sum()) * np.nan

    verify.equivalent(total, lambda x: np.nan, collect=verify.Everywhere())
    verify.equivalent(total, lambda x: np.nan, collect=verify.Everywhere(), exact=False)


def test_an_infinite_element_does_not_make_the_tolerance_infinite() -> None:
    def program(proc: bsp.Process, x: Any) -> Any:
        return np.where(x == 1, np.inf, 2.0)

    options: Any = {"exact": False, "tolerance": 1e-9, "sizes": [3]}
    verify.equivalent(program, lambda x: np.where(x == 1, np.inf, 2.0), **options)
    with pytest.raises(verify.Counterexample, match=r"2\.0, but 3\.0 is specified"):
        verify.equivalent(program, lambda x: np.where(x == 1, np.inf, 3.0), **options)


# ----------------------------------------------------------------------------- what does not


def test_the_smallest_counterexample_is_told() -> None:
    def wrong(proc: bsp.Process, x: Any) -> Any:
        return x + (proc.pid if len(x) > 2 else 0)

    with pytest.raises(verify.Counterexample, match=r"for n = 5, p = 2") as caught:
        verify.equivalent(wrong, lambda x: x)
    assert caught.value.case == verify.Case({"n": 5}, 2)
    text = str(caught.value)
    assert "element [2]: 1 + x[2], but x[2] is specified" in text
    assert "test_verify.py:" in text


def test_inputs_are_made_simpler() -> None:
    def clipped(proc: bsp.Process, x: Any) -> Any:
        return np.maximum(x, 0) if proc.pid else x

    with pytest.raises(verify.Counterexample) as caught:
        verify.equivalent(clipped, lambda x: x, sizes=[4], nprocs=[2])
    (x,) = caught.value.inputs
    assert np.count_nonzero(x) == 1
    assert x[2:].min() < 0


def test_disagreeing_copies_and_missing_elements() -> None:
    def own(proc: bsp.Process, x: Any) -> Any:
        return x.sum()

    with pytest.raises(verify.Counterexample, match="they must agree"):
        verify.equivalent(own, np.sum, collect=verify.Everywhere(), sizes=[2], nprocs=[2])
    with pytest.raises(verify.Counterexample, match=r"returned shape \(1,\)"):
        verify.equivalent(lambda proc, x: x[:1], lambda x: x, sizes=[3], nprocs=[1])


@pytest.mark.parametrize("pid", [0, 1, 2])
@pytest.mark.parametrize("other", [1, None])
def test_one_process_that_has_another_copy_is_found_wherever_it_is(pid: int, other: object) -> None:
    def nearly(proc: bsp.Process, x: Any) -> Any:
        total = proc.allreduce(x.sum())
        return other if proc.pid == pid else total

    with pytest.raises(verify.Counterexample, match=r"the result is .* must agree"):
        verify.equivalent(nearly, np.sum, collect=verify.Everywhere(), sizes=[2], nprocs=[3])


def test_errors_and_programs_that_do_not_end() -> None:
    def unequal(proc: bsp.Process, x: Any) -> Any:
        if proc.pid:
            proc.sync()
        return x

    def endless(proc: bsp.Process, x: Any) -> Any:
        while True:
            proc.sync()

    def busy(proc: bsp.Process, x: Any) -> Any:
        while True:
            pass

    def out_of_range(proc: bsp.Process, x: Any) -> Any:
        proc.send(proc.pid + 1, 0)
        proc.sync()
        return x

    for program, text, seconds in [
        (unequal, "SyncMismatch", 60), (endless, "has not ended after 50 supersteps", 60),
        (busy, "has not ended after 0.2 s", 0.2), (out_of_range, "p = 1", 60),
    ]:  # fmt: skip
        with pytest.raises(verify.Counterexample, match=text):
            verify.equivalent(program, lambda x: x, supersteps=50, seconds=seconds)


def test_a_specification_that_raises_is_no_counterexample() -> None:
    def spec(x: Any) -> Any:
        raise RuntimeError("not yet written")

    with pytest.raises(RuntimeError, match="not yet written") as caught:
        verify.equivalent(lambda proc, x: x, spec)
    assert any("raised by the specification" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("nprocs", [1, 2, 3])
@pytest.mark.parametrize("status", [3, "no", None])
def test_a_program_that_exits_is_refuted(nprocs: int, status: Any) -> None:
    def leaves(proc: bsp.Process, x: Any) -> Any:
        if proc.pid == nprocs - 1 and len(x):
            sys.exit(status)
        return x

    with pytest.raises(verify.Counterexample, match=f"for n = 1, p = {nprocs}"):
        verify.equivalent(leaves, lambda x: x, nprocs=[nprocs])


@pytest.mark.parametrize("by", [None, verify.Cyclic()])
def test_scalars_ask_for_another_distribution(by: verify.Distribution | None) -> None:
    def total(proc: bsp.Process, x: Any) -> Any:
        return proc.allreduce(x.sum())

    with pytest.raises(ValueError, match=r"^total: <lambda> gives a scalar.*use collect=Everywhere\(\) if") as caught:
        verify.equivalent(total, lambda x: x.sum(), collect=by)
    assert f"{by or verify.Blocks()} distributes arrays along their first axis" in str(caught.value)
    with pytest.raises(ValueError, match=r"^total: an argument is a scalar.*use distribute=Everywhere\(\)"):
        verify.equivalent(total, lambda x: x, shapes=[()], distribute=by)
    both = verify.equivalent(total, lambda x: x.sum(), collect=verify.Everywhere())
    assert len(both.proven) == 28


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"nprocs": (1, 0)}, r"nprocs=\(1, 0\): numbers of processes are integers from 1"),
        ({"sizes": {"m": [1]}}, r"sizes={'m': \[1\]} has no lengths of 'n', a size of the shapes"),
        ({"collect": (verify.Blocks(),)}, r"\(Blocks\(\),\) is no distribution, such as verify.Blocks\(\)"),
        ({"distribute": ["blocks"]}, "'blocks' is no distribution"),
    ],
)
def test_options_that_make_no_check_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises((ValueError, TypeError), match=f"^equivalent: {text}"):
        verify.equivalent(lambda proc, x: x, lambda x: x, **options)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"sizes": {"n": range(0)}}, r"sizes={'n': range\(0, 0\)}, nprocs=\(1, 2, 3, 4\)"),
        ({"nprocs": ()}, r"nprocs=\(\)"), ({"assume": lambda nprocs, n: False}, "assume="),
        ({"limit": 0}, "limit=0"), ({"limit": -1}, "limit=-1"),
    ],
)  # fmt: skip
def test_a_check_of_no_cases_is_refused(options: dict[str, Any], text: str) -> None:
    def wrong(proc: bsp.Process, x: Any) -> Any:
        return x + 1

    with pytest.raises(ValueError, match=f"there is no case to check wrong for: .*{text}"):
        verify.equivalent(wrong, lambda x: x, **options)


def test_a_negative_number_of_orders_is_refused() -> None:
    with pytest.raises(ValueError, match="equivalent: orders=-1: 0 or more other orders"):
        verify.equivalent(lambda proc, x: x, lambda x: x, orders=-1)


def test_too_many_cases_are_counted() -> None:
    found = verify.equivalent(lambda proc, x: x, lambda x: x, limit=5)
    assert found.left_out == 23
    assert "23 larger cases were left out" in str(found)


def test_wrong_numbers_of_distributions() -> None:
    with pytest.raises(ValueError, match="1 arguments, 2 distributions"):
        verify.equivalent(lambda proc, x: x, lambda x: x, distribute=[verify.Blocks(), verify.Blocks()])


# ------------------------------------------------------------------------------- other orders


def by_memory_that_all_share(orders: int) -> verify.Equivalence:
    """Running sums for which each process looks into a dictionary of all: right only if lower pids come first."""
    sums: dict[int, Any] = {}

    def shared(proc: bsp.Process, x: Any) -> Any:
        sums[proc.pid] = x.sum()
        return np.cumsum(x) + sum(sums.get(k, 0) for k in range(proc.pid))

    return verify.equivalent(shared, np.cumsum, orders=orders)


def test_what_holds_in_one_order_of_turns_only_is_refuted() -> None:
    assert by_memory_that_all_share(0).proven
    for orders in (1, 4):
        with pytest.raises(verify.Counterexample) as caught:
            by_memory_that_all_share(orders)
        assert caught.value.order == "the reverse of pids"
        assert "but only when processes take their turns in another order (the reverse of pids)" in str(caught.value)
        assert caught.value.case.nprocs > 1


def test_an_order_that_is_no_reverse_is_drawn() -> None:
    """Between three processes: the reverse of pids is right, too; an order in which process 1 is an end is not."""
    turns: list[int] = []

    def shared(proc: bsp.Process, x: Any) -> Any:
        if len(turns) == proc.nprocs:
            turns.clear()
        turns.append(proc.pid)
        proc.sync()
        return x + int(turns[1] != 1)

    options: Any = {"sizes": [3], "nprocs": [3]}
    assert verify.equivalent(shared, lambda x: x, **options).proven
    with pytest.raises(verify.Counterexample, match="shuffled by seed") as caught:
        verify.equivalent(shared, lambda x: x, orders=6, **options)
    assert caught.value.order.startswith("shuffled by seed")


def test_a_program_that_fails_in_each_order_is_refuted_in_that_of_pids() -> None:
    with pytest.raises(verify.Counterexample) as caught:
        verify.equivalent(lambda proc, x: x[::-1], lambda x: x)
    assert caught.value.order == ""
    assert "order" not in str(caught.value)


def test_programs_that_need_the_order_of_messages_or_puts_hold_and_are_told() -> None:
    def gathered(proc: bsp.Process, x: Any) -> Any:
        proc.send(0, x)
        proc.sync()
        return np.concatenate([message.payload for message in proc.inbox]) if not proc.pid else None

    def by_source(proc: bsp.Process, x: Any) -> Any:
        proc.send(0, x)
        proc.sync()
        parts = {message.source: message.payload for message in proc.inbox}
        return np.concatenate([parts[k] for k in range(proc.nprocs)]) if not proc.pid else None

    def last(proc: bsp.Process, x: Any) -> Any:
        found = proc.register(np.zeros(1, int))
        found.put(0, proc.pid)
        proc.sync()
        return proc.broadcast(found.local[0])

    def added(proc: bsp.Process, x: Any) -> Any:
        found = proc.register(np.zeros(1, int))
        found.put(0, x.sum(), op="add")
        proc.sync()
        return proc.broadcast(found.local[0])

    needs = verify.equivalent(gathered, lambda x: x, collect=verify.OnRoot())
    assert needs.ordered == verify.Case({"n": 2}, 2)
    assert "needs the order in which puts and messages are applied (D1, D2), first for n = 2, p = 2" in str(needs)
    assert verify.equivalent(by_source, lambda x: x, collect=verify.OnRoot()).ordered is None
    assert verify.equivalent(last, lambda x: 1, collect=verify.Everywhere(), nprocs=[2]).ordered is not None
    assert verify.equivalent(added, np.sum, collect=verify.Everywhere()).ordered is None
    assert verify.equivalent(gathered, lambda x: x, collect=verify.OnRoot(), orders=0).ordered is None


# --------------------------------------------------------------------- laws of distributions


def test_built_in_distributions_are_lawful() -> None:
    for by in (verify.Blocks(), verify.Cyclic(), verify.Everywhere(), verify.OnRoot()):
        verify.lawful(by)


def test_unlawful_distributions_are_found() -> None:
    class Greedy(verify.Distribution):
        def take(self, whole: Any, pid: int, nprocs: int) -> Any:
            found = super().take(whole, pid, nprocs)
            whole[:1] = 0
            return found

    blocks = lambda n, pid, p: slice(n * pid // p, n * (pid + 1) // p)  # noqa: E731
    for by, text in [
        (verify.Distribution(lambda n, pid, p: slice(n // p * pid, n // p * (pid + 1))), "no process's"),
        (verify.Distribution(lambda n, pid, p: slice(0, n), "all"), None),
        (Greedy(blocks), "changes the global value"),
    ]:
        if text is None:
            verify.lawful(by)
        else:
            with pytest.raises(Unlawful, match=text):
                verify.lawful(by)
    with pytest.raises(Unlawful):
        verify.equivalent(lambda proc, x: x, lambda x: x, distribute=Greedy(blocks))


# -------------------------------------------------------------------------------- polynomials

terms = st.recursive(
    st.integers(-3, 3) | st.sampled_from(["x", "y", "z"]),
    lambda inner: st.tuples(st.sampled_from("+-*"), inner, inner),
    max_leaves=8,
)


def evaluated(term: Any, of: Any) -> Any:
    if isinstance(term, int):
        return term
    if isinstance(term, str):
        return of(term)
    sign, a, b = term
    left, right = evaluated(a, of), evaluated(b, of)
    return left + right if sign == "+" else left - right if sign == "-" else left * right


@given(terms, terms, st.tuples(*[st.integers(-50, 50)] * 3))
@examples(200)
def test_polynomials_are_equal_as_functions(a: Any, b: Any, point: tuple[int, int, int]) -> None:
    at = dict(zip("xyz", point, strict=True))
    p, q = (evaluated(term, verify.Polynomial.unknown) for term in (a, b))
    try:
        equal = verify.Polynomial({}) + p == verify.Polynomial({}) + q
    except verify.NeedsValue:  # for some values they are equal, for others not
        equal = None
    if equal is not None:
        assert (evaluated(a, at.get) == evaluated(b, at.get)) == equal
    grid = [dict(zip("xyz", each, strict=True)) for each in np.ndindex(9, 9, 9)]
    if all(evaluated(a, g.get) == evaluated(b, g.get) for g in grid):  # degrees are below 9 in each unknown
        assert equal


def test_unknowns_decide_nothing() -> None:
    x, y = (verify.Polynomial.unknown(name) for name in "xy")
    for wrong in (
        lambda: x > 0, lambda: bool(x), lambda: float(x), lambda: x**-1, lambda: 1 / (x + 1), lambda: abs(x),
        lambda: x == y, lambda: x != 3, lambda: x == 0.5, lambda: x == True, lambda: x in (1, 2), lambda: {x: 1},  # noqa: E712
        lambda: np.array([x]) == 7,
    ):  # fmt: skip
        with pytest.raises((verify.NeedsValue, TypeError)):
            wrong()
    assert (x - x) == 0 == hash(x - x)
    assert (x - x) == 0.0
    assert x + 1 != x
    assert x != None  # noqa: E711
    assert not x - x
    assert (x / 2) * 2 == x
    assert x * Fraction(1, 3) + x * Fraction(2, 3) == x
    assert str((x + 1) * (x - 1)) == "-1 + x**2"


def without_sevens(proc: bsp.Process, x: Any) -> Any:
    return np.where(x == 7, 0, x)


def without_repetitions(proc: bsp.Process, x: Any) -> Any:
    return np.array([*dict.fromkeys(x.tolist()), *[0] * (len(x) - len(set(x.tolist())))], x.dtype)


def differences_of_itself(proc: bsp.Process, x: Any) -> Any:
    return x - x


def test_a_program_that_decides_by_equal_values_is_not_proven() -> None:
    found = verify.equivalent(without_sevens, lambda x: x)
    assert all(case.sizes["n"] == 0 for case in found.proven)
    assert "decides by whether x[0] == 7" in str(found)


def with_a_way_out(proc: bsp.Process, x: Any) -> Any:
    try:
        return np.where(x < 3, x, 0)
    except TypeError:
        return x


def test_an_exception_of_an_unknown_that_the_program_catches_proves_nothing() -> None:
    with pytest.raises(verify.Counterexample, match="is not <lambda> for n = 3, p = 1"):
        verify.equivalent(with_a_way_out, lambda x: x, sizes=[0, 3])


def test_equal_values_are_tried() -> None:
    with pytest.raises(verify.Counterexample) as caught:
        verify.equivalent(without_repetitions, lambda x: x, nprocs=[1])
    assert len(set(caught.value.inputs[0].tolist())) < len(caught.value.inputs[0])


def test_a_constant_polynomial_is_equal_to_a_float() -> None:
    assert not verify.equivalent(differences_of_itself, lambda x: np.zeros(len(x))).tried


def test_inputs_may_be_any_values() -> None:
    def scaled(proc: bsp.Process, x: Any, factor: int) -> Any:
        return x * factor

    found = verify.equivalent(
        scaled, lambda x, factor: x * factor, distribute=[verify.Blocks(), verify.Everywhere()],
        values=lambda rng, n: (rng.integers(0, 9, n), 3),
    )  # fmt: skip
    assert not found.proven


# ------------------------------------------------------------------------- mutants, refinement


def test_most_mutants_of_the_examples_are_found() -> None:
    ran = command(str(EXAMPLES / "verified.py"), "--mutate")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "mutants found (96%)" in ran.stdout.splitlines()[-1]


def test_a_weak_check_leaves_mutants() -> None:
    found = verify.mutated(running_sums, np.cumsum, sizes=[1], nprocs=[1])
    assert found.share < 1
    assert all(each.line > 0 for each in found.survivors)
    assert "not found" in str(found)


class Pair:
    """x, y and their sum, kept (P2 of the thesis, section 7.2)."""

    def __init__(self, x: int, y: int) -> None:
        self.x, self.y, self.s = x, y, x + y

    def total(self) -> int:
        return self.s

    def product(self, factor: int) -> None:
        self.x, self.y, self.s = self.x * factor, self.y * factor, self.s * factor


class Forgetful(Pair):
    """P3: `product` forgets the sum."""

    def product(self, factor: int) -> None:
        self.x, self.y = self.x * factor, self.y * factor


class Plain:
    """P1: the sum is computed when it is asked for."""

    def __init__(self, x: int, y: int) -> None:
        self.x, self.y = x, y

    def total(self) -> int:
        return self.x + self.y

    def product(self, factor: int) -> None:
        self.x, self.y = self.x * factor, self.y * factor


def refined(ours: type) -> int:
    states = [(x, y) for x in range(-2, 3) for y in range(-2, 3)]
    return verify.refines(
        ours, Plain, box=(lambda s: ours(*s), lambda s: Plain(*s)), unbox=(lambda o: (o.x, o.y), lambda o: (o.x, o.y)),
        states=states, calls={"total": [()], "product": [(0,), (2,), (-1,)]}, invariant=lambda o: o.s == o.x + o.y,
    )  # fmt: skip


@pytest.mark.parametrize("without", [{"states": []}, {"states": [(1, 2)], "calls": {}}])
def test_a_refinement_that_compares_nothing_is_refused(without: dict[str, Any]) -> None:
    both = {"box": (lambda s: Pair(*s), lambda s: Plain(*s)), "unbox": (lambda o: (o.x, o.y), lambda o: (o.x, o.y))}
    with pytest.raises(ValueError, match=r"^refines: there is nothing to compare Pair for: give states"):
        verify.refines(Pair, Plain, **both, **without)


class Stack:
    """A stack that keeps the list that it is given."""

    def __init__(self, items: list[int]) -> None:
        self.items = items

    def push(self, values: list[int]) -> None:
        while values:
            self.items.append(values.pop(0))

    def clear(self) -> None:
        self.items.clear()


class Unclear(Stack):
    def clear(self) -> None:
        """Do nothing, by mistake."""


def test_objects_that_keep_their_state_do_not_share_it() -> None:
    kept: Any = {"unbox": (lambda stack: stack.items,) * 2, "states": [[], [1], [1, 2]]}
    calls: Any = {"push": [([3, 4],)], "clear": [()]}
    assert verify.refines(Stack, Stack, box=(Stack, Stack), calls=calls, **kept) == 6
    with pytest.raises(verify.Counterexample, match=r"Unclear.clear\(\) from the state \[1\] leaves \[1\], but"):
        verify.refines(Unclear, Stack, box=(Unclear, Stack), calls=calls, **kept)


def test_the_packages_of_the_thesis() -> None:
    assert refined(Pair) == 25 * 4
    with pytest.raises(verify.Counterexample, match=r"Forgetful.product\(0,\) from the state .* breaks the invariant"):
        refined(Forgetful)


def test_arrays_refine_numpys() -> None:
    """`bsp.arrays.Array` against NumPy's array, each method alone, from small arrays in all layouts of 3 processes."""
    import bsp.arrays as ba

    rng = np.random.default_rng(0)
    states = [
        rng.integers(-5, 6, shape).astype(kind)
        for shape in [(0,), (1,), (5,), (2, 3), (3, 1, 2)]
        for kind in (int, float)
    ]
    calls: dict[str, Any] = {
        "sum": [(), (0,)], "prod": [()], "cumsum": [()], "mean": [(-1,)], "any": [()], "all": [()], "argsort": [()],
        "ravel": [()], "reshape": [(-1,)], "transpose": [()], "copy": [()], "round": [()], "conj": [()],
        "nonzero": [()], "clip": [(-1, 2)], "max": [(0,)], "argmin": [()], "ptp": [()], "item": [(0,)], "tolist": [()],
        "astype": [(np.float32,)], "repeat": [(2,)], "take": [([0],)], "dot": [(2,)], "squeeze": [()],
        "flatten": [()], "var": [()], "std": [()],
    }  # fmt: skip

    def plain(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(plain, value))
        return (
            value.compute()
            if isinstance(value, ba.Array)
            else np.asarray(value)
            if isinstance(value, np.generic)
            else value
        )

    def near(a: Any, b: Any) -> bool:
        if isinstance(a, tuple):
            return len(a) == len(b) and all(map(near, a, b))
        if isinstance(a, type) or isinstance(b, type):
            return isinstance(a, type) and isinstance(b, type) and (issubclass(a, b) or issubclass(b, a))
        x, y = np.asarray(a), np.asarray(b)
        return x.shape == y.shape and x.dtype == y.dtype and bool(np.allclose(x, y, rtol=0, atol=1e-9, equal_nan=True))

    def main(proc: bsp.Process) -> int:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return verify.refines(
                ba.Array, np.ndarray, box=(lambda s: ba.asarray(s, grid=(3, *[1] * (s.ndim - 1))), lambda s: s.copy()),
                unbox=(plain, plain), states=states, calls=calls, same=near,
            )  # fmt: skip

    assert bsp.run(main, nprocs=3)[0] > 250


def test_sparse_arrays_refine_scipys() -> None:
    import scipy.sparse as ss

    from bsp.arrays import sparse

    rng = np.random.default_rng(1)
    states = [rng.integers(0, 3, shape) * (rng.random(shape) < 0.5) * 1.0 for shape in [(3, 3), (2, 5), (4, 1)]]
    calls: dict[str, Any] = {
        "sum": [(), (0,), (1,)], "mean": [(), (0,)], "transpose": [()], "diagonal": [()], "tocsr": [()], "tocsc": [()],
        "power": [(2,)], "conj": [()], "todense": [()], "trace": [()], "copy": [()],
    }  # fmt: skip

    def plain(value: Any) -> Any:
        value = value.compute() if hasattr(value, "compute") else value
        return value.toarray() if ss.issparse(value) else np.asarray(value)

    def main(proc: bsp.Process) -> int:
        return verify.refines(
            sparse.SparseArray, ss.csr_array, box=(sparse.from_scipy, ss.csr_array), unbox=(plain, plain),
            states=states, calls=calls, same=lambda a, b: a.shape == b.shape and np.allclose(a, b, rtol=0, atol=1e-12),
        )  # fmt: skip

    assert bsp.run(main, nprocs=2)[0] == 3 * 14


# ---------------------------------------------------------------------------- promises, command


@verify.spec(np.cumsum)
def test_a_promise_checks_itself(proc: bsp.Process, x: Any) -> Any:
    return running_sums(proc, x)


def test_a_promise_runs_as_a_program() -> None:
    (found,) = bsp.run(lambda proc: test_a_promise_checks_itself(proc, np.arange(3)), nprocs=1)
    assert found.tolist() == [0, 1, 3]


def command(*words: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from bsp.command.tool import bsp; sys.exit(bsp(sys.argv[1:]))"
    return subprocess.run([sys.executable, "-c", code, "verify", *words], capture_output=True, text=True, timeout=120)


def test_the_command(tmp_path: Path) -> None:
    good = command(str(EXAMPLES / "verified.py"))
    assert good.returncode == 0, good.stderr
    assert "running_sums: equivalent in 28 cases; 28 of them proven for all values" in good.stdout
    one = command(f"{EXAMPLES / 'verified.py'}::transposed", "--limit", "10")
    assert one.stdout.splitlines() == [
        "transposed: equivalent in 10 cases; 10 of them proven for all values; 90 larger cases were left out: raise "
        "limit= to run them"
    ]
    more = command(f"{EXAMPLES / 'verified.py'}::running_sums", "--orders", "5")
    assert more.stdout == "running_sums: equivalent in 28 cases; 28 of them proven for all values\n"
    bad = tmp_path / "bad.py"
    bad.write_text("from bsp import verify\n\n\n@verify.spec(lambda x: x)\ndef program(proc, x):\n    return x[::-1]\n")
    refuted = command(str(bad))
    assert refuted.returncode == 1
    assert "program: refuted" in refuted.stdout
    assert "for n = 2, p = 1" in refuted.stdout
    bad.write_text("x = 1\n")
    nothing = command(str(bad))
    assert nothing.returncode == 2
    assert "no function here is decorated" in nothing.stderr


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def f(:\n", "SyntaxError: invalid syntax"),
        ("import bsp\nraise OSError(2, 'gone', 'data')\n", "FileNotFoundError: [Errno 2] gone: 'data'"),
        ("import not_installed\n", "ModuleNotFoundError: No module named 'not_installed'"),
    ],
)
def test_the_command_shows_where_a_file_fails(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "wrong.py"
    file.write_text(text)
    found = command(str(file))
    assert found.returncode == 2
    lines = found.stderr.splitlines()
    assert lines[0] == f"bsp verify: error: {file} cannot be imported" and lines[-1] == told
    assert [line.split('"')[1] for line in lines if line.startswith("  File")] == [str(file)]


def test_the_command_reports_each_function_on_its_own(tmp_path: Path) -> None:
    file = tmp_path / "several.py"
    file.write_text(
        """
import sys
from bsp import verify

@verify.spec(lambda x: x.sum())
def scalar(proc, x):
    return proc.allreduce(x.sum())

def unwritten(x):
    raise RuntimeError("not yet written")

@verify.spec(unwritten)
def raising(proc, x):
    return x

@verify.spec(lambda x: x, nprocs=())
def nothing(proc, x):
    return x + 1

@verify.spec(lambda x: x)
def exits(proc, x):
    sys.exit(3)

@verify.spec(lambda x: sys.exit(3))
def specified_exit(proc, x):
    return x

short = verify.spec(lambda x: x)(lambda proc, x: x)

@verify.spec(lambda x: x, sizes=[1])
def right(proc, x):
    return x
"""
    )
    found = command(str(file))
    assert (found.returncode, found.stderr) == (1, "")
    for text in [
        "scalar: not checked\nValueError: scalar: <lambda> gives a scalar.",
        "raising: not checked\nRuntimeError: not yet written\nraised by the specification unwritten, ",
        "nothing: not checked\nValueError: equivalent: there is no case to check nothing for: ",
        "exits: refuted\nexits is not <lambda> for n = 0, p = 1\n  input: []\n  it raises SystemExit: 3\n",
        "specified_exit: not checked\nSystemExit: 3\n",
        "short: equivalent in 28 cases",
        "right: equivalent in 4 cases; 4 of them proven for all values\n",
    ]:
        assert text in found.stdout
    mutants = command(f"{file}::short", "--mutate")
    assert (mutants.returncode, mutants.stderr) == (1, "")
    assert (
        "short: not checked\nTypeError: <lambda>: its source is needed: a function that `def` makes" in mutants.stdout
    )
    file.write_text("import sys\nsys.exit(0)\n")
    left = command(str(file))
    assert left.returncode == 2
    assert "it calls sys.exit(0) when it is imported" in left.stderr
