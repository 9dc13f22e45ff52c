"""The expression of one iteration as that of all: slices, or diagonals, for elements; sums and contractions."""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from bsp.arrays.loops.nests import (
    AffineIndex,
    LoopRange,
    LoopStays,
    affine,
    is_expanded,
    last_of,
    minus,
    names_in,
    plus,
    range_of,
    reference,
    times,
)
from bsp.arrays.loops.purity import refuse_impure

_BUILTINS = {"min": "minimum", "max": "maximum", "abs": "abs"}
_GENERATORS = ("sum", "prod", "max", "min", "any", "all")
_LETTERS = "ijklmnpqrstuv"
_MODULES = ("np", "numpy", "math")
_OF_DOUBLES = {  # functions of math that are NumPy's for float64; others give integers, or something else
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "copysign", "cos", "cosh", "degrees", "exp",
    "exp2", "expm1", "fabs", "fmod", "hypot", "isfinite", "isinf", "isnan", "log", "log10", "log1p", "log2",
    "nextafter", "pow", "radians", "sin", "sinh", "sqrt", "tan", "tanh",
}  # fmt: skip
_BESIDE_UFUNCS = ("where", "clip", "round", "real", "imag", "nan_to_num", "abs")  # functions that are elementwise, too


def np_call(name: str, *args: ast.expr, **keywords: ast.expr) -> ast.Call:
    """Return a call of NumPy's function of a name."""
    function = ast.Attribute(ast.Name("np'", ast.Load()), name, ast.Load())
    return ast.Call(function, [*args], [ast.keyword(key, value) for key, value in keywords.items()])


def call(name: str, *args: ast.expr) -> ast.Call:
    """Return a call of a function that array statements are given (`functions.given`)."""
    return ast.Call(ast.Name(name, ast.Load()), [copy.deepcopy(each) for each in args], [])


def span_of(loop: LoopRange, at: AffineIndex) -> ast.expr:
    """Return the slice of an index; of one that descends the same elements in ascending order."""
    offset = at.offset or ast.Constant(0)
    if at.step > 0:
        first = plus(times(at.step, loop.start), offset)
        behind = loop.stop if at.step == 1 else plus(times(at.step, plus(loop.stop, ast.Constant(-1))), ast.Constant(1))
        ends = [first, plus(behind, offset)]
    else:
        ends = [minus(offset, times(-at.step, last_of(loop))), minus(offset, times(-at.step, loop.start))]
        ends[1] = plus(ends[1], ast.Constant(1))
    step = abs(at.step) * loop.step
    return ast.Call(ast.Name("span'", ast.Load()), ends if step == 1 else [*ends, ast.Constant(step)], [])


def sliced(loops: Sequence[LoopRange], node: ast.Subscript, stored: bool = False) -> tuple[ast.expr, list[str]]:
    """Return an element as a part of its array, and the loop variables of the part's axes.

    stored : the part is assigned to.
    """
    found = reference(node)
    if (line := _diagonal(loops, node)) is not None:
        return line
    parts: list[ast.expr] = []
    axes: list[str] = []
    turned: list[ast.expr] = []
    for index in found.indices:
        at = affine(index, [loop.name for loop in loops])
        if at.name in axes:
            raise LoopStays(node, f"{ast.unparse(node)} has the loop variable {at.name} twice")
        if at.name:
            if at.step < 0:
                if stored:
                    raise LoopStays(node, f"{ast.unparse(node)} does not ascend with {at.name}")
                turned.append(ast.Constant(len(axes)))
            axes.append(at.name)
            parts.append(span_of(next(loop for loop in loops if loop.name == at.name), at))
        else:
            parts.append(index)
    if is_expanded(node):
        if len(axes) < len(found.indices):
            raise LoopStays(node, f"{found.array} is set in iterations of a loop that stays outside")
        return ast.Name(found.array, ast.Load()), axes
    place: ast.expr = parts[0] if len(parts) == 1 else ast.Tuple(parts, ast.Load())
    part: ast.expr = ast.Subscript(ast.Name(found.array, ast.Load()), place, ast.Load())
    return np_call("flip", part, axis=ast.Tuple(turned, ast.Load())) if turned else part, axes


