"""Writes the pages of the reference from what the packages export, and from the help of the commands.

A page lists public names; the build stops if a public name is on no page, or if a page lists a name that is not public.
The pages are made before Sphinx reads its sources, in docs/reference/made/, which is not kept.
"""

from __future__ import annotations

import importlib
import inspect
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from plain_docstrings import escaped

from bsp.command.tool import COMMANDS as COMMANDS_OF_BSP


class Group(NamedTuple):
    """A page of the reference: the names of one module that belong to one subject."""

    page: str
    title: str
    module: str
    names: list[str]
    text: str = ""


def exported(module: str) -> list[str]:
    """Return the public names of a module, as `import *` would give them."""
    loaded = importlib.import_module(module)
    names = getattr(loaded, "__all__", None) or [name for name in dir(loaded) if not name.startswith("_")]
    return [name for name in names if not inspect.ismodule(getattr(loaded, name))]


def families() -> dict[str, list[str]]:
    """Return the functions of `bsp.arrays` by the module that defines them."""
    from bsp.arrays import namespace
    from bsp.arrays.files import formats

    by_module = {module.__name__.rpartition(".")[2]: list(module.__all__) for module in namespace._MODULES}
    return by_module | {"files": list(formats.FUNCTIONS)}


# page, title, the modules of bsp.arrays whose functions it lists, further names
ARRAYS = [
    ("creation", "Making arrays", ["creation", "grids"], ["random"]),
    ("elementwise", "Functions of every element", ["ufuncs"], []),
    ("shapes", "Shapes, joining and splitting", ["manipulation", "bits"], []),
    ("reductions", "Reductions, statistics and calculus",
     ["reductions", "statistics", "calculus", "lines", "choosing"], []),
    ("products", "Products and comprehensions", ["contraction"], ["comprehension"]),
    ("selecting", "Selecting, sorting, searching and sets",
     ["selecting", "masks", "sorting", "partition", "searching", "sliding", "distinct", "sets", "counting",
      "quantiles"], []),
    ("editing", "Editing arrays", ["editing", "in_place"], []),
    ("polynomials", "Polynomials", ["polynomials"], []),
    ("dtypes", "Dtypes and interchange", ["dtypes", "interchange"], []),
    ("files", "Files", ["files"], []),
    ("computing", "The array, plans and computing", [],
     ["Array", "compute", "persist", "explain", "forecast", "options"]),
    ("errors-of-arrays", "Errors of arrays", [],
     ["ArrayError", "ComprehensionError", "GatherRefused", "LayoutError", "PlanTooLarge"]),
]  # fmt: skip
CONSTANTS = {"e", "pi", "inf", "nan", "newaxis"}  # documented by hand in reference/arrays.md

PROCESSES = ["process", "Process", "Coarray", "Pending", "Message", "State", "run", "Session", "expect", "parallel"]
COST = ["Machine", "Prediction", "predict"]


def groups() -> list[Group]:
    """Return all pages of names."""
    runtime = exported("bsp")
    errors = [name for name in runtime if isinstance(value := getattr(importlib.import_module("bsp"), name), type)
              and issubclass(value, BaseException)]  # fmt: skip
    found = [
        Group("processes", "Processes, memory and rounds", "bsp", PROCESSES),
        Group("cost", "Predictions and machines", "bsp", COST),
        Group("errors", "Errors of the runtime", "bsp", errors),
    ]
    functions = families()
    for page, title, modules, further in ARRAYS:
        names = [name for module in modules for name in functions[module]]
        names += [name for name in further if name != "random"]
        found.append(Group(page, title, "bsp.arrays", [name for name in names if not name.startswith("__")]))
    found += [
        Group("linalg", "Linear algebra: bsp.arrays.linalg", "bsp.arrays.linalg", exported("bsp.arrays.linalg")),
        Group("fft", "Fourier transforms: bsp.arrays.fft", "bsp.arrays.fft", exported("bsp.arrays.fft")),
        Group("loops", "Loops over elements: bsp.parallel", "bsp.arrays.loops", exported("bsp.arrays.loops")),
        Group("random", "Random arrays: bsp.arrays.random", "bsp.arrays.random", exported("bsp.arrays.random")),
        Group("sparse", "Sparse matrices: bsp.arrays.sparse", "bsp.arrays.sparse", exported("bsp.arrays.sparse")),
        Group(
            "partition",
            "Partitions of sparse matrices: bsp.arrays.sparse.partition",
            "bsp.arrays.sparse.partition",
            exported("bsp.arrays.sparse.partition"),
        ),
        Group(
            "matmul",
            "Matrix products: bsp.algorithms.matmul",
            "bsp.algorithms.matmul",
            exported("bsp.algorithms.matmul"),
        ),
        Group("qr", "QR and its uses: bsp.algorithms.qr", "bsp.algorithms.qr", exported("bsp.algorithms.qr")),
        Group("sketch", "Synthesis: bsp.sketch", "bsp.sketch", exported("bsp.sketch")),
        Group("verify", "Verification: bsp.verify", "bsp.verify", exported("bsp.verify")),
        Group(
            "krylov",
            "Krylov methods: bsp.algorithms.krylov",
            "bsp.algorithms.krylov",
            exported("bsp.algorithms.krylov"),
        ),
        Group("graphs", "Graphs: bsp.graphs", "bsp.algorithms.graphs", exported("bsp.algorithms.graphs")),
        Group("glm", "Regression: bsp.algorithms.glm", "bsp.algorithms.glm", exported("bsp.algorithms.glm")),
    ]
    return found


