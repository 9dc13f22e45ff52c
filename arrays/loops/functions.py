"""Functions whose loops over elements have become array statements, and what was made of each loop."""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import itertools
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import bsp.arrays as ba
from bsp.arrays.array import Array
from bsp.arrays.loops.dependences import independent
from bsp.arrays.loops.expressions import Guard
from bsp.arrays.loops.generators import Comprehensions
from bsp.arrays.loops.nests import ElementStatement, LoopRange, LoopStays, flat, names_in, range_of
from bsp.arrays.loops.statements import array_statements, replaced
from bsp.arrays.planning.plan import Explanation
from bsp.arrays.procedures import node_of

_ROUNDING = 1e-9  # of the largest element: sums of array statements are in another order than those of loops


class LoopReport(NamedTuple):
    """One loop of a function: its line, whether it is carried out at once, and what it became or why it stayed."""

    line: int
    parallel: bool
    text: str


def span(start: int, stop: int, step: int = 1) -> slice:
    """Return the slice of the positions of a loop; IndexError if it would begin before the array."""
    if stop <= start:
        return slice(0, 0)
    if start < 0:
        raise IndexError(f"a loop reaches position {start}: elements before the first are not taken from the end")
    return slice(int(start), int(stop), int(step))


def elements(arrays: tuple[tuple[Any, int], ...], numbers: tuple[tuple[Any, int], ...]) -> bool:
    """Return whether so many indices of arrays give elements, and whether others are numbers (see `Guard`)."""
    return all(getattr(each, "ndim", -1) == count for each, count in arrays) and all(
        getattr(each, "ndim", count) == count for each, count in numbers
    )


class Parallel:
    """A function whose loops over elements are array statements.

    source : its text.  loops : what became of each loop, and of each array or sum that a comprehension makes.

    An array statement is carried out where every index gives an element, and what has none is a number (in
    `B[i] = c * A[i]` of vectors, not of matrices or lists); elsewhere the loop itself is.

    Called with distributed arrays, it runs on these.  NumPy's arrays, which every process must have alike, are dealt,
    and what the function writes into them is written back.  If all arrays are NumPy's, its results are too.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        source = textwrap.dedent(inspect.getsource(function))
        tree = next(node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))
        tree.decorator_list = []
        first = function.__code__.co_firstlineno
        self.loops: list[LoopReport] = []
        tree.body = with_statements(tree.body, tree, self.loops, first - 1)
        self._tree = ast.fix_missing_locations(tree)
        self.source = _readable(tree)

    def explain(self) -> Explanation:
        """Return what became of each loop as text, by lines."""
        lines = [f"line {each.line}: {'becomes ' if each.parallel else ''}{each.text}" for each in sorted(self.loops)]
        return Explanation("\n".join(lines) or "no loops")

    def _made(self, module: Any) -> Callable[..., Any]:
        space = dict(self.function.__globals__) | dict(inspect.getclosurevars(self.function).nonlocals)
        for name, value in list(space.items()):
            if value is np:
                space[name] = module
        space |= {"_np": module, "_span": span, "_elements": elements}
        exec(compile(ast.Module([self._tree], []), f"<loops of {self.function.__name__}>", "exec"), space)
        found: Callable[..., Any] = space[self._tree.name]
        return found

    def with_numpy(self, *args: object, **kwargs: object) -> Any:
        """Run the array statements by NumPy, in this process alone."""
        return self._made(np)(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function on distributed arrays.  Collective."""
        theirs = {id(each): each for each in (*args, *kwargs.values()) if isinstance(each, np.ndarray) and each.ndim}
        ours = {key: ba.asarray(each) for key, each in theirs.items()}
        ours_or = lambda each: ours.get(id(each), each)  # noqa: E731
        before = {key: node_of(array) for key, array in ours.items()}
        result = self._made(ba)(*map(ours_or, args), **{name: ours_or(each) for name, each in kwargs.items()})
        for key, array in ours.items():
            if node_of(array) is not before[key]:  # an assignment gives an array another node
                theirs[key][...] = array.compute()
        distributed = any(isinstance(each, Array) for each in (*args, *kwargs.values()))
        return result if distributed or not theirs else _plain(result)

    def check(self, *args: object) -> None:
        """Compare with the function itself on some arguments, by NumPy.

        Raises AssertionError where they differ by more than 1e-9 of the largest element.
        """
        once, again = (copy.deepcopy(args) for _ in range(2))
        wanted, found = self.function(*once), self.with_numpy(*again)
        for a, b in zip(_leaves((wanted, once)), _leaves((found, again)), strict=True):
            most = float(np.abs(a)[np.isfinite(a)].max(initial=1.0))
            if not np.allclose(a, b, rtol=0, atol=_ROUNDING * most, equal_nan=True):
                raise AssertionError(
                    f"{self.function.__name__}: the array statements give {b!r:.200}, the loops {a!r:.200}"
                )


