"""scikit-learn's estimators and metrics take our arrays unchanged, by its array API dispatch, and give NumPy's results.

In an interpreter of its own: SciPy decides when it is imported whether it dispatches.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = '''
import warnings
from typing import Any

import numpy as np
import sklearn
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, f1_score, mean_squared_error, pairwise_distances, r2_score
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, PolynomialFeatures, StandardScaler

import bsp
import bsp.arrays as ba

rng = np.random.default_rng(0)
X = rng.normal(size=(400, 6))
X[:200] += 4
y = np.repeat([0, 1], 200)
target = X @ np.arange(6.0) + 0.1 * rng.normal(size=400)


def everything(x: Any, labels: Any, value: Any) -> dict[str, Any]:
    found = {
        "scaled": StandardScaler().fit_transform(x),
        "scaled and back": StandardScaler().fit(x).inverse_transform(x),
        "not centred": StandardScaler(with_mean=False, copy=False).fit_transform(x + 0),
        "to a range": MinMaxScaler().fit_transform(x),
        "by the largest": MaxAbsScaler().fit_transform(x),
        "normalised": Normalizer().fit_transform(x),
        "powers": PolynomialFeatures(2).fit_transform(x),
        "ridge": Ridge(solver="svd").fit(x, value).predict(x),
        "logistic": LogisticRegression(C=1.0).fit(x, labels).predict(x),
        "bayes": GaussianNB().fit(x, labels).predict_proba(x),
        "accuracy": accuracy_score(labels, 1 - labels),
        "f1": f1_score(labels, (x[:, 0] > 2) * 1),
        "squares": mean_squared_error(value, value + 0.5),
        "r2": r2_score(value, value + 0.5),
        "distances": pairwise_distances(x[:50], x[50:90]),
    }
    for solver in ("full", "covariance_eigh", "randomized"):
        pca = PCA(2, svd_solver=solver, random_state=0).fit(x)
        found[f"pca {solver}"] = pca.explained_variance_
        found[f"pca {solver} means"] = pca.mean_
        found[f"pca {solver} projected"] = pca.transform(x) ** 2
    return found


def main(proc: bsp.Process) -> dict[str, Any]:
    x, labels, value = (ba.asarray(each, grid=(proc.nprocs, *[1] * (each.ndim - 1))) for each in (X, y, target))
    found = everything(x, labels, value)
    arrays = {name: each.compute() if isinstance(each, ba.Array) else each for name, each in found.items()}
    arrays["dealt"] = sum(isinstance(each, ba.Array) for each in found.values())
    return arrays


def clusters(proc: bsp.Process) -> Any:
    """Not dispatched: the array is brought to every process, as np.asarray does."""
    return KMeans(2, n_init=1, random_state=0).fit(ba.asarray(X, grid=(proc.nprocs, 1))).cluster_centers_


with warnings.catch_warnings(action="ignore"):
    for found in bsp.run(clusters, nprocs=2):
        np.testing.assert_allclose(found, KMeans(2, n_init=1, random_state=0).fit(X).cluster_centers_, rtol=1e-12)
    sklearn.set_config(array_api_dispatch=True)
    want = everything(X, y, target)
    for nprocs in (1, 3):
        for found in bsp.run(main, nprocs=nprocs):
            assert found.pop("dealt") >= 16, found
            assert found.keys() == want.keys()
            for name, each in want.items():
                np.testing.assert_allclose(found[name], each, rtol=1e-6, atol=1e-8, err_msg=name)
print("alike")
'''


@pytest.mark.thorough
@pytest.mark.jobs
def test_estimators_and_metrics_give_what_they_give_of_numpys_arrays() -> None:
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert (ran.returncode, ran.stdout) == (0, "alike\n"), ran.stderr
