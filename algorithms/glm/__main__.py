"""The command line: a file, a family and a target make a fitted model, printed, without a program.

All processes run this; process 0 speaks.  A mistake is one line on stderr and status 2.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import bsp
from bsp.algorithms.glm.absorbing.absorb import check_absorbing
from bsp.algorithms.glm.data.preparing import Given, columns_for
from bsp.algorithms.glm.data.table import Table, read_table
from bsp.algorithms.glm.errors import no_column
from bsp.algorithms.glm.estimators import GLM, Regression
from bsp.algorithms.glm.families import FAMILIES, family_names
from bsp.algorithms.glm.families.family import known_family
from bsp.algorithms.glm.inference.diagnosis import Diagnosis, diagnosis
from bsp.algorithms.glm.inference.report import page
from bsp.algorithms.glm.inference.summary import Summary
from bsp.algorithms.glm.multinomial.estimator import MultinomialRegression
from bsp.algorithms.glm.multinomial.softmax import Multinomial
from bsp.algorithms.glm.problem import CLUSTERED
from bsp.errors import BspError

PROGRAM = "bsp.algorithms.glm"
_CLASSES = (Multinomial.name,)
_DELIMITERS = {"tab": "\t", "\\t": "\t", "blank": " "}
_ROLES = ("target", "weights", "offset", "trials", "clusters", "frequencies")  # of columns, as `fit` takes them
EXAMPLES = """\
  bsprun -p 64 -m bsp.algorithms.glm visits.csv --family poisson --target mdvis --report fit.html
  python -m bsp.algorithms.glm survey.csv.gz --family binomial --target vote --reference region=south --missing drop
  bsprun -p 8 -m bsp.algorithms.glm visits.csv --family poisson --formula "mdvis ~ log(disea + 1) + lncoins * idp"