class _Readable(ast.NodeTransformer):
    """Write spans as slices, and the module's name as people do."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Write a span as a slice."""
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "_span":
            return ast.Slice(*node.args)
        return node

    def visit_If(self, node: ast.If) -> Any:
        """Leave out the test of a guard, and what is done where it fails."""
        guards = _is_guard(node.test)
        self.generic_visit(node)
        return node.body if guards else node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """Leave out the test of a guard, and what is computed where it fails."""
        guards = _is_guard(node.test)
        self.generic_visit(node)
        return node.body if guards else node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Write the module's name."""
        return ast.Name("np", node.ctx) if node.id == "_np" else node


def _is_guard(test: ast.expr) -> bool:
    return isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id == "_elements"


def _readable(tree: ast.AST) -> str:
    """Return a tree as text that people read, and could paste."""
    return ast.unparse(ast.fix_missing_locations(_Readable().visit(copy.deepcopy(tree))))


def _plain(result: Any) -> Any:
    if isinstance(result, Array):
        values = result.compute()
        return values if values.ndim else values[()]
    if isinstance(result, (tuple, list)):
        return type(result)(map(_plain, result))
    return result


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [leaf for each in value for leaf in _leaves(each)]
    return [] if value is None or isinstance(value, str) else [value]


def with_statements(
    body: Sequence[ast.stmt], around: ast.AST, reports: list[LoopReport], offset: int
) -> list[ast.stmt]:
    """Return statements in which loops over elements have become array statements.

    around : the function or module of the statements.  reports : gains what became of each loop; lines are counted
        from `offset`.
    """
    found: list[ast.stmt] = []
    for node in body:
        if isinstance(node, ast.For):
            found += _loop(node, around, reports, offset)
            continue
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for name in ("body", "orelse", "finalbody"):
                inner = getattr(node, name, None)
                if isinstance(inner, list) and inner and isinstance(inner[0], ast.stmt):
                    setattr(node, name, with_statements(inner, around, reports, offset))
            _comprehensions(node, reports, offset)
        found.append(node)
    return found


def _comprehensions(node: ast.stmt, reports: list[LoopReport], offset: int) -> None:
    """Replace the comprehensions of a statement, but not those of statements inside it."""

    def report(line: int, parallel: bool, told: ast.expr | str) -> None:
        text = f"stays: line {line + offset}: {told}" if isinstance(told, str) else _readable(told)
        reports.append(LoopReport(line + offset, parallel, text))

    visitor = Comprehensions(report)
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.expr):
            setattr(node, name, visitor.visit(value))
        elif isinstance(value, list) and value and not isinstance(value[0], ast.stmt):
            setattr(node, name, [visitor.visit(each) if isinstance(each, ast.expr) else each for each in value])


