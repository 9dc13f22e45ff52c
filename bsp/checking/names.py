"""The names that a round needs of the last one: analysis of a loop's source, and fingerprints of the names' values.

A newcomer has every variable as it was when the loop was entered.  It lacks names that rounds have changed since and
that are read again: by a later round before it writes them, or by the code behind the loop.

The source gives those names: `sure` where the read is certain (not under an `if`, an inner loop or a `try`), `live`
where it may happen.  Fingerprints show whether their values changed.
"""

from __future__ import annotations

import ast
import contextlib
import linecache
import os
import site
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from bsp.coarray import Coarray
from bsp.engine.recovery import LoopPosition
from bsp.engine.task import Task
from bsp.processes import Process
from bsp.source import is_ours
from bsp.values.canonical import alone, pickled

_INSTALLED = tuple(
    os.path.join(os.path.realpath(path), "")
    for path in {*(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
                 site.getusersitepackages()}
)  # fmt: skip
_FIXED = (ModuleType, FunctionType, BuiltinFunctionType, MethodType, type, CodeType)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@cache  # asked of every module for every process at every head, and each link of a path is a system call
def is_users(filename: str) -> bool:
    """Return whether a file is the user's: not this library's, not Python's, not installed, not a frozen module."""
    if is_ours(filename) or filename.startswith("<frozen"):
        return False
    return not os.path.realpath(filename).startswith(_INSTALLED)


# ------------------------------------------------------------------------------- values


def fingerprint(value: Any, named: Callable[[Any], Any]) -> bytes | None:
    """Return a digest that is equal for equal values; None for what cannot be compared (an open file, a generator).

    named : a pickle `persistent_id`, as `naming` returns it.  Cost: pickles the whole value.
    """
    if isinstance(value, _FIXED):
        return None
    try:
        with alone():
            return blake2b(pickled(value, named), digest_size=16).digest()
    except Exception:  # noqa: BLE001 - whatever a value's own pickling raises
        return None


NOTHING = fingerprint(None, lambda value: None)  # of None, a usual value of names before the first round


@dataclass(frozen=True)
class AtEntry:
    """The objects that stood in a State at a loop's entry, by name, and their fingerprints there."""

    values: dict[str, Any]
    digests: dict[str, bytes | None]

    def now(self, place: LoopPosition) -> dict[str, bytes | None]:
        """Return the fingerprints to compare them by; those that still stand there move along, and keep theirs."""
        return {
            name: self.digests[name] if name in place.own else fingerprint(value, lambda part: None)
            for name, value in self.values.items()
        }


def at_entry(place: LoopPosition) -> AtEntry:
    """Return the objects that stand in the State of a process at a loop's entry."""
    return AtEntry(place.own, {name: fingerprint(value, lambda part: None) for name, value in place.own.items()})


def naming(task: Task, place: LoopPosition | None, stood: AtEntry | None = None) -> Callable[[Any], Any]:
    """Return a pickle `persistent_id` that names what a newcomer is given or has, so that it is not compared.

    These are coarrays, handles, the generator, the State, what stands there since the loop's entry, and views of arrays
    among these.
    """
    memory: list[tuple[Any, ...]] = [
        (*_extent(coarray.local), context.id, index)
        for context in task.contexts.values()
        for index, coarray in enumerate(context.coarrays)
        if coarray is not None and coarray.local.nbytes
    ]
    rng = task.handle.__dict__.get("rng") if task.handle is not None else None
    state = place.state if place is not None else None
    own: dict[int, Any] = {}
    if place is not None and stood is not None:
        for name, digest in stood.now(place).items():
            value = stood.values[name]
            own.setdefault(id(value), ("stood", name, digest))
            if type(value) is np.ndarray and value.nbytes:
                memory.append((*_extent(value), "stood", digest))

    def named(value: Any) -> Any:
        """Return what replaces a value in a comparison: a view's place in a coarray, or a kind; None: compare it."""
        if id(value) in own:
            return own[id(value)]
        if isinstance(value, np.ndarray) and value.nbytes and not value.dtype.hasobject:
            low, high = _extent(value)
            for first, last, *where in memory:
                if first <= low and high <= last:
                    return "memory", *where, low - first, value.shape, value.strides, value.dtype.str
        elif isinstance(value, Coarray | Process):
            return type(value).__name__
        elif value is not None and (value is rng or value is state):
            return "moves along"
        return None

    return named


def _extent(array: np.ndarray) -> tuple[int, int]:
    """Return the addresses of the first byte of an array and behind its last, for any strides."""
    start: int = array.__array_interface__["data"][0]
    steps = [stride * (n - 1) for stride, n in zip(array.strides, array.shape, strict=True)]
    return start + sum(min(step, 0) for step in steps), start + sum(max(step, 0) for step in steps) + array.itemsize


def user_frames(task: Task) -> Iterator[FrameType]:
    """Yield the user's frames of a waiting process, innermost first."""
    frame = task.greenlet.gr_frame if task.greenlet is not None else sys._getframe(1)
    while frame is not None and frame.f_code is not Task.run.__code__:
        if is_users(frame.f_code.co_filename):
            yield frame
        frame = frame.f_back


def values_of(frame: FrameType) -> dict[str, Any]:
    """Return the names visible in a frame with their values: its own, and those of its module that they do not hide."""
    own = {} if frame.f_locals is frame.f_globals else frame.f_locals
    return {name: value for name, value in {**frame.f_globals, **own}.items() if not name.startswith("__")}


def fingerprints(
    task: Task, place: LoopPosition, stood: AtEntry, names: frozenset[str] | None, frame: FrameType
) -> dict[str, bytes]:
    """Return the fingerprints of the names that are visible in a loop's frame.

    names : only these; None: all of them, their attributes, the names in outer frames, and those of the user's modules.
    Values that cannot be compared are left out.  Cost: pickles every value.
    """
    named = naming(task, place, stood)
    found: dict[str, bytes] = {}

    def note(name: str, value: Any) -> None:
        data = fingerprint(value, named)
        if data is not None:
            found[name] = data

    for name, value in values_of(frame).items():
        if names is None or name in names:
            note(name, value)
            if names is None and _has_attributes(value) and named(value) is None:
                for attribute, inner in vars(value).items():
                    note(f"{name}.{attribute}", inner)
    if names is not None:
        return found
    for outer in user_frames(task):
        if outer.f_locals is not outer.f_globals and outer.f_code is not frame.f_code:
            for name, value in outer.f_locals.items():
                note(f"{name} of {outer.f_code.co_name}", value)
    for module in _users_modules():
        found[f"{module.__name__}."] = b""  # an empty entry: the module has been imported
        for name, value in vars(module).items():
            if not name.startswith("__"):
                note(f"{module.__name__}.{name}", value)
    return found


def watched(task: Task) -> tuple[str, dict[str, tuple[str, bytes]]]:
    """Return where a process waits, and for each name there the line that wrote it last and its fingerprint.

    The process waits at a boundary; names that cannot be compared are left out.
    """
    frame = next(user_frames(task), None)
    if frame is None:
        return "", {}
    named, found = naming(task, None), {}
    for name, value in values_of(frame).items():
        data = fingerprint(value, named)
        if data is not None:
            found[name] = _assigned(frame, name), data
    return str(task.line()), found


def _assigned(frame: FrameType, name: str) -> str:
    """Return where a name was last written before the frame's present line, as `solver.py:7: x = random.random()`.

    "Last" is by line number, not by time.  Empty if the name is written nowhere in the file.
    """
    filename, lines = frame.f_code.co_filename, _writes(frame.f_code.co_filename).get(name, [])
    above = [line for line in lines if line <= frame.f_lineno] or lines
    if not above:
        return ""
    return f"{os.path.basename(filename)}:{above[-1]}: {linecache.getline(filename, above[-1]).strip()}"


@cache
def _writes(filename: str) -> dict[str, list[int]]:
    """Return the lines of a file that write each name, sorted; empty if the source cannot be parsed."""
    found: dict[str, list[int]] = {}
    try:
        tree = ast.parse("".join(linecache.getlines(filename)))
    except (SyntaxError, ValueError):
        return found
    reads = _Reads()
    reads.note = lambda name, line: found.setdefault(name, []).append(line)  # type: ignore[method-assign]
    for scope in (tree, *(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))):
        reads.block(scope.body, set())
    return {name: sorted(set(lines)) for name, lines in found.items()}