def _diagonal(loops: Sequence[LoopRange], node: ast.Subscript) -> tuple[ast.expr, list[str]] | None:
    """Return elements whose indices are all of one loop (A[i, n - 1 - i]), pair by pair; None if they are others."""
    found = reference(node)
    names = [affine(index, [loop.name for loop in loops]).name for index in found.indices]
    if len(names) < 2 or len({*names}) != 1 or not names[0] or is_expanded(node):
        return None
    pairs: list[ast.expr] = [ElementExpression(loops, names[:1]).visit(copy.deepcopy(each)) for each in found.indices]
    return ast.Subscript(ast.Name(found.array, ast.Load()), ast.Tuple(pairs, ast.Load()), ast.Load()), names[:1]


def aligned(value: ast.expr, axes: Sequence[str], order: Sequence[str]) -> ast.expr:
    """Return a part with its axes in the order of loop variables, and axes of length 1 for the others."""
    if not axes:
        return value
    wanted = [name for name in order if name in axes]
    if list(axes) != wanted:
        turned = ast.Tuple([ast.Constant(axes.index(name)) for name in wanted], ast.Load())
        value = np_call("transpose", value, turned)
    if len(wanted) < len(order):
        index: list[ast.expr] = [ast.Slice() if name in axes else ast.Constant(None) for name in order]
        value = ast.Subscript(value, ast.Tuple(index, ast.Load()), ast.Load())
    return value


