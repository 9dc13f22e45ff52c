"""The tests of the runtime, once more with the ranks of an MPI job as elements (see tests/conftest.py)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

pytestmark = [pytest.mark.jobs, pytest.mark.long, pytest.mark.thorough]

ALONE = ("--ignore=tests/bsp/abstract", "--ignore=tests/bsp/cost")  # what knows nothing of elements

MPIEXEC = os.path.join(os.path.dirname(sys.executable), "mpiexec")
ROOT = Path(__file__).resolve().parents[2]
SETTINGS = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "self,sm",
    "OPENBLAS_NUM_THREADS": "1",
    "PY_COLORS": "0",
}


@pytest.mark.parametrize("elements", [pytest.param(2, marks=pytest.mark.rest), 3])
def test_the_tests_of_the_runtime_pass_on_ranks_as_elements(elements: int, tmp_path: Path) -> None:
    """Each value of each parameter works on three elements, where one has fewer processes or none.

    `make test-rest` has all combinations, and two elements: a pair, which most other jobs of the tests are.
    """
    # after a failure the ranks are out of step: each stops at its first, and one that is stuck because another
    # has stopped ends itself, and by that the job, with its stack shown
    own = [
        sys.executable,
        "-m",
        "pytest",
        "tests/bsp",
        *ALONE,
        "-v",
        "-x",
        "--timeout",
        "300",
        "--timeout-method",
        "thread",
    ]
    settings = os.environ | SETTINGS | {"BSP_TESTS_TEMP": str(tmp_path)}
    words = [MPIEXEC, "--oversubscribe", "--output", "tag", "-n", str(elements), *own]
    with tempfile.TemporaryFile() as told:
        with subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=told, stderr=subprocess.STDOUT, cwd=ROOT, env=settings
        ) as ranks:
            try:
                status: int | str = ranks.wait(850)
            except subprocess.TimeoutExpired:
                status = "not ended within 850 s"
                for process in [*psutil.Process(ranks.pid).children(recursive=True), ranks]:
                    process.kill()
        told.seek(0)
        text = told.read().decode(errors="replace")
    told_wrong = "\n".join(line for line in text.splitlines() if re.search(r"FAILED|ERROR|: E  ", line))
    assert status == 0, f"status {status}\n{told_wrong[:6000]}\n...\n{text[-4000:]}"
    assert len(re.findall(r"\b\d+ passed", text)) == elements
