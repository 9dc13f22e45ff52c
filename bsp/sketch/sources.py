"""Sketches as syntax trees: holes numbered, generators expanded, and the source of a completed function."""

from __future__ import annotations

import ast
import contextlib
import copy
import inspect
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from bsp.sketch import holes
from bsp.verify.mutants import definition_of

DEEPEST = 2  # calls of a generator inside itself
_SIGNS: dict[str, type[ast.operator]] = {
    "+": ast.Add, "-": ast.Sub, "*": ast.Mult, "/": ast.FloorDiv, "%": ast.Mod,
}  # fmt: skip
_CHOICES = "__choices__"  # the name by which a prepared sketch gets the values of its holes


class OpenHole(NamedTuple):
    """One hole of a sketch.

    kind : "hole", "choose" or "expr".
    options : the expressions, as syntax trees, of which one takes the hole's place.
    operands : of an "expr": the expressions that the options are made of; else ().
    codes : of an "expr": functions of the operands' values, one for each option; else ().
    """

    kind: str
    options: list[ast.expr]
    operands: tuple[ast.expr, ...] = ()
    codes: tuple[Callable[..., Any], ...] = ()


class NumberedSketch(NamedTuple):
    """A function whose holes are numbered: its syntax tree, its holes, and the names that it can see."""

    tree: ast.FunctionDef
    openings: list[OpenHole]
    space: dict[str, Any]


def sketched(function: Callable[..., Any], times: int) -> NumberedSketch:
    """Return the sketch of a function; each `for _ in repeat(n)` is carried out `times` times."""
    tree = definition_of(function)
    tree.decorator_list = []
    space = _space(function)
    preparing = _Preparing(space, times)
    prepared = preparing.visit(tree)
    assert isinstance(prepared, ast.FunctionDef)
    return NumberedSketch(ast.fix_missing_locations(prepared), preparing.openings, space)


