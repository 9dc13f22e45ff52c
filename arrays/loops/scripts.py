"""Scripts for NumPy as BSP programs: `bsprun -p 8 --numpy script.py`.

Every process runs the whole script.  Its NumPy is `bsp.arrays`, and NumPy itself for names that it lacks, for elements
that its arrays do not hold, for numbers alone, and for random numbers, which are to be the same as ever: every process
makes those arrays whole, and keeps its part.  Loops over elements become array statements, in functions and outside of
them.  What is printed is printed once, by process 0; files that the script writes by other means than NumPy's functions
are written by every process.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import io
import os
import random
import sys
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

import bsp
import bsp.arrays as ba
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.element_types import KINDS, ElementTypeError
from bsp.arrays.loops.functions import LoopReport, given, with_statements
from bsp.arrays.namespace import OF_NUMPY
from bsp.values.payload import is_abstract

_UNSEEDED = "generators of scripts for NumPy"  # in `Task.libraries`: how many were made without a seed
CALLS_FOR_THE_PROGRAM = True  # of NumPy: a run without values takes them for the script's (`bsp.abstract.creation`)
_NUMBERS = (int, float, complex, np.generic)


class NumPyInstead(ModuleType):
    """A module that stands for NumPy, or one of its parts: names of `bsp.arrays`, else NumPy's own."""

    def __init__(self, ours: Any, theirs: Any) -> None:
        super().__init__(theirs.__name__)
        self._ours, self._theirs = ours, theirs

    def __getattr__(self, name: str) -> Any:
        """Return what stands for NumPy's object of a name; raise NumPy's AttributeError if both modules lack it."""
        theirs = getattr(self._theirs, name, None)
        if isinstance(theirs, ModuleType):
            return NumPyInstead(None if name == "random" else getattr(self._ours, name, None), theirs)
        if hasattr(self._ours, name):
            ours = getattr(self._ours, name)
            plain = isinstance(ours, FunctionType) and callable(theirs) and not isinstance(theirs, type)
            return _either(ours, theirs) if plain else ours
        for known, ours in _IN_PLACE_OF:
            if theirs is known:
                return ours
        if callable(theirs) and not isinstance(theirs, type):
            return theirs if theirs in OF_NUMPY else _dealing(theirs)
        return getattr(self._theirs, name)

    def _public(self) -> dict[str, Any]:
        """Return the objects that `from numpy import *` binds."""
        return {name: getattr(self, name) for name in self._theirs.__all__}


class _Instances(type):
    """Take distributed arrays for instances of a class; those without axes are numbers to NumPy."""

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, np.ndarray) or (isinstance(value, ba.Array) and value.ndim > 0)


class _NDArray(np.ndarray, metaclass=_Instances):
    """Stand for `numpy.ndarray` in a script: `isinstance(x, np.ndarray)` holds for distributed arrays, too."""


class _Dealing:
    """A random generator of NumPy's, or a function of `np.frompyfunc`, whose arrays are dealt."""

    def __init__(self, theirs: Any) -> None:
        self._theirs = theirs

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """Return NumPy's class, for `isinstance(rng, np.random.Generator)`."""
        return type(self._theirs)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._theirs, name)
        return _dealing(found) if callable(found) else found


class _DealingFunction(_Dealing):
    """A function of `np.frompyfunc`, whose results are Python objects."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _dealing(self._theirs)(*args, **kwargs)


def _either(ours: Any, theirs: Any) -> Any:
    """Return a function of ours that leaves to NumPy ufuncs of numbers, open files, and elements we do not hold."""
    of_numbers = isinstance(theirs, np.ufunc)

    @functools.wraps(ours)
    def function(*args: Any, **kwargs: Any) -> Any:
        if of_numbers and all(isinstance(each, _NUMBERS) for each in args):
            return theirs(*args, **kwargs)
        if any(_is_numpys(each) for each in (*args, *kwargs.values())):
            return _dealing(theirs)(*args, **kwargs)
        with contextlib.suppress(ElementTypeError):
            return ours(*args, **kwargs)
        return _dealing(theirs)(*args, **kwargs)

    return function


def _is_numpys(value: Any) -> bool:
    """Return whether an argument is an open file, lines of text, or an array of elements that ours do not hold."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind not in KINDS
    if isinstance(value, list) and value and isinstance(value[0], (str, bytes)):
        return True
    return hasattr(value, "read") or hasattr(value, "write")


