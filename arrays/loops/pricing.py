"""The price of loops that stay: the operations on elements that every process does for each iteration.

An arithmetic operation, a comparison, a call and an assignment to an element count as one each, those of indices as
none.  Statements of arrays, and loops inside, are not part of it: the planner prices the former when they run.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from bsp.arrays.loops.nests import names_in


def operations(node: ast.For) -> int:
    """Return the operations on elements of one iteration, without those of loops inside; all branches are counted."""
    return _of_statements(node.body, names_in(node.target))


def _of_statements(body: Sequence[ast.stmt], variables: set[str]) -> int:
    total = 0
    for each in body:
        if isinstance(each, (ast.If, ast.While)):
            total += _of_elements(each.test, variables)
            total += _of_statements([*each.body, *each.orelse], variables)
        elif isinstance(each, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr)):
            total += _of_elements(each, variables)
    return total


def _of_elements(node: ast.AST, variables: set[str]) -> int:
    """Return the operations of a statement or an expression of elements and numbers; 0 if it is one of arrays."""
    parts = list(ast.walk(node))
    elements = any(isinstance(each, ast.Subscript) and names_in(each.slice) & variables for each in parts)
    written = {each.id for each in parts if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    carried = isinstance(node, ast.Assign) and bool(written & names_in(node.value))
    sliced = any(isinstance(each, ast.Slice) for each in parts)
    if sliced or not (elements or (carried and names_in(node) & variables)):
        return 0
    return _counted(node)


def _counted(node: ast.AST) -> int:
    """Return the operations of a tree, without those of indices."""
    if isinstance(node, ast.Subscript):
        return int(isinstance(node.ctx, ast.Store) and not isinstance(node.slice, ast.Slice)) + _counted(node.value)
    own = isinstance(node, (ast.BinOp, ast.AugAssign, ast.Compare, ast.BoolOp, ast.Call))
    return int(own) + sum(map(_counted, ast.iter_child_nodes(node)))


class _Counting(ast.NodeTransformer):
    """Begin the body of every loop with a call that counts its iterations, by the loop's line."""

    def visit_For(self, node: ast.For) -> Any:
        """Count a loop's iterations."""
        self.generic_visit(node)
        call = ast.Call(ast.Name("passed'", ast.Load()), [ast.Constant(node.lineno)], [])
        node.body.insert(0, ast.Expr(call))
        return node


def iterations(tree: ast.FunctionDef, run: Callable[[ast.FunctionDef, dict[str, Any]], None]) -> Counter[int]:
    """Return how often the body of each loop of a function is carried out, by the loop's line.

    run : called with the function's tree, in which loops are counted, and with the names that it needs.
    """
    found: Counter[int] = Counter()

    def passed(line: int) -> None:
        found[line] += 1

    run(ast.fix_missing_locations(_Counting().visit(tree)), {"passed'": passed})
    return found
