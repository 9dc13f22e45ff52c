"""What goes wrong on the owners of some blocks only is raised, or warned of, alike on every process."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bsp
import bsp.arrays as ba
from bsp.arrays.kernels.shared_errors import first_failing

N = 40
BSPRUN = str(Path(sys.executable).with_name("bsprun"))


class NoGood(Exception):
    """An exception of a program's own."""


def _picky(value: Any) -> Any:
    if value in (33, 17):
        raise NoGood(f"{value} is no good")
    return value + 1


class Dealt:
    """`asarray` of arrays that are dealt in blocks, however small; NumPy's without a grid."""

    @staticmethod
    def asarray(values: Any) -> ba.Array:
        return ba.asarray(values, grid=(8, 2)[: np.ndim(values)])


def _each(function: Callable[[Any], Any], array: Any) -> Any:
    """Of every element."""
    return np.apply_along_axis(lambda line: function(int(line[0])), -1, array[..., None])


def _rows(xp: Any) -> Any:
    return xp.asarray(np.arange(N).reshape(8, 5))


# In each case only blocks in the middle are bad.  A case is called with `Dealt` and with NumPy.
x, y = np.arange(N) % 15, np.arange(N, dtype=float) - 33
CASES: dict[str, Callable[[Any], Any]] = {
    "negative exponent": lambda xp: np.int64(2) ** (13 - xp.asarray(x)),
    "negative exponent in the first of two": lambda xp: np.int64(2) ** (13 - xp.asarray(x)) // (xp.asarray(x) - 1),
    "in a sum": lambda xp: (np.int64(2) ** (13 - xp.asarray(x))).sum(),
    "function": lambda xp: _each(_picky, xp.asarray(np.arange(N))),
    "function of a reshaped array": lambda xp: _each(_picky, _rows(xp).T),
    "vectorize": lambda xp: np.vectorize(_picky)(xp.asarray(np.arange(N))),
    "lines": lambda xp: np.apply_along_axis(lambda line: _picky(int(line[2])), 1, _rows(xp)),
}
STRICT: dict[str, Callable[[Any], Any]] = {
    "divide": lambda xp: 1 / xp.asarray(y),
    "invalid comes after divide": lambda xp: (xp.asarray(y) // 20) / xp.asarray(y),
    "the first of two operations": lambda xp: np.log(xp.asarray(y)[::-1] + 33) + np.exp(xp.asarray(y) * 999),
    "overflow in a sum": lambda xp: (xp.asarray(y) * 1e307).sum(),
    "overflow in a sum of products": lambda xp: (xp.asarray(y * 1e160) * xp.asarray(y * 1e150)).sum(),
    "underflow in a sum of squares": lambda xp: (xp.asarray(y * 1e-170) ** 2).sum(),
    "cast": lambda xp: (xp.asarray(y) * 1e300).astype(np.float32),
    "integers": lambda xp: 7 // (xp.asarray(x) - 12),
    "product": lambda xp: np.exp(xp.asarray(y) * 200) @ xp.asarray(y),
}


def numpys(work: Callable[[], Any]) -> tuple[type[BaseException], str]:
    """What NumPy raises for the whole array."""
    try:
        work()
    except Exception as error:  # noqa: BLE001 - whatever it raises is the answer
        return type(error), str(error)
    raise AssertionError("NumPy raises nothing")


def told(proc: Any, work: Callable[[], Any]) -> tuple[type[BaseException], str]:
    """What this process is told; afterwards arrays, plans and supersteps still work."""
    before = ba.asarray(y, grid=(5,)).persist()
    found: Any = None
    try:
        work()
    except Exception as error:  # noqa: BLE001 - as above
        found = type(error), str(error)
    proc.send((proc.pid + 1) % proc.nprocs, proc.pid)
    proc.sync()
    assert [message.payload for message in proc.inbox] == [(proc.pid - 1) % proc.nprocs]
    np.testing.assert_array_equal((before + 1).compute(), y + 1)
    assert float(before[::-1].cumsum()[-1]) == y.sum()
    return found


def evaluated(array: Any, how: str) -> Any:
    if not isinstance(array, ba.Array):
        return array
    return array.compute() if how == "compute" else array.persist()


def _case(proc: Any, name: str, how: str) -> Any:
    return told(proc, lambda: evaluated(CASES[name](Dealt), how))


@pytest.mark.parametrize("how", ["compute", "persist"])
@pytest.mark.parametrize("nprocs", [1, 2, 3, 5])
@pytest.mark.parametrize("name", CASES)
def test_an_exception_of_one_block_is_numpys_on_every_process(run: Any, name: str, nprocs: int, how: str) -> None:
    expected = numpys(lambda: CASES[name](np))
    assert run(_case, name, how, nprocs=nprocs) == [expected] * nprocs


def _strict(proc: Any, name: str, how: str, by: str) -> Any:
    with np.errstate(all="raise" if by == "errstate" else "warn"), warnings.catch_warnings():
        warnings.simplefilter("error" if by == "filter" else "ignore")
        return told(proc, lambda: evaluated(STRICT[name](Dealt), how))


def _numpys_strict(name: str, by: str) -> Any:
    with np.errstate(all="raise" if by == "errstate" else "warn"), warnings.catch_warnings():
        warnings.simplefilter("error")
        return numpys(lambda: STRICT[name](np))


@pytest.mark.parametrize("by", ["errstate", "filter"])
@pytest.mark.parametrize("nprocs", [1, 2, 3, 5])
@pytest.mark.parametrize("name", STRICT)
def test_floating_point_errors_that_are_exceptions_are_raised_on_every_process(
    run: Any, name: str, nprocs: int, by: str
) -> None:
    expected = _numpys_strict(name, by)
    for how in ("compute", "persist"):
        assert run(_strict, name, how, by, nprocs=nprocs) == [expected] * nprocs


def _comprehension(proc: Any) -> Any:
    given = {"b": np.full(N, 2), "e": Dealt.asarray(13 - x)}
    return [told(proc, lambda: evaluated(ba.comprehension("p[i] = b[i] ** e[i]", **given), how))
            for how in ("compute", "persist")] + [
        told(proc, lambda: ba.comprehension("s = sum(b[i] ** e[i])", **given).compute())
    ]  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize(("nprocs", "elements"), [(1, 1), (2, 1), (3, 1), (5, 1), (3, 2)])
def test_a_comprehension_raises_on_every_process(nprocs: int, elements: int) -> None:
    error = numpys(lambda: np.full(N, 2) ** (13 - x))
    assert bsp.run(_comprehension, nprocs=nprocs, elements=elements) == [[error] * 3] * nprocs


def _durations(proc: Any) -> Any:
    with np.errstate(all="raise"):
        times = Dealt.asarray(np.arange(N).astype("m8[s]"))
        return times.mean().compute().item(), told(proc, (times.astype("m8[ns]") / np.timedelta64(0, "s")).compute)


@pytest.mark.thorough
@pytest.mark.parametrize(("nprocs", "elements"), [(1, 1), (2, 1), (3, 1), (5, 1), (3, 2)])
def test_durations_have_a_mean_or_an_error_alike(nprocs: int, elements: int) -> None:
    times = np.arange(N).astype("m8[s]")
    with np.errstate(all="raise"):
        error = numpys(lambda: times.astype("m8[ns]") / np.timedelta64(0, "s"))
    assert bsp.run(_durations, nprocs=nprocs, elements=elements) == [(times.mean().item(), error)] * nprocs


def _last(proc: Any, work: str) -> Any:
    """Arithmetic after the last boundary of a plan, on blocks that stay where they are."""
    whole = ba.asarray(x, grid=(5,)).persist()
    if work == "integers":
        return told(proc, lambda: (np.int64(2) ** (whole[::-1] - 2 + 0 * whole)).persist())
    with np.errstate(all="raise"):
        return told(proc, lambda: (1 / (whole - whole.max() + 3)).persist())


@pytest.mark.parametrize("nprocs", [1, 2, 3, 5])
def test_what_follows_the_last_exchange_is_heard_of_too(run: Any, nprocs: int) -> None:
    text = "Integers to negative integer powers are not allowed."
    assert run(_last, "integers", nprocs=nprocs) == [(ValueError, text)] * nprocs
    error = FloatingPointError, "divide by zero encountered in divide"
    assert run(_last, "floats", nprocs=nprocs) == [error] * nprocs


def _draws(proc: Any) -> Any:
    bad = ba.asarray(np.where(np.arange(N) == 33, -1.0, 1.0), grid=(5,)).persist()
    rng = ba.random.default_rng(3)
    found = [
        told(proc, lambda: rng.normal(0, bad)),
        told(proc, lambda: rng.poisson(bad)),
        told(proc, lambda: rng.integers(0, bad.astype(int))),
    ]
    rng.normal(0, abs(bad)).compute()
    return found


@pytest.mark.thorough
@pytest.mark.parametrize(("nprocs", "elements"), [(1, 1), (2, 1), (3, 1), (5, 1), (3, 2)])
def test_a_bad_parameter_of_a_draw_is_numpys_error_on_every_process(nprocs: int, elements: int) -> None:
    bad, rng = np.where(np.arange(N) == 33, -1.0, 1.0), np.random.default_rng(3)
    expected = [
        numpys(lambda: rng.normal(0, bad)), numpys(lambda: rng.poisson(bad)),
        numpys(lambda: rng.integers(0, bad.astype(int))),
    ]  # fmt: skip
    assert bsp.run(_draws, nprocs=nprocs, elements=elements) == [expected] * nprocs


def _indexed(i: Any, j: Any) -> Any:
    for value in (i * 5 + j).reshape(-1):
        _picky(value)
    return i + j


def _made(proc: Any) -> Any:
    found = [told(proc, lambda: ba.from_function(_indexed, (8, 5), grid=grid)) for grid in [(4, 1), (8, 1)]]
    found.append(told(proc, lambda: ba.fromfunction(lambda i, j: _indexed(i, j), (8, 5), dtype=int)))
    with np.errstate(divide="raise"):
        found.append(told(proc, lambda: ba.from_function(lambda i: 1 / (i - 33), (N,), grid=(5,))))
    return found


@pytest.mark.thorough
@pytest.mark.parametrize(("nprocs", "elements"), [(1, 1), (2, 1), (3, 1), (5, 1), (3, 2)])
def test_a_function_of_indices_that_raises_does_so_on_every_process(nprocs: int, elements: int) -> None:
    expected = [(NoGood, "17 is no good")] * 3 + [(FloatingPointError, "divide by zero encountered in divide")]
    assert bsp.run(_made, nprocs=nprocs, elements=elements) == [expected] * nprocs


def _everything(proc: Any) -> Any:
    found = [_case(proc, name, how) for name in CASES for how in ("compute", "persist")]
    return found + [_strict(proc, name, how, by) for name in STRICT for by in ("errstate", "filter")
                    for how in ("compute", "persist")] + [_last(proc, "integers"), _last(proc, "floats")]  # fmt: skip


def test_all_of_it_holds_on_two_elements() -> None:
    alone = bsp.run(_everything, nprocs=1)[0]
    assert all(error is not None for error in alone)
    assert bsp.run(_everything, nprocs=3, elements=2) == [alone] * 3


def _first_error(proc: Any, grid: Any) -> Any:
    return told(proc, lambda: _each(_picky, ba.asarray(np.arange(N).reshape(8, 5).T, grid=grid)).compute())


@pytest.mark.parametrize("grid", [(1, 1), (5, 1), (1, 8), (5, 8), (2, 3)])
def test_of_several_errors_the_first_in_the_array_is_raised_whatever_the_layout(run: Any, grid: Any) -> None:
    expected = numpys(lambda: _each(_picky, np.arange(N).reshape(8, 5).T))
    assert expected == (NoGood, "17 is no good")
    assert run(_first_error, grid, nprocs=4) == [expected] * 4


def _refusing(sign: int, number: int) -> int:
    if sign < 0:
        raise NoGood(str(number))
    return number


def test_the_first_element_is_found_in_pieces_of_large_blocks() -> None:
    signs, numbers = np.ones((300, 400), int), np.arange(120_000).reshape(300, 400)
    signs[123, 321] = signs[250, 7] = -1
    refusing = np.frompyfunc(_refusing, 2, 1)
    assert first_failing(refusing, [signs, numbers], np.empty((300, 400), object)) == (123, 321)


def _unchanged(proc: Any) -> Any:
    array = ba.asarray(x.copy(), grid=(5,))
    bad = np.int64(2) ** (13 - array)
    assert told(proc, bad.persist) == told(proc, bad.persist) is not None
    array[:] = 3
    return (np.int64(2) ** (13 - array)).compute().tolist(), array.compute().tolist()


def test_an_array_that_could_not_be_computed_stays_an_expression(run: Any) -> None:
    assert run(_unchanged, nprocs=3) == [([1024] * N, [3] * N)] * 3


class _Awkward(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def _awkward(value: Any) -> Any:
    if value == 33:
        raise _Awkward(1, 2)
    return value


def _does_not_pickle(proc: Any) -> Any:
    return told(proc, lambda: _each(_awkward, ba.asarray(np.arange(N), grid=(5,))).compute())


def test_an_exception_that_does_not_pickle_is_told_in_words(run: Any) -> None:
    assert run(_does_not_pickle, nprocs=3) == [(RuntimeError, "_Awkward: 1 and 2")] * 3


# ------------------------------------------------------------------------------------- what it costs


def _supersteps(proc: Any, text: str) -> Any:
    array = ba.asarray(x, grid=(5,)).persist()
    floats = ba.asarray(y, grid=(5,)).persist()
    before = proc.superstep
    with np.errstate(all="ignore") if text != "strict" else np.errstate(all="raise"):
        if text == "bad":
            with pytest.raises(ValueError, match="negative"):
                (np.int64(2) ** (13 - array)).compute()
        elif text == "good":
            (np.int64(2) ** abs(13 - array)).compute()
        elif text == "last exponent":
            (np.int64(2) ** (array[::-1] + array)).persist()
        else:
            (floats[::-1] + floats).persist()
    return proc.superstep - before


@pytest.mark.parametrize(
    ("text", "supersteps"), [("good", 1), ("bad", 1), ("healthy", 1), ("last exponent", 2), ("strict", 2)]
)
def test_only_what_nobody_would_hear_of_takes_a_superstep(run: Any, text: str, supersteps: int) -> None:
    """Of arithmetic after the last exchange: what may raise for some values, or may not without `np.errstate`."""
    assert run(_supersteps, text, nprocs=3) == [supersteps] * 3


# ----------------------------------------------------------------------------------------- warnings


def _recorded(proc: Any) -> Any:
    whole = ba.asarray(x, grid=(5,)).persist()
    with warnings.catch_warnings(record=True, action="always") as log:
        for _ in range(2):
            (1 / (whole - 7)).compute()  # <- here
    return [(each.category, str(each.message), each.filename, each.lineno) for each in log]


def _line(mark: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(k for k, line in enumerate(lines, 1) if line.endswith(f"# <- {mark}"))


@pytest.mark.parametrize("nprocs", [1, 2, 3, 5])
def test_each_process_records_one_warning_of_a_statement_at_its_line(run: Any, nprocs: int) -> None:
    one = RuntimeWarning, "divide by zero encountered in divide", __file__, _line("here")
    assert run(_recorded, nprocs=nprocs) == [[one, one]] * nprocs


def _recorded_in_a_procedure(proc: Any) -> Any:
    with warnings.catch_warnings(record=True, action="always") as log:
        ba.linalg.det(ba.eye(2) * 1e200)  # <- in a procedure
    return [(str(each.message), each.filename, each.lineno) for each in log]


@pytest.mark.parametrize("nprocs", [1, 3])
def test_a_warning_at_the_end_of_a_procedure_is_at_the_programs_line(run: Any, nprocs: int) -> None:
    one = "overflow encountered in det", __file__, _line("in a procedure")
    assert run(_recorded_in_a_procedure, nprocs=nprocs) == [[one]] * nprocs


def test_a_catch_warnings_block_holds_for_its_process_alone(run: Any) -> None:
    def main(proc: Any) -> Any:
        with warnings.catch_warnings(record=True) as log:
            warnings.simplefilter("always" if proc.pid != 1 else "ignore")
            proc.sync()
            warnings.warn(f"of process {proc.pid}", stacklevel=1)
            proc.sync()
        return [str(each.message) for each in log]

    before = warnings.filters
    assert bsp.run(main, nprocs=3) == [["of process 0"], [], ["of process 2"]]
    assert warnings.filters is before


SHOWN = """
import numpy as np, bsp, bsp.arrays as ba
proc = bsp.process()
x = ba.asarray(np.arange(20.0) - 13, grid=(5,)).persist()
for _ in range(3):
    (1 / x).compute()  # <- computed
    np.log(x).persist()  # <- persisted
    (x / (x - x.sum() / 20 - 0.5)).persist()  # <- after the last exchange
assert not np.isfinite((1 / x).compute()).all()  # <- another line
"""


@pytest.mark.jobs
@pytest.mark.parametrize(("nprocs", "elements"), [(1, 1), (3, 1), (3, 2)])
def test_a_job_shows_a_warning_once_for_a_line(tmp_path: Path, nprocs: int, elements: int) -> None:
    script = tmp_path / "program.py"
    script.write_text(SHOWN)
    command = [BSPRUN, "-p", str(nprocs), "-n", str(elements), str(script)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (ended.returncode, ended.stdout) == (0, "")
    shown = [line.partition(": ") for line in ended.stderr.splitlines() if "RuntimeWarning" in line]
    lines = SHOWN.splitlines()
    found = sorted((int(where.rpartition(":")[2]), text) for where, _, text in shown)
    assert found == sorted(
        (next(k for k, line in enumerate(lines, 1) if line.endswith(mark)), f"RuntimeWarning: {text}")
        for mark, text in [
            ("# <- computed", "divide by zero encountered in divide"),
            ("# <- persisted", "divide by zero encountered in log"),
            ("# <- persisted", "invalid value encountered in log"),
            ("# <- after the last exchange", "divide by zero encountered in divide"),
            ("# <- another line", "divide by zero encountered in divide"),
        ]
    )


CAUGHT = """
import sys
import numpy as np, bsp, bsp.arrays as ba
class Mine(Exception):
    pass
def picky(value):
    if value == 13:
        raise Mine("thirteen")
    return value
proc = bsp.process()
x = ba.asarray(np.arange(20), grid=(5,)).persist()
for it in proc.rounds(3):
    try:
        np.apply_along_axis(lambda line: picky(int(line[0])), 1, x[:, None]).compute()
    except Mine as error:
        assert str(error) == "thirteen"
    else:
        sys.exit(3)
    x = (x + 0).persist()
print(proc.pid, int(x.sum()))
if len(sys.argv) > 1:
    (np.int64(2) ** (13 - x)).compute()  # <- uncaught
"""


@pytest.mark.jobs
@pytest.mark.parametrize("options", [["-n", "1"], ["-n", "2"], ["--check"], ["--clones", "2", "-n", "2"]])
def test_a_job_that_catches_the_error_goes_on_in_every_mode(tmp_path: Path, options: list[str]) -> None:
    script = tmp_path / "program.py"
    script.write_text(CAUGHT)
    command = [BSPRUN, "-p", "3", *options, str(script)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (ended.returncode, ended.stdout) == (0, "0 190\n1 190\n2 190\n"), ended.stderr


@pytest.mark.jobs
@pytest.mark.parametrize("options", [["-n", "1"], ["-n", "2"], ["--clones", "2", "-n", "2"]])
def test_an_uncaught_error_ends_the_job_with_the_programs_line(tmp_path: Path, options: list[str]) -> None:
    script = tmp_path / "program.py"
    script.write_text(CAUGHT)
    command = [BSPRUN, "-p", "3", *options, str(script), "on"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    line = next(k for k, line in enumerate(CAUGHT.splitlines(), 1) if line.endswith("# <- uncaught"))
    assert ended.returncode == 1
    assert f'program.py", line {line}' in ended.stderr
    assert "ValueError: Integers to negative integer powers are not allowed." in ended.stderr


SIZE = 20_011
LATE = np.where(np.arange(SIZE) < SIZE - 3, np.random.default_rng(3).normal(size=SIZE), 1e308)  # on the last process
ENDS = np.where(np.arange(SIZE) < SIZE - 3, 1.0, np.inf)
TALL = np.random.default_rng(4).normal(size=(6_000, 5)) * np.where(np.arange(6_000) < 5_999, 1, 1e200)[:, None]
STEEP = np.random.default_rng(5).normal(size=(150, 150)) * np.where(np.arange(150) < 149, 1, 1e200)[:, None]

CALCULATIONS: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "qr": lambda a: ba.linalg.qr(a(TALL)),
    "svd": lambda a: ba.linalg.svd(a(TALL), full_matrices=False),
    "pinv": lambda a: ba.linalg.pinv(a(TALL)),
    "cholesky": lambda a: ba.linalg.cholesky(a(STEEP) @ a(STEEP).T),
    "quantile": lambda a: ba.quantile(a(ENDS), [0.5, 0.99999]),
    "quantile of dealt ranks": lambda a: ba.quantile(a(ENDS), a(np.linspace(0, 1, SIZE))),
    "reduceat": lambda a: np.add.reduceat(a(LATE), [0, 5, SIZE - 3]),
    "at": lambda a: np.add.at(a(LATE), np.array([SIZE - 1, SIZE - 1]), 1e308),
    "det": lambda a: ba.linalg.det(a(STEEP) * 1e10),
}


def _dealt_in_rows(x: Any) -> ba.Array:
    return ba.asarray(x, grid=(3,) + (1,) * (np.ndim(x) - 1))


@pytest.mark.parametrize("by", ["errstate", "filter"])
@pytest.mark.parametrize("name", list(CALCULATIONS))
def test_what_goes_wrong_in_a_procedure_is_raised_by_every_process(name: str, by: str) -> None:
    """And can be caught: the program goes on."""

    def main(proc: bsp.Process) -> list[str]:
        seen = []
        for _ in range(2):
            with np.errstate(all="raise" if by == "errstate" else "warn"), warnings.catch_warnings():
                warnings.simplefilter("error")
                with pytest.raises(FloatingPointError if by == "errstate" else RuntimeWarning) as wrong:
                    CALCULATIONS[name](_dealt_in_rows)
            seen.append(str(wrong.value))
            proc.sync()
        assert float(_dealt_in_rows(np.ones(SIZE)).sum()) == SIZE
        assert np.geterr()["over"] == "warn"
        return seen

    first, *others = bsp.run(main, nprocs=3)
    assert len(set(first)) == 1
    assert others == [first] * 2


@pytest.mark.parametrize("name", ["qr", "quantile of dealt ranks", "reduceat", "at"])
def test_a_procedure_that_was_told_to_ignore_or_to_call_does(name: str) -> None:
    def main(proc: bsp.Process) -> int:
        called: list[str] = []
        with np.errstate(all="ignore"):
            CALCULATIONS[name](_dealt_in_rows)
        with np.errstate(all="call", call=lambda text, flag: called.append(text)):
            CALCULATIONS[name](_dealt_in_rows)
        return len(called)

    found = bsp.run(main, nprocs=3)
    assert sum(found) > 0


def test_a_healthy_procedure_takes_a_superstep_more_only_where_errors_are_raised() -> None:
    def main(proc: bsp.Process) -> list[int]:
        x, steps = _dealt_in_rows(np.ones((6_000, 5)) * np.arange(1, 6_001)[:, None] % 7), []
        for mode, action in (("warn", "default"), ("ignore", "error"), ("raise", "default"), ("warn", "error")):
            before = proc.superstep
            with np.errstate(all=mode), warnings.catch_warnings(action=action):  # type: ignore[call-overload]
                ba.sort(x[:, 0])
            steps.append(proc.superstep - before)
        return steps

    for first, second, *strict in bsp.run(main, nprocs=3):
        assert first == second
        assert strict == [first + 1] * 2
