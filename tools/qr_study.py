"""How orthogonal Q is, by method and condition: the table of docs/qr-accuracy.md.

    python -m tools.qr_study
    python -m tools.qr_study --write docs/qr-accuracy.md

A has singular values from 1 down to 1/condition, evenly on a logarithmic scale, and singular vectors that a seed
makes; so its condition is known.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

import bsp
import bsp.arrays as ba
from bsp.algorithms.qr.factoring import qr
from bsp.algorithms.qr.pricing import METHODS
from bsp.cost.model import Machine
from bsp.cost.whole_file import write_text

M, N, P = 20_000, 16, 4
EXPONENTS = tuple(range(16))
HEAD = f"""# How orthogonal Q is

Made by `python -m tools.qr_study --write docs/qr-accuracy.md`: A of {M:,} × {N} float64 on {P} processes,
singular values from 1 to 1/condition.  The first number is ‖QᵀQ - I‖₂, the second ‖A - QR‖/‖A‖ in Frobenius norm;
*refused*: LinAlgError, which says the condition.  What `method="auto"` takes, and why, is in the last two columns.

"""


class Row(NamedTuple):
    """The results for one condition number.

    errors : by method (loss of orthogonality, residual), None where it is refused.   taken, reason : auto's choice.
    """

    condition: float
    errors: dict[str, tuple[float, float] | None]
    taken: str
    reason: str


def of_condition(m: int, n: int, kappa: float, seed: int = 0) -> np.ndarray:
    """Return a matrix with singular values from 1 to 1/kappa."""
    rng = np.random.default_rng(seed)
    u, _ = np.linalg.qr(rng.normal(size=(m, n)))
    v, _ = np.linalg.qr(rng.normal(size=(n, n)))
    found: np.ndarray = (u * np.logspace(0, -np.log10(kappa), n)) @ v.T
    return found


def measured(kappa: float) -> Row:
    """Compute one row of the table on P processes, which all find the same."""
    a = of_condition(M, N, kappa)

    def main(proc: bsp.Process) -> Row:
        x = ba.asarray(a)
        errors: dict[str, tuple[float, float] | None] = {}
        taken = reason = ""
        for method in (*METHODS, "auto"):
            try:
                found = qr(x, method)
            except LinAlgError:
                errors[method] = None
                continue
            q, r = (each.compute() for each in found)
            errors[method] = _errors(a, q, r)
            taken, reason = found.method, found.reason
        return Row(kappa, errors, taken, reason)

    first: Row = bsp.run(main, nprocs=P, machine=Machine(p=P))[0]
    return first


def _errors(a: np.ndarray, q: Any, r: Any) -> tuple[float, float]:
    lost = np.linalg.norm(q.T @ q - np.eye(q.shape[1]), 2)
    return float(lost), float(np.linalg.norm(a - q @ r) / np.linalg.norm(a))


def table(exponents: Sequence[int] = EXPONENTS) -> str:
    """Return the study as a Markdown table."""
    names = (*METHODS, "auto")
    lines = [f"| condition | {' | '.join(names)} | auto takes | why |", "| --- " * (len(names) + 3) + "|"]
    for exponent in exponents:
        row = measured(10.0**exponent)
        cells = ["refused" if each is None else f"{each[0]:.0e}, {each[1]:.0e}" for each in map(row.errors.get, names)]
        why = row.reason.partition(": ")[2]
        lines.append(f"| 1e{exponent} | {' | '.join(cells)} | {row.taken} | {why} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.qr_study", description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--write", metavar="FILE.md", help="the document, made anew")
    asked_for = parser.parse_args(arguments)
    text = table()
    if asked_for.write is None:
        print(text)
        return 0
    write_text(HEAD + text + "\n", asked_for.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
