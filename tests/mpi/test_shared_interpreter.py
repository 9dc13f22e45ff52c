"""Processes that share an interpreter do what processes with one each do: the same text on any number of elements.

The oracle is the run with as many elements as processes, where nothing is shared.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.jobs

BSPRUN = os.path.join(os.path.dirname(sys.executable), "bsprun")
P = 4

MODULES = {
    "precise.py": """
        import decimal
        import numpy as np
        np.set_printoptions(precision=3)
        np.seterr(invalid="ignore")
        decimal.getcontext().prec = 5
    """,
    "package/__init__.py": "import decimal\ndecimal.getcontext().rounding = decimal.ROUND_UP\n",
    "package/narrow.py": "import numpy as np\nnp.set_printoptions(linewidth=30)\n",
    "through.py": "from package import narrow\n",
    "asker.py": """
        try:
            import bsp
            bsp.process()
        except bsp.BoundaryInImport as refused:
            said = str(refused).split(" (process")[0]  # not which process ran the module
    """,
}

PROGRAM = """
    import asyncio, decimal, importlib, random, sys
    import numpy as np
    import bsp
    proc = bsp.process()
    me = proc.pid

    def say(case, *values):
        print(me, case, *values)

    # sys.argv: taken from, and replaced
    say("argv", sys.argv.pop(1), len(sys.argv))
    proc.sync()
    say("argv-later", sys.argv)
    sys.argv = ["another", str(me)]
    proc.sync()
    say("argv-replaced", sys.argv)

    # context variables of modules: imported first, after a setting of one's own, by some only, by another way
    if me % 2:
        decimal.getcontext().prec = 9
    say("before", decimal.Decimal(1) / 3, np.array([1 / 3]))
    proc.sync()
    if me != 2:
        import precise
    say("after", decimal.Decimal(1) / 3, np.array([1 / 3]), np.geterr()["invalid"])
    proc.sync()
    if me == 1:
        decimal.getcontext().prec = 7
    import precise
    say("again", decimal.Decimal(1) / 3, np.array([1 / 3]))
    proc.sync()
    if me == 0:
        import through
    elif me == 1:
        importlib.import_module("package.narrow")
    elif me == 2:
        import package
    say("package", decimal.Decimal(2) / 3, np.get_printoptions()["linewidth"], decimal.getcontext().rounding)
    proc.sync()
    import asker
    say("asker", asker.said)

    # the generators of random and of NumPy, with and without seeds, and half pairs of normals
    drawn = [random.random(), random.gauss(0, 1), np.random.random()]
    proc.sync()
    drawn += [random.gauss(0, 1), random.randrange(10**9), np.random.normal()]
    say("unseeded", *drawn)
    random.seed(me)
    np.random.seed(me)
    drawn = []
    for turn in range(700):
        drawn.append(random.random() if turn % 3 else random.gauss(0, 1))
        if turn % 50 == 0:
            proc.sync()
    say("seeded", hash(tuple(drawn)))
    np.random.normal()
    kept = np.random.get_state()
    first = np.random.normal()
    proc.sync()
    np.random.set_state(kept)
    proc.sync()
    say("set_state", first == np.random.normal())
    np.random.set_bit_generator(np.random.PCG64(me))
    np.random.normal()
    proc.sync()
    say("set_bit_generator", type(np.random.get_bit_generator()).__name__, np.random.normal(), np.random.random())

    # boundaries inside a running event loop
    async def body():
        async def part(k):
            await asyncio.sleep(0)
            total = proc.allreduce(me + k)
            return total, asyncio.current_task().get_name()
        first = await asyncio.create_task(part(0), name=f"task of {me}")
        proc.sync()
        return first, await part(1)
    say("asyncio", asyncio.run(body(), debug=False)[0])

    proc.sync()
    if me == 0:
        sys.stdout.flush()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("shared")
    for name, source in {**MODULES, "program.py": PROGRAM}.items():
        path = found / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(source))
    return found


def told(folder: Path, elements: int, *words: str) -> list[str]:
    done = subprocess.run(
        [BSPRUN, "-p", str(P), "-n", str(elements), *(words or ("program.py", "first", "second"))],
        cwd=folder, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def apart(folder: Path) -> list[str]:
    """The text of the run in which every process has an interpreter of its own."""
    return told(folder, P)


@pytest.mark.parametrize("elements", [1, 2])
def test_what_processes_of_an_element_share_is_not_seen(folder: Path, apart: list[str], elements: int) -> None:
    assert told(folder, elements) == apart


def test_the_program_shows_what_it_is_to_show(apart: list[str]) -> None:
    """The oracle itself: settings of imported modules hold, streams differ between processes, loops run."""
    cases = [line.split(" ", 2) for line in apart]
    of = {(int(pid), case): rest for pid, case, rest in cases}
    assert of[0, "argv"] == "first 2" and of[3, "again"].startswith("0.33333 [0.333]")
    assert of[1, "again"].startswith("0.3333333 ")  # its own setting came later
    assert len({of[pid, "unseeded"] for pid in range(P)}) == P == len({of[pid, "seeded"] for pid in range(P)})
    assert all(of[pid, "set_state"] == "True" for pid in range(P))
    assert all(f"task of {pid}" in of[pid, "asyncio"] for pid in range(P))
    assert "bsp.process() at asker.py:4 while module 'asker' is imported" in of[2, "asker"]


def test_a_module_that_takes_its_arguments_away_runs_a_script_as_coverage_does(folder: Path) -> None:
    """`-m coverage run script.py` pops its own words from sys.argv in every process."""
    (folder / "taker.py").write_text(
        "import runpy, sys\nsys.argv.pop(0)\nassert sys.argv.pop(0) == 'run'\nrunpy.run_path(sys.argv[0])\n"
    )
    (folder / "inner.py").write_text("import sys, bsp\nprint(bsp.process().pid, sys.argv)\n")
    wanted = [f"{pid} ['inner.py', 'x']" for pid in range(P)]
    assert told(folder, 1, "-m", "taker", "run", "inner.py", "x") == wanted
    assert told(folder, 2, "-m", "taker", "run", "inner.py", "x") == wanted
