"""Principal components of real data: what the 20,190 people of the RAND Health Insurance Experiment differ in.

The nine explaining columns (see doctor_visits.py), brought to mean 0 and deviation 1.  The components are the
singular vectors of the rows' R, which a tree of Householder reflections finds: the covariance matrix, in which small
variances drown, is never made, and the rows never move.

Cost, n columns: W = 2(m/p)n^2 flops, H = (p - 1)n^2 words, or a tree of them.
Run as: bsprun -p 4 examples/pca.py
"""

import sys
from pathlib import Path

import numpy as np

import bsp
import bsp.arrays as ba
from bsp.algorithms.qr import pca

DATA = Path(__file__).resolve().parent / "data" / "randhie.csv.gz"

# scikit-learn's explained_variance_ratio_ of the same columns
RATIOS = [0.2199332868538298, 0.16771308790834907, 0.1326999877997669]

proc = bsp.process()
data, names = ba.read_csv(DATA, names=True)
data, names = data[:, 1:], names[1:]
z = (data - data.mean(axis=0)) / data.std(axis=0)

found = pca(z, k=3)
components, ratios, variances = ba.compute(found.components, found.explained_variance_ratio, found.explained_variance)
cross = (found.scores.T @ found.scores / (z.shape[0] - 1)).compute()  # scores are uncorrelated, and vary as told

off = np.maximum(np.max(np.abs(ratios - RATIOS)), np.max(np.abs(cross - np.diag(variances))))
if not bsp.expect(off < 1e-10, times=1):
    sys.exit(f"process {proc.pid}: the components are not the known ones: off by {off}")
if proc.pid == 0 and bsp.expect(off < 1e-10, times=0):  # there are numbers to print, but in an abstract prediction
    print(f"{z.shape[0]} people, {100 * np.sum(ratios):.1f} % of what {len(names)} columns vary is in 3 components")
    for component, ratio in zip(components, ratios, strict=True):
        largest = np.argsort(-np.abs(component))[:3]
        print(f"{100 * ratio:5.1f} %  " + "  ".join(f"{component[k]:+.2f} {names[k]:<8}" for k in largest))