"""


class _Parser(argparse.ArgumentParser):
    """An argument parser of which process 0 alone prints; all processes exit with the same status."""

    def error(self, message: str) -> NoReturn:
        _fail(message)

    def print_help(self, file: Any = None) -> None:
        if bsp.process().pid == 0:
            super().print_help(file)


def _fail(message: str) -> NoReturn:
    if bsp.process().pid == 0:
        print(f"{PROGRAM}: error: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(2)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog=PROGRAM, allow_abbrev=False,
        usage="bsprun -p P -m bsp.algorithms.glm FILE (--target COLUMN | --formula TEXT) [options]",
        description="Fit a generalised linear model to a CSV or Parquet file.", epilog="exit status: 0 fitted, "
        "1 fitted but not converged, 2 a mistake in the data or the options", formatter_class=_Formatter,
    )  # fmt: skip
    parser.description = f"{EXAMPLES}\n{parser.description}"
    add = parser.add_argument
    add("file", help="CSV with names in the first line (also .gz, .bz2, .xz), or Parquet")
    explained = parser.add_mutually_exclusive_group(required=True)
    explained.add_argument("--target", metavar="COLUMN", help="what is explained by the other columns")
    explained.add_argument("--formula", metavar="TEXT", help="what is explained by what: the third example")
    add("--family", default="gaussian", help=f"{family_names()}, {Multinomial.name} (one of several classes)")
    add("--columns", metavar="A,B", help="explain by these columns only")
    add("--exclude", default="", metavar="A,B", help="leave these columns out")
    add(
        "--reference",
        action="append",
        default=[],
        metavar="COLUMN=TEXT",
        help="what other texts are compared with; of the target: other classes",
    )
    add("--categorical", default="", metavar="A,B", help="their numbers or dates are categories")
    add("--delimiter", metavar="CHARACTER", help="between fields (found from the first lines); tab for a tab")
    add("--decimal", metavar="MARK", help="decimal mark: . or , (found from the first lines)")
    add("--na", action="append", default=[], metavar="TEXT", help="a text that means: missing, as NA does")
    add("--missing", default="error", choices=["error", "drop"], help="drop: leave out rows with missing values")
    for name, text in (
        ("weights", "column that multiplies each row's share"), ("offset", "column added to the linear predictor"),
        ("trials", "binomial: column with the trials; the target then counts successes"),
        ("frequencies", "column of counts: as if each row were there so many times"),
        ("clusters", "column of labels: standard errors allow for rows of one label that vary together"),
    ):  # fmt: skip
        add(f"--{name}", metavar="COLUMN", help=text)
    add("--absorb", default="", metavar="A,B", help="gaussian, poisson: columns of labels whose effects are taken out")
    add("--alpha", type=float, default=0.0, help="strength of the penalty (0)")
    add("--l1-ratio", type=float, default=0.0, help="share of the L1 penalty: 0 ridge, 1 lasso")
    add("--no-intercept", action="store_true", help="the model goes through the origin")
    add("--solver", default="auto", help="auto, newton, lbfgs, coordinate")
    add("--tol", type=float, default=1e-10, help="of the gradient (1e-10)")
    add("--max-iter", type=int, default=100, help="iterations at most (100)")
    add("--robust", action="store_true", help="standard errors that hold if the variance is not the family's")
    add("--json", metavar="FILE", help="the results for programs; - for the standard output, instead of the table")
    add("--report", metavar="FILE", help="the results as one HTML page")
    add("--progress", action="store_true", help="a line for each iteration, on stderr")
    return parser


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26, width=118)


def main(arguments: list[str] | None = None) -> int:
    """Run the command on every process; return the exit status."""
    options = _parser().parse_args(arguments)
    proc = bsp.process()
    try:
        model, summary, found = _fitted(options)
        command = ("command", _command(proc, sys.argv[1:] if arguments is None else arguments))
        summary = replace(summary, about=(*summary.about, command))
        written = proc.private().broadcast(
            proc.once(lambda: _write(options, summary, found)) if proc.pid == 0 else None
        )
    except (BspError, ValueError, TypeError, OSError, ImportError, MemoryError) as wrong:
        _fail(_text(wrong))
    if written is not None:
        _fail(written)
    if proc.pid == 0 and options.json != "-":
        print(summary)
    return 0 if model.converged_ else 1


def _command(proc: bsp.Process, arguments: list[str]) -> str:
    """Return the command that runs this again."""
    start = f"bsprun -p {proc.nprocs} -m" if proc.nprocs > 1 else "python -m"
    return f"{start} {PROGRAM} {shlex.join(arguments)}"


def _text(wrong: Exception) -> str:
    if isinstance(wrong, OSError) and wrong.filename is not None:
        return f"{wrong.filename}: {wrong.strerror}"
    return str(wrong) or type(wrong).__name__


def _fitted(options: argparse.Namespace) -> tuple[GLM | MultinomialRegression, Summary, Diagnosis | None]:
    roles = [each for each in (getattr(options, role) for role in _ROLES) if each is not None]
    twice = next((name for k, name in enumerate(roles) if name in roles[:k]), None)
    if twice is not None:
        raise ValueError(f"column {twice!r} is given two roles")
    if options.clusters is not None and options.robust:
        raise ValueError("--robust and --clusters: one kind of standard errors; clustered ones are robust too")
    columns, exclude, absorb = _names(options.columns or ""), _names(options.exclude), _names(options.absorb)
    roles += absorb
    if options.columns is not None and not columns:
        raise ValueError(f"--columns {options.columns!r}: it names no column; without it all columns explain")
    if options.formula is not None and "~" not in options.formula:
        raise ValueError(f"--formula {options.formula!r}: a formula is 'response ~ terms'")
    if options.formula is not None and columns:
        raise ValueError("--formula and --columns: the formula names the columns")
    for name in roles:
        if name in exclude:
            raise ValueError(f"--exclude {name}: the column is needed")
    reference = dict(map(_level, options.reference))
    model = _classes_of(options, reference) if options.family in _CLASSES else _regression(options)
    checked = model._model()  # a mistake shows before a large file is read
    if absorb:
        check_absorbing(checked)
    for path in (options.report, None if options.json == "-" else options.json):
        if path is not None and not os.path.isdir(os.path.dirname(os.path.abspath(path))):
            raise ValueError(f"{path}: there is no folder {os.path.dirname(path)!r}")
    written = [
        os.path.realpath(each) for each in (options.file, options.report, options.json) if each not in (None, "-")
    ]
    if len(set(written)) < len(written):
        raise ValueError("the file, --report and --json must be different files")
    given = Given(*(getattr(options, role) for role in _ROLES))._replace(absorb=tuple(absorb))
    if options.formula is not None:
        given = given._replace(y=options.formula)
    chosen = columns_for(given, os.path.basename(options.file)) if options.formula is not None else None
    table = read_table(
        options.file, columns=[*columns, *roles] if columns else chosen, exclude=exclude, missing=options.missing,
        reference=reference, delimiter=_DELIMITERS.get(options.delimiter, options.delimiter),
        decimal=options.decimal, na=options.na, categorical=_names(options.categorical),
    )  # fmt: skip
    _check_roles(table, options)
    data = model._fit(table, given, checked, _told if options.progress else None)
    pictured = options.report is not None and not absorb and isinstance(model, Regression)
    found = diagnosis(data.rows, checked, model.solution_) if pictured else None
    return model, model.summary(), found


def _regression(options: argparse.Namespace) -> GLM:
    if not known_family(options.family):
        raise ValueError(f"family={options.family!r}: one of {', '.join((*FAMILIES, *_CLASSES))}")
    return GLM(
        options.family, options.alpha, options.l1_ratio, options.solver,
        not options.no_intercept, options.tol, options.max_iter, _robust(options),
    )  # fmt: skip


def _classes_of(options: argparse.Namespace, reference: dict[str, str]) -> MultinomialRegression:
    """Return a model of classes; the target's reference is taken out of `reference`, which is of the other columns."""
    for name in ("offset", "trials", "absorb", "l1_ratio"):
        if getattr(options, name):
            raise ValueError(f"--{name.replace('_', '-')}: a model of classes has none")
    target = options.target if options.formula is None else options.formula.partition("~")[0].strip()
    return MultinomialRegression(
        _label(reference.pop(target, None)), options.alpha, options.solver,
        not options.no_intercept, options.tol, options.max_iter, _robust(options),
    )  # fmt: skip


