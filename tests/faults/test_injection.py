"""--inject: what is parsed gives its text back, and every typing error is told with what is known."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from bsp.faults.injection import KINDS, Fault, check, parse, stretch

BRIEF = (
    "kill:element=3,superstep=17; stop:element=1,superstep=5; slow:element=2,factor=10; tails:D=2,seed=1; "
    "flip:process=4,superstep=9"
)

naturals = st.integers(0, 10**18 - 1)
above_zero = st.floats(min_value=0, exclude_min=True, allow_infinity=False)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "seconds": above_zero,
    "status": st.integers(0, 255),
    "name": st.sampled_from(["SIGSEGV", "SIGABRT", "SIGTERM", "SIGKILL", "SIGUSR1"]),
    "factor": st.floats(min_value=1, allow_infinity=False),
    "D": above_zero,
    "unit": above_zero,
    "rate": st.floats(min_value=0, max_value=1, exclude_min=True),
    "what": st.sampled_from(["message", "state"]),
}
FIELDS = {"from": "since"}


@st.composite
def faults(draw: st.DrawFn) -> Fault:
    """Any fault that can be written."""
    kind = draw(st.sampled_from(list(KINDS)))
    keys = [draw(st.sampled_from(need.split("|"))) for need in KINDS[kind].needs]
    keys += [key for key in KINDS[kind].may if draw(st.booleans())]
    values = {FIELDS.get(key, key): draw(VALUES.get(key, naturals)) for key in keys}
    if "since" in values and "until" in values:
        values["since"], values["until"] = sorted((values["since"], values["until"]))
    return Fault(kind, **values)


# ------------------------------------------------------------------------------- what is written


@given(st.lists(faults(), min_size=1, max_size=5))
def test_parse_gives_back_the_faults_whose_text_it_reads(some: list[Fault]) -> None:
    text = "; ".join(map(str, some))
    assert parse(text) == tuple(some)
    assert "; ".join(map(str, parse(text))) == text


@given(st.lists(faults(), min_size=1, max_size=3), st.randoms(use_true_random=False))
def test_neither_the_order_of_keys_nor_spaces_matter(some: list[Fault], rng: Any) -> None:
    parts = []
    for fault in some:
        kind, _, rest = str(fault).partition(":")
        items = rest.split(",")
        rng.shuffle(items)
        parts.append(f"  {kind} : " + " , ".join(item.replace("=", " = ") for item in items))
    assert parse(";".join(parts)) == tuple(some)


def test_the_text_of_the_help_is_read() -> None:
    assert parse(BRIEF) == (
        Fault("kill", element=3, superstep=17),
        Fault("stop", element=1, superstep=5),
        Fault("slow", element=2, factor=10.0),
        Fault("tails", D=2.0, seed=1),
        Fault("flip", process=4, superstep=9, clone=0, what="message"),
    )
    assert "; ".join(map(str, parse(BRIEF))) == BRIEF


@pytest.mark.parametrize("kind", KINDS)
def test_every_kinds_example_is_read_and_says_what_it_does(kind: str) -> None:
    (fault,) = parse(KINDS[kind].example)
    assert fault.kind == kind
    assert str(fault) == KINDS[kind].example
    assert KINDS[kind].does


def test_what_is_left_out_is_as_documented() -> None:
    (flip,) = parse("flip:process=4,superstep=9,clone=0,what=message")
    assert str(flip) == "flip:process=4,superstep=9"
    (slow,) = parse("slow:element=2,factor=1.5,from=5,until=9")
    assert [slow.lasts(superstep) for superstep in (4, 5, 9, 10)] == [False, True, True, False]
    (always,) = parse("slow:element=2,factor=1.5")
    assert always.lasts(0)
    assert always.lasts(10**9)


def test_the_host_is_the_element_or_the_element_of_the_worker() -> None:
    kill, worker, tails = parse("kill:element=3,superstep=1; kill:worker=2,superstep=1; tails:D=2,seed=1")
    assert (kill.host, worker.host, tails.host) == (3, 2, None)


# -------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "",
            "no fault in ''; the kinds are kill, stop, signal, exit, raise, slow, tails, flip, drop, delay, duplicate",
        ),
        ("  ", "no fault in '  '"),
        ("kill:element=3,superstep=17;", "there is an empty part in 'kill:element=3,superstep=17;'"),
        ("kill:element=3,superstep=1;;stop:element=1,superstep=5", "there is an empty part"),
        ("kil:element=3,superstep=1", "'kil:element=3,superstep=1': no kind 'kil'; the kinds are kill, stop, "),
        ("element=3", "'element=3': no kind 'element=3'"),
        (":element=3", "no kind ''"),
        ("Kill:element=3,superstep=1", "no kind 'Kill'"),
        ("kill", "'kill': nothing after the kind; kill takes element or worker, superstep; for example kill:element=3"),
        ("kill:", "'kill:': nothing after the kind"),
        ("kill:element=3", "superstep is missing"),
        ("kill:superstep=3", "element or worker is missing"),
        ("kill:element=3,worker=3,superstep=1", "element and worker exclude each other"),
        ("kill:element=3,element=3,superstep=1", "element is given twice"),
        ("kill:element=3,superstep=1,", "'' is not key=value"),
        ("kill:element,superstep=1", "'element' is not key=value"),
        ("kill:element=,superstep=1", "'element=' is not key=value"),
        ("kill:=3,superstep=1", "'=3' is not key=value"),
        ("kill:elemnt=3,superstep=1", "no key 'elemnt'; kill takes element or worker, superstep; for example "),
        ("kill:element=3,superstep=1,factor=2", "no key 'factor'"),
        ("kill:element=-1,superstep=1", "element is a whole number from 0 on, not '-1'"),
        ("kill:element=1.0,superstep=1", "element is a whole number from 0 on, not '1.0'"),
        ("kill:element=1_0,superstep=1", "element is a whole number from 0 on, not '1_0'"),
        ("kill:element=٣,superstep=1", "element is a whole number from 0 on, not '٣'"),
        ("kill:element=3,superstep=two", "superstep is a whole number from 0 on, not 'two'"),
        ("kill:element=3:superstep=2", "element is a whole number from 0 on, not '3:superstep=2'"),
        ("stop:element=1,superstep=5,seconds=0", "seconds is a number above 0, not '0'"),
        ("stop:element=1,superstep=5,seconds=nan", "seconds is a number above 0, not 'nan'"),
        ("stop:element=1,superstep=5,seconds=1e999", "seconds is a number above 0, not '1e999'"),
        ("stop:element=1,superstep=5,seconds=2s", "seconds is a number above 0, not '2s'"),
        ("stop:element=1,superstep=5,seconds=1e", "seconds is a number above 0, not '1e'"),
        ("signal:worker=1,superstep=3,name=SEGV", "name is a signal of this system, like SIGSEGV, SIGABRT or SIGTERM"),
        ("signal:worker=1,superstep=3", "name is missing"),
        ("exit:worker=1,superstep=3,status=256", "status is an exit status from 0 to 255, not '256'"),
        ("exit:element=1,superstep=3,status=1", "no key 'element'; exit takes worker, superstep, status; for example"),
        ("raise:superstep=3", "worker is missing"),
        ("slow:element=2,factor=0.5", "factor is a number from 1 on, not '0.5'; slow takes element, factor (opt"),
        ("slow:element=2,factor=2,from=9,until=5", "from=9 is after until=5"),
        ("tails:D=0,seed=1", "D is a number above 0, not '0'"),
        ("tails:d=2,seed=1", "no key 'd'; tails takes D, seed (optional: unit); for example tails:D=2,seed=1"),
        ("tails:D=2", "seed is missing"),
        ("flip:process=4,superstep=9,what=bits", "what is message or state, not 'bits'"),
        ("flip:superstep=9", "process is missing"),
        ("drop:rate=0,seed=1", "rate is a number above 0 and not above 1, not '0'"),
        ("drop:rate=1.01,seed=1", "rate is a number above 0 and not above 1, not '1.01'"),
        ("delay:rate=0.01,seed=1", "seconds is missing"),
        ("duplicate:rate=1%,seed=1", "rate is a number above 0 and not above 1, not '1%'"),
    ],
)
def test_a_wrong_part_is_named_with_what_is_known_and_an_example(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^--inject: .*{re.escape(reason)}") as raised:
        parse(text)
    message = str(raised.value)
    assert "\n" not in message
    assert "for example " in message or "empty part" in message


def test_only_the_wrong_part_is_named() -> None:
    with pytest.raises(ValueError, match=r"^--inject: 'stop:element=1': superstep is missing;"):
        parse("kill:element=3,superstep=17; stop:element=1; tails:D=2,seed=1")


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    try:
        assert parse(text)
    except ValueError as error:
        assert str(error).startswith("--inject: ")
        assert len(str(error).splitlines()) == 1


def test_numbers_out_of_range_are_refused_before_the_run() -> None:
    check(parse(BRIEF), elements=4, nprocs=5)
    for text, reason in [
        ("kill:element=4,superstep=1", "'kill:element=4,superstep=1': there is no element 4, only 0 to 3"),
        ("raise:worker=7,superstep=1", "'raise:worker=7,superstep=1': there is no element 7, only 0 to 3"),
        ("flip:process=5,superstep=1", "'flip:process=5,superstep=1': there is no process 5, only 0 to 4"),
    ]:
        with pytest.raises(ValueError, match=f"^--inject: {re.escape(reason)}$"):
            check(parse(text), elements=4, nprocs=5)
    with pytest.raises(ValueError, match="there is no element 1, only element 0"):
        check(parse("slow:element=1,factor=2"), elements=1, nprocs=5)


# ---------------------------------------------------------------------------------------- tails


@pytest.mark.parametrize("D", [0.5, 1.0, 2.0, 4.0])
def test_stretches_are_pareto(D: float) -> None:
    """McColl 1.8.2: 'an expected fraction P/t^D ... fail to complete any round in less than t·MinTime'."""
    factors = np.array([stretch(D, 1, element, superstep) for element in range(40) for superstep in range(100)])
    assert factors.min() >= 1
    assert kstest(factors, "pareto", args=(D,)).pvalue > 0.01  # the seed is fixed: passes always or never
    assert kstest(factors, "pareto", args=(1.1 * D,)).pvalue < 0.001  # and would see another exponent


def test_a_stretch_depends_on_its_arguments_alone_and_on_all_of_them() -> None:
    assert stretch(2, 1, 3, 17) == stretch(2.0, 1, 3, 17)
    others = [
        stretch(2, 2, 3, 17),
        stretch(2, 1, 4, 17),
        stretch(2, 1, 3, 18),
        stretch(2, 1, 17, 3),
        stretch(3, 1, 3, 17),
    ]
    assert len({stretch(2, 1, 3, 17), *others}) == 6


def test_stretches_of_elements_are_independent() -> None:
    logs = np.log([[stretch(2, 5, element, superstep) for superstep in range(1000)] for element in range(4)])
    assert np.abs(np.corrcoef(logs) - np.eye(4)).max() < 4 / np.sqrt(1000)


def test_the_first_stretches_are_pinned() -> None:
    """A recorded run is repeated on any machine with any NumPy."""
    found = [stretch(2, 1, element, 0) for element in range(3)]
    np.testing.assert_allclose(found, [1.6653082253032707, 1.9907888735960273, 1.2054887871242983], rtol=1e-12, atol=0)


def test_a_stretch_is_finite_for_any_D() -> None:
    assert all(np.isfinite(stretch(1e-300, 1, element, 0)) for element in range(20))
    for D in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="D must be above 0"):
            stretch(D, 1, 0, 0)