def _dealing(function: Any) -> Any:
    """Return a function of NumPy's that takes arrays whole, on every process alike, and whose results are dealt.

    What it writes into an array, as `shuffle` does and `out=` asks for, is written into the distributed one.
    """

    @functools.wraps(function)
    def dealt(*args: Any, **kwargs: Any) -> Any:
        arrays = list(_arrays_in([*args, *kwargs.values()]))
        before = [each.compute() for each in arrays]
        whole = [each.copy() for each in before]
        place = {id(each): copy for each, copy in zip(arrays, whole, strict=True)}
        found = function(*_with(args, place), **{key: _with(each, place) for key, each in kwargs.items()})
        for array, old, new in zip(arrays, before, whole, strict=True):
            if not is_abstract(new) and new.tobytes() != old.tobytes():
                array[...] = new
        if isinstance(found, (np.random.Generator, np.random.RandomState)):
            return _Dealing(found)
        if isinstance(found, np.ufunc):
            return _DealingFunction(found)
        for array, new in zip(arrays, whole, strict=True):
            if found is new:
                return array
        array_like = isinstance(found, np.ndarray) and not isinstance(found, (np.ma.MaskedArray, np.matrix))
        held = (array_like or is_abstract(found)) and found.ndim and found.dtype.kind in KINDS
        return ba.asarray(found) if held else found

    return dealt


def _arrays_in(value: Any) -> Iterator[ba.Array]:
    """Iterate over the distributed arrays in an argument: itself, or those in lists and tuples."""
    if isinstance(value, ba.Array):
        yield value
    elif type(value) in (list, tuple):
        for each in value:
            yield from _arrays_in(each)


def _with(value: Any, place: dict[int, np.ndarray]) -> Any:
    """Return an argument with NumPy's arrays in place of distributed ones, by the ids of these."""
    if type(value) in (list, tuple):
        return type(value)([_with(each, place) for each in value])
    return place.get(id(value), value)


def _default_rng(seed: Any = None) -> Any:
    """Return NumPy's generator; one without a seed has the job's, and its number among those without."""
    if isinstance(seed, _Dealing):
        return seed
    if seed is None:
        proc = bsp.process()
        number = proc._task.libraries[_UNSEEDED] = proc._task.libraries.get(_UNSEEDED, 0) + 1
        seed = [proc._task.element.seed, number]
    return _dealing(np.random.default_rng)(seed)


def _isscalar(element: Any) -> bool:
    """Return what NumPy does; a number that an array gives is one."""
    return np.isscalar(element) or (isinstance(element, ba.Array) and not element.ndim)


