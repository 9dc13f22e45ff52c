"""What `help` and completion show of the packages that people import: their public names, and nothing else."""

from __future__ import annotations

import importlib
import pydoc
import subprocess
import sys
from types import ModuleType

import pytest

import bsp

PACKAGES = [
    "bsp", "bsp.arrays", "bsp.arrays.fft", "bsp.arrays.files", "bsp.arrays.linalg", "bsp.arrays.loops",
    "bsp.arrays.procedures", "bsp.arrays.random", "bsp.arrays.sparse", "bsp.arrays.sparse.partition", "bsp.algorithms",
    "bsp.algorithms.glm", "bsp.algorithms.graphs", "bsp.algorithms.krylov", "bsp.algorithms.matmul",
    "bsp.algorithms.qr", "bsp.sketch", "bsp.verify",
]  # fmt: skip
# names of a namespace beside `__all__`: those that `from ... import *` would put in place of Python's own, or modules
BESIDE = {
    "bsp": {"__version__", "algorithms", "arrays", "graphs", "sketch", "verify"},
    "bsp.arrays": {
        "__array_api_version__", "bool", "complex64", "complex128", "float32", "float64", "int8", "int16", "int32",
        "int64", "uint8", "uint16", "uint32", "uint64",
    },
    "bsp.algorithms.glm": {"families"},
}  # fmt: skip


@pytest.mark.parametrize("name", PACKAGES)
def test_completion_shows_public_names_only_and_each_of_them_is_there(name: str) -> None:
    package = importlib.import_module(name)
    assert set(package.__all__) <= set(dir(package)) <= set(package.__all__) | BESIDE.get(name, set())
    for each in dir(package):
        found = getattr(package, each)
        inner = f"{name}.{each}"
        assert not isinstance(found, ModuleType) or inner in PACKAGES or each in BESIDE.get(name, ()), inner


@pytest.mark.parametrize("name", PACKAGES)
def test_packages_open_with_a_summary_and_more_than_that(name: str) -> None:
    summary, _, rest = (importlib.import_module(name).__doc__ or "").partition("\n")
    assert summary.endswith(".")
    assert len(rest.strip().splitlines()) > 2


def test_help_of_bsp_describes_what_people_use_and_names_no_import_of_its_own() -> None:
    text = pydoc.plaintext.document(bsp, "bsp")
    for name in ("run(main", "class Coarray", "class Process", "process()"):
        assert name in text
    for name in ("TYPE_CHECKING", "_HOMES", "__getattr__(name"):
        assert name not in text


def test_packages_of_algorithms_are_loaded_when_first_used() -> None:
    program = (
        "import sys, bsp.algorithms\n"
        "assert not any(name.startswith('bsp.algorithms.') for name in sys.modules)\n"
        "print(bsp.algorithms.qr.__name__)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "bsp.algorithms.qr\n"
    with pytest.raises(AttributeError, match=r"module 'bsp\.algorithms' has no attribute 'lasso'"):
        _ = importlib.import_module("bsp.algorithms").lasso


def test_names_of_a_process_and_modules_not_imported_lead_to_what_to_write() -> None:
    for name, told in [("sync", r"so write proc\.sync$"), ("pid", r"so write proc\.pid$"), ("lasso", "'lasso'$")]:
        with pytest.raises(AttributeError, match=told):
            getattr(importlib.import_module("bsp"), name)
    ran = subprocess.run([sys.executable, "-c", "import bsp; bsp.arrays"], capture_output=True, text=True)
    assert "has no attribute 'arrays' yet: it is a module, so write import bsp.arrays" in ran.stderr


def test_names_that_only_numpy_has_lead_to_what_arrays_have() -> None:
    for package, name, told in [
        ("bsp.arrays", "set_printoptions", r"use numpy\.set_printoptions"),
        ("bsp.arrays", "lasso", "has no attribute 'lasso'$"),
        ("bsp.arrays.random", "seed", r"rng = ba\.random\.default_rng\(seed\)"),
    ]:
        with pytest.raises(AttributeError, match=told):
            getattr(importlib.import_module(package), name)
