"""How do people travel?  Multinomial logistic regression: car, bus, train or bicycle, by distance, income and rain.

Each process makes its own rows, and nothing but sums leaves it: a Newton iteration is one pass over the rows and one
superstep of 1 + D + D(D + 1)/2 words for D = 12 coefficients, four of each mode but the car, with which they are
compared.  At the estimates the probabilities of a mode sum to the number of people who took it, in the whole and
weighted by each column: that checks the fit, as the odds that made the data check the estimates.

    bsprun -p 8 -n 2 examples/travel_modes.py
"""

import sys

import numpy as np

import bsp
import bsp.arrays as ba
from bsp.algorithms import glm

N, MODES = 20_000, ["bicycle", "bus", "car", "train"]
TRUE = {"bicycle": [0.5, -1.0, -0.2, -0.8], "bus": [0.3, -0.2, -0.6, 0.1], "train": [-0.5, 0.6, 0.3, 0.0]}

proc = bsp.process()
low, high = N * proc.pid // proc.nprocs, N * (proc.pid + 1) // proc.nprocs
draws = np.random.default_rng(1).random((N, 7))[low:high]  # the same people for any number of processes
distance, income, rain = -np.log(draws[:, 0]), 2 * draws[:, 1], (draws[:, 2] < 0.3).astype(float)
rows = np.column_stack([distance, income, rain])
odds = np.column_stack([np.column_stack([np.ones(len(rows)), rows]) @ TRUE.get(mode, np.zeros(4)) for mode in MODES])
mode = (odds - np.log(-np.log(draws[:, 3:]))).argmax(axis=1)  # the most useful one: Gumbel's noise makes it a logit

X, y = ba.from_local(rows, axis=0), ba.from_local(mode, axis=0)
model = glm.MultinomialRegression(reference=MODES.index("car")).fit(X, y)
chances = model.predict_proba(X)
off = abs((X.T @ (chances - (y[:, None] == model.classes_))).compute()).max()
share = model.score(X, y)

found, errors = np.column_stack([model.intercept_, model.coef_]), np.asarray(model.standard_errors_)
others = [k for k in model.classes_ if MODES[k] != "car"]
away = np.max(np.array([abs((found[k] - TRUE[MODES[k]]) / errors[k]) for k in others]))
if proc.pid == 0:
    print("beside the car      constant   distance     income       rain")
    for k in others:
        cells = (f"{b:+.2f} ±{e:.2f}" for b, e in zip(found[k], errors[k], strict=True))
        print(f"{MODES[k]:14s}", *(cell.rjust(12) for cell in cells))
    print(f"{share:.1%} of {N} people travel as is most probable; estimates are within {away:.1f} standard errors")
if bsp.expect(~((off < 1e-6 * N) & (away < 4)), times=0):  # not a number is wrong, too
    sys.exit(f"sums of probabilities are off by {off:.1e}, estimates by {away:.1f} standard errors")
