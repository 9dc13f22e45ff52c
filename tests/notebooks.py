"""Notebooks executed in a real kernel, and what their cells show."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from typing import Any

DEADLINE = 600.0  # seconds: far beyond what a notebook takes, on a busy machine too

# Runs in an interpreter of its own, so that nothing of the client's event loop stays in that of the tests.
EXECUTE = """
import json, sys
import nbformat
from nbclient import NotebookClient

cells = [nbformat.v4.new_code_cell(cell) for cell in json.load(sys.stdin)]
notebook = nbformat.v4.new_notebook(cells=cells)
NotebookClient(notebook, timeout=500, kernel_name="python3", allow_errors=True).execute()
print(json.dumps([[dict(output) for output in cell.outputs] for cell in notebook.cells]))
"""


def outputs(program: str, cells: list[str]) -> list[list[dict[str, Any]]]:
    """Return the output of each cell of a notebook."""
    with tempfile.TemporaryDirectory() as folder:  # no kernels and no start-up files of the user
        done = subprocess.run(
            [sys.executable, "-c", program], input=json.dumps(cells), capture_output=True, text=True, timeout=DEADLINE,
            check=False, env={**os.environ, "JUPYTER_DATA_DIR": folder, "IPYTHONDIR": folder},
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: list[list[dict[str, Any]]] = json.loads(done.stdout.splitlines()[-1])
    return found


def printed(cell: list[dict[str, Any]], name: str = "stdout") -> str:
    """The text that a cell has printed."""
    return "".join(output["text"] for output in cell if output["output_type"] == "stream" and output["name"] == name)


def result(cell: list[dict[str, Any]], kind: str = "text/plain") -> str:
    """The value that a cell shows."""
    (found,) = [output for output in cell if output["output_type"] == "execute_result"]
    data: str = found["data"][kind]
    return data


def traceback_of(cell: list[dict[str, Any]]) -> str:
    """The traceback that a cell shows, without colours."""
    (error,) = [output for output in cell if output["output_type"] == "error"]
    return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error["traceback"]))


def text_of(cell: list[dict[str, Any]]) -> str:
    """All that a cell shows, as text."""
    parts = []
    for output in cell:
        if output["output_type"] == "stream":
            parts.append(output["text"])
        elif output["output_type"] == "error":
            parts.append(traceback_of([output]))
        else:
            parts.append(output["data"]["text/plain"] + "\n")
    return "".join(parts)
