"""Memory of sparse arrays in real processes: what an element holds of a matrix, and what a product takes beside it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.jobs

BSPRUN = str(Path(sys.executable).with_name("bsprun"))

# A mesh of 1000 x 1000 points.  The high-water mark begins anew before the products.
MESH = """
import json
import numpy as np, psutil
import bsp
import bsp.arrays as ba
from bsp.arrays import sparse
from bsp.arrays.execution import memory

proc, side = bsp.process(), 1000
small = sparse.diags([1.0], offsets=[0], shape=(100, 100))
(small @ ba.ones(100)).compute()  # all modules are imported, all helpers ready
memory.release()
before = psutil.Process().memory_full_info().uss
n = side * side
east = np.where(np.arange(n) % side == side - 1, 0.0, -1.0)[:-1]
A = sparse.diags([4.0, east, east, -1.0, -1.0], offsets=[0, 1, -1, side, -side], shape=(n, n))
del east
x = A.vector(ba.ones(n)).persist()
memory.release()
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
for _ in range(3):
    x = (A @ x).persist()
with open("/proc/self/status") as file:
    status = dict(line.split(":", 1) for line in file)
after, high = psutil.Process().memory_full_info().uss, int(status["VmHWM"].split()[0]) * 1024
own = A.local()
csr = own.data.nbytes + own.indices.nbytes + own.indptr.nbytes
print(json.dumps([csr, after - before, high - psutil.Process().memory_info().rss + after - before]))
"""


@pytest.mark.thorough
def test_a_matrix_and_its_products_take_two_and_a_half_times_the_own_part(tmp_path: Path) -> None:
    script = tmp_path / "mesh.py"
    script.write_text(MESH)
    done = subprocess.run([BSPRUN, "-p", "2", "-n", "2", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        csr, held, most = json.loads(line)
        assert csr > 25e6
        assert max(held, most) <= 2.5 * csr
