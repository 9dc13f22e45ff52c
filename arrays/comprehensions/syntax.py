"""The parser of comprehensions: `name[indices] = expression for index in start:stop, ...`.

The expression is in a subset of Python, so Python's parser reads it, after the left side and the ranges were cut off
here.  Every node of the tree has its place in the text as an attribute, and every error shows the place:

    index 'k' is 5 in A[i,k] (A has shape (3, 5)) and 7 in B[k,j] (B has shape (7, 2))
        C[i,j] = sum(A[i,k] * B[k,j])
                                ^
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from bsp.arrays.errors import ComprehensionError

_BRACKETS = {")": "(", "]": "[", "}": "{"}
_FORM = "a comprehension is written: name[indices] = expression, as in C[i,j] = sum(A[i,k] * B[k,j])"


class Span(NamedTuple):
    """The range `start:stop:step` of an index; None for a start or a step that is left out."""

    name: ast.Name
    start: ast.expr | None
    stop: ast.expr
    step: ast.expr | None


class Comprehension(NamedTuple):
    """A comprehension that has been parsed; `col_offset` of its nodes are positions in `text`.

    A computed index on the left, as in S[b[i]] or S[i // 2], is an index whose name is its text: "b[i]".
    """

    text: str
    name: str
    left: tuple[ast.Name, ...]
    right: ast.expr
    spans: Mapping[str, Span]
    keys: Mapping[str, ast.expr] = MappingProxyType({})  # the computed indices on the left

    def words(self, node: ast.AST) -> str:
        """Return the text of a node, on one line."""
        start, stop = place(node)
        return " ".join(self.text[start:stop].split())

    def mistake(self, node: ast.AST, message: str) -> ComprehensionError:
        """Return an error that points at a node."""
        return mistake(self.text, *place(node), message)


class Affine(NamedTuple):
    """An index expression, coefficient · index + constant; for a constant the index is None."""

    name: ast.Name | None
    coefficient: int
    constant: int


def place(node: Any) -> tuple[int, int]:
    """Return the positions in the text where a node begins and ends."""
    return node.col_offset, node.end_col_offset


def mistake(text: str, start: int, stop: int, message: str) -> ComprehensionError:
    """Return an error whose message has the line of the text and carets under the wrong part."""
    start = min(max(start, 0), len(text))
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", start)
    line = text[first : len(text) if last < 0 else last]
    indent = len(line) - len(line.lstrip())
    width = max(1, min(stop, first + len(line)) - start)
    return ComprehensionError(f"{message}\n    {line.strip()}\n    {' ' * (start - first - indent)}{'^' * width}")


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the known name that is most similar to a word, or an empty text."""
    names = sorted(known)
    found = [name for name in names if name.lower() == word.lower()] or get_close_matches(word, names, 1, 0.6)
    return f"; did you mean {found[0]!r}?" if found else ""


@lru_cache(maxsize=512)
def parsed(text: str) -> Comprehension:
    """Parse the text of a comprehension.  Raises ComprehensionError."""
    line = re.sub(r"#[^\n]*", lambda found: " " * len(found[0]), text)
    line = re.sub(r"\s", " ", line)
    equals, cuts = _cut(text, line)
    end = cuts[0] if cuts else len(line)
    name, left, keys = _left(text, line, equals)
    right = _expression(text, line, equals + 1, end)
    spans: dict[str, Span] = {}
    for start, stop in zip(cuts, [*cuts[1:], len(line)], strict=False):
        span = _span(text, line, start, stop, keys)
        if span.name.id in spans:
            raise mistake(text, *place(span.name), f"index {span.name.id!r} has two ranges")
        spans[span.name.id] = span
    return Comprehension(text, name, left, right, spans, MappingProxyType(keys))


def _cut(text: str, line: str) -> tuple[int, list[int]]:
    """Return the position of the `=`, and the position of the `for` or comma at which each range begins."""
    opened: list[int] = []
    equals, cuts, k = -1, [], 0
    while k < len(line):
        sign = line[k]
        word = re.match(r"\w+", line[k:])
        if word:
            if word[0] == "for" and not opened:
                cuts.append(k)
            k += len(word[0])
            continue
        if sign in "([{":
            opened.append(k)
        elif sign in ")]}":
            if not opened or line[opened[-1]] != _BRACKETS[sign]:
                raise mistake(text, k, k + 1, f"unmatched {sign!r}")
            opened.pop()
        elif sign in "'\"":
            raise mistake(text, k, k + 1, "there are no strings in a comprehension")
        elif sign == "," and not opened and cuts:
            cuts.append(k)
        elif line[k : k + 2] in ("==", "<=", ">=", "!="):
            k += 1
        elif sign == "=" and not opened and equals < 0:
            if k and line[k - 1] in "+-*/%&|^@:":
                raise mistake(
                    text, k - 1, k + 1, "the left side is a new array: write `=`, and the old one on the right"
                )
            equals = k
        k += 1
    if opened:
        raise mistake(text, opened[-1], opened[-1] + 1, f"{line[opened[-1]]!r} is never closed")
    if equals < 0 or (cuts and cuts[0] < equals):
        raise mistake(text, 0, len(text), _FORM)
    return equals, cuts


def _tree(text: str, source: str, offset: int) -> ast.expr:
    """Parse `source`, whose position 0 is `offset` in the text; return Python's tree with positions in the text."""
    try:
        tree = ast.parse(source, mode="eval").body
    except SyntaxError as error:
        start = offset + (error.offset or 1) - 1
        stop = offset + (error.end_offset or 0) - 1
        raise mistake(text, start, stop, str(error.msg)) from None
    encoded = source.encode()
    for node in ast.walk(tree):
        if isinstance(node, (ast.expr, ast.keyword)):
            node.col_offset = offset + len(encoded[: node.col_offset].decode())
            node.end_col_offset = offset + len(encoded[: node.end_col_offset].decode())
    return tree


def _expression(text: str, line: str, start: int, stop: int) -> ast.expr:
    if not line[start:stop].strip():
        raise mistake(text, start, start + 1, "an expression is missing here")
    tree = _tree(text, f"({line[start:stop]})", start - 1)
    if isinstance(tree, ast.Tuple):  # the parentheses are not in the text: `_tree` was given them
        raise mistake(
            text, start + len(line[start:stop]) - len(line[start:stop].lstrip()), stop, "a comma outside brackets"
        )
    return tree


def _left(text: str, line: str, stop: int) -> tuple[str, tuple[ast.Name, ...], dict[str, ast.expr]]:
    """Return the name of the result, its indices, and which of them are computed."""
    tree = _expression(text, line, 0, stop)
    if isinstance(tree, ast.Name):
        return tree.id, (), {}
    if not isinstance(tree, ast.Subscript) or not isinstance(tree.value, ast.Name):
        raise mistake(text, *place(tree), _FORM)
    names: list[ast.Name] = []
    keys: dict[str, ast.expr] = {}
    for part in axes_of(tree):
        each = part
        if not isinstance(part, ast.Name) and any(isinstance(inner, ast.Name) for inner in ast.walk(part)):
            each = _called(part)
            keys[each.id] = part
        if not isinstance(each, ast.Name):
            raise mistake(
                text, *place(each), "on the left are plain names of indices; ranges come last: ... for i in 1:9"
            )
        if any(each.id == other.id for other in names):
            raise mistake(text, *place(each), f"index {each.id!r} is on the left twice")
        names.append(each)
    return tree.value.id, tuple(names), keys


def _called(key: ast.expr) -> ast.Name:
    """Return a computed index as a name: its text in normal spacing, so that `b[i]` and `b[ i ]` are one index."""
    return ast.copy_location(ast.Name(ast.unparse(key)), key)


def _span(text: str, line: str, start: int, stop: int, keys: Mapping[str, ast.expr]) -> Span:
    """Parse a range: `for i in 0:9`, or `, i in 0:9`, or for a computed index `for b[i] in 0:9`."""
    form = "a range is written: for i in start:stop, or start:stop:step"
    found = re.fullmatch(r"((?:for\b|,)?\s*(?:for\b)?\s*)(\S.*?)\s+in\b(.*)", line[start:stop])
    if not found or not found[3].strip():
        raise mistake(text, start, stop, form)
    if re.fullmatch(r"[^\W\d]\w*", found[2]):
        name = ast.Name(found[2])
        name.col_offset, name.end_col_offset = start + found.start(2), start + found.end(2)
    else:
        name = _called(_tree(text, found[2], start + found.start(2)))
        if name.id not in keys:
            raise mistake(text, start, stop, f"{found[2]!r} is no index on the left: {form}" if keys else form)
    tree = _tree(text, f"_[{found[3]}]", start + found.start(3) - 2)
    assert isinstance(tree, ast.Subscript)
    span = tree.slice
    if not isinstance(span, ast.Slice):
        raise mistake(text, *place(span), form)
    if span.upper is None:
        raise mistake(text, *place(span), f"the range of {name.id!r} has no end: {form}")
    return Span(name, span.lower, span.upper, span.step)


def axes_of(node: ast.Subscript) -> list[ast.expr]:
    """Return the index expressions of a subscript, one for each axis."""
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]


