"""Rooms import only from rooms below them, as docs/map.md draws them.

Every import is read: of modules and names, inside functions, for types only, and modules that are named in strings.
A room is a folder of modules, or a module that stands beside such folders.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGES = ("bsp", "arrays", "algorithms", "faults")

# From the ground up; rooms on one line do not import each other.
FLOORS = """
bsp/errors  bsp/source  bsp/host  bsp/interpreter
bsp/notebook
bsp/values  bsp/abstract  bsp/hosts  bsp/pending
bsp/cost
bsp/transport
bsp/cost/record
bsp/engine
bsp/coarray  bsp/collectives  bsp/rounds  bsp/expecting  bsp/cost/report
bsp/processes
bsp/checking  bsp/world
bsp/declared
bsp/cost/prediction
bsp/command
bsp/session
bsp/runner
bsp/verify
bsp/sketch
bsp/__init__
bsp/cost/probe

faults/__init__  faults/errors  faults/injection  faults/protocol/messages
faults/protocol/clones
faults/protocol
faults/state_folder  faults/advise  faults/carrier
faults/checkpoints  faults/events  faults/simulate
faults/engine
faults/bsprun
faults/options

arrays/errors  arrays/typing
arrays/expressions
arrays/compiled
arrays/kernels
arrays/planning
arrays/execution  arrays/iteration
arrays/build
arrays/writing
arrays/views  arrays/drawing
arrays/indexing
arrays/array
arrays/gathering
arrays/api
arrays/procedures  arrays/files/lines
arrays/linalg  arrays/selection  arrays/files
arrays/sorting  arrays/fft
arrays/editing  arrays/comprehensions  arrays/random
arrays/polynomials
arrays/sparse
arrays/sparse/partition  arrays/sparse/files
arrays/in_place
arrays/namespace
arrays/__init__
arrays/loops
arrays/scripts

