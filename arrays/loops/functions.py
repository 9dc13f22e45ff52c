"""Functions whose loops over elements have become array statements, and what was made of each loop."""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import inspect
import itertools
import operator
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import CellType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

import bsp.arrays as ba
from bsp.arrays.array import Array
from bsp.arrays.errors import LoopWarning
from bsp.arrays.execution.world import world
from bsp.arrays.gathering import warned
from bsp.arrays.loops import accumulation
from bsp.arrays.loops.distribution import Staying, distributed
from bsp.arrays.loops.expressions import Guard, np_call
from bsp.arrays.loops.generators import Comprehensions
from bsp.arrays.loops.integers import fit
from bsp.arrays.loops.nests import LoopStays, names_in, range_of
from bsp.arrays.loops.perfect import nest
from bsp.arrays.loops.pricing import iterations, operations
from bsp.arrays.planning.plan import Explanation
from bsp.arrays.procedures import node_of
from bsp.arrays.views import overlap
from bsp.cost.units import counted, in_seconds

_GUARDS = ("elements'", "is_contraction'")
_ROUNDING = 1e-9  # of the largest element: sums of array statements are in another order than those of loops


class LoopReport(NamedTuple):
    """One loop of a function: its line, whether it is carried out at once, and what it became or why it stayed.

    operations : on elements, that every process does in each iteration of a loop that stays (see `pricing`).
    """

    line: int
    parallel: bool
    text: str
    operations: int = 0


def span(start: int, stop: int, step: int = 1) -> slice:
    """Return the slice of the positions of a loop; IndexError if it would begin before the array."""
    if stop <= start:
        return slice(0, 0)
    if start < 0:
        raise IndexError(f"a loop reaches position {start}: elements before the first are not taken from the end")
    return slice(operator.index(start), operator.index(stop), step)


def elements(
    arrays: tuple[tuple[Any, int], ...], numbers: tuple[tuple[Any, int], ...], written: tuple[Any, ...],
    used: tuple[Any, ...],
    reached: tuple[tuple[Any, int, int, int, bool], ...], integers: tuple[tuple[int, Any], ...], *positions: Any,
    choices: tuple[tuple[bool, Callable[[], tuple[Any, ...]]], ...] = (), ranges: tuple[range, ...] = (),
) -> bool:  # fmt: skip
    """Return whether so many indices of arrays give elements, others are numbers, and positions not negative.

    written, used : arrays that the loop writes, and all that it uses; these may not share elements with those.
    reached : arrays, axes, and the first and last positions there, which must be inside if there are any.
    integers : descriptions of integers that must have 64 bits (`integers.fit`).
    choices : whether a value, of which the loop takes one, is only stored; and a function that returns samples.
    ranges : those that must have iterations.
    Warns where the loop itself would take a distributed array by its elements.  See `Guard`.
    """
    if not all(ranges) or not all(getattr(each, "ndim", -1) == count for each, count in arrays):
        return False
    if not all(_is_number(each, count) for each, count in numbers) or not fit(integers):
        return False
    why = ""
    if any(each < 0 for each in positions) or any(
        first <= last and not (-array.shape[axis] if fixed else 0) <= first <= last < array.shape[axis]
        for array, axis, first, last, fixed in reached
    ):
        why = "it reaches positions before the first element of an array, or behind the last"
    elif any(sum(shared(one, other) for other in used) > 1 for one in written):
        why = "an array that it writes shares elements with another one that it uses; a copy() would not"
    elif not all(itertools.starmap(_of_one_type, choices)):
        why = "it takes one of several values of different types, as max(3, x[i]) of small integers"
    if why and any(isinstance(each, Array) for each in (*used, *(array for array, _ in arrays))):
        warned(f"this loop is carried out as it is written, element by element: {why}", LoopWarning)
    return not why


def _is_number(value: Any, count: int) -> bool:
    """Return whether so many indices of a value give a number; of a list, to which a loop may add, they do not."""
    if count or hasattr(value, "ndim"):
        return getattr(value, "ndim", count) == count
    return isinstance(value, bool | int | float | complex)


def _one(array: Any) -> Any:
    """Return the number 1 as an element of an array."""
    return array.dtype.type(1)


_OF_PYTHONS_RANGE = {bool, int, float, complex, np.int64, np.float64, np.complex128}