def changes(before: dict[str, bytes], now: dict[str, bytes]) -> set[str]:
    """Return the names whose fingerprints differ, without those of modules that were imported meanwhile."""
    imported = {name for name in now if name.endswith(".") and name not in before}
    return {
        name for name, data in now.items()
        if data and data != before.get(name) and f"{name.rpartition('.')[0]}." not in imported
    }  # fmt: skip


def _has_attributes(value: Any) -> bool:
    """Return whether a value is an instance of a class with attributes worth comparing one by one."""
    return not isinstance(value, _FIXED) and type(value).__module__ != "builtins" and hasattr(value, "__dict__")


def _users_modules() -> list[ModuleType]:
    """Return the imported modules that are the user's, without `__main__`."""
    return [
        module
        for name, module in list(sys.modules.items())
        if name not in ("__main__", "__mp_main__") and name.partition(".")[0] != "bsp"
        and getattr(module, "__file__", None) and is_users(str(module.__file__))
    ]  # fmt: skip


# ------------------------------------------------------------------------------- source


@dataclass(frozen=True)
class Uses:
    """The names that a loop's rounds, and the code behind the loop, read and change."""

    line: int
    sure: frozenset[str] = frozenset()  # assigned by a round and surely read by the next one
    sure_behind: frozenset[str] = frozenset()  # changed by rounds and surely read behind the loop
    live: frozenset[str] = frozenset()  # perhaps read by the next round
    behind: frozenset[str] = frozenset()  # perhaps read behind the loop
    called: frozenset[str] = frozenset()  # read by functions inside the one that has the loop
    changes: dict[str, int] = field(default_factory=dict, hash=False)
    returns: frozenset[int] = frozenset()  # lines that leave the function

    def text(self, name: str, filename: str) -> str:
        """Return a name and the line that changes it, as `'beta' (solver.py:14)`."""
        line = self.changes.get(name.partition(".")[0])
        return f"'{name}'" + (f" ({os.path.basename(filename)}:{line})" if line else "")


