"""The table of docs/loops-study.md: how kernels with loops run under `bsp.parallel`, and why loops stay.

python -m tools.loops_study
python -m tools.loops_study --write docs/loops-study.md
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bsp.arrays.loops import parallel
from bsp.cost.whole_file import write_text

_KERNELS = Path(__file__).parents[1] / "tests" / "arrays" / "loops" / "loop_kernels.py"
HEAD = """# What becomes of loops

Made by `python -m tools.loops_study --write docs/loops-study.md`, from `@bsp.parallel`'s `explain()` of kernels that
are written from their mathematical definitions, in the manner of PolyBench and NPBench
([loop_kernels.py](../tests/arrays/loops/loop_kernels.py)). [Tests](../tests/arrays/loops/test_loops_of_elements.py)
hold each to its loops on 1, 3 and 8 processes; [benchmarks](benchmarks.md#loops-over-elements) have their times beside
NumPy's.

*Parallel*: all loops have become array statements, dealt to processes. *In rounds*: outer loops stay, and what is
inside of them has become array statements. *Replicated*: every process carries out the loops, for the reason given
first; statements of whole arrays in such a loop are dealt nevertheless, as in cavity flow.

"""


def kernels() -> Sequence[Any]:
    """Return the kernels that the tests have."""
    spec = importlib.util.spec_from_file_location("loop_kernels", _KERNELS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where `parallel` looks for the module of a function
    spec.loader.exec_module(module)
    found: Sequence[Any] = module.KERNELS
    return found


def row(function: Any) -> str:
    """Return a kernel's row: how it runs, how many loops become statements and stay, and why the first one stays."""
    loops = parallel(function).loops
    stays = sorted((each for each in loops if not each.parallel), key=lambda each: each.line)
    becomes = len(loops) - len(stays)
    how = "parallel" if not stays else "in rounds" if becomes else "replicated"
    why = re.sub(r"^stays: |line \d+: ", "", stays[0].text) if stays else ""
    why = why.split("; every process")[0].replace("|", "\\|").replace("*", "\\*")
    return f"| {function.__name__} | {how} | {becomes} | {len(stays)} | {why} |"


def page() -> str:
    """Return the page."""
    rows = [row(kernel.function) for kernel in kernels()]
    head = (
        "| kernel | how | statements | loops that stay | why the first one stays |\n| --- | --- | --- | --- | --- |\n"
    )
    return HEAD + head + "\n".join(rows) + "\n"


def main(argv: Sequence[str] | None = None) -> None:
    """Print the page, or write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", metavar="PAGE", help="write the page to this file instead")
    args = parser.parse_args(argv)
    if args.write:
        write_text(page(), args.write)
    else:
        print(page(), end="")


if __name__ == "__main__":
    main()