def _of_one_type(stored: bool, samples: Callable[[], tuple[Any, ...]]) -> bool:
    """Return whether an array has room for values as they are, of which a loop takes one; also if there are no samples.

    So it has if they have one type, or types whose arithmetic is Python's; or numbers of Python's are none that another
    type rounds, and the value is `stored`.
    """
    try:
        with np.errstate(all="ignore"):
            values = samples()
            types = {getattr(getattr(each, "dtype", None), "type", type(each)) for each in values}
            if len(types) == 1 or types <= _OF_PYTHONS_RANGE or types <= {bool, np.bool_}:
                return True
            kind = np.result_type(*values).type
            pythons = [each for each in values if isinstance(each, int | float | complex)]
            return stored and all(kind(each).item() == each for each in pythons)
    except OverflowError:
        return False
    except Exception:  # noqa: BLE001 - what a program raises for ones, as 1 / (i - 1)
        return True


def shared(one: Any, other: Any) -> bool:
    """Return whether two arrays are one, or share elements, as views do."""
    if one is other:
        return True
    if isinstance(one, Array) and isinstance(other, Array):
        return overlap(one, other)
    return isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and np.shares_memory(one, other)


def given(module: Any) -> dict[str, Any]:
    """Return what array statements call, by names that no program has: functions of a module like NumPy, and ours."""
    return {
        "np'": module, "span'": span, "elements'": elements, "one'": _one,
        "is_contraction'": accumulation.is_contraction,
        "kept'": accumulation.kept, "repeated'": accumulation.repeated, "whole'": accumulation.whole,
        "double'": accumulation.double, "truth'": accumulation.truth,
        "contraction'": functools.partial(accumulation.contraction, module),
        "total'": functools.partial(accumulation.total, module),
        "product'": functools.partial(accumulation.product, module),
    }  # fmt: skip