@cache
def uses(code: CodeType, line: int) -> Uses:
    """Analyse the loop whose head is at `line` of `code`; return its names, or no names if the source is unknown.

    The code behind the loop is followed through all enclosing blocks up to the end of the function.
    """
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    except (SyntaxError, ValueError):
        return Uses(line)
    owner = tree if code.co_name == "<module>" else _function(tree, code)
    path = _path_to(owner.body, line) if owner is not None else []
    if owner is None or not path:
        return Uses(line)
    loop = path[-1][0][path[-1][1]]
    assert isinstance(loop, ast.For)
    # a round, with the loop's variable written: what it reads before writing is needed from the round before
    inside = _Reads()
    inside.store(loop.target, set())
    inside.block(loop.body, {*inside.stored})
    # the code behind the loop, block by block outwards.  It is surely reached as long as every enclosing statement is
    # an `if` or a `with`: a loop or a `try` may be left another way
    behind = _Reads()
    written: set[str] | None = behind.block(loop.orelse, set())
    for depth in range(len(path) - 1, -1, -1):
        block, k = path[depth]
        behind.certain = behind.certain and written is not None
        written = behind.block(block[k + 1 :], written or set())
        if depth:
            outer = path[depth - 1][0][path[depth - 1][1]]
            behind.certain = behind.certain and isinstance(outer, ast.If | ast.With)
            written = behind.around(outer, written or set())
    return Uses(
        line,
        frozenset(inside.sure) & inside.assigned,
        frozenset(behind.sure) & frozenset(inside.changes),
        frozenset(inside.exposed),
        frozenset(behind.exposed),
        frozenset(name for scope in ast.walk(owner) if scope is not owner and isinstance(scope, _SCOPES)
                  for name in _free(scope)),
        inside.changes,
        frozenset(line for node in ast.walk(loop) if isinstance(node, ast.Return)
                  for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)),
    )  # fmt: skip


def _free(scope: ast.AST) -> set[str]:
    """Return the names that a function, lambda or class reads and does not bind itself."""
    nodes = list(ast.walk(scope))
    own = {node.arg for node in nodes if isinstance(node, ast.arg)}
    own |= {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    own -= {name for node in nodes if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}
    return {node.id for node in nodes if isinstance(node, ast.Name)} - own


def _function(tree: ast.Module, code: CodeType) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """Return the syntax tree of the function that `code` was compiled from, or None."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if first == code.co_firstlineno:
                return node
    return None


def _path_to(body: Sequence[ast.stmt], line: int) -> list[tuple[Sequence[ast.stmt], int]]:
    """Return the path from a body to the loop whose head is at `line`: blocks, each with an index into it.

    Empty if there is no such loop.  Does not descend into other functions and classes.
    """
    for k, statement in enumerate(body):
        if isinstance(statement, _SCOPES) or not statement.lineno <= line <= (statement.end_lineno or 0):
            continue
        for inner in _blocks(statement):
            found = _path_to(inner, line)
            if found:
                return [(body, k), *found]
        if isinstance(statement, ast.For) and line <= (statement.iter.end_lineno or 0):
            return [(body, k)]
    return []


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Yield the blocks of a statement, including those of handlers and cases."""
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, [])
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body


