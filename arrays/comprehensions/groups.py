"""Comprehensions with computed indices on the left: `S[b[i]] = sum(x[i])` aggregates by group.

Each outermost aggregate of the right side becomes one procedure (`sorting.grouping`).  Its arguments are the body and
the keys, as arrays over their common indices; indices that occur in no key are aggregated before.  The rest of the
right side is an ordinary comprehension on the results.

    S[b[i]] = sum(A[i,k] * x[k]) / sum(w[i])      t[i] = sum[k](A[i,k] * x[k]),  w[i]      by b[i]
                                                  S[g] = #0[g] / #1[g]
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bsp.arrays import build
from bsp.arrays.array import wrap
from bsp.arrays.comprehensions.compiler import Compiler, Template, compiled
from bsp.arrays.comprehensions.names import (
    Indices,
    Values,
    aggregate_of,
    check_all_named,
    check_function,
    free,
    index_names,
    names_in,
    outermost,
    range_of,
)
from bsp.arrays.comprehensions.syntax import Comprehension, axes_of
from bsp.arrays.expressions.graph import Kind, Node
from bsp.arrays.expressions.layout import Shape
from bsp.arrays.sorting.grouping import BadGroup, by_group

_BEFORE = ("sum", "prod", "min", "max", "any", "all", "mean")  # from parts of equal size: two steps give what one does


class CompiledAggregate(NamedTuple):
    """The compiled form of one aggregate by group."""

    how: str
    template: Template  # its roots: the body, and the keys
    axes: tuple[tuple[int, ...], ...]  # for each root, the axes of `whole` that it has, ascending
    whole: Shape  # the extents of all indices of the roots
    plain: tuple[int, ...]  # the axes of `whole` that the result keeps
    kept: tuple[str, ...]  # the names of their indices
    spans: tuple[range | None, ...]  # the range of each key; None: from 0 to its greatest value


def grouped(read: Comprehension, nodes: Mapping[str, Node], values: Values, key: tuple[Any, ...]) -> Node:
    """Return the array that a comprehension with computed indices describes.  Collective."""
    for node in ast.walk(read.right):
        if isinstance(node, ast.Call):
            check_function(read, node, nodes)
    calls = outermost(read.right)
    if not calls:
        where = next(iter(read.keys.values()))
        raise read.mistake(
            where, f"{read.words(where)} on the left names groups, and no aggregate is on the right: "
            f"{read.name}[...] = sum({read.words(read.right)})?"
        )  # fmt: skip
    check_all_named(read, {*nodes, *values})
    kinds = {name: node.kind for name, node in nodes.items()}
    compiled((*key, "outside"), partial(_check_outside, read, kinds, values))
    results: dict[str, Node] = {}
    parts: list[CompiledAggregate] = []
    for number, call in enumerate(calls):
        part: CompiledAggregate = compiled((*key, number), partial(_part, read, call, kinds, values))
        parts.append(part)
        arrays = [wrap(node) for node in part.template.filled(nodes, values)]
        try:
            found = by_group(part.how, arrays[0], arrays[1:], part.axes, part.whole, part.spans, part.plain)
        except BadGroup as bad:
            raise _outside(read, bad, part.spans[bad.key]) from None
        results[f"#{number}"] = found._node
    made = tuple((name, node.kind) for name, node in results.items())
    return _rest(read, parts, {**nodes, **results}, values, (*key, *made))


def _check_outside(read: Comprehension, kinds: Mapping[str, Kind], values: Values) -> bool:
    """Return True; raise ComprehensionError for an index of the members of a group outside of the aggregates."""
    none = [ast.Constant(0) for _ in outermost(read.right)]
    for name, where in free(_Results(none).visit(deepcopy(read.right)), index_names(read, kinds, values)).items():
        if all(name != each.id for each in read.left):
            raise read.mistake(
                where, f"index {name!r} is of the members of a group, and no aggregate is over it: outside of "
                "aggregates there are the indices on the left"
            )  # fmt: skip
    return True


def _outside(read: Comprehension, bad: BadGroup, span: range | None) -> Exception:
    where = list(read.keys.values())[bad.key]
    words = read.words(where)
    if span is None:
        return read.mistake(where, f"group {words} is {bad.value}; groups are counted from 0")
    text = f"{span.start}:{span.stop}"
    return read.mistake(where, f"group {words} is {bad.value}, outside its range {text}")


def _part(read: Comprehension, call: ast.Call, kinds: Mapping[str, Kind], values: Values) -> CompiledAggregate:
    """Compile the body of an aggregate, and the keys, over all their indices."""
    names = index_names(read, kinds, values)
    how = aggregate_of(call)
    assert how is not None
    if len(call.args) != 1 or call.keywords or isinstance(call.args[0], ast.Starred):
        raise read.mistake(call, f"{how} aggregates one expression")
    (body,) = call.args
    keys = list(read.keys.values())
    of_keys = free(ast.Tuple(keys, ast.Load()), names)
    inside = of_keys | free(body, names)
    plain = [each for each in read.left if each.id not in read.keys and each.id in inside]
    over = {name: where for name, where in inside.items() if all(name != each.id for each in plain)}
    if isinstance(call.func, ast.Subscript):
        for each in axes_of(call.func):
            if not isinstance(each, ast.Name):
                raise read.mistake(each, f"{how}[...] names the indices it is over, as in {how}[k](...)")
            if any(each.id == other.id for other in read.left):
                raise read.mistake(each, f"{how} cannot be over {each.id!r}, which is on the left")
            over.setdefault(each.id, each)
    before = [where for name, where in over.items() if name not in of_keys]
    whole = _sub(read, (*over.values(), *plain), ast.Tuple([body, *keys], ast.Load()))
    every = Indices(whole, _named(whole, kinds), _named(whole, values)).left
    # A group has all positions of an index that is in no key, or none: aggregate over them first, if there are some.
    if before and how in _BEFORE and all(index.extent for index in every):
        function = ast.Subscript(ast.Name(how), ast.Tuple([ast.Name(each.id) for each in before], ast.Load()))
        for node in (function, function.value, function.slice, *ast.walk(function.slice)):
            ast.copy_location(node, call)
        body = ast.copy_location(ast.Call(function, [body], []), call)
        over = {name: where for name, where in over.items() if name in of_keys}
    left = (*over.values(), *plain)
    parts = [body, *keys]
    spans = tuple(range_of(read, read.spans[name], kinds, values) if name in read.spans else None for name in read.keys)
    for span, where in zip(spans, keys, strict=True):
        if span is not None and span.step != 1:
            raise read.mistake(where, f"the range of {read.words(where)} has step {span.step}; of groups it is 1")
    inner = _sub(read, left, ast.Tuple(parts, ast.Load()))
    compiler = Compiler(inner, _named(inner, kinds), _named(inner, values))
    terms = [compiler.term(compiler.build(each)) for each in parts]
    terms[0] = compiler.widened(how, body, terms[0])
    for each, term in zip(keys, terms[1:], strict=True):
        dtype = term.node.kind.dtype
        if dtype.kind not in "iub" or dtype == np.uint64:
            raise read.mistake(each, f"groups are named by int64 or shorter integers; {read.words(each)} is {dtype}")
    dtype = terms[0].node.kind.dtype
    if how in ("min", "max") and dtype.kind in "mM":
        raise read.mistake(call, f"{how} of {dtype}: a group of nothing has no date; aggregate its int64")
    every = compiler.indices.left
    ordered = [sorted(term.indices, key=every.index) for term in terms]
    roots = [
        build.permuted(build.strong(term.node), [term.indices.index(index) for index in indices])
        for term, indices in zip(terms, ordered, strict=True)
    ]
    axes = tuple(tuple(every.index(index) for index in indices) for indices in ordered)
    return CompiledAggregate(
        how, Template(roots, compiler.inputs), axes, tuple(index.extent for index in every),
        tuple(range(len(over), len(every))), tuple(each.id for each in plain), spans,
    )  # fmt: skip


def _sub(read: Comprehension, left: Sequence[ast.Name], right: ast.expr) -> Comprehension:
    """Return a comprehension with another left and right side; it keeps the ranges of the indices that occur in it."""
    named = {each.id for each in ast.walk(right) if isinstance(each, ast.Name)} | {each.id for each in left}
    spans = {name: span for name, span in read.spans.items() if name in named and name not in read.keys}
    return read._replace(left=tuple(left), right=right, spans=spans, keys={})


def _named(read: Comprehension, operands: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the operands that a part of a comprehension names."""
    named = names_in(read)
    return {name: value for name, value in operands.items() if name in named}