def most_times(function: Callable[..., Any]) -> int:
    """Return the largest number of times of the function's `repeat`; 0 if it has none."""
    tree = definition_of(function)
    space = _space(function)
    found = [0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _meant(node.func, space) is holes.repeat:
            found.append(_constant(_given(node, holes.repeat)[0], space))
    return max(found)


def _space(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the names that a function can see."""
    return dict(getattr(function, "__globals__", {})) | dict(inspect.getclosurevars(function).nonlocals)


def _meant(node: ast.expr, space: Mapping[str, Any]) -> Any:
    """Return the object that a name, or module.name, stands for."""
    if isinstance(node, ast.Name):
        return space.get(node.id)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return getattr(space.get(node.value.id), node.attr, None)
    return None


def _given(node: ast.Call, function: Callable[..., Any]) -> tuple[ast.expr, ...]:
    """Return the arguments of a call, named ones too, in the order of the function's parameters."""
    try:
        return (
            inspect.signature(function).bind(*node.args, **{str(each.arg): each.value for each in node.keywords}).args
        )
    except TypeError as wrong:
        raise TypeError(f"{ast.unparse(node)}: {wrong}") from None


def _constant(node: ast.expr, space: Mapping[str, Any]) -> Any:
    """Return the value of an expression of constants and of names outside of the sketch."""
    try:
        return eval(compile(ast.Expression(node), "<hole>", "eval"), dict(space))
    except NameError as wrong:
        raise ValueError(
            f"{ast.unparse(node)}: {wrong} outside of the sketch; holes are opened before it runs"
        ) from None


class _Preparing(ast.NodeTransformer):
    """Number the holes of a function: each becomes a call of the chooser."""

    def __init__(self, space: dict[str, Any], times: int) -> None:
        self.space, self.times = space, times
        self.openings: list[OpenHole] = []
        self._inside: list[str] = []  # generators under expansion

    def visit_For(self, node: ast.For) -> Any:
        """Unroll a loop over `repeat`."""
        called = node.iter
        if isinstance(called, ast.Call) and _meant(called.func, self.space) is holes.repeat:
            body: list[ast.stmt] = []
            for _ in range(self.times):
                body += [self.visit(copy.deepcopy(each)) for each in node.body]
            return body or [ast.Pass()]
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> Any:
        """Give a hole its number; put the expression of a generator in its place."""
        meant = _meant(node.func, self.space)
        if meant is holes.hole:
            values = _constant(_given(node, holes.hole)[0], self.space)
            if not isinstance(values, Collection) or not values:
                raise ValueError(f"{ast.unparse(node)}: a hole has values to choose from, such as hole(range(3))")
            return self._opened(OpenHole("hole", [ast.Constant(value) for value in values]))
        if meant is holes.choose:
            return self._chosen(node.args)
        if meant is holes.expr:
            return self._expression(*_given(node, holes.expr))
        if getattr(meant, "__bsp_generator__", False):
            return self.visit(self._expanded(meant, node))
        return self.generic_visit(node)

    def _opened(self, opening: OpenHole) -> ast.Call:
        number = len(self.openings)
        self.openings.append(opening)
        return ast.Call(
            ast.Attribute(ast.Name(_CHOICES, ast.Load()), opening.kind, ast.Load()), [ast.Constant(number)], []
        )

    def _chosen(self, options: Sequence[ast.expr]) -> ast.Call:
        """Return the call for `choose`: options are functions, so that only the chosen one is evaluated."""
        number = len(self.openings)
        self.openings.append(OpenHole("choose", []))
        prepared = []
        for option in options:
            try:
                prepared.append(self.visit(copy.deepcopy(option)))
            except _TooDeep:
                continue
        if not prepared:
            raise _TooDeep
        self.openings[number] = OpenHole("choose", prepared)
        every = [ast.Lambda(ast.arguments([], [], None, [], [], None, []), option) for option in prepared]
        return ast.Call(ast.Attribute(ast.Name(_CHOICES, ast.Load()), "choose", ast.Load()),
                        [ast.Constant(number), *every], [])  # fmt: skip

    def _expression(self, operands: ast.expr, operators: ast.expr, depth: ast.expr | None = None) -> ast.Call:
        if not isinstance(operands, (ast.Tuple, ast.List)):
            raise SyntaxError("expr: the operands are a tuple in the sketch's text")
        given = tuple(self.visit(copy.deepcopy(each)) for each in operands.elts)
        names = [ast.Name(f"a{k}", ast.Load()) for k in range(len(given))]
        deep = 1 if depth is None else int(_constant(depth, self.space))
        signs = str(_constant(operators, self.space))
        if wrong := [sign for sign in signs if sign not in _SIGNS]:
            raise ValueError(f"expr: no operator {wrong[0]!r}; there are {' '.join(_SIGNS)}")
        shapes = list(_expressions(names, signs, deep))
        arguments = ast.arguments([], [ast.arg(name.id) for name in names], None, [], [], None, [])
        codes = []
        for shape in shapes:
            code = ast.fix_missing_locations(ast.Expression(ast.Lambda(arguments, shape)))
            codes.append(eval(compile(code, "<expr>", "eval"), {}))
        replaced = [_replaced(shape, dict(zip([n.id for n in names], given, strict=True))) for shape in shapes]
        call = self._opened(OpenHole("expr", replaced, given, tuple(codes)))
        call.args += [copy.deepcopy(each) for each in given]
        return call

    def _expanded(self, meant: Callable[..., Any], node: ast.Call) -> ast.expr:
        """Return the body of a generator with the arguments of a call in the place of its parameters."""
        name = meant.__name__
        if self._inside.count(name) > DEEPEST:
            raise _TooDeep
        tree = definition_of(meant)
        body = [each for each in tree.body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))]
        if len(body) != 1 or not isinstance(body[0], ast.Return) or body[0].value is None:
            raise SyntaxError(f"the generator {name} is no single return statement")
        self.space.setdefault(name, meant)
        for seen, value in getattr(meant, "__globals__", {}).items():
            self.space.setdefault(seen, value)
        names = [arg.arg for arg in tree.args.args]
        given = dict(zip(names, node.args, strict=False))
        given |= {each.arg: each.value for each in node.keywords if each.arg}
        self._inside.append(name)
        try:
            found: ast.expr = self.visit(_replaced(body[0].value, given))
            return found
        finally:
            self._inside.pop()


