"""Parts of a session without processes: exceptions as they travel, handles in pickles, the cells of a notebook.

What sessions do with real processes is in tests/mpi/test_sessions.py and test_notebook.py.
"""

from __future__ import annotations

import linecache
import sys
import traceback
from typing import Any

import pytest

import bsp
from bsp.errors import PutOutOfRange
from bsp.session import cells
from bsp.session.handles import Handles, Kept
from bsp.session.tracebacks import rebuilt, told

pytestmark = pytest.mark.solo


def raised(source: str, name: str, call: str) -> BaseException:
    """The exception of a function whose source only this process has."""
    linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    names: dict[str, Any] = {}
    exec(compile(source, name, "exec"), names)
    try:
        names[call]()
    except LookupError as error:
        error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
        return error
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize("before", [0, 1, 70])
@pytest.mark.parametrize("inside", [0, 1, 30, 31, 32, 62, 63, 64, 2047, 2048, 5000])
def test_a_rebuilt_traceback_stands_at_the_same_line(before: int, inside: int) -> None:
    """Whatever the distance from the beginning of the function, which takes one byte or several."""
    source = "\n" * before + "def fails():\n" + "    pass\n" * inside + "    return {}['rate']\n"
    name = f"<only there {before} {inside}>"
    error = raised(source, name, "fails")
    travelled = told(error)
    del linecache.cache[name]
    found = rebuilt(travelled)
    assert (type(found), found.args) == (KeyError, ("rate",))
    (frame,) = traceback.extract_tb(found.__traceback__)
    assert (frame.filename, frame.lineno, frame.name) == (name, before + inside + 2, "fails")
    assert frame.line == "return {}['rate']"  # as the process has told it: the file is not here
    assert found.__traceback__ is not None
    assert found.__traceback__.tb_frame.f_code.co_firstlineno == before + 1


def test_causes_and_contexts_travel_and_hidden_ones_stay_hidden() -> None:
    source = """
def first():
    raise IndexError("first")

def caused():
    try:
        first()
    except IndexError as error:
        raise KeyError("second") from error

def handling():
    try:
        first()
    except IndexError:
        raise KeyError("second")

def hiding():
    try:
        first()
    except IndexError:
        raise KeyError("second") from None
"""
    caused, handling, hiding = (rebuilt(told(raised(source, "<causes>", call)))
                                for call in ("caused", "handling", "hiding"))  # fmt: skip
    assert isinstance(caused.__cause__, IndexError)
    assert isinstance(handling.__context__, IndexError)
    assert "During handling of the above exception" in "".join(traceback.format_exception(handling))
    assert [frame.name for frame in traceback.extract_tb(handling.__context__.__traceback__)] == ["handling", "first"]
    assert "first" not in "".join(traceback.format_exception_only(hiding))
    assert "IndexError" not in "".join(traceback.format_exception(hiding))


def test_frames_of_this_package_do_not_travel() -> None:
    try:
        bsp.run(lambda proc: proc.coarray(2).put(0, [1.0, 2.0], at=slice(1, 3)), nprocs=1)
    except PutOutOfRange as error:
        places = told(error).places()
        assert {place.file for place in places} == {__file__}
        assert [place.function for place in places][-1] == "<lambda>"


class Stays:
    """A value that belongs to its process."""

    _stays = True

    def __reduce__(self) -> Any:
        raise AssertionError("it must not be pickled")


class Owner:
    nprocs = 2

    def _describe(self, handle: Any) -> Any:
        return handle._described


def test_values_that_stay_get_equal_keys_and_come_back_as_each_processs_own() -> None:
    owner, kept, own = Owner(), [Kept(0), Kept(1)], [(Stays(), Stays()), (Stays(), Stays())]
    handles = Handles(owner)
    parts = [mine.dumps({"a": a, "twice": [a, b, a]}, call=3) for mine, (a, b) in zip(kept, own, strict=True)]
    results = handles.loads(parts)
    first, second = results
    assert first["a"] is first["twice"][0] is first["twice"][2] is second["a"]
    assert first["twice"][1] is second["twice"][1] is not first["a"]
    used = first["twice"][1]
    body = handles.dumps((lambda: used, [second["a"]]))
    for mine, (a, b) in zip(kept, own, strict=True):
        function, args = mine.loads(body)
        assert function() is b
        assert args[0] is a
    assert handles.dropped() == []
    for result in results:
        result.clear()
    assert handles.dropped() == [(3, 0)]  # the other one is in `used`
    assert handles.dropped() == []


def test_a_cell_shows_its_last_expression_unless_a_semicolon_hides_it(monkeypatch: pytest.MonkeyPatch) -> None:
    main = type(sys)("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)

    def value(source: str) -> Any:
        return bsp.run(lambda proc: cells.execute(proc, source, "In[1]"), nprocs=1)[0]

    assert value("x = 3") is None
    assert value("x + 1") == 4
    assert value("y = x\ny * 2\n# the end") == 6
    assert value("x + 1;") is None
    assert value("x + 1  # not hidden;") == 4
    assert value("") is None
    assert vars(main)["y"] == 3


@pytest.mark.parametrize(
    ("name", "value", "least"),
    [("nprocs", 2.5, 1), ("nprocs", "2", 1), ("elements", True, 1), ("seed", -1, 0), ("seed", "a", 0), ("seed", 1.5, 0),
     ("seed", None, 0), ("blas_threads", 0, 1), ("blas_threads", "x", 1)],
)  # fmt: skip
def test_numbers_that_do_not_fit_are_refused_at_once(name: str, value: Any, least: int) -> None:
    given: dict[str, Any] = {"nprocs": 2, "elements": 1, name: value}
    text = f"{name} = {value!r}; a whole number, {least} or more"
    with pytest.raises(bsp.LaunchError, match=f"bsp.Session: {text}"):
        bsp.Session(**given)
    for call in (bsp.run, bsp.predict):
        with pytest.raises(bsp.LaunchError, match=f"bsp.{call.__name__}: {text}"):
            call(lambda proc: None, **given)
