"""The documentation tells the truth: what it shows was run, what it links to exists, what is public is described.

In README.md and docs/, a fence `python` that begins with `# name.py` is a program, and a fence `console` holds commands
with their output; both are run here, with the programs of docs/tutorial/ beside them.  Durations are not compared.
Fences `text` and `sh` are not run, but in the page on notebooks, where a fence `text` is what the cell above it shows.
"""

from __future__ import annotations

import doctest
import functools
import importlib
import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from notebooks import EXECUTE, outputs, text_of

import bsp

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(
    page for page in DOCS.rglob("*.md") if "build" not in page.relative_to(DOCS).parts
)]  # fmt: skip
NOTEBOOK = DOCS / "how-to" / "jupyter.md"
PACKAGES = ("bsp", "arrays", "algorithms", "faults")

_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
_PROGRAM = re.compile(r"# (\w+\.py)\n")
_DURATION = re.compile(r"\b\d[\d.]*(?:e[+-]?\d+)? (?:ns|us|ms|s|min|h)\b")
_MEMORY = re.compile(r"\b\d[\d.]* (?:MB|GB|TB)\b")  # a prediction's has the interpreter's own in it


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def fences(page: Path, language: str) -> Iterator[str]:
    return (text for found, text in _FENCE.findall(page.read_text()) if found == language)


def shown(page: Path) -> list[tuple[str, str]]:
    """The commands of a page, with the output that it shows."""
    found: list[tuple[str, str]] = []
    for text in fences(page, "console"):
        for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output))
    return found


def comparable(text: str) -> list[str]:
    """Lines without durations and megabytes, widths of columns, and warnings that a loaded machine gives."""
    told = (line for line in text.rstrip().splitlines() if not line.startswith("bsprun: warning: "))
    lines = (_MEMORY.sub("MEMORY", _DURATION.sub("TIME", line)) for line in told)
    return [" ".join(line.split()) for line in lines]


# ------------------------------------------------------------------------------------------ what is shown


@pytest.mark.thorough
@pytest.mark.jobs
@pytest.mark.parametrize("page", [page for page in PAGES if shown(page)], ids=name_of)
def test_commands_print_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    for program in (DOCS / "tutorial").glob("*.py"):
        shutil.copy(program, tmp_path)
    for text in fences(page, "python"):
        if name := _PROGRAM.match(text):
            (tmp_path / name[1]).write_text(text)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "200", "BSP_MACHINES": str(tmp_path / "machines")}
    for command, output in shown(page):
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command], cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
        )  # fmt: skip
        printed = done.stdout.replace(f"{tmp_path}/", "")
        assert comparable(printed) == comparable(output), f"$ {command}"


@pytest.mark.jobs
def test_the_cells_of_the_notebook_show_what_the_page_shows() -> None:
    """A fence `python` of the page is a cell, and a fence `text` after it is what the cell shows."""
    found = re.findall(r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", NOTEBOOK.read_text(), re.M | re.S)
    assert len(found) > 10
    for (cell, text), output in zip(found, outputs(EXECUTE, [cell for cell, _ in found]), strict=True):
        shows, shown = comparable(text_of(output)), comparable(text)
        if any(each["output_type"] == "error" for each in output):  # how much is shown around a line is IPython's
            shows, shown = (_told(lines) for lines in (shows, shown))
        assert shows == shown, cell


def _told(lines: list[str]) -> list[str]:
    """The lines of a traceback that are marked, and its message."""
    return [line for line in lines if line.startswith("---->")] + lines[
        max(k for k, line in enumerate(lines) if not line) :
    ]


def test_the_three_examples_of_the_readme_are_run() -> None:
    commands = [command for command, _ in shown(ROOT / "README.md")]
    for program in ("ring.py", "regression.py", "train.py"):
        assert any(program in command for command in commands)


@pytest.mark.parametrize("program", sorted((DOCS / "tutorial").glob("*.py")), ids=lambda path: path.name)
def test_every_program_of_the_tutorial_is_shown_and_run(program: Path) -> None:
    pages = list((DOCS / "tutorial").glob("*.md"))
    assert any(f"{{literalinclude}} {program.name}" in page.read_text() for page in pages)
    assert any(program.name in command for page in pages for command, _ in shown(page))


# --------------------------------------------------------------------------------------------- examples


def failures(test: doctest.DocTest) -> str:
    """What is wrong with an example, run in a world of one process."""
    told: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE, verbose=False)
    bsp.run(lambda proc: runner.run(test, out=told.append) and None, nprocs=1)
    return "".join(told)