def _label(text: str | None) -> str | float | None:
    """Return a class as a table has it: a number where the text is one."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def _robust(options: argparse.Namespace) -> bool | str:
    return options.robust if options.clusters is None else CLUSTERED


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _level(text: str) -> tuple[str, str]:
    name, equals, level = text.partition("=")
    if not equals:
        raise ValueError(f"--reference {text}: COLUMN=TEXT")
    return name.strip(), level.strip()


def _check_roles(table: Table, options: argparse.Namespace) -> None:
    """Raise ValueError, with the option's name, if an option names a column that is not there."""
    for option in _ROLES:
        name = getattr(options, option)
        if name is not None and name not in table.names:
            raise ValueError(f"--{option} {name}: {no_column(name, table.names)}")


def _told(iteration: int, objective: float, norm: float) -> None:
    if bsp.process().pid == 0:
        print(
            f"iteration {iteration:3d}   objective {objective:.10g}   gradient {norm:.2e}", file=sys.stderr, flush=True
        )


def _write(options: argparse.Namespace, summary: Summary, found: Diagnosis | None) -> str | None:
    """Write the files that are asked for; return what went wrong, if anything."""
    try:
        if options.report is not None:
            Path(options.report).write_text(page(summary, options.file, found), encoding="utf-8")
        if options.json is not None:
            text = json.dumps(summary.to_dict(), indent=1)
            if options.json == "-":
                print(text)
            else:
                Path(options.json).write_text(text + "\n", encoding="utf-8")
    except OSError as wrong:
        return _text(wrong)
    return None


if __name__ == "__main__":
    sys.exit(main())