def _loop(node: ast.For, around: ast.AST, reports: list[LoopReport], offset: int) -> list[ast.stmt]:
    """Return what takes the place of a loop: array statements; or the loop itself, with those inside it."""
    guard = Guard()
    try:
        made = _nest([range_of(node)], node, around, guard)
    except LoopStays as why:
        node.body = with_statements(node.body, around, reports, offset)
        _comprehensions(node, reports, offset)
        line = (why.line or node.lineno) + offset
        reports.append(LoopReport(node.lineno + offset, False, f"stays: line {line}: {why}"))
        return [node]
    reports.append(LoopReport(node.lineno + offset, True, "; ".join(map(_readable, made))))
    test = guard.test()
    if test is not None:
        made = [ast.If(test, made, [node])]
    return [ast.copy_location(each, node) for each in made]


def _nest(loops: list[LoopRange], node: ast.For, function: ast.AST, guard: Guard) -> list[ast.stmt]:
    """Return the array statements of a nest, of which the outer loops are given; LoopStays if it is none.

    guard : gains what must hold for them.
    """
    parts = list(flat(node.body))
    inner = [each for each in parts if isinstance(each, ast.For)]
    if inner and len(parts) == 1:
        new = range_of(inner[0])
        if names_in(new.start) & {loop.name for loop in loops} or names_in(new.stop) & {loop.name for loop in loops}:
            raise LoopStays(inner[0], f"the range of {new.name} depends on {loops[-1].name}")
        return _nest([*loops, new], inner[0], function, guard)
    if inner:
        raise LoopStays(inner[0], "stands beside other statements in its loop")
    statements = [_primed(each) for each in parts if isinstance(each, ElementStatement)]
    _own_names(loops, statements, node, function)
    whole = _substituted(statements)
    why: LoopStays | None = None
    for outside in _outside(loops, statements):
        inside = [loop for loop in loops if loop not in outside]
        try:
            independent(inside, whole, outside)
            made = array_statements(inside, statements)
        except LoopStays as refused:
            why = why or refused
            continue
        if outside and outside == loops[: len(outside)]:
            break  # these loops stay, and the nest inside them is read once more
        names = {loop.name for loop in loops}
        for each in whole:
            target = each.target if isinstance(each.target, ast.Subscript) else None
            for part in (target, each.condition, None if target is None and each.update is None else each.value):
                if part is not None:
                    guard.add(part, names)
        for loop in reversed(outside):
            made = [ast.For(ast.Name(loop.name, ast.Store()), loop.header, made, [])]
        return made
    assert why is not None
    raise why


class _Primed(ast.NodeTransformer):
    """Rename the variables of comprehensions, so that none has the name of something else; no text shows them."""

    def _renamed(self, node: ast.GeneratorExp | ast.ListComp) -> Any:
        self.generic_visit(node)
        own = [name for each in node.generators for name in names_in(each.target)]
        names: dict[str, ast.expr] = {name: ast.Name(f"{name}'", ast.Load()) for name in own}
        first = node.generators[0].iter  # is computed outside
        found: Any = replaced(names, node)
        found.generators[0].iter = first
        return found

    visit_GeneratorExp = visit_ListComp = _renamed


def _primed(each: ElementStatement) -> ElementStatement:
    condition = None if each.condition is None else _Primed().visit(copy.deepcopy(each.condition))
    return each._replace(value=_Primed().visit(copy.deepcopy(each.value)), condition=condition)


def _outside(loops: list[LoopRange], statements: Sequence[ElementStatement]) -> Iterator[list[LoopRange]]:
    """Yield the choices of loops of a nest that could stay outside of its statements: the fewest, sums first."""
    targets = [names_in(each.target) for each in statements]
    order = sorted(loops, key=lambda loop: all(loop.name in names for names in targets))
    for count in range(len(loops)):
        for chosen in itertools.combinations(order, count):
            yield [loop for loop in loops if loop in chosen]


