"""Sparse logistic regression: who buys, by region and product, of which each row has two ones among many columns.

Each process makes its own rows, and joins two one-hot matrices without moving anything: X has 2 entries a row, and all
that the processes exchange in the fit is sums of the length of the coefficients.  L-BFGS multiplies by X and its
transpose, so nothing of the size of a dense X ever exists.  A fit of the dense X, on a few of the rows, checks it.

    bsprun -p 8 -n 2 examples/one_hot_logistic.py
"""

import sys

import numpy as np
import scipy.sparse

import bsp
from bsp.algorithms import glm
from bsp.arrays import sparse

N, REGIONS, PRODUCTS = 20_000, 60, 140

proc = bsp.process()
region_effect = np.linspace(-1.0, 1.0, REGIONS)
product_effect = np.cos(np.arange(PRODUCTS))


def drawn(low: int, high: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the region and the product of some rows, and whether they bought: the same for any number of processes."""
    i = np.arange(low, high)
    region, product = i * 7919 % REGIONS, i * i // 3 % PRODUCTS
    chance = 1 / (1 + np.exp(-region_effect[region] - product_effect[product]))
    return region, product, i * 0.6180339887 % 1 < chance


def one_hot(codes: np.ndarray, levels: int) -> scipy.sparse.csr_array:
    return scipy.sparse.csr_array((np.ones(len(codes)), codes, np.arange(len(codes) + 1)), shape=(len(codes), levels))


low, high = N * proc.pid // proc.nprocs, N * (proc.pid + 1) // proc.nprocs
region, product, _ = drawn(low, high)
X = sparse.hstack([sparse.from_local(one_hot(region, REGIONS)), sparse.from_local(one_hot(product, PRODUCTS))])
bought = drawn(0, N)[2]

model = glm.LogisticRegression(alpha=1e-3, solver="lbfgs").fit(X, bought)
share = model.score(X, bought)

few = slice(0, N, 20)
dense = X[few].compute().toarray()
known = glm.LogisticRegression(alpha=1e-3, solver="newton").fit(dense, bought[few])
again = glm.LogisticRegression(alpha=1e-3, solver="lbfgs").fit(X[few], bought[few])
wrong = float(abs(again.coef_ - known.coef_).max())

if proc.pid == 0:
    print(f"{X.shape[0]} rows, {X.shape[1]} columns, {X.nnz} entries; {share:.1%} are classified right")
    best = np.argsort(-model.coef_[:REGIONS])[:3]
    print("regions that buy most:", " ".join(str(each) for each in sorted(best)))
if bsp.expect(not (wrong < 1e-5 and share > 0.6), times=0):
    sys.exit(f"the sparse fit and the dense one differ by {wrong:.1e}")