class Parallel:
    """A function whose loops over elements are array statements.

    source : its text.  loops : what became of each loop, and of each array or sum that a comprehension makes.

    An array statement is carried out where every index gives an element, and what has none is a number (in
    `B[i] = c * A[i]` of vectors, not of matrices or lists); elsewhere the loop itself is.

    Called with distributed arrays, it runs on these.  NumPy's arrays, which every process must have alike, are dealt,
    and what the function writes into them is written back, if it does not raise.  If all arrays are NumPy's, its
    results are too.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        if not isinstance(function, FunctionType) or function.__name__ == "<lambda>":
            raise TypeError(f"bsp.parallel takes a function that is written with def, not {function!r}")
        if inspect.unwrap(function) is not function:
            raise TypeError(
                f"bsp.parallel reads the source of {function.__name__}, which another decorator has changed: write "
                f"@bsp.parallel below the other decorators"
            )
        functools.update_wrapper(self, function)
        self.function = function
        tree = self._parsed()
        self.loops: list[LoopReport] = []
        tree.body = with_statements(tree.body, tree, self.loops, 0)
        self._tree = ast.fix_missing_locations(tree)
        self.source = _readable(tree)

    def _parsed(self) -> ast.FunctionDef:
        """Return the function's syntax tree, with the lines of its file."""
        source = textwrap.dedent(inspect.getsource(self.function))
        tree = ast.parse(source).body[0]
        if not isinstance(tree, ast.FunctionDef):
            raise TypeError(f"bsp.parallel takes a function that is written with def, not {self.function!r}")
        tree.decorator_list = []
        return ast.increment_lineno(tree, self.function.__code__.co_firstlineno - 1)

    def explain(self, *args: object) -> Explanation:
        """Return what became of each loop as text, by lines, and what loops that stay cost every process.

        args : with arguments of the function, that is counted: the function runs once, on copies, by NumPy and as it is
            written.  The time is that of as many floating point operations on the machine profile, as plans are priced:
            a lower bound, as Python runs the loop.
        """
        counts = self._iterations(args) if args else None
        lines = []
        for each in sorted(self.loops):
            text = f"line {each.line}: {'becomes ' if each.parallel else ''}{each.text}"
            if counts is not None and each.operations:
                machine, done = world().machine, counts[each.line] * each.operations
                text += f" ({counted(counts[each.line], 'iteration')}: {counted(done, 'operation')}, "
                text += f"at least {in_seconds(done / machine.r)} on {machine.name})"
            lines.append(text)
        return Explanation("\n".join(lines) or "no loops")

    def _iterations(self, args: tuple[object, ...]) -> Counter[int]:
        def run(tree: ast.FunctionDef, names: dict[str, Any]) -> None:
            self._made(np, tree, names)(*copy.deepcopy(args))

        return iterations(self._parsed(), run)

    def _made(
        self, module: Any, tree: ast.FunctionDef | None = None, names: Mapping[str, Any] = MappingProxyType({})
    ) -> Callable[..., Any]:
        """Return the function with the array statements, or with another tree, where `module` stands for NumPy.

        It has the globals, the variables outside of it and the default values of the function itself.  All other names
        are variables of a function around it, which is compiled, but never called.
        """
        tree, function = copy.deepcopy(tree or self._tree), self.function
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        cells |= {name: CellType(module) for name, value in self._outside().items() if value is np}
        cells |= {name: CellType(value) for name, value in (given(module) | dict(names)).items()}
        cells[tree.name] = CellType()
        every = tree.args
        every.defaults, every.kw_defaults = [], [None for _ in every.kwonlyargs]
        tree.returns = None
        for each in (*every.posonlyargs, *every.args, *every.kwonlyargs, every.vararg, every.kwarg):
            if each is not None:
                each.annotation = None
        around = ast.parse("def around(): pass").body[0]
        assert isinstance(around, ast.FunctionDef)
        around.args.args = [ast.arg(name) for name in cells if name != tree.name]
        around.body = [tree]
        made = compile(ast.fix_missing_locations(ast.Module([around], [])), function.__code__.co_filename, "exec")
        for _ in range(2):  # of the module the function around, of that the function
            (made,) = (each for each in made.co_consts if isinstance(each, CodeType))
        found = FunctionType(
            made,
            function.__globals__,
            tree.name,
            function.__defaults__,
            tuple(cells[name] for name in made.co_freevars),
        )
        found.__kwdefaults__ = function.__kwdefaults__
        cells[tree.name].cell_contents = found
        return found

    def _outside(self) -> dict[str, Any]:
        """Return the values of the names that the function takes from outside of it, but for the builtins."""
        function, found = self.function, {}
        own = {*function.__code__.co_varnames, *function.__code__.co_cellvars}
        for name in (names_in(self._tree) & function.__globals__.keys()) - own:
            found[name] = function.__globals__[name]
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # it is not set yet
                found[name] = cell.cell_contents
        return found

    def __get__(self, of: Any, kind: Any = None) -> Any:
        """Return the method of an object."""
        return self if of is None else MethodType(self, of)

    def with_numpy(self, *args: object, **kwargs: object) -> Any:
        """Run the array statements by NumPy, in this process alone."""
        return self._made(np)(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function on distributed arrays.  Collective."""
        theirs = {id(each): each for each in (*args, *kwargs.values()) if isinstance(each, np.ndarray) and each.ndim}
        beside = [each for each in (*args, *kwargs.values()) if id(each) not in theirs]
        others = [each for each in _inside((*beside, *self._outside().values())) if isinstance(each, np.ndarray)]
        pairs = itertools.chain(itertools.combinations(theirs.values(), 2), itertools.product(theirs.values(), others))
        if any(itertools.starmap(shared, pairs)):
            return self.function(*args, **kwargs)  # dealt, they would be arrays of their own
        ours = {key: ba.asarray(each) for key, each in theirs.items()}
        ours_or = lambda each: ours.get(id(each), each)  # noqa: E731
        before = {key: node_of(array) for key, array in ours.items()}

        def written_back() -> None:
            for key, array in ours.items():
                if node_of(array) is not before[key]:  # an assignment gives an array another node
                    theirs[key][...] = array.compute()

        try:
            result = self._made(ba)(*map(ours_or, args), **{name: ours_or(each) for name, each in kwargs.items()})
        except Exception:  # what was written before it is seen where it is caught
            with contextlib.suppress(Exception):
                written_back()
            raise
        written_back()
        distributed = any(isinstance(each, Array) for each in (*args, *kwargs.values()))
        return result if distributed or not theirs else _plain(result, {id(ours[key]): theirs[key] for key in ours})

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
        """Write a span as a slice, and sums without what they are added to."""
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name == "span'":
            return ast.Slice(*node.args)
        if name == "kept'":
            return node.args[1]
        if name in ("double'", "truth'"):
            return node.args[0]
        if name == "whole'":
            return node.args[0]
        if name == "repeated'":
            return ast.BinOp(node.args[1], ast.Mult(), node.args[2])
        if name == "contraction'":
            return self.generic_visit(np_call("einsum", *node.args[1:]))
        if name in ("total'", "product'"):
            return self.generic_visit(np_call("sum" if name == "total'" else "prod", node.args[1], axis=node.args[2]))
        return node

    def visit_If(self, node: ast.If | ast.IfExp) -> Any:
        """Leave out the test of a guard, and what is done or computed where it fails."""
        guards = _is_guard(node.test)
        self.generic_visit(node)
        return node.body if guards else node

    visit_IfExp = visit_If

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Write the module's name."""
        return ast.Name("np", node.ctx) if node.id == "np'" else node


def _is_guard(test: ast.expr) -> bool:
    if isinstance(test, ast.BoolOp):
        return _is_guard(test.values[-1])
    return isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id in _GUARDS


def _readable(tree: ast.AST) -> str:
    """Return a tree as text that people read, and could paste."""
    return ast.unparse(ast.fix_missing_locations(_Readable().visit(copy.deepcopy(tree))))


def _plain(result: Any, theirs: Mapping[int, np.ndarray]) -> Any:
    """Return a result with NumPy's arrays, which can be written, in place of distributed ones.

    theirs : the caller's own arrays, which take the place of what they became.
    """
    if isinstance(result, Array):
        if id(result) in theirs:
            return theirs[id(result)]
        values = result.compute()
        return values.copy() if values.ndim else values[()]
    if type(result) is dict:
        return {key: _plain(each, theirs) for key, each in result.items()}
    if isinstance(result, (tuple, list)):
        made = [_plain(each, theirs) for each in result]
        return type(result)._make(made) if hasattr(result, "_make") else type(result)(made)
    return result


def _inside(values: Iterable[Any], objects: bool = True, seen: set[int] | None = None) -> Iterator[Any]:
    """Yield values, those inside of lists, tuples and dictionaries, and the attributes of objects.

    objects : whether to look into objects; what is found there is not looked into for others.
    seen : containers that have been looked into, by id, since one may hold itself.
    """
    seen = set() if seen is None else seen
    for each in values:
        yield each
        if isinstance(each, (list, tuple, dict)):
            if id(each) not in seen:
                seen.add(id(each))
                yield from _inside(each.values() if isinstance(each, dict) else each, objects, seen)
        elif objects and not isinstance(each, (ModuleType, type)):
            yield from _inside(getattr(each, "__dict__", {}).values(), False, seen)


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
    guard = Guard(node)
    line = node.lineno + offset
    try:
        made = _nest_or_parts(node, around, guard)
    except LoopStays as why:
        text = f"stays: line {(why.line or node.lineno) + offset}: {why}"
        if every := operations(node):
            text += f"; every process does {counted(every, 'operation')} for each of {ast.unparse(node.iter)}"
        node.body = with_statements(node.body, around, reports, offset)
        _comprehensions(node, reports, offset)
        reports.append(LoopReport(line, False, text, every))
        return [node]
    found: list[ast.stmt] = []
    told = []
    for part in made:
        if isinstance(part, Staying):
            found += _loop(part.loop, part.around, reports, offset)
        else:
            found.append(part)
            told.append(_readable(part))
    told = told or ["nothing: what it computes is not used"]
    reports.append(LoopReport(line, True, ("\n" if any("\n" in each for each in told) else "; ").join(told)))
    test = guard.test()
    if test is not None:
        test = ast.BoolOp(ast.And(), [copy.deepcopy(node.iter), test])  # a loop without iterations does nothing
        found = [ast.If(test, found or [ast.Pass()], [node])]
    return [ast.copy_location(each, node) for each in found or [ast.Pass()]]


def _nest_or_parts(node: ast.For, around: ast.AST, guard: Guard) -> Sequence[ast.stmt | Staying]:
    """Return the array statements of a loop: of the whole nest, or else of its parts, some of which may stay."""
    try:
        return nest([range_of(node)], node, around, guard)
    except LoopStays as why:
        try:
            return distributed(node, around, guard)
        except LoopStays as also:
            raise (also if any(isinstance(each, ast.For) for each in node.body) else why) from None


def parallel(function: Callable[..., Any]) -> Parallel:
    """Return a function for distributed arrays: its loops over elements become array statements, where they may.

    function : of NumPy arrays and numbers, from a file or a notebook.  Loops over range() whose iterations do not
        depend on each other become slices, sums and contractions; `explain()` names what keeps a loop as it is.
        What stays is run by every process alike.
    A NumPy array that the function writes is changed in the caller, as NumPy changes it, also if the function raises.
    A part of it that the function returns is a copy, not a view.
    """
    return Parallel(function)
