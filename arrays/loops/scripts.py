"""Scripts for NumPy as BSP programs: `bsprun -p 8 --numpy script.py`.

Every process runs the whole script.  Its NumPy is `bsp.arrays`, and NumPy itself for names that it lacks and for random
numbers, which are to be the same as ever: every process makes those arrays whole, and keeps its part.  Loops over
elements become array statements, in functions and outside of them.  What is printed is printed once, by process 0;
files that the script writes by other means than NumPy's functions are written by every process.
"""

from __future__ import annotations

import ast
import builtins
import functools
import os
import random
import sys
from types import ModuleType
from typing import Any

import numpy as np

import bsp
import bsp.arrays as ba
from bsp.arrays.loops.functions import LoopReport, given, with_statements

_UNSEEDED = "generators of scripts for NumPy"  # in `Task.libraries`: how many were made without a seed


class NumPyInstead(ModuleType):
    """A module that stands for NumPy, or one of its parts: names of `bsp.arrays`, else NumPy's own."""

    def __init__(self, ours: Any, theirs: Any) -> None:
        super().__init__(theirs.__name__)
        self._ours, self._theirs = ours, theirs

    def __getattr__(self, name: str) -> Any:
        """Return our function of a name, or NumPy's."""
        ours, theirs = getattr(self._ours, name, None), getattr(self._theirs, name, None)
        if ours is None and theirs is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if isinstance(theirs, ModuleType):
            return NumPyInstead(None if name == "random" else ours, theirs)
        if ours is not None:
            return ours
        if theirs is np.random.default_rng:
            return _default_rng
        return _dealing(theirs) if callable(theirs) and not isinstance(theirs, type) else theirs


class _Dealing:
    """A random generator of NumPy's whose arrays are dealt."""

    def __init__(self, generator: Any) -> None:
        self._generator = generator

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._generator, name)
        return _dealing(found) if callable(found) else found


def _dealing(function: Any) -> Any:
    """Return a function of NumPy's whose arrays, which every process makes alike, are dealt."""

    @functools.wraps(function)
    def dealt(*args: Any, **kwargs: Any) -> Any:
        found = function(*args, **kwargs)
        if isinstance(found, (np.random.Generator, np.random.RandomState)):
            return _Dealing(found)
        return ba.asarray(found) if isinstance(found, np.ndarray) and found.ndim else found

    return dealt


def _default_rng(seed: Any = None) -> Any:
    """Return NumPy's generator; one without a seed has the job's, and its number among those without."""
    if seed is None:
        proc = bsp.process()
        number = proc._task.libraries[_UNSEEDED] = proc._task.libraries.get(_UNSEEDED, 0) + 1
        seed = [proc._task.element.seed, number]
    return _dealing(np.random.default_rng)(seed)


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
            value: ast.expr = ast.Name("_numpy", ast.Load())
            for part in each.name.split(".")[1:] if each.asname else []:
                value = ast.Attribute(value, part, ast.Load())
            made.append(ast.copy_location(ast.Assign([ast.Name(each.asname or "numpy", ast.Store())], value), node))
        return [*([ast.copy_location(ast.Import(kept), node)] if kept else []), *made]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        """Replace `from numpy import ...`."""
        if node.level or (node.module or "").partition(".")[0] != "numpy":
            return node
        value: ast.expr = ast.Name("_numpy", ast.Load())
        for part in (node.module or "").split(".")[1:]:
            value = ast.Attribute(value, part, ast.Load())
        found = []
        for each in node.names:
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
    _seed_alike(proc._task.element.seed)
    space: dict[str, Any] = {
        "__name__": "__main__", "__file__": os.path.abspath(program[0]), "__builtins__": builtins, "_numpy": NUMPY,
    } | given(NUMPY)  # fmt: skip
    if proc.pid:
        space["print"] = _unprinted
    exec(compile(tree, program[0], "exec"), space)


def _unprinted(*values: Any, **_: Any) -> None:
    """Make the text of what process 0 prints, which all processes take part in, and print nothing."""
    for each in values:
        str(each)