algorithms/__init__
algorithms/glm/links
algorithms/glm/families
algorithms/glm/absorbing  algorithms/glm/data  algorithms/glm/solvers  algorithms/glm/inference
algorithms/glm/multinomial  algorithms/glm  algorithms/qr  algorithms/matmul
algorithms/krylov  algorithms/graphs
bsp/graphs
"""

WHOLES = ("algorithms/glm", "arrays/sparse")  # their rooms, and the modules that put them together, import each other

# The imports that run up.  None of them is carried out while modules are loaded.
FOR_TYPES = """
bsp/collectives -> bsp/processes
bsp/cost/record -> bsp/engine
bsp/engine -> bsp/checking, bsp/coarray, bsp/cost/prediction, bsp/processes, bsp/rounds
arrays/drawing -> arrays/array
arrays/expressions -> arrays/kernels
arrays/indexing -> arrays/array
arrays/iteration -> arrays/array
arrays/views -> arrays/array
arrays/array -> arrays/in_place
algorithms/__init__ -> algorithms/glm, algorithms/graphs, algorithms/krylov, algorithms/matmul, algorithms/qr
"""
INSIDE_FUNCTIONS = """
bsp/command -> bsp/__init__, bsp/cost/probe, bsp/runner, bsp/session, bsp/verify
bsp/cost/prediction -> bsp/cost/probe, bsp/runner
bsp/cost/record -> bsp/__init__
bsp/errors -> bsp/notebook
bsp/source -> bsp/notebook
arrays/api -> arrays/selection
arrays/array -> arrays/__init__, arrays/api, arrays/files, arrays/gathering, arrays/in_place, arrays/namespace
arrays/array -> arrays/procedures, arrays/selection, arrays/sorting
arrays/build -> arrays/array
arrays/indexing -> arrays/array, arrays/selection
"""
BY_NAME = """
bsp/graphs -> algorithms/graphs
bsp/checking -> faults/checkpoints, faults/engine
bsp/command -> arrays/scripts, faults/advise, faults/bsprun, faults/options
"""

# The rooms of arrays that are made for everybody's procedures: algorithms use no others.
PUBLIC = {
    "bsp.arrays", "bsp.arrays.files", "bsp.arrays.linalg", "bsp.arrays.linalg.factored",
    "bsp.arrays.linalg.householder", "bsp.arrays.linalg.row_blocks", "bsp.arrays.procedures",
    "bsp.arrays.sparse", "bsp.arrays.typing",
}  # fmt: skip


class Arrow(NamedTuple):
    """One module imports another: "on load", "inside a function", "for types" or "by name"."""

    importer: str
    imported: str
    how: str


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == "bsp" else ("bsp", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))}


def room_of(module: str) -> str:
    path = MODULES[module].relative_to(ROOT)
    return str(path.parent if len(path.parts) > 2 else path.with_suffix(""))


def arrows_of(module: str) -> Iterator[Arrow]:
    def visit(node: ast.AST, how: str) -> Iterator[Arrow]:
        for child in ast.iter_child_nodes(node):
            found, inner = [], how
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                inner = "inside a function" if how == "on load" else how
            elif isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                inner = "for types"
            elif isinstance(child, ast.Import):
                found = [alias.name for alias in child.names]
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{module}: relative import"
                whole = [f"{child.module}.{alias.name}" for alias in child.names]
                found = [name if name in MODULES else str(child.module) for name in whole]
            elif isinstance(child, ast.Constant) and isinstance(child.value, str) and child.value.startswith("bsp."):
                found, inner = [child.value], "by name"
            yield from (Arrow(module, name, inner) for name in found if name in MODULES)
            yield from visit(child, inner)

    yield from visit(ast.parse(MODULES[module].read_text()), "on load")


ARROWS = {arrow for module in MODULES for arrow in arrows_of(module)}


def running_up(how: str) -> set[tuple[str, str]]:
    """The pairs of rooms of which the first imports from the second and does not stand above it."""
    floor = {room: number for number, line in enumerate(FLOORS.splitlines()) for room in line.split()}
    pairs = {(room_of(arrow.importer), room_of(arrow.imported)) for arrow in ARROWS if arrow.how == how}
    whole = {room: next((each for each in WHOLES if room.startswith(each)), room) for pair in pairs for room in pair}
    together = {(a, b) for a, b in pairs if whole[a] == whole[b]}
    return {(a, b) for a, b in pairs - together if floor[a] <= floor[b]}


def listed(text: str) -> set[tuple[str, str]]:
    rows = (line.split(" -> ") for line in text.split("\n") if line)
    return {(importer, imported) for importer, several in rows for imported in several.split(", ")}


def test_every_room_has_a_floor() -> None:
    rooms = FLOORS.split()
    assert len(rooms) == len(set(rooms))
    assert {room_of(module) for module in MODULES} == set(rooms)
    assert Arrow("bsp.runner", "bsp.engine.element", "on load") in ARROWS  # the reader sees what there is


def test_modules_load_only_what_stands_below_them() -> None:
    assert running_up("on load") == set()


def test_imports_that_run_up_are_the_ones_listed_here() -> None:
    assert running_up("for types") == listed(FOR_TYPES)
    assert running_up("inside a function") == listed(INSIDE_FUNCTIONS)


def test_the_packages_name_each_other_one_way() -> None:
    """bsp <- arrays <- algorithms; faults -> bsp; the runtime names the others only where a command asks for them.

    Type checkers read whose second name `bsp.graphs` is.
    """
    allowed = {("arrays", "bsp"), ("algorithms", "bsp"), ("algorithms", "arrays"), ("faults", "bsp")}
    crossing = {
        (room_of(arrow.importer), room_of(arrow.imported))
        for arrow in ARROWS
        if room_of(arrow.importer).split("/")[0] != room_of(arrow.imported).split("/")[0]
    }
    others = {(a, b) for a, b in crossing if (a.split("/")[0], b.split("/")[0]) not in allowed}
    assert others == listed(BY_NAME)
    assert {arrow.how for arrow in ARROWS if (room_of(arrow.importer), room_of(arrow.imported)) in others} == {
        "by name", "for types"
    }  # fmt: skip


def test_a_class_has_a_name_of_its_own() -> None:
    """A name means one thing, in all packages: whoever reads `Schedule` need not look which."""
    where: dict[str, list[str]] = {}
    for module, path in MODULES.items():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                where.setdefault(node.name, []).append(module)
    assert len(where) > 500
    assert {name: modules for name, modules in where.items() if len(modules) > 1} == {}


def test_algorithms_are_made_of_what_everybodys_procedures_are() -> None:
    """They import names that rooms offer, and look into no array."""
    used = {
        arrow.imported
        for arrow in ARROWS
        if arrow.importer.startswith("bsp.algorithms") and arrow.imported.startswith("bsp.arrays")
    }
    assert used <= PUBLIC and "bsp.arrays.procedures" in used
    for module in (each for each in MODULES if each.startswith("bsp.algorithms")):
        for node in ast.walk(ast.parse(MODULES[module].read_text())):
            if isinstance(node, ast.Attribute):
                assert node.attr != "_node", f"{module}:{node.lineno}"
            if isinstance(node, ast.ImportFrom) and node.module in PUBLIC:
                room = import_module(node.module)
                for alias in node.names:
                    offered = alias.name in getattr(room, "__all__", dir(room)) and not alias.name.startswith("_")
                    assert offered or f"{node.module}.{alias.name}" in PUBLIC, f"{module}: {alias.name}"