def missing(found: Iterable[Group]) -> list[str]:
    """Return the public names that are on no page."""
    listed = {(group.module, name) for group in found for name in group.names}
    modules = {group.module for group in found}
    return [f"{module}.{name}" for module in sorted(modules) for name in exported(module)
            if (module, name) not in listed and name not in CONSTANTS and not name.startswith("__")]  # fmt: skip


def summary(value: Any) -> str:
    """Return the first sentence of a docstring, for a table."""
    first = (inspect.getdoc(value) or "").split("\n\n")[0].replace("\n", " ")
    sentence = first.split(". ")[0].rstrip(".") + "."
    return escaped(sentence, plain=True)


def written(group: Group) -> str:
    """Return a page of the reference as reStructuredText."""
    module = importlib.import_module(group.module)
    lines = [group.title, "=" * len(group.title), ""]
    if group.module.startswith("bsp.algorithms"):
        lines += [f".. automodule:: {group.module}", ""]
    lines += [f".. currentmodule:: {group.module}", ""]
    if len(group.names) > 3:
        lines += [".. list-table::", "   :widths: 30 70", "   :class: names", ""]
        for name in group.names:
            lines += [f"   * - :py:obj:`~{group.module}.{name}`", f"     - {summary(getattr(module, name))}"]
        lines.append("")
    for name in group.names:
        value = getattr(module, name)
        elsewhere = next((home for home in ("bsp.algorithms.glm",) if home != group.module
                          and isinstance(value, type)
                          and getattr(importlib.import_module(home), name, None) is value), None)  # fmt: skip
        if elsewhere is not None:
            lines += [f"`{name}` is :py:class:`{elsewhere}.{name}`.", ""]
            continue
        if isinstance(value, type):
            kind = "exception" if issubclass(value, BaseException) else "class"
            lines += [f".. auto{kind}:: {name}"]
            if kind == "class" and value.__module__.startswith("bsp"):
                lines += ["   :members:", "   :exclude-members: count, index, raw"]
                lines += ["   :inherited-members: tuple, object"] if group.module == "bsp.algorithms.glm" else []
        elif callable(value):
            lines += [f".. autofunction:: {name}"]
        else:
            lines += [f".. autodata:: {name}", "   :no-value:"]
        lines.append("")
    return "\n".join(lines)


BIN = Path(sys.executable).parent
COMMANDS = [
    ("bsprun", [str(BIN / "bsprun"), "--help"], "Run a program as processes, or predict what that costs."),
    ("bsprun --help-nonstop", [str(BIN / "bsprun"), "--help-nonstop"], "The options of jobs that survive faults."),
    *[(f"bsp {word}".strip(), [str(BIN / "bsp"), *word.split(), "--help"], "") for word in ("", *COMMANDS_OF_BSP)],
    ("python -m bsp.algorithms.glm", [sys.executable, "-m", "bsp.algorithms.glm", "--help"],
     "Fit a regression to a CSV or Parquet file, without a program."),
    ("python -m bsp.faults.simulate", [sys.executable, "-m", "bsp.faults.simulate", "--help"],
     "Try the protocol of nonstop jobs on seeded schedules of faults."),
]  # fmt: skip


def commands() -> str:
    """Return the page of the commands: what each prints when asked for help."""
    lines = ["Commands", "========", "", "What each command prints when it is asked for help.", ""]
    for name, command, text in COMMANDS:
        environment = {**os.environ, "COLUMNS": "100"}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        lines += [name, "-" * len(name), "", *([text, ""] if text else []), ".. code-block:: text", ""]
        lines += [f"   {line}".rstrip() for line in done.stdout.splitlines()] + [""]
    return "\n".join(lines)


def make(app: Any) -> None:
    """Write all pages of the reference, those that changed only."""
    folder = Path(app.srcdir) / "reference" / "made"
    folder.mkdir(exist_ok=True)
    found = groups()
    if names := missing(found):
        raise RuntimeError(f"these public names are on no page of the reference: {', '.join(names)}")
    pages = {f"{group.page}.rst": written(group) for group in found} | {"commands.rst": commands()}
    for old in folder.iterdir():
        if old.name not in pages:
            old.unlink()
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def setup(app: Any) -> dict[str, bool]:
    """Connect to Sphinx."""
    app.connect("builder-inited", make)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
