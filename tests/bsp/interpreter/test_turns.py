"""Changes of turns: what a process draws and sets is its own, in C and in Python, as if it were alone."""

from __future__ import annotations

import asyncio
import io
import random
import sys
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bsp.interpreter import turns
from bsp.interpreter.belongings import Belongings, set_warning_state, warning_state, without_loop
from bsp.interpreter.generators import GlobalStreams, lent

Change = tuple[Callable[[Belongings], None], Callable[[Belongings], None]]
BY: dict[str, Change] = {"Python": (Belongings.enter, Belongings.leave), "here": (turns.enter, turns.leave)}


def delete_stdout() -> None:
    if hasattr(sys, "stdout"):
        del sys.stdout


def delete_argv() -> None:
    if hasattr(sys, "argv"):
        del sys.argv


def own_bits() -> None:
    np.random.set_bit_generator(np.random.PCG64(7))  # type: ignore[attr-defined]


def half_of_a_pair() -> None:
    state: Any = np.random.get_state(legacy=False)
    if "has_gauss" in state:
        np.random.set_state(state | {"has_gauss": 1, "gauss": 0.25})


# what a process may do in its turn; what it returns is what it sees of the interpreter
DOINGS: dict[str, Callable[[], Any]] = {
    "uniform": lambda: float(np.random.random()),
    "normal": lambda: float(np.random.normal()),
    "many": lambda: np.random.random(700).tolist(),
    "seed": lambda: np.random.seed(3),
    "own bits": own_bits,
    "half": half_of_a_pair,
    "by a generator": lambda: float(np.random.Generator(np.random.get_bit_generator()).random()),  # type: ignore[attr-defined]
    "random": random.random,
    "gauss": lambda: random.gauss(0, 1),
    "many of random": lambda: [random.random() for _ in range(400)],
    "seed of random": lambda: random.seed(4),
    "argv": lambda: (getattr(sys, "argv", None) or []).append("more"),
    "no argv": delete_argv,
    "other argv": lambda: setattr(sys, "argv", ["other"]),
    "stdout": lambda: setattr(sys, "stdout", io.StringIO("mine")),
    "no stdout": delete_stdout,
    "stdin": lambda: setattr(sys, "stdin", None),
    "filters": lambda: setattr(warnings, "filters", [*warnings.filters, "mine"]),
    "show": lambda: setattr(warnings, "showwarning", print),
    "loop": lambda: asyncio._set_running_loop(f"loop of {sys.modules['__main__'].__name__}"),  # type: ignore[arg-type]
    "no loop": lambda: asyncio._set_running_loop(None),
    "nothing": lambda: None,
}


def seen() -> tuple[Any, ...]:
    """Return what a process sees of the interpreter without drawing."""
    out, argv = getattr(sys, "stdout", None), getattr(sys, "argv", None)
    return (
        sys.modules["__main__"].__name__, repr(argv), out.getvalue() if isinstance(out, io.StringIO) else out,
        sys.stdin, len(warnings.filters), warnings.showwarning, asyncio._get_running_loop(),
    )  # fmt: skip


def run(steps: list[tuple[int, list[str]]], enter: Callable[[Any], None], leave: Callable[[Any], None]) -> list[Any]:
    """Give turns to three processes; return what each has seen, in the order of the turns."""
    kept = sys.modules["__main__"], sys.stdout, sys.stdin, sys.argv, warning_state()
    found = []
    try:
        sys.argv = ["program"]
        own = [
            Belongings(ModuleType(f"main{pid}"), GlobalStreams(5, pid), io.StringIO(f"out {pid}"), io.StringIO())
            for pid in range(3)
        ]
        inputs = [each.stdin for each in own]
        with lent(), without_loop():
            for pid, doings in steps:
                enter(own[pid])
                sights = [seen(), *((doing, DOINGS[doing]()) for doing in doings)]
                found.append((pid, repr(sights).replace(repr(inputs[pid]), "its input")))
                leave(own[pid])
            assert asyncio._get_running_loop() is None
    finally:
        sys.modules["__main__"], sys.stdout, sys.stdin, sys.argv = kept[:4]
        set_warning_state(kept[4])
    return found


turns_of_three = st.lists(
    st.tuples(st.integers(0, 2), st.lists(st.sampled_from(sorted(DOINGS)), max_size=3)), min_size=1, max_size=12
)


def test_c_is_compiled_where_a_compiler_is() -> None:
    pytest.importorskip("bsp.interpreter._turns", reason="the package was installed without a C compiler")
    assert turns.COMPILED


@pytest.mark.parametrize("how", BY)
@given(steps=turns_of_three)
def test_a_process_sees_what_it_would_see_alone(how: str, steps: list[tuple[int, list[str]]]) -> None:
    together = run(steps, *BY[how])
    for pid in range(3):
        mine = [step for step in steps if step[0] == pid]
        assert [each for each in together if each[0] == pid] == run(mine, *BY["Python"])


@given(steps=turns_of_three)
def test_a_lone_process_sees_what_plain_python_shows(steps: list[tuple[int, list[str]]]) -> None:
    """The oracle for what is drawn: NumPy's and Python's own generators, never put aside."""
    drawing = [[d for d in doings if d in ("uniform", "normal", "many", "random", "gauss")] for _, doings in steps]
    streams = GlobalStreams(5, 0)
    kept = np.random.get_bit_generator(), random.getstate()  # type: ignore[attr-defined]
    try:
        np.random.set_bit_generator(np.random.MT19937(np.random.SeedSequence([5, 0, 1])))  # type: ignore[attr-defined]
        words = np.random.SeedSequence([5, 0, 2]).generate_state(4)
        random.seed(int.from_bytes(words.tobytes(), "little"))
        wanted = [[DOINGS[doing]() for doing in doings] for doings in drawing]
    finally:
        np.random.set_bit_generator(kept[0])  # type: ignore[attr-defined]
        random.setstate(kept[1])
    own = Belongings(None, streams, sys.stdout, sys.stdin)
    other = Belongings(None, GlobalStreams(5, 1), sys.stdout, sys.stdin)
    got = []
    with lent():
        for doings in drawing:
            turns.enter(own)
            got.append([DOINGS[doing]() for doing in doings])
            turns.leave(own)
            turns.enter(other)
            np.random.normal(), random.gauss(0, 1)
            turns.leave(other)
    assert got == wanted


@pytest.mark.parametrize("how", BY)
def test_a_program_that_forbids_asyncio_has_its_turns(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    enter, leave = BY[how]
    own = Belongings(None, GlobalStreams(5, 0), sys.stdout, sys.stdin)
    monkeypatch.setitem(sys.modules, "asyncio", None)
    with lent():
        enter(own)
        first = np.random.random()
        leave(own)
        enter(own)
        assert np.random.random() != first
        leave(own)


def test_what_is_no_process_is_refused() -> None:
    for change in (turns.enter, turns.leave):
        with pytest.raises((TypeError, AttributeError)):
            change(object())  # type: ignore[arg-type]
