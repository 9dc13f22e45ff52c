"""Mutants: faults put into a program one at a time, to see whether its check would find them.

A mutant changes one place: a number, an index or a peer by one, an operator, a comparison, a reduction, or leaves out
a statement that communicates.  One that no check can tell from the program is equivalent to it, or shows what the
check lacks.
"""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from bsp.verify.equivalence import Program, equivalent

_OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv}
_COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip
_REDUCTIONS = {"sum": "max", "max": "min", "min": "max", "prod": "sum"}
_COMMUNICATES = ("put", "send", "sync", "register", "get")


class Mutant(NamedTuple):
    """A changed program: what was changed, where, and whether the check has found it."""

    what: str
    line: int
    killed: bool
    how: str  # the first line of what the check said, or ""


class Mutation(NamedTuple):
    """The mutants of a program.  `share` is that of the killed ones."""

    mutants: list[Mutant]

    @property
    def share(self) -> float:
        """The part of the mutants that the check has found; 1 if there are none."""
        return sum(each.killed for each in self.mutants) / len(self.mutants) if self.mutants else 1.0

    @property
    def survivors(self) -> list[Mutant]:
        """The mutants that the check has not told from the program."""
        return [each for each in self.mutants if not each.killed]

    def __str__(self) -> str:
        lines = [f"{sum(each.killed for each in self.mutants)} of {len(self.mutants)} mutants found ({self.share:.0%})"]
        lines += [f"  not found: line {each.line}: {each.what}" for each in self.survivors]
        return "\n".join(lines)


def definition_of(function: Callable[..., Any]) -> ast.FunctionDef:
    """Return the syntax tree of a function; TypeError unless `def` makes it in a file or a notebook."""
    name = getattr(function, "__name__", repr(function))
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        return next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name)
    except (OSError, TypeError, SyntaxError, StopIteration):
        raise TypeError(f"{name}: its source is needed: a function that `def` makes, in a file or a notebook") from None


def mutated(program: Program, specification: Callable[..., Any], **options: Any) -> Mutation:
    """Check all mutants of a program against its specification; return which were found.

    options : of `equivalent`; `orders` is 0.  Each mutant may take a second a run before it counts as not ending, which
        is found too.
    The program's source must be a file's or a notebook's.
    """
    function = definition_of(program)
    first = inspect.getsourcelines(program)[1]
    function.decorator_list = []
    options = {"seconds": 1.0, "supersteps": 100, **options, "orders": 0}
    mutants = []
    for what, line, changed in _changes(ast.Module([function], [])):
        mutant = _compiled(changed, program, function.name)
        try:
            equivalent(mutant, specification, **options)
        except Exception as error:  # noqa: BLE001 - whatever refutes a mutant has found it
            mutants.append(Mutant(what, line + first - 1, True, str(error).partition("\n")[0]))
        else:
            mutants.append(Mutant(what, line + first - 1, False, ""))
    return Mutation(mutants)


def _compiled(tree: ast.Module, program: Program, name: str) -> Program:
    space = dict(getattr(program, "__globals__", {}))
    closed = inspect.getclosurevars(program).nonlocals
    space.update(closed)
    exec(compile(ast.fix_missing_locations(tree), f"<mutant of {name}>", "exec"), space)
    found: Program = space[name]
    return found


def _changes(tree: ast.Module) -> Iterator[tuple[str, int, ast.Module]]:
    """Yield each change of one place: what, the line in the function's source, and the changed tree."""
    for number, node in enumerate(ast.walk(tree)):
        for what, change in _of(node):
            changed = copy.deepcopy(tree)
            there = next(each for k, each in enumerate(ast.walk(changed)) if k == number)
            change(there)
            yield what, getattr(node, "lineno", 1), changed


def _of(node: ast.AST) -> Iterator[tuple[str, Callable[[Any], None]]]:
    """Yield the changes of one node: what, and the function that makes it."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield f"{node.value} becomes {node.value + 1}", lambda n: setattr(n, "value", n.value + 1)
    elif isinstance(node, ast.Constant) and node.value in _REDUCTIONS and isinstance(node.value, str):
        other = _REDUCTIONS[node.value]
        yield f"{node.value!r} becomes {other!r}", lambda n: setattr(n, "value", other)
    elif isinstance(node, ast.Attribute) and node.attr in ("pid", "nprocs"):
        yield f"{ast.unparse(node)} becomes {ast.unparse(node)} + 1", _plus_one
    elif isinstance(node, ast.Attribute) and node.attr in _REDUCTIONS:
        other = _REDUCTIONS[node.attr]
        yield f".{node.attr} becomes .{other}", lambda n: setattr(n, "attr", other)
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        new = _OPERATORS[type(node.op)]
        yield f"{ast.unparse(node)}: {type(node.op).__name__} becomes {new.__name__}", lambda n: setattr(n, "op", new())
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARISONS:
        sign = _COMPARISONS[type(node.ops[0])]
        yield (
            f"{ast.unparse(node)}: {type(node.ops[0]).__name__} becomes {sign.__name__}",
            (lambda n: n.ops.__setitem__(0, sign())),
        )
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        called = node.value.func
        if isinstance(called, ast.Attribute) and called.attr in _COMMUNICATES:
            yield f"{ast.unparse(node)} is left out", lambda n: setattr(n, "value", ast.Constant(None))


def _plus_one(node: Any) -> None:
    """Turn an attribute into the same attribute of an object, plus one: `proc.pid` into `(proc.pid + 1)`."""
    inner = ast.Attribute(node.value, node.attr, ast.Load())
    node.__class__ = ast.BinOp
    node.left, node.op, node.right = inner, ast.Add(), ast.Constant(1)
    for name in ("value", "attr", "ctx"):
        delattr(node, name)
    node._fields = ast.BinOp._fields
