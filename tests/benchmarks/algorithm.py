"""One algorithm on made data, behind a `sync`: its supersteps are predicted without data, and measured.

bsprun -p 2 -n 2 algorithm.py newton|qr|ill|product
"""

import sys

import numpy as np
import scipy.linalg  # noqa: F401 - what an algorithm imports is none of its supersteps

import bsp
import bsp.arrays as ba
from bsp.algorithms.glm import LogisticRegression
from bsp.algorithms.matmul import matmul
from bsp.algorithms.qr import qr

ROWS, COLUMNS, SIDE, ITERATIONS = 1 << 20, 32, 4096, 6

work = sys.argv[1]
proc = bsp.process()
rng = ba.random.default_rng(0)
if work == "product":
    a, b = ba.persist(rng.random((SIDE, SIDE)), rng.random((SIDE, SIDE)))
    proc.sync()
    matmul(a, b)
elif work == "newton":
    x = (rng.random((ROWS, COLUMNS)) - 0.5).persist()
    y = (rng.random(ROWS) < 1 / (1 + np.exp(-(x @ np.ones(COLUMNS))))).astype(float).persist()
    model = LogisticRegression(fit_intercept=False, solver="newton", max_iter=ITERATIONS, tol=1e-16)
    proc.sync()
    model.fit(x, y)
else:
    x = (rng.random((ROWS, COLUMNS)) - 0.5).persist()
    if work == "ill":
        v = np.linalg.qr(np.vander(np.linspace(1, 2, COLUMNS)))[0]
        x = (x @ (v * np.logspace(0, -12, COLUMNS) @ v.T)).persist()
    proc.sync()
    qr(x, "direct" if work == "ill" else "cholesky2")
