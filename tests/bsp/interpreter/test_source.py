"""A source line is the user's."""

from __future__ import annotations

import importlib
import sys
import traceback
from dataclasses import dataclass

import numpy as np
import pytest

import bsp
from bsp.session.tracebacks import told
from bsp.source import SourceLine, assigned_name, here, traceback_of, user_line, without_ours


def test_a_source_line_is_the_users_and_names_what_it_assigns() -> None:
    class Proc:
        def coarray(self, size: int) -> SourceLine:
            frame = sys._getframe(1)
            return SourceLine((frame.f_code.co_filename, frame.f_lineno))

    proc = Proc()
    rows = proc.coarray(3)
    assert assigned_name(rows) == "rows"
    left, right = proc.coarray(1), proc.coarray(2)
    assert assigned_name(left) is None is assigned_name(right)
    first = proc.coarray(1); second = proc.coarray(2)  # noqa: E702  # fmt: skip
    assert assigned_name(first) is None is assigned_name(second)
    assert user_line(sys._getframe())[0] == __file__ and "test_source.py:" in str(rows)


def test_a_line_of_numpy_is_not_the_users() -> None:
    class Asked:
        def __array__(self, *_: object, **__: object) -> np.ndarray:
            self.line = here()
            return np.zeros(1)

    asked = Asked()
    np.sum(asked)  # type: ignore[call-overload]
    assert asked.line[0] == __file__


def test_a_traceback_of_an_import_has_the_users_lines_alone() -> None:
    with pytest.raises(ModuleNotFoundError) as caught:
        importlib.import_module("not_installed.at_all")
    assert len(traceback.extract_tb(caught.value.__traceback__)) > 1
    lines = [line for line in traceback_of(caught.value).splitlines() if line.startswith("  File")]
    assert len(lines) == 1 and __file__ in lines[0]


def test_the_init_that_a_dataclass_of_this_package_has_is_in_no_traceback() -> None:
    @dataclass
    class Own:
        p: int

        def __post_init__(self) -> None:
            try:
                bsp.Machine(p=self.p, r=1e9, g=1.0, L=1.0)
            except ValueError as wrong:
                raise KeyError from wrong

    with pytest.raises(KeyError) as caught:
        Own(0)
    first, then = traceback_of(caught.value).split("The above exception")
    assert [line.split(", in ")[1] for line in first.splitlines() if line.startswith("  File")] == ["__post_init__"]
    assert [line.split(", in ")[-1] for line in then.splitlines() if line.startswith("  File")] == [
        "test_the_init_that_a_dataclass_of_this_package_has_is_in_no_traceback",
        "__init__",  # of the class above
        "__post_init__",
    ]
    cause = caught.value.__cause__
    assert cause is not None
    assert {place.file for place in told(cause).places()} == {__file__}
    shown = without_ours(cause, explained=True)
    assert [frame.name for frame in traceback.extract_tb(shown)] == ["__post_init__"]
