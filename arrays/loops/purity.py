"""Calls that give the same in every iteration, so that one call may stand for all of them."""

from __future__ import annotations

import ast

from bsp.arrays.loops.nests import LoopStays

_BUILTINS = {
    "abs", "all", "any", "bool", "complex", "divmod", "float", "int", "len", "max", "min", "pow", "prange", "range",
    "round", "sum",
}  # fmt: skip
_MODULES = {"math", "np", "numpy"}
_IMPURE = {"at", "copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask", "random"}  # parts of names
_METHODS = {
    "all", "any", "argmax", "argmin", "astype", "conj", "copy", "cumprod", "cumsum", "dot", "get", "item", "max",
    "mean", "min", "prod", "ravel", "reshape", "round", "std", "sum", "tolist", "trace", "transpose", "var",
}  # fmt: skip


def refuse_impure(node: ast.AST | None) -> None:
    """Raise LoopStays if a tree calls what may give something else in each iteration, or does something besides.

    Known to do neither are the builtins for numbers, the functions of NumPy and math but for random numbers, and the
    methods of arrays that leave them unchanged.
    """
    for each in ast.walk(node) if node is not None else ():
        if isinstance(each, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)):
            raise LoopStays(each, f"{ast.unparse(each)} does more than to give a value")
        if isinstance(each, ast.Call) and not _is_pure(each):
            raise LoopStays(each, f"calls {ast.unparse(each.func)}, which may give something else in each iteration")


def _is_pure(call: ast.Call) -> bool:
    if isinstance(call.func, ast.Name):
        return call.func.id in _BUILTINS
    names: list[str] = []
    of = call.func
    while isinstance(of, ast.Attribute):
        names.append(of.attr)
        of = of.value
    if any(each.arg == "out" for each in call.keywords):
        return False
    if isinstance(of, ast.Name) and of.id in _MODULES:
        return not _IMPURE & {*names}
    return bool(names) and names[0] in _METHODS