class _Results(ast.NodeTransformer):
    """Replaces the outermost aggregates of an expression by given subscripts, in the order of `outermost`."""

    def __init__(self, subscripts: Sequence[ast.expr]) -> None:
        self._next = iter(subscripts)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Replace an aggregate by the subscript of its result; visit the arguments of any other function."""
        return self.generic_visit(node) if aggregate_of(node) is None else next(self._next)


def _rest(
    read: Comprehension,
    parts: Sequence[CompiledAggregate],
    nodes: Mapping[str, Node],
    values: Values,
    key: tuple[Any, ...],
) -> Node:
    """Return the right side computed on the results of its aggregates, which are among the nodes as `#0`, `#1`, ..."""

    def make() -> Template:
        kinds = {name: node.kind for name, node in nodes.items()}
        found: list[ast.expr] = []
        for number, (part, call) in enumerate(zip(parts, outermost(read.right), strict=True)):
            axes: list[ast.expr] = [each for each in read.left if each.id in read.keys]
            axes += [_place(read, each, kinds, values) for each in read.left if each.id in part.kept]
            subscript = ast.Subscript(ast.Name(f"#{number}"), ast.Tuple(axes, ast.Load()), ast.Load())
            for node in (subscript, subscript.value, subscript.slice):
                ast.copy_location(node, call)
            found.append(subscript)
        whole = _sub(read, read.left, _Results(found).visit(deepcopy(read.right)))
        named = names_in(whole)
        own = {name: value for name, value in values.items() if name in named}
        return Compiler(whole, {name: kind for name, kind in kinds.items() if name in named}, own).template()

    template: Template = compiled(key, make)
    return template.filled(nodes, values)[0]


def _place(read: Comprehension, index: ast.Name, kinds: Mapping[str, Kind], values: Values) -> ast.expr:
    """Return the subscript for an index on the left in a result, whose position 0 is the start of the range."""
    if index.id not in read.spans:
        return index
    run = range_of(read, read.spans[index.id], kinds, values)
    if run.step != 1:
        raise read.mistake(index, f"the range of {index.id!r} has step {run.step}; beside groups it is 1")
    start = ast.copy_location(ast.Constant(run.start), index)
    return ast.copy_location(ast.BinOp(index, ast.Sub(), start), index)