def affine(read: Comprehension, node: ast.expr, integer: Callable[[ast.Name], int | None]) -> Affine:
    """Return an index expression as coefficient · index + constant; ComprehensionError if it is not of this form.

    integer : returns the integer operand of a name, or None for the name of an index.
    """

    def bad(where: ast.AST, why: str) -> ComprehensionError:
        return read.mistake(where, f"{read.words(node)} is no affine index such as i, 2*i+1, n-1-i or 0: {why}")

    def walk(node: ast.expr) -> Affine:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return Affine(None, 0, node.value)
        if isinstance(node, ast.Name):
            value = integer(node)
            return Affine(node, 1, 0) if value is None else Affine(None, 0, value)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            return scaled(walk(node.operand), -1 if isinstance(node.op, ast.USub) else 1)
        if isinstance(node, ast.BinOp):
            left, right = walk(node.left), walk(node.right)
            if isinstance(node.op, (ast.Add, ast.Sub)):
                return added(node, left, scaled(right, 1 if isinstance(node.op, ast.Add) else -1))
            if isinstance(node.op, ast.Mult):
                if left.name is not None and right.name is not None:
                    raise bad(node, "a product of two indices")
                return scaled(left, right.constant) if right.name is None else scaled(right, left.constant)
            if isinstance(node.op, (ast.FloorDiv, ast.Mod)) and left.name is None and right.name is None:
                if not right.constant:
                    raise bad(node, "a division by zero")
                value = divmod(left.constant, right.constant)[isinstance(node.op, ast.Mod)]
                return Affine(None, 0, value)
        if isinstance(node, ast.Slice):
            raise bad(node, "name the index and give its range at the end, as in B[i] = A[i+1] for i in 0:9")
        raise bad(node, "only +, - and * with integers are")

    def scaled(form: Affine, by: int) -> Affine:
        return Affine(form.name if form.coefficient * by else None, form.coefficient * by, form.constant * by)

    def added(node: ast.expr, left: Affine, right: Affine) -> Affine:
        if left.name is None or right.name is None:
            first = left if right.name is None else right
            return Affine(first.name, first.coefficient, left.constant + right.constant)
        if left.name.id != right.name.id:
            names = f"{left.name.id!r} and {right.name.id!r}"
            raise bad(node, f"{names} are two indices on one axis (an integer is given as {left.name.id}=...)")
        coefficient = left.coefficient + right.coefficient
        return Affine(left.name if coefficient else None, coefficient, left.constant + right.constant)

    return walk(node)