def modules_with_examples() -> list[str]:
    found = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            parts = parts if parts[0] == "bsp" else ("bsp", *parts)
            if ">>> " in path.read_text():
                found.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return found


def test_examples_of_docstrings_are_right() -> None:
    told = []
    for name in modules_with_examples():
        for test in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name), name):
            if test.examples:
                told.append(failures(test))
    assert "".join(told) == ""


@pytest.mark.parametrize("page", [page for page in PAGES if ">>> " in page.read_text()], ids=name_of)
def test_examples_of_pages_are_right(page: Path) -> None:
    text = "\n".join(each for each in fences(page, "python") if ">>> " in each)
    test = doctest.DocTestParser().get_doctest(text, {}, name_of(page), str(page), 0)
    assert test.examples
    assert failures(test) == ""


def test_a_wrong_example_is_found() -> None:
    test = doctest.DocTestParser().get_doctest(">>> import bsp; bsp.process().nprocs\n2\n", {}, "wrong", None, 0)
    assert "Expected:\n    2\nGot:\n    1" in failures(test)


# ------------------------------------------------------------------------------------------------ links


@functools.cache
def anchors(page: Path) -> frozenset[str]:
    """The headings of a page, as links name them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return frozenset(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)


def links(page: Path) -> list[str]:
    """The links of a page to files, without those in code."""
    text = re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text(), flags=re.M | re.S)
    found: list[str] = re.findall(r"\]\(([^)\s]+)\)", text)
    return [link for link in found if not re.match(r"[a-z]+:", link)]


@pytest.mark.parametrize("page", [page for page in PAGES if links(page)], ids=name_of)
def test_relative_links_point_to_what_exists(page: Path) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if target.parent.name == "made":  # written when the documentation is built
            continue
        assert target.exists(), f"{link} of {name_of(page)}"
        assert not anchor or anchor in anchors(target), f"{link} of {name_of(page)}"


def columns(row: str) -> int:
    """The columns of a table's row; a bar in code is text."""
    return len(re.findall(r"(?<!\\)\|", re.sub(r"`[^`]*`", "code", row))) - 1


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_line_below_the_head_of_a_table_has_its_columns(page: Path) -> None:
    lines = page.read_text().splitlines()
    for head, below in itertools.pairwise(lines):
        if head.startswith("|") and re.fullmatch(r"\|( ?:?-+:? ?\|)+", below):
            assert columns(head) == columns(below), head  # or it is shown as text


def test_every_page_is_in_a_table_of_contents() -> None:
    listed = {DOCS / "index.md"}
    for page in PAGES[2:]:
        for toc in re.findall(r"^```\{toctree\}\n(.*?)^```$", page.read_text(), re.M | re.S):
            entries = [line for line in toc.splitlines() if line and not line.startswith(":")]
            listed |= {(page.parent / f"{entry}.md").resolve() for entry in entries}
    assert set(PAGES[2:]) - listed == set()


# ------------------------------------------------------------------------------------------- the README


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 200


def test_the_rows_of_the_readme_are_those_of_the_benchmarks() -> None:
    rows = re.findall(r"^\| what \| against .*?\n\n", (ROOT / "README.md").read_text(), re.M | re.S)[0].splitlines()
    measured = (DOCS / "benchmarks.md").read_text().splitlines()
    assert len([row for row in rows if row]) == 2 + 10
    assert set(rows) - set(measured) <= {""}


def test_all_rules_have_a_sentence() -> None:
    text = (DOCS / "explanation" / "rules.md").read_text()
    rules = re.findall(r"^\| ([BDN]\d+) \|", text, re.M)
    assert rules == [f"{letter}{k}" for letter, count in (("B", 6), ("D", 9), ("N", 17)) for k in range(1, count + 1)]