class _TooDeep(Exception):
    """A generator has called itself too often; the option of `choose` that it is in is left out."""


def _expressions(operands: Sequence[ast.expr], operators: str, depth: int) -> Iterator[ast.expr]:
    """Yield the expressions of at most a depth, the smallest first."""
    smaller: list[ast.expr] = list(operands)
    yield from smaller
    everything = list(smaller)
    for level in range(depth):
        new: list[ast.expr] = []
        for (i, a), (j, b) in itertools.product(enumerate(everything), repeat=2):
            if level and i < len(everything) - len(smaller) and j < len(everything) - len(smaller):
                continue  # both are from an earlier level
            for sign in operators:
                if sign in "+*" and j < i:
                    continue  # the same with its sides exchanged
                new.append(ast.BinOp(a, _SIGNS[sign](), b))
        yield from new
        smaller = new
        everything += new


class _Replacing(ast.NodeTransformer):
    def __init__(self, names: dict[str, ast.expr]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> Any:
        """Replace a name."""
        found = self.names.get(node.id)
        return node if found is None else copy.deepcopy(found)


def _replaced(tree: ast.expr, names: dict[str, ast.expr]) -> ast.expr:
    found: ast.expr = _Replacing(names).visit(copy.deepcopy(tree))
    return found


def prepared(sketch: NumberedSketch, choices: Any) -> Callable[..., Any]:
    """Return the sketch as a function whose holes ask `choices`."""
    space = dict(sketch.space) | {_CHOICES: choices}
    exec(compile(ast.fix_missing_locations(ast.Module([sketch.tree], [])), "<sketch>", "exec"), space)
    found: Callable[..., Any] = space[sketch.tree.name]
    return found


class _Filling(ast.NodeTransformer):
    """Put the chosen expressions in the place of the holes."""

    def __init__(self, sketch: NumberedSketch, chosen: dict[int, int]) -> None:
        self.sketch, self.chosen = sketch, chosen

    def visit_Call(self, node: ast.Call) -> Any:
        """Replace a numbered hole."""
        if isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") == _CHOICES:
            assert isinstance(node.args[0], ast.Constant)
            number = int(node.args[0].value)  # type: ignore[arg-type]
            option = self.sketch.openings[number].options[self.chosen.get(number, 0)]
            return self.visit(copy.deepcopy(option))
        return self.generic_visit(node)


class _Folding(ast.NodeTransformer):
    """Evaluate operations of two integers.  Whether x + 0, x * 1 or x // 1 is x depends on the type of x."""

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        """Fold an operation."""
        self.generic_visit(node)
        if all(isinstance(each, ast.Constant) and type(each.value) is int for each in (node.left, node.right)):
            with contextlib.suppress(ArithmeticError, ValueError):
                return ast.Constant(
                    eval(compile(ast.fix_missing_locations(ast.Expression(node)), "<fold>", "eval"), {})
                )
        return node


def completed(sketch: NumberedSketch, chosen: dict[int, int]) -> tuple[str, Callable[..., Any]]:
    """Return the source of the completed function, and the function."""
    tree = ast.fix_missing_locations(_Folding().visit(_Filling(sketch, chosen).visit(copy.deepcopy(sketch.tree))))
    source = ast.unparse(tree)
    space = dict(sketch.space)
    exec(compile(source, f"<completed {sketch.tree.name}>", "exec"), space)
    return source, space[sketch.tree.name]
