"""Makes reStructuredText of docstrings that are plain text.

Some docstrings have no numpydoc sections.  They hold lines `name : description`, indented tables and formulas, and
characters such as * and | that reStructuredText reads as markup.  Here descriptions become definition lists, indented
blocks become literal blocks, and markup characters are escaped.  Docstrings with sections only get the escapes that
are safe in both.
"""

from __future__ import annotations

import re
from typing import Any

_SECTION = re.compile(r"^\s*-{3,}\s*$")
_TERM = re.compile(r"^([A-Za-z_*][\w*]*(?:(?:, | and |=| )[\w*.,=]+){0,5}) : (.*)$")
_ITEM = re.compile(r"^(\d+\.|-|\*) ")
_LITERAL = re.compile(r"(``.*?``|`[^`]*`)")


def escaped(line: str, plain: bool) -> str:
    """Return a line whose markup characters outside of backticks stand for themselves."""
    parts = _LITERAL.split(line)
    for k in range(0, len(parts), 2):
        parts[k] = parts[k].replace("|", r"\|")
        parts[k] = re.sub(r"(?<=\w)_(?!\w)", r"\\_", parts[k])
        if plain:
            parts[k] = parts[k].replace("*", r"\*")
        if k and parts[k][:1].isalnum():  # `method`s
            parts[k] = "\\ " + parts[k]
    return "".join(parts)


def indentation(line: str) -> int:
    """Return the number of spaces before the text."""
    return len(line) - len(line.lstrip())


def laid_out(lines: list[str]) -> list[str]:
    """Return plain text as reStructuredText: definition lists, literal blocks, escapes."""
    out: list[str] = []
    inside = ""  # "list", "term" or "code": what an indented line belongs to
    for line in lines:
        if not line.strip():
            inside = inside if inside in ("list", "code") else ""
            out.append("")
            continue
        if indentation(line):
            if inside == "code":
                out.append(line)
            elif inside:
                out.append(escaped(line, plain=True))
            elif out and out[-1].lstrip().startswith(".. "):
                out.append(line)
            else:
                inside = "code"
                out += ["", "::", "", line]
            continue
        if line.startswith(">>>") or (inside == "doctest" and line.strip()):
            inside = "doctest"
            out += ["", line] if out and out[-1] and not out[-1].startswith((">>>", "...")) else [line]
            continue
        if term := _TERM.match(line):
            out += [""] if inside != "term" else []
            out += [f"``{term[1]}``", f"    {escaped(term[2], plain=True)}"]
            inside = "term"
            continue
        if _ITEM.match(line):
            out += [""] if inside != "list" else []
            inside = "list"
            mark, rest = line.split(" ", 1)
            out.append(f"{mark} {escaped(rest, plain=True)}")
            continue
        if inside and out[-1]:
            out.append("")
        inside = ""
        out.append(escaped(line, plain=True))
    return [*out, ""]


def process(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Change a docstring in place, before numpydoc reads it."""
    if any(_SECTION.match(line) for line in lines):
        code = False  # examples and literal blocks stay as they are
        for k, line in enumerate(lines):
            code = line.lstrip().startswith(">>>") or (code and bool(line.strip()))
            if not code and not _SECTION.match(line) and " : " not in line:
                lines[k] = escaped(line, plain=False)
    else:
        lines[:] = laid_out(lines)


def setup(app: Any) -> dict[str, bool]:
    """Connect to Sphinx, before numpydoc."""
    app.connect("autodoc-process-docstring", process, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