def _substituted(statements: Sequence[ElementStatement]) -> list[ElementStatement]:
    """Return the statements with the values of the iteration's own names in their place."""
    names: dict[str, ast.expr] = {}
    found = []
    for each in statements:
        value = replaced(names, each.value)
        condition = None if each.condition is None else replaced(names, each.condition)
        if isinstance(each.target, ast.Name) and each.update is None:
            names[each.target.id] = value
        found.append(each._replace(value=value, condition=condition))
    return found


def _own_names(
    loops: Sequence[LoopRange], statements: Sequence[ElementStatement], node: ast.For, function: ast.AST
) -> None:
    """Raise LoopStays if a name that an iteration sets is read before, or outside of the nest; or a sum inside it."""
    own = {each.target.id for each in statements if isinstance(each.target, ast.Name) and each.update is None}
    inside = {id(each) for each in ast.walk(node)}
    for name in ast.walk(function):
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load) and name.id in own and id(name) not in inside:
            raise LoopStays(node, f"{name.id} is used outside of the loop")
    for loop in loops:
        if loop.name in _free(function, node):
            raise LoopStays(node, f"{loop.name} is used outside of the loop")
    done: set[str] = set()
    written: set[str] = set()
    sums: dict[str, str] = {}  # and products, and extremes, and what they are
    for each in statements:
        if isinstance(each.target, ast.Name) and each.update is not None:
            kind = "Add" if isinstance(each.update, ast.Sub) else type(each.update).__name__
            if sums.setdefault(each.target.id, kind) != kind:
                raise LoopStays(each.node, f"{each.target.id} depends on the iteration before")
    for each in statements:
        read = names_in(each.value) | (names_in(each.condition) if each.condition is not None else set())
        used = read | (names_in(each.target) if isinstance(each.target, ast.Subscript) else set())
        if used & set(sums):
            raise LoopStays(each.node, f"{sorted(used & set(sums))[0]} depends on the iteration before")
        if isinstance(each.target, ast.Name):
            if (each.target.id in own and each.target.id in read) or each.target.id in {loop.name for loop in loops}:
                raise LoopStays(each.node, f"{each.target.id} depends on the iteration before")
            if each.update is None:
                if read & written:  # its text would be put after the write
                    raise LoopStays(each.node, f"{each.target.id} is of an array that the iteration has written")
                done.add(each.target.id)
            elif each.target.id in own:
                raise LoopStays(each.node, f"{each.target.id} depends on the iteration before")
        else:
            written.add(_array(each))
            for other in statements:
                sets = isinstance(other.target, ast.Name) and other.update is None
                if sets and _array(each) in names_in(other.value):
                    raise LoopStays(each.node, f"{_array(each)} is written, and a name was set from it")
        if (read & own) - done:
            raise LoopStays(each.node, f"{sorted((read & own) - done)[0]} is used before the iteration sets it")


def _free(tree: ast.AST, nest: ast.AST) -> set[str]:
    """Return the names that a tree reads outside of a nest, and of other loops and comprehensions that set them."""
    if tree is nest:
        return set()
    if isinstance(tree, ast.Name):
        return {tree.id} if isinstance(tree.ctx, ast.Load) else set()
    found = {name for child in ast.iter_child_nodes(tree) for name in _free(child, nest)}
    if isinstance(tree, ast.For):
        return found - names_in(tree.target)
    for each in getattr(tree, "generators", []):
        found -= names_in(each.target)
    return found


def _array(each: ElementStatement) -> str:
    node: ast.AST = each.target
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def parallel(function: Callable[..., Any]) -> Parallel:
    """Return a function for distributed arrays: its loops over elements become array statements, where they may.

    function : of NumPy arrays and numbers, from a file or a notebook.  Loops over range() whose iterations do not
        depend on each other become slices, sums and contractions; `explain()` names what keeps a loop as it is.
        What stays is run by every process alike.
    """
    return Parallel(function)