class ElementExpression(ast.NodeTransformer):
    """Rewrite the expression of one iteration as that of all, with an axis for each loop in `order`."""

    def __init__(self, loops: Sequence[LoopRange], order: Sequence[str]) -> None:
        self.loops, self.order = loops, order

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        """Slice an element."""
        refuse_impure(node)
        if not names_in(node) & set(self.order):
            return node
        part, axes = sliced(self.loops, node)
        return aligned(part, axes, self.order)

    def visit_Name(self, node: ast.Name) -> Any:
        """Replace a loop variable by its values."""
        loop = next((each for each in self.loops if each.name == node.id), None)
        if loop is None:
            return node
        ends = [loop.start, loop.stop, *([] if loop.step == 1 else [ast.Constant(loop.step)])]
        return aligned(np_call("arange", *ends), [loop.name], self.order)

    def visit_Call(self, node: ast.Call) -> Any:
        """Keep elementwise functions of NumPy; those of math and the builtins become NumPy's, generators reductions."""
        if not names_in(node) & set(self.order) and not any(isinstance(each, ast.Subscript) for each in ast.walk(node)):
            refuse_impure(node)
            return node
        if (made := reduction(node, self.loops, self.order)) is not None:
            return made
        args = [self.visit(each) for each in node.args]
        if isinstance(node.func, ast.Name) and node.func.id in _BUILTINS and not node.keywords:
            found = args[0]
            if node.func.id == "abs":
                self._refuse_truths(node, node.args[0])
                return np_call("abs", found)
            if len(args) < 2:
                raise LoopStays(node, f"{ast.unparse(node)} is of all elements of something")
            for other in args[1:]:
                found = np_call(_BUILTINS[node.func.id], found, other)
            return found
        of = node.func.value if isinstance(node.func, ast.Attribute) and not node.keywords else None
        if isinstance(node.func, ast.Attribute) and isinstance(of, ast.Name) and of.id in _MODULES:
            function = getattr(np, node.func.attr, None)
            counted = isinstance(function, np.ufunc) and function.nin == len(args) and function.signature is None
            if of.id == "math":
                counted = counted and node.func.attr in _OF_DOUBLES
                args = [call("double'", each) for each in args]
            if counted or (of.id != "math" and node.func.attr in _BESIDE_UFUNCS):
                return np_call(node.func.attr, *args)
        raise LoopStays(node, f"calls {ast.unparse(node.func)}, which is not known to work on arrays")

    def truth(self, node: ast.expr) -> Any:
        """Rewrite a condition, of which nothing but the truth counts."""
        if not isinstance(node, ast.BoolOp):
            return self.visit(node)
        name = "logical_and" if isinstance(node.op, ast.And) else "logical_or"
        found = self.truth(node.values[0])
        for other in node.values[1:]:
            found = np_call(name, found, self.truth(other))
        return found

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        """Combine comparisons element by element; of other operands `and` and `or` give one."""
        if not _is_truth(node):
            raise LoopStays(node, f"{ast.unparse(node)} is one of its operands, not whether they hold")
        return self.truth(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        """Negate conditions element by element."""
        if isinstance(node.op, ast.Not):
            return np_call("logical_not", self.truth(node.operand))
        self._refuse_truths(node, node.operand)
        return ast.UnaryOp(node.op, self.visit(node.operand))

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        """Keep arithmetic."""
        if not isinstance(node.op, (ast.BitAnd, ast.BitOr, ast.BitXor)):
            self._refuse_truths(node, node.left, node.right)
        return super().generic_visit(node)

    def _refuse_truths(self, node: ast.expr, *operands: ast.expr) -> None:
        """Raise LoopStays if all operands are truths of Python's, which computes with them as with 0 and 1."""
        if all(map(_is_pythons_truth, operands)):
            raise LoopStays(node, f"{ast.unparse(node)} computes with truth values as with integers")

    def visit_Compare(self, node: ast.Compare) -> Any:
        """Compare element by element; a < b < c as two comparisons."""
        parts = [self.visit(each) for each in (node.left, *node.comparators)]
        found: ast.expr | None = None
        for left, sign, right in zip(parts, node.ops, parts[1:], strict=False):
            if isinstance(sign, (ast.In, ast.NotIn, ast.Is, ast.IsNot)):
                raise LoopStays(node, f"{ast.unparse(node)} is no comparison of numbers")
            one = ast.Compare(left, [sign], [right])
            found = one if found is None else np_call("logical_and", found, one)
        assert found is not None
        return found

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Refuse what is not known to work element by element."""
        if isinstance(node, ast.Attribute) and node.attr not in ("real", "imag") and names_in(node) & set(self.order):
            raise LoopStays(node, f"{ast.unparse(node)} is not known to work on arrays")
        if isinstance(node, ast.expr) and not isinstance(node, (ast.BinOp, ast.Constant, ast.Attribute)):
            raise LoopStays(node, f"{ast.unparse(node)} is not known to work on arrays")
        return super().generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        """Choose element by element."""
        return np_call("where", self.truth(node.test), self.visit(node.body), self.visit(node.orelse))


def _is_truth(node: ast.expr) -> bool:
    """Return whether an expression gives True or False only."""
    if isinstance(node, ast.BoolOp):
        return all(map(_is_truth, node.values))
    return isinstance(node, ast.Compare) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))


def _is_pythons_truth(node: ast.expr) -> bool:
    """Return whether an expression may give True or False of Python's; comparisons of elements give NumPy's."""
    if isinstance(node, ast.BoolOp):
        return any(map(_is_pythons_truth, node.values))
    if isinstance(node, ast.Compare):
        return not any(isinstance(each, ast.Subscript) for each in ast.walk(node))
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in ("any", "all")
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def summed(
    loops: Sequence[LoopRange], value: ast.expr, kept: Sequence[str], over: Sequence[str], old: ast.expr
) -> ast.expr:
    """Return the sum of an expression over some loops, with an axis for each of the others.

    old : what it is added to, whose dtype decides in which dtype (`accumulation`).
    """
    used = [name for name in over if name in names_in(value)]
    found: ast.expr = ElementExpression(loops, [*kept, *used]).visit(copy.deepcopy(value))
    if used:
        axes = ast.Tuple([ast.Constant(len(kept) + k) for k in range(len(used))], ast.Load())
        found = call("total'", old, found, axes)
    product = _contraction(loops, value, kept, over, old)
    if product is not None:
        test, einsum = product
        return ast.IfExp(test, einsum, found)
    for name in over:
        if name not in used:
            found = call("repeated'", old, found, length(next(each for each in loops if each.name == name)))
    return found


def _contraction(
    loops: Sequence[LoopRange], value: ast.expr, kept: Sequence[str], over: Sequence[str], old: ast.expr
) -> tuple[ast.expr, ast.expr] | None:
    """Return a product of elements, summed, as an einsum, behind the test for it; None if it is no such product."""
    factors: list[ast.expr] = []
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            waiting += [node.right, node.left]
        else:
            factors.append(node)
    names = {loop.name for loop in loops}
    arrays = [each for each in factors if names_in(each) & names]
    if len(arrays) < 2 or not all(isinstance(each, ast.Subscript) for each in arrays):
        return None
    letter = {loop.name: _LETTERS[k] for k, loop in enumerate(loops)}
    parts, texts = [], []
    for each in arrays:
        assert isinstance(each, ast.Subscript)
        part, axes = sliced(loops, each)
        parts.append(part)
        texts.append("".join(letter[name] for name in axes))
    used = set("".join(texts))
    if not all(letter[name] in used for name in (*kept, *over)):
        return None
    text = ",".join(texts) + "->" + "".join(letter[name] for name in kept)
    numbers = [factor for factor in factors if factor not in arrays]
    found: ast.expr = call("contraction'", old, ast.Constant(text), *parts)
    for factor in numbers:
        found = ast.BinOp(factor, ast.Mult(), found)
    return call("is_contraction'", old, *parts, *numbers), found


def length(loop: LoopRange) -> ast.expr:
    """Return the number of iterations of a loop."""
    return ast.Call(ast.Name("len", ast.Load()), [loop.header], [])


def ranges_of(node: ast.ListComp | ast.GeneratorExp, around: Sequence[LoopRange]) -> list[LoopRange]:
    """Return the loops of a comprehension inside other loops; LoopStays if their ranges are no rectangle."""
    found: list[LoopRange] = []
    for each in node.generators:
        loop = range_of(each)
        outer = {one.name for one in (*around, *found)}
        if loop.name in outer:
            raise LoopStays(node, f"{loop.name} is the variable of two loops")
        refuse_impure(loop.header)
        if depends := outer & names_in(loop.header):
            raise LoopStays(node, f"the range of {loop.name} depends on {sorted(depends)[0]}")
        found.append(loop)
    return found


def reduction(node: ast.Call, loops: Sequence[LoopRange], order: Sequence[str]) -> ast.expr | None:
    """Return the sum, product, extreme or truth of all that a generator gives, with an axis for each loop in `order`.

    None if the call is none of these.
    """
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    module = isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") in _MODULES
    of = node.args[0] if len(node.args) == 1 and not node.keywords else None
    known = name in _GENERATORS and (module or (isinstance(node.func, ast.Name) and name != "prod"))
    if not known or not isinstance(of, (ast.GeneratorExp, ast.ListComp)):
        return None
    own = ranges_of(of, loops)
    tests = [test for each in of.generators for test in each.ifs]
    value = of.elt
    if tests:
        test = tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)
        if name in ("max", "min"):
            raise LoopStays(node, f"the largest or smallest of some, by {ast.unparse(test)}")
        if name in ("any", "all"):
            kept = test if name == "any" else ast.UnaryOp(ast.Not(), test)
            value = ast.BoolOp(ast.And() if name == "any" else ast.Or(), [kept, value])
        else:
            value = ast.IfExp(test, value, ast.Constant(0 if name == "sum" else 1))
    every, over = [*loops, *own], [loop.name for loop in own]
    if name == "sum":
        total = summed(every, value, order, over, ast.Constant(0))
        return total if module or order else whole(total, value, every)
    if not set(over) <= names_in(value):
        raise LoopStays(value, f"{ast.unparse(value)} is the same in all iterations of {over[-1]}")
    written = ElementExpression(every, [*order, *over])
    found = (written.truth if name in ("any", "all") else written.visit)(copy.deepcopy(value))
    found = np_call(name, found, axis=_axes(len(order), len(over)))
    if module or order:
        return found
    return call("truth'", found) if name in ("any", "all") else whole(found, value, every)


_OF_INTEGERS = (
    ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Compare, ast.BoolOp, ast.operator, ast.unaryop,
    ast.cmpop, ast.boolop, ast.expr_context,
)  # fmt: skip


def whole(made: ast.expr, value: ast.expr, loops: Sequence[LoopRange], *old: ast.expr) -> ast.expr:
    """Return what was made of the values of all iterations; as an integer of Python's, if it is one in the loop.

    That depends on what other names the value has, and on the old value to which it is added.
    """
    if not all(isinstance(each, _OF_INTEGERS) for each in ast.walk(value)):
        return made
    names = sorted(names_in(value) - {loop.name for loop in loops})
    return call("whole'", made, *old, *(ast.Name(name, ast.Load()) for name in names))


def _axes(first: int, count: int) -> ast.expr:
    """Return the numbers of so many axes."""
    return ast.Tuple([ast.Constant(first + k) for k in range(count)], ast.Load())


def array_of(node: ast.expr) -> str:
    """Return the name of the array of an element; "" if it has none."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


class Guard:
    """The test, where a program runs, that array statements do there what its loops do.

    `A[i]` is an element only if A has one axis: of a matrix it is a row, and a list is not computed with.  `w` is a
    number only if it has no axes.  Positions by which dependences were excluded are not counted from the end.

    node : the loop; arrays that it writes must share no element with another one that it uses.
    positions : gains those positions, by their texts.
    extents : gains arrays, axes, and first and last positions that must be inside them; of a fixed position (True),
        which may be counted from the end, both are the same.
    integers : gains descriptions of integers that must have 64 bits (`integers`), by their texts.
    choices : gains the program's choices between values, which must have one type, as an array has one (`reach`).
    ranges : gains the ranges that must have iterations: a list of nothing becomes an array of float64.
    """

    def __init__(self, node: ast.For | None = None) -> None:
        uses = [each for each in ast.walk(node or ast.Pass()) if isinstance(each, (ast.Subscript, ast.Name))]
        set_here = {each.id for each in uses if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
        found = [(array_of(each), each.ctx) for each in uses if isinstance(each, ast.Subscript)]
        self._used = {name for name, _ in found} - {"", *set_here}
        self._written = {name for name, how in found if isinstance(how, ast.Store)} & self._used
        self.positions: dict[str, ast.expr] = {}
        self.extents: dict[str, tuple[str, int, ast.expr, ast.expr, bool]] = {}
        self.integers: dict[str, ast.expr] = {}
        self.choices: dict[str, ast.expr] = {}
        self.ranges: list[ast.expr] = []
        self._elements: set[tuple[str, int]] = set()  # arrays, and the number of their indices
        self._numbers: set[tuple[str, int]] = set()  # names, and indices, that have no loop variable

    def add(self, node: ast.AST, loops: Collection[str]) -> None:
        """Add what an expression of one iteration uses.  loops : the names of the loops around it."""
        if isinstance(node, ast.Subscript):
            base: ast.expr = node
            indices: list[ast.expr] = []
            while isinstance(base, ast.Subscript):
                indices += base.slice.elts if isinstance(base.slice, ast.Tuple) else [base.slice]
                base = base.value
            if isinstance(base, ast.Name) and not is_expanded(node):
                (self._elements if names_in(node) & {*loops} else self._numbers).add((base.id, len(indices)))
            for each in indices:
                self.add(each, loops)
        elif isinstance(node, ast.Name):
            if node.id not in loops:
                self._numbers.add((node.id, 0))
        elif isinstance(node, ast.Call):
            for each in node.args:
                self.add(each, loops)
        elif isinstance(node, (ast.GeneratorExp, ast.ListComp)):
            own = {*loops, *(name for each in node.generators for name in names_in(each.target))}
            for part in (node.elt, *(test for each in node.generators for test in each.ifs)):
                self.add(part, own)
        elif not isinstance(node, ast.Attribute):
            for child in ast.iter_child_nodes(node):
                self.add(child, loops)

    def test(self) -> ast.expr | None:
        """Return the test; None if nothing has to be tested."""
        if not any((self._elements, self._numbers, self.positions, self.extents, self.integers, self.choices,
                    self.ranges)):  # fmt: skip
            return None

        def paired(uses: set[tuple[str, int]]) -> ast.expr:
            pairs = [ast.Tuple([ast.Name(name, ast.Load()), ast.Constant(k)], ast.Load()) for name, k in sorted(uses)]
            return ast.Tuple([*pairs], ast.Load())

        inside = [
            ast.Tuple([ast.Name(name, ast.Load()), ast.Constant(axis), first, last, ast.Constant(fixed)], ast.Load())
            for name, axis, first, last, fixed in self.extents.values()
        ]
        reached = ast.Tuple([*inside], ast.Load())
        integers = ast.Tuple([*self.integers.values()], ast.Load())
        names = [ast.Tuple([ast.Name(name, ast.Load()) for name in sorted(each)], ast.Load())
                 for each in (self._written, self._used)]  # fmt: skip
        arguments = [paired(self._elements), paired(self._numbers), *names, reached, integers]
        arguments += self.positions.values()
        others = {"choices": [*self.choices.values()], "ranges": self.ranges}
        keywords = [ast.keyword(name, ast.Tuple(each, ast.Load())) for name, each in others.items() if each]
        return ast.Call(ast.Name("elements'", ast.Load()), arguments, keywords)
