"""Every parameter of every function and array method of NumPy that we have, by name and by position.

The trials are made from NumPy's signatures.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpys_answers import agree, dealt, dealt_always, outcome

import bsp
import bsp.arrays as ba
from bsp.arrays import namespace
from bsp.arrays.execution.world import world
from bsp.arrays.scripts import small_arrays
from bsp.arrays.scripts.numpy_instead import NumPyInstead

RNG = np.random.default_rng(6)
SQUARE = RNG.normal(size=(4, 4))
OPERANDS: dict[str, np.ndarray] = {
    "a": RNG.normal(size=(6, 5)), "b": RNG.normal(size=(6, 5)), "v": RNG.normal(size=9), "u": RNG.normal(size=9),
    "k": np.sort(RNG.normal(size=9)), "j": RNG.integers(0, 5, 9), "s": SQUARE @ SQUARE.T + 4 * np.eye(4),
    "c": RNG.normal(size=(6, 4)) + 1j, "m": RNG.normal(size=(6, 5)) > 0, "y": RNG.integers(0, 255, 9, dtype=np.uint8),
    "n": np.where(RNG.random((6, 5)) < 0.2, np.nan, RNG.normal(size=(6, 5))), "t": RNG.normal(size=(4, 6, 3)),
    "o": RNG.permutation(9),
}  # fmt: skip

# the arguments that a function must have; of others one matrix
REQUIRED = {
    "where": "m", "clip": "a, -0.5, 0.5", "astype": "a, np.float32", "isclose": "a, b", "allclose": "a, b",
    "zeros": "(3, 4)", "ones": "(3, 4)", "empty": "(0, 4)", "full": "(3, 4), 2.5", "full_like": "a, 2",
    "empty_like": "a[:0]", "arange": "1, 9", "linspace": "0, 5", "eye": "4", "identity": "4", "meshgrid": "v, u[:3]",
    "logspace": "0, 2", "geomspace": "1, 5", "bartlett": "7", "blackman": "7", "hamming": "7", "hanning": "7",
    "kaiser": "7, 14.0", "fromfunction": "lambda i, j: i + j, (3, 4)", "swapaxes": "t, 0, 1", "moveaxis": "t, 0, 1",
    "reshape": "a, (5, 6)", "expand_dims": "a, 1", "squeeze": "a[:, :1]", "broadcast_to": "v, (3, 9)", "roll": "a, 2",
    "broadcast_arrays": "a, a[:1]", "concatenate": "(a, b)", "stack": "(a, b)", "vstack": "(a, b)",
    "hstack": "(a, b)", "dstack": "(a, b)", "block": "[[a, b]]", "column_stack": "(a, b)", "append": "a, b",
    "rot90": "t", "vsplit": "a, 2", "hsplit": "a, [1, 3]", "dsplit": "t, [1]", "split": "a, [2, 3]",
    "array_split": "a, 4", "tile": "a, 2", "repeat": "a, 2", "pad": "a, 1", "rollaxis": "t, 2", "packbits": "m",
    "unpackbits": "y", "diff": "a", "array_equal": "a, b", "array_equiv": "a, b", "tensordot": "s, s", "dot": "a, b.T",
    "inner": "a, b", "outer": "v, u", "vdot": "v, u", "kron": "v, u", "einsum": "'ij,kj->ik', a, b",
    "einsum_path": "'ij,kj->ik', a, b", "can_cast": "a.dtype, np.float32", "isdtype": "a.dtype, 'integral'",
    "shares_memory": "a, b", "may_share_memory": "a, b", "apply_along_axis": "np.sum, 0, a",
    "apply_over_axes": "np.sum, a, [0]", "select": "[v < 0, v > 1], [v, u]", "choose": "j % 3, [v, u, 2 * v]",
    "piecewise": "v, [v < 0, v >= 0], [-1, 1]", "extract": "v > 0, v", "compress": "[True, False, True], a",
    "take": "a, j[:3] % 5", "take_along_axis": "a, np.argsort(a, axis=-1)", "partition": "a, 2",
    "put_along_axis": "a, np.argsort(a, axis=0)[:1], 2.0, 0", "put": "v, [0, 3], 2.0", "argpartition": "a, 2",
    "lexsort": "(v, j)", "delete": "a, 1", "insert": "a, 1, 2.5", "trim_zeros": "np.where(j > 3, j, 0)",
    "resize": "a, (4, 4)", "copyto": "a, b", "putmask": "a, m, 1.5", "place": "a, m, [1.0, 2.0]",
    "fill_diagonal": "a, 1.5", "searchsorted": "k, u", "digitize": "v, k", "interp": "v, k, u", "convolve": "v, u[:3]",
    "correlate": "v, u[:3]", "isin": "j, [1, 3]", "union1d": "j, j + 2", "intersect1d": "o, o + 2", "bincount": "j",
    "setdiff1d": "j, j + 2", "setxor1d": "o, o + 2", "histogram": "v", "histogram_bin_edges": "v",
    "histogramdd": "np.stack([v, u], axis=1)", "histogram2d": "v, u", "quantile": "a, 0.3", "percentile": "a, 30",
    "nanquantile": "n, [0.3, 0.5]", "nanpercentile": "n, 30", "indices": "(3, 4)", "tri": "4", "tril_indices": "4",
    "triu_indices": "4", "tril_indices_from": "s", "triu_indices_from": "s", "mask_indices": "4, np.triu",
    "diag_indices": "4", "diag_indices_from": "s", "ix_": "j, j", "unravel_index": "j, (3, 4)",
    "ravel_multi_index": "(j, j), (5, 6)", "vander": "v", "polyval": "v, u", "polyadd": "v, u", "polysub": "v, u",
    "polymul": "v, u", "polyder": "v", "polyint": "v", "polyfit": "v, u, 2", "roots": "v", "poly": "v",
    "polydiv": "v, u[:3]", "ediff1d": "v", "unwrap": "a", "cov": "a", "corrcoef": "a", "bmat": "[[a]]",
    "cholesky": "s", "cond": "s", "cross": "a[:, :3], b[:, :3]", "det": "s", "diag": "v", "inv": "s", "eigvalsh": "s",
    "lstsq": "c.real, v[:6]", "matmul": "a, b.T", "matrix_power": "s, 3", "multi_dot": "[a, b.T, a]",
    "solve": "s, v[:4]", "cumulative_sum": "v", "cumulative_prod": "v",
    "slogdet": "s", "tensorinv": "np.reshape(s, (2, 2, 4))", "tensorsolve": "np.reshape(s, (2, 2, 4)), s[:2, :2]",
    "vecdot": "a, b", "sliding_window_view": "v, 3", "result_type": "a, j", "common_type": "a, c", "irfft": "c",
    "hfft": "c", "irfftn": "c", "irfft2": "c", "trace": "s", "fftshift": "a", "nancumsum": "n", "atleast_3d": "a",
    "nansum": "n", "nanmax": "n", "nanmean": "n", "nanvar": "n", "nanmedian": "n", "nanargmin": "j", "nanargmax": "j",
    "eigh": "s", "eig": "s", "eigvals": "s", "gradient": "a", "trapezoid": "a", "sort": "a", "argsort": "a",
    "bitwise_count": "j", "unstack": "a", "unique": "j", "average": "a", "array": "a", "fix": "a", "isneginf": "a",
    "isposinf": "a",
}  # fmt: skip
# the same for methods, where it is not as for the function; the array comes first
METHODS = {
    "choose": "j % 3, [v, u, 2 * v]", "clip": "a", "compress": "a, [True, False, True]", "fill": "a, 2.5",
    "to_device": "a, 'cpu'", "resize": "v, (9,)", "round": "a", "diagonal": "t", "view": "a", "transpose": "t",
    "item": "a[:1, :1]", "nonzero": "m",
}  # fmt: skip
# arguments of methods that take any number of them
SPREAD: dict[str, list[list[Any]]] = {
    "transpose": [[], [None], [2, 0, 1], [(2, 0, 1)], [[2, 0, 1]], [-1, 0, 1], [0, 1], [0, 0, 1], [1.0, 0, 2], ["0"]],
    "reshape": [[5, 6], [-1], [3, -1], [(-1, 10)], [[2, 15]], [7], [np.int64(5), 6], [5.0, 6], [-1, -1], [None]],
    "item": [[], [0], [0, 0], [(0, 0)], [-1], [3], [0, 0, 0], ["0"], [np.int64(0)], [0, 5], [1.0], [None]],
    "view": [["i8"], [np.uint64], [None], ["nonsense"]],
}
# methods that take fewer parameters by position than NumPy's signatures of them say: how many that may be left out
PLACES = {"ndarray.all": 1, "ndarray.any": 1, "ndarray.choose": 0}
# files; other values each time; matrices of integers that no array is; words that are one array's own
APART = {"tofile", "save", "savez", "savez_compressed", "savetxt", "loadtxt", "from_dlpack", "einsum_path"}

NUMBERS: list[Any] = [0, 1, 2, -1, np.int64(1), True, 1.5, None, "1"]
CANDIDATES: dict[str, list[Any]] = {
    "axis": [0, -1, 1, None, (0,), (1, 0), (0, 0), [0], [0, 1], 1.0, True, 9, np.int64(0), np.array(1), "0", ()],
    "axes": [None, 0, 1, (0,), (1, 0), [0, 1], [-1], (0, 0), 9, ([0], [1])],
    "dtype": [None, "f4", int, complex, np.dtype("f8"), "nonsense", bool],
    "keepdims": [True, False, 1, None],
    "initial": [2, 1.5, None, 1j], "order": ["C", "F", "A", "K", "X", None], "casting": ["no", "safe", "unsafe", "X"],
    "kind": ["stable", "quicksort", "heapsort", "mergesort", "introselect", "X", None, 1],
    "mode": ["raise", "wrap", "clip", "full", "same", "valid", "reduced", "complete", "r", "raw", "edge", "reflect",
             "symmetric", "linear_ramp", "maximum", "mean", "median", "minimum", "constant", "empty", "X", 0, None],
    "method": ["linear", "lower", "higher", "nearest", "midpoint", "hazen", "weibull", "inverted_cdf", "X", None],
    "norm": ["ortho", "forward", "backward", None, "X"], "side": ["left", "right", "l", "X", None],
    "UPLO": ["L", "U", "u", "X"], "bitorder": ["little", "big", "X"], "indexing": ["ij", "xy", "X"],
    "trim": ["f", "b", "fb", "BF", "x"], "ord": [None, 1, 2, -1, -2, 0, 3, np.inf, -np.inf, "fro", "nuc", "X"],
    "p": [None, 1, 2, -2, np.inf, "fro", "X"], "bins": [3, np.array([-1.0, 0, 1]), "auto", "X", 0, -1, 2.5, [3, 4]],
    "range": [None, (-1, 1), [0, 2], (1, 0), (0, 0), [(-1, 1), (-2, 2)], 3], "device": [None, "cpu", "gpu"],
    "copy": [None, True, False], "s": [None, (3, 4), [6], (0, 1), 4], "n": [None, *NUMBERS], "shape": [None, 3, (2, 2)],
    "optimize": [True, False, "greedy", "optimal", ["einsum_path", (0, 1)], "X"], "like": [None],
    "funclist": [[-1, 1]], "edge_order": [1, 2, 3], "period": [None, 1.0, 3, 0], "nan": [0.0, 2, -1.5],
    "posinf": [None, 3], "neginf": [None, -3], "prepend": [0, 1.5], "append": [0, 1.5], "left": [None, -9.0],
    "right": [None, 9.0, True],
    "k": [0, 1, 2, -1, np.int64(1), True, "1"], "rcond": [None, 1e-3, 0.1], "default": [0, 2.5, np.int64(1)],
    "weights": [None, "alike", "wrong"], "fweights": [None],
    "aweights": [None], "y": [None, "alike"], "x": [None, "alike"], "mean": [0.0], "where": [True, False, "mask"],
    "out": ["made"], "subok": [True, False],
}  # fmt: skip
# by function ("" for all) and parameter: values of NumPy's that are no contract, and what we do with them
KNOWN: dict[tuple[str, str], tuple[list[Any], str]] = {
    ("pad", "mode"): (["linear_ramp", "maximum", "mean", "median", "minimum", "empty"], "refused by name"),
    ("qr", "mode"): (["raw", "full"], "refused by name: LAPACK's own factors"),
    ("array", "ndmax"): ([0, 1, np.int64(1), True], "of nested lists; NumPy asks our array for one of its own"),
    ("unique", "sorted"): ([False, None], "any order may come: ours ascends"),
    ("unstack", "axis"): ([(0,), [0]], "NumPy moves axes first, and takes what moveaxis takes"),
    ("cumulative_sum", "axis"): ([(0,)], "a tuple of one axis"), ("cumulative_prod", "axis"): ([(0,)], "as above"),
    ("rfftn", "axes"): ([(0, 0)], "an axis twice has lost half of its length"),
    ("rfft2", "axes"): ([(0, 0)], "as above"), ("tril_indices", "m"): ([1.5], "columns are whole"),
    ("", "mode"): ([0], "NumPy's own numbers of clipmodes, by which nobody calls them"),
}  # fmt: skip
# by function ("" for all) and parameter: what NumPy refuses and we take
LENIENT: dict[tuple[str, str], list[Any]] = {
    ("", "keepdims"): [None], ("", "correction"): [None, "1"], ("", "ddof"): ["1"], ("", "subok"): [None],
    ("clip", "min"): [None], ("clip", "max"): [None], ("astype", "device"): ["gpu"], ("unpackbits", "count"): [True],
    ("matrix_rank", "hermitian"): [True, 1], ("", "max_work"): ["1", 1.5, np.int64(1)], ("", "n"): [True],
    ("resize", "refcheck"): [None], ("fromfunction", "dtype"): [bool], ("tril_indices", "m"): ["1"],
    ("vander", "N"): [True], ("vecdot", "axis"): [True, (0,), [0]], ("histogram_bin_edges", "weights"): ["alike"],
}  # fmt: skip
SIGNS = {"svd", "qr", "eigh"}  # factors are unique up to signs
NOTHING = inspect.Parameter.empty


def required(name: str) -> str:
    """The arguments that a function, or a method ("ndarray.sum"), must have."""
    short = name.rpartition(".")[2]
    return METHODS[short] if name.startswith("ndarray.") and short in METHODS else REQUIRED.get(short, "a")


def values_of(parameter: inspect.Parameter) -> list[Any]:
    """What to try for a parameter that may be left out."""
    if parameter.name in CANDIDATES:
        return CANDIDATES[parameter.name]
    default = parameter.default
    if isinstance(default, bool):
        return [True, False, 1, None]
    if isinstance(default, float):
        return [0.5, 0, 2, np.float32(0.25), None]
    return NUMBERS


class Trial(NamedTuple):
    """One call: its text, the parameter and its value, arguments by name and by position."""

    text: str
    parameter: str
    value: Any
    named: dict[str, Any]
    places: list[Any]


def parameters_of(name: str) -> list[inspect.Parameter]:
    """A signature's; instead of a method's **kwargs those of the function of that name."""
    given = inspect.signature(functions()[name]).parameters
    found = [each for each in given.values() if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    if name.startswith("ndarray.") and any(each.kind is each.VAR_KEYWORD for each in given.values()):
        function = getattr(np, name.rpartition(".")[2], None)
        more = inspect.signature(function).parameters.values() if function is not None else []
        more = [each for each in more if each.name in ("keepdims", "initial", "where", "mean")]
        found += [each.replace(kind=each.KEYWORD_ONLY) for each in more]
    return found


def trials(name: str) -> Iterator[Trial]:
    """Every value of every parameter that may be left out, by name and by position."""
    if name.startswith("ndarray."):
        for values in SPREAD.get(name.rpartition(".")[2], []):
            yield Trial(f"*{values!r}", "*", values, {}, values)
    parameters = parameters_of(name)
    optional = [each for each in parameters if each.default is not NOTHING]
    for k, each in enumerate(optional):
        for value in values_of(each):
            if each.kind is not inspect.Parameter.POSITIONAL_ONLY:
                yield Trial(f"{each.name}={value!r}", each.name, value, {each.name: value}, [])
            if each.kind is not inspect.Parameter.KEYWORD_ONLY and k < PLACES.get(name, 99):
                before = [other.default for other in optional[:k]]
                yield Trial(f"{'…, ' * len(before)}{value!r} as {each.name}", each.name, value, {}, [*before, value])


def listed(name: str, trial: Trial, table: dict[tuple[str, str], Any]) -> bool:
    for key in ((name, trial.parameter), ("", trial.parameter)):
        values = table.get(key, [])
        values = values[0] if isinstance(values, tuple) else values
        if any(type(each) is type(trial.value) and each == trial.value for each in values):
            return True
    return False


def filled(value: Any, given: dict[str, Any]) -> Any:
    """Values that follow from the operands."""
    if isinstance(value, str) and value in ("alike", "wrong"):
        return given["b"] if value == "alike" else given["v"]
    return given["m"] if isinstance(value, str) and value == "mask" else value


@cache
def functions() -> dict[str, Any]:
    found = {}
    for theirs in namespace.OF_NUMPY:
        try:
            inspect.signature(theirs)
        except ValueError:
            continue
        if theirs.__name__ not in APART:
            found[f"{theirs.__module__}.{theirs.__name__}"] = theirs
    for name in dir(np.ndarray):
        method = getattr(np.ndarray, name)
        if hasattr(ba.Array, name) and callable(method) and not name.startswith("_") and name not in APART:
            try:
                inspect.signature(method)
            except ValueError:  # NumPy before 2.4 has none
                continue
            found[f"ndarray.{name}"] = method
    return found


def applied(name: str, args: list[Any], places: list[Any], named: dict[str, Any], numpy: Any = np) -> Any:
    """A call of a function or of a method of the first argument; what changes that returns it."""
    _, *folders, short = name.split(".")
    if name.startswith("ndarray."):
        function = getattr(args[0], short)
    else:
        theirs = functools.reduce(getattr, [*folders, short], numpy) if numpy is not np else functions()[name]
        function = functools.partial(theirs, args[0])
    found = function(*args[1:], *places, **named)
    return args[0] if found is None else found


@cache
def result_of(name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    args = eval(f"[{required(name)}]", {"np": np, **{key: x.copy() for key, x in OPERANDS.items()}})
    found = applied(name, args, [], {})
    return np.shape(found), np.asarray(found).dtype


def called(name: str, trial: Trial, arrays: dict[str, Any], numpy: Any = np) -> Any:
    args = eval(f"[{required(name)}]", {"np": numpy, **arrays})
    if trial.parameter == "*":
        args = args[:1]

    def given(value: Any) -> Any:
        if isinstance(value, str) and value == "made":
            shape, dtype = result_of(name)
            return np.zeros_like(arrays["a"], dtype, shape=shape)
        return filled(value, arrays)

    def call() -> Any:
        named = {key: given(each) for key, each in trial.named.items()}
        return applied(name, args, [given(value) for value in trial.places], named, numpy)

    found = outcome(call, [])
    if name.rpartition(".")[2] in SIGNS and not isinstance(found, Exception):
        return tuple(map(np.abs, found)) if isinstance(found, tuple) else np.abs(found)
    return found


def judged(name: str, trial: Trial, found: Any, expected: Any) -> str:
    """What is not as NumPy has it; nothing if all is."""
    short = name.rpartition(".")[2]
    text = f"{name}({required(name)}, {trial.text})"
    if isinstance(expected, Exception):
        if isinstance(found, Exception):  # an error of what was given, not of what is done with it
            return (
                "" if isinstance(found, (TypeError, ValueError, IndexError, type(expected))) else f"{text}: {found!r}"
            )
        return "" if listed(short, trial, LENIENT) else f"{text}: {found!r:.60}, not {expected!r}"
    if isinstance(found, TypeError):
        refused = "distributed arrays take no" in str(found) or "has no distributed form" in str(found)
        if refused or "not Python objects" in str(found) or "not elements of" in str(found):
            return ""
    if listed(short, trial, KNOWN):
        return ""
    if short in ("empty", "empty_like", "argpartition"):  # what was in memory; any order on either side of a rank
        found, expected = ((tuple(each.shape), each.dtype) for each in (found, expected))
    elif short == "partition" and found.shape == expected.shape:  # any order on either side of a rank
        found, expected = (np.sort(each, axis=None) for each in (found, expected))
    try:
        agree(found, expected, text, 512)
    except AssertionError as error:
        return str(error).strip().replace("\n", " ")[:300]
    return ""


@pytest.mark.thorough
@pytest.mark.parametrize("first", sorted({name.rpartition(".")[2][0] for name in functions()}))
def test_every_parameter_is_taken_as_numpy_takes_it(first: str) -> None:
    """By the first letters of the names of functions."""
    tried = [
        (name, trial)
        for name in functions() if name.rpartition(".")[2][0] == first
        for trial in trials(name)
    ]  # fmt: skip

    def main(proc: bsp.Process) -> list[Any]:
        return [called(*each, {key: dealt(proc, x, "blocks") for key, x in OPERANDS.items()}) for each in tried]

    with dealt_always():
        results = bsp.run(main, nprocs=2)
    expected = [called(*each, {key: x.copy() for key, x in OPERANDS.items()}) for each in tried]
    wrong = [
        (pid, text)
        for pid, every in enumerate(results)
        for (name, trial), found, want in zip(tried, every, expected, strict=True)
        if (text := judged(name, trial, found, want))
    ]
    assert wrong == []


@pytest.mark.thorough
@pytest.mark.parametrize("paired", [1024, 3])
def test_small_arrays_of_scripts_are_numpys(paired: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of few and of many elements: the results are NumPy's."""
    monkeypatch.setattr(small_arrays, "_PAIRED", paired)
    tried = [(name, trial) for name in functions() for trial in trials(name) if "order as" not in trial.text]

    def main(proc: bsp.Process) -> list[Any]:
        world().as_numpy = True
        numpy = NumPyInstead(ba, np)
        return [
            called(*each, {key: small_arrays.settled(x.copy()) for key, x in OPERANDS.items()}, numpy) for each in tried
        ]

    (results,) = bsp.run(main, nprocs=1)
    expected = [called(*each, {key: x.copy() for key, x in OPERANDS.items()}) for each in tried]
    wrong = [
        text
        for (name, trial), found, want in zip(tried, results, expected, strict=True)
        if (text := judged(name, trial, found, want))
    ]
    assert wrong == []


def test_no_function_is_left_out() -> None:
    """NumPy takes the required arguments of each, and so do we; nearly all have parameters to try."""
    bare = [name for name in functions() if not list(trials(name))]
    assert len(functions()) - len(bare) > 190
    plain = Trial("", "", None, {}, [])
    given = {key: x.copy() for key, x in OPERANDS.items()}
    refused = [name for name in functions() if isinstance(called(name, plain, given), Exception)]
    assert refused == []
