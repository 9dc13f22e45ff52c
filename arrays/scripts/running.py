"""The run of a script for NumPy: `bsprun -p 8 --numpy script.py`.

Every process runs the whole script.  Its NumPy is another module (`numpy_instead`); loops over elements become array
statements, in functions and outside of them.  What is printed is printed once, by process 0; files that the script
writes by other means than NumPy's functions are written by every process.
"""

from __future__ import annotations

import ast
import builtins
import io
import os
import random
import sys
from typing import Any

import numpy as np

import bsp
import bsp.arrays as ba
from bsp.arrays.execution.world import world
from bsp.arrays.loops.functions import LoopReport, given, with_statements
from bsp.arrays.scripts.numpy_instead import NumPyInstead
from bsp.arrays.scripts.small_arrays import deal_abstract_arrays
from bsp.arrays.scripts.warning_lines import show_at_lines_of_scripts


def _seed_alike(seed: int) -> None:
    """Seed the global generators of a process as those of all others: their programs are one."""
    words = np.random.SeedSequence([seed]).generate_state(4)
    np.random.seed(words)
    random.seed(words.tobytes())


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
    show_at_lines_of_scripts()
    if world().abstract:
        deal_abstract_arrays()
    numpy = NumPyInstead(ba, np)
    names = vars(sys.modules["__main__"])  # the script's, so that its classes are pickled by name
    names.clear()
    names |= {
        "__name__": "__main__", "__file__": os.path.abspath(program[0]), "__builtins__": builtins, "__spec__": None,
        "numpy'": numpy, **given(numpy),
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