def _is_whole(key: ast.expr) -> bool:
    """Return whether a key selects all elements: `[:]`, `[...]`, `[:, :]`."""
    if isinstance(key, ast.Tuple):
        return all(map(_is_whole, key.elts))
    if isinstance(key, ast.Slice):
        return key.lower is None and key.upper is None and key.step is None
    return isinstance(key, ast.Constant) and key.value is ...


class _Reads:
    """Names that statements read before they write them, collected in order of execution.

    `written`, an argument of most methods, is the set of names that are surely written before; methods return the set
    after the statement, or None where its end is never reached (after a return, raise, break or continue).
    """

    def __init__(self) -> None:
        self.exposed: dict[str, int] = {}  # names perhaps read before they are written, with the line
        self.sure: set[str] = set()  # names surely read before they are written
        self.stored: set[str] = set()  # names written anywhere so far, on whatever branch
        self.assigned: set[str] = set()  # names assigned by `=` and the like
        self.changes: dict[str, int] = {}  # names written or changed in place, with the first line
        self.certain = True  # whether the present statement is surely reached

    def block(self, statements: Sequence[ast.stmt], written: set[str]) -> set[str] | None:
        """Go through statements in order; return the names surely written behind them, or None."""
        now: set[str] | None = written
        for statement in statements:
            if now is None:
                break
            now = self.statement(statement, now)
        return now

    def around(self, owner: ast.stmt, written: set[str]) -> set[str]:
        """Add the reads between the end of one of `owner`'s blocks and the statement behind `owner`; return `written`.

        Behind a loop's block these are the loop's next rounds, behind a try block its else and finally blocks.
        """
        if isinstance(owner, ast.For | ast.AsyncFor | ast.While):  # the loop's next rounds
            if isinstance(owner, ast.While):
                self.read(owner.test, written)
            self._way(owner.body, written)
            self._way(owner.orelse, written)
        elif isinstance(owner, ast.Try):
            self._way([*owner.orelse, *owner.finalbody], written)
        return written

    def statement(self, node: ast.stmt, written: set[str]) -> set[str] | None:
        """Go through one statement; return the names surely written behind it, or None."""
        if isinstance(node, ast.If | ast.While | ast.For | ast.AsyncFor | ast.Try | ast.Match):
            return self._branches(node, written)
        if isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                self.read(item.context_expr, written)
                if item.optional_vars is not None:
                    self.store(item.optional_vars, written)
            return self.block(node.body, written)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self._name(node.name, node.lineno, written)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                self._name((alias.asname or alias.name).partition(".")[0], node.lineno, written)
        elif isinstance(node, ast.Assign):
            self.read(node.value, written)
            for target in node.targets:
                self.store(target, written)
        elif isinstance(node, ast.AugAssign):
            self.read(node.value, written)
            if isinstance(node.target, ast.Name):
                self._load(node.target.id, node.lineno, written)
            self.store(node.target, written)
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None:
                self.read(node.value, written)
                self.store(node.target, written)
        elif isinstance(node, ast.Delete):
            for target in node.targets:
                self.store(target, written)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            self._call(node.value, written)
        else:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self.read(child, written)
            if isinstance(node, ast.Return | ast.Raise | ast.Break | ast.Continue):
                return None
        return written

    def _branches(self, node: ast.stmt, written: set[str]) -> set[str] | None:
        """Go through a statement with alternatives; the names surely written are those that all of them write."""
        ways: list[set[str] | None] = []
        if isinstance(node, ast.If):
            self.read(node.test, written)
            ways = [self._way(node.body, written), self._way(node.orelse, written)]
        elif isinstance(node, ast.While):
            self.read(node.test, written)
            self._way(node.body, written)
            ways = [self._way(node.orelse, written), written]
        elif isinstance(node, ast.For | ast.AsyncFor):
            self.read(node.iter, written)
            within = set(written)
            self.store(node.target, within)
            self._way(node.body, within)
            ways = [self._way(node.orelse, written), written]
        elif isinstance(node, ast.Try):
            ways = [self._way([*node.body, *node.orelse], written)]
            ways += [self._way(handler.body, written) for handler in node.handlers]
            left = [way for way in ways if way is not None]
            # `finally` runs after each way; if no way reaches its end, neither does the statement
            after = self.block(node.finalbody, set.intersection(*left) if left else set(written))
            return after if left else None
        elif isinstance(node, ast.Match):
            self.read(node.subject, written)
            ways = [written]
            for case in node.cases:
                parts = ast.walk(case.pattern)
                captured = {part.name for part in parts if isinstance(part, ast.MatchAs | ast.MatchStar) and part.name}
                self._way(case.body, written | captured)
        left = [way for way in ways if way is not None]
        return set.intersection(*left) if left else None

    def _way(self, statements: Sequence[ast.stmt], written: set[str]) -> set[str] | None:
        """Go through a block that may or may not be executed: none of its reads is certain."""
        with self._perhaps():
            return self.block(statements, set(written))

    @contextlib.contextmanager
    def _perhaps(self) -> Iterator[None]:
        """Mark whatever is read inside this `with` block as uncertain."""
        kept, self.certain = self.certain, False
        yield
        self.certain = kept

    # ------------------------------------------------------------------ expressions

    def read(self, node: ast.AST, written: set[str]) -> None:
        """Add the names that an expression reads, and those whose objects it may change by calling their methods."""
        if isinstance(node, ast.Name):
            self._load(node.id, node.lineno, written)
        elif isinstance(node, ast.NamedExpr):
            self.read(node.value, written)
            self.store(node.target, written)
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            own = {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
            for child in ast.walk(node):
                if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load) and child.id not in own:
                    self._load(child.id, child.lineno, written)
        elif isinstance(node, ast.Lambda):
            own = {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)}
            inner = [n for n in ast.walk(node.body) if isinstance(n, ast.Name) and n.id not in own]
            with self._perhaps():
                for name in inner:
                    self._load(name.id, name.lineno, written)
        elif isinstance(node, ast.BoolOp | ast.IfExp):
            first, *rest = node.values if isinstance(node, ast.BoolOp) else (node.test, node.body, node.orelse)
            self.read(first, written)
            with self._perhaps():
                for part in rest:
                    self.read(part, written)
        else:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                self._changed(node.func.value, node.lineno)
            for child in ast.iter_child_nodes(node):
                self.read(child, written)

    def store(self, target: ast.expr, written: set[str]) -> None:
        """Record an assignment: a name is written; the object behind an index or an attribute is changed."""
        if isinstance(target, ast.Name):
            self.assigned.add(target.id)
            self._name(target.id, target.lineno, written)
        elif isinstance(target, ast.Tuple | ast.List):
            for part in target.elts:
                self.store(part, written)
        elif isinstance(target, ast.Starred):
            self.store(target.value, written)
        elif isinstance(target, ast.Subscript | ast.Attribute):
            self._changed(target, target.lineno)
            if isinstance(target, ast.Subscript):
                self.read(target.slice, written)
            if not isinstance(target.value, ast.Name):
                self.read(target.value, written)
            elif isinstance(target, ast.Subscript) and _is_whole(target.slice):  # none of its old values is left
                self._name(target.value.id, target.lineno, written)

    def _call(self, node: ast.Call, written: set[str]) -> None:
        """Record a call that is a statement: `history.append(x)` changes `history`, and does not surely read it.

        Its object and its `out` may be filled by it, as in `work.fill(0)`.
        """
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            self._changed(node.func.value, node.lineno)
            self._filled(node.func.value, written)
        else:
            self.read(node.func, written)
        for argument in node.args:
            self.read(argument, written)
        for keyword in node.keywords:
            if keyword.arg == "out" and isinstance(keyword.value, ast.Name):
                self._changed(keyword.value, node.lineno)
                self._filled(keyword.value, written)
            else:
                self.read(keyword.value, written)

    def _filled(self, name: ast.Name, written: set[str]) -> None:
        """Record that an object may be written as a whole: what reads it next may need no older value."""
        with self._perhaps():
            self._load(name.id, name.lineno, written)
        self.stored.add(name.id)

    def _changed(self, node: ast.expr, line: int) -> None:
        """Record that the object behind an expression such as `a.b[i]` is changed: the name is `a`."""
        while isinstance(node, ast.Subscript | ast.Attribute):
            node = node.value
        if isinstance(node, ast.Name):
            self.note(node.id, line)

    def note(self, name: str, line: int) -> None:
        """Record that a name is written at this line, or its object changed; the first line counts."""
        self.changes.setdefault(name, line)

    def _name(self, name: str, line: int, written: set[str]) -> None:
        """Record that a name is written."""
        written.add(name)
        self.stored.add(name)
        self.note(name, line)

    def _load(self, name: str, line: int, written: set[str]) -> None:
        """Record that a name is read; it matters only if it is not surely written before."""
        if name not in written:
            self.exposed.setdefault(name, line)
            if self.certain and name not in self.stored:
                self.sure.add(name)
