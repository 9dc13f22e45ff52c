"""Least squares where normal equations lose half of the digits: a polynomial through doctor visits.

Visits to a doctor by chronic illness (columns mdvis and disea of the RAND Health Insurance Experiment, 20,190 people,
see doctor_visits.py): a polynomial of degree 7 in powers up to 58.6^7, so that the matrix has condition 2e11.  Normal
equations square that; QR of the matrix and its right-hand side, in one superstep, does not.

Cost, n = 9 columns: W = 2(m/p)n^2 flops, H = (p - 1)n^2 words, or a tree of them.
Run as: bsprun -p 4 examples/ill_conditioned_lstsq.py
"""

import sys
from pathlib import Path

import numpy as np

import bsp
import bsp.arrays as ba
from bsp.algorithms.qr import lstsq, qr

DATA = Path(__file__).resolve().parent / "data" / "randhie.csv.gz"

# The solution for these very numbers, in fractions without rounding.
EXACT = np.array([1.5750192812336912, 0.36193016175570336, -0.0919706646308285, 0.011235336924755333,
                  -0.000624640259918404, 1.7456789923857303e-05, -2.3723281614308098e-07,
                  1.2442814432586927e-09])  # fmt: skip

proc = bsp.process()
data, names = ba.read_csv(DATA, names=True)
illness, visits = data[:, names.index("disea")], data[:, names.index("mdvis")]
powers = (illness[:, None] ** np.arange(8)).persist()

x, residuals, rank, singular = lstsq(powers, visits)
coefficients, spread = x.compute(), singular.compute()
normal = ba.linalg.solve(powers.T @ powers, powers.T @ visits).compute()
factors = qr(powers)
error, squared = (np.max(np.abs(each / EXACT - 1)) for each in (coefficients, normal))

right = error < 1e-9
if not bsp.expect(right, times=1):
    sys.exit(f"process {proc.pid}: coefficients are off by {error:.1e}: {coefficients}")
if proc.pid == 0 and bsp.expect(right, times=0):  # there are numbers to print, but in an abstract prediction
    print(f"{powers.shape[0]} rows, rank {rank}, condition {spread[0] / spread[-1]:.1e}")
    print(f"wrong by at most {error:.0e}; by normal equations {squared:.0e}")
    print(factors.reason)
