"""Cells of a notebook that run on the processes of a session: `%%bsp`.

A cell runs on every process in its `__main__`, whose names live on from cell to cell.  The value of the last expression
is that of process 0.
"""

from __future__ import annotations

import ast
import io
import linecache
import sys
import tokenize
from types import CodeType
from typing import Any

from bsp.session.handles import stays


def compiled(source: str, name: str) -> tuple[CodeType, CodeType | None]:
    """Return the code of a cell's statements, and of its last expression if it ends with one that no semicolon hides.

    name : of the cell, for tracebacks.  Raises SyntaxError.
    """
    tree = compile(source, name, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    assert isinstance(tree, ast.Module)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr) or _last_word(source) == ";":
        return _code(tree, name, "exec"), None
    return _code(ast.Module(tree.body[:-1], tree.type_ignores), name, "exec"), _code(
        ast.Expression(last.value), name, "eval"
    )


def _last_word(source: str) -> str:
    """Return the last token of a cell that is no comment."""
    beside = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.DEDENT, tokenize.ENDMARKER}
    return [each.string for each in tokenize.generate_tokens(io.StringIO(source).readline) if each.type not in beside][
        -1
    ]


def remember(source: str, name: str) -> None:
    """Let tracebacks find the lines of a cell in this interpreter."""
    linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name


def execute(proc: Any, source: str, name: str) -> Any:
    """Run a cell on a process; return the value of its last expression.

    On other processes than 0 it is None, unless it is or contains arrays: a handle needs the parts of all processes.
    """
    remember(source, name)
    statements, last = compiled(source, name)
    names = vars(sys.modules["__main__"])
    exec(statements, names)
    if last is None:
        return None
    value = eval(last, names)
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return value if proc.pid == 0 or stays(value) or any(map(stays, items)) else None


def _code(tree: ast.Module | ast.Expression, name: str, mode: str) -> CodeType:
    code: CodeType = compile(tree, name, mode, dont_inherit=True)
    return code