def _nditer(op: Any, flags: Any = None, op_flags: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Return NumPy's iterator; TypeError if it would write, because what it iterates over are copies."""
    operands = op if isinstance(op, (list, tuple)) else [op]
    if any(isinstance(each, ba.Array) for each in operands) and "write" in str(op_flags):
        raise TypeError(
            "np.nditer reads a copy of a distributed array, so that what it writes would be lost: write a statement of "
            "arrays, as x[...] = 2 * x, or assign to x[index] for index in np.ndindex(x.shape)"
        )
    return np.nditer(op, flags, op_flags, *args, **kwargs)


_IN_PLACE_OF: tuple[tuple[Any, Any], ...] = (
    (np.ndarray, _NDArray), (np.random.default_rng, _default_rng), (np.isscalar, _isscalar), (np.nditer, _nditer),
)  # fmt: skip


def _seed_alike(seed: int) -> None:
    """Seed the global generators of a process as those of all others: their programs are one."""
    words = np.random.SeedSequence([seed]).generate_state(4)
    np.random.seed(words)
    random.seed(words.tobytes())


NUMPY = NumPyInstead(ba, np)


class _Imports(ast.NodeTransformer):
    """Bind the names that a script imports from NumPy to ours."""

    def visit_Import(self, node: ast.Import) -> Any:
        """Replace `import numpy`, `import numpy as np` and the like."""
        kept, made = [], []
        for each in node.names:
            if each.name.partition(".")[0] != "numpy":
                kept.append(each)
                continue
            value: ast.expr = ast.Name("numpy'", ast.Load())
            for part in each.name.split(".")[1:] if each.asname else []:
                value = ast.Attribute(value, part, ast.Load())
            made.append(ast.copy_location(ast.Assign([ast.Name(each.asname or "numpy", ast.Store())], value), node))
        return [*([ast.copy_location(ast.Import(kept), node)] if kept else []), *made]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        """Replace `from numpy import ...`."""
        if node.level or (node.module or "").partition(".")[0] != "numpy":
            return node
        value: ast.expr = ast.Name("numpy'", ast.Load())
        for part in (node.module or "").split(".")[1:]:
            value = ast.Attribute(value, part, ast.Load())
        found: list[ast.stmt] = []
        for each in node.names:
            if each.name == "*":
                names = ast.Call(ast.Attribute(value, "_public", ast.Load()), [], [])
                update = ast.Attribute(ast.Call(ast.Name("globals", ast.Load()), [], []), "update", ast.Load())
                found.append(ast.copy_location(ast.Expr(ast.Call(update, [names], [])), node))
                continue
            target = ast.Name(each.asname or each.name, ast.Store())
            found.append(ast.copy_location(ast.Assign([target], ast.Attribute(value, each.name, ast.Load())), node))
        return found


def prepared(source: str, path: str) -> tuple[ast.Module, list[LoopReport]]:
    """Return a script's syntax tree with array statements in place of loops, and what became of each loop."""
    tree = ast.parse(source, path)
    reports: list[LoopReport] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.body = with_statements(node.body, node, reports, 0)
    tree.body = with_statements(tree.body, tree, reports, 0)
    tree = _Imports().visit(tree)
    return ast.fix_missing_locations(tree), sorted(reports)


def main(arguments: list[str]) -> None:
    """Run a script on all processes, or with --explain say what becomes of its loops."""
    explain = arguments[:1] == ["--explain"]
    program = arguments[1:] if explain else arguments
    if not program or not os.path.isfile(program[0]):
        raise SystemExit(f"--numpy: script {program[0] if program else ''!r} does not exist")
    proc = bsp.process()
    with open(program[0], encoding="utf-8") as file:
        tree, reports = prepared(file.read(), program[0])
    if explain:
        if proc.pid == 0:
            for each in reports:
                print(f"{program[0]}:{each.line}: {'becomes ' if each.parallel else ''}{each.text}")
        return
    sys.argv = program
    folder = os.path.dirname(os.path.realpath(program[0]))
    if folder not in sys.path:  # modules beside the script; processes of an element share the path
        sys.path.insert(0, folder)
    _seed_alike(proc._task.element.seed)
    world().as_numpy = True
    names = vars(sys.modules["__main__"])  # the script's, so that its classes are pickled by name
    names.clear()
    names |= {
        "__name__": "__main__", "__file__": os.path.abspath(program[0]), "__builtins__": builtins, "__spec__": None,
        "numpy'": NUMPY, **given(NUMPY),
    }  # fmt: skip
    if proc.pid:
        names["print"] = _unprinted
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  until the process ends
    exec(compile(tree, program[0], "exec"), names)


def _unprinted(*values: Any, file: Any = None, **others: Any) -> None:
    """Print, but nothing to standard error, on a process whose standard output is dropped.

    All processes take part in making the text.
    """
    print(*values, file=io.StringIO() if file is sys.stderr else file, **others)
