"""Poisson regression of doctor visits by hand, on `bsp` alone, for predictions to be held against.

examples/doctor_visits.py is the same with the library.  The RAND Health Insurance Experiment, 20,190 people
(examples/data/randhie.csv.gz): how often they see a doctor (mdvis) by the other nine columns, log link.  One iteration
computes the local gradient and Hessian and adds them up in one reduction; every process then solves the same small
system, so nothing has to be sent back.

Cost of an iteration, d columns: W = 2(n/p)d^2 flops, H = d(d + 3)/2 words, one allreduce.
Run as: bsprun -p 64 tests/benchmarks/poisson_by_hand.py [copies of the data]
"""

import gzip
import sys
from math import erfc, sqrt
from pathlib import Path

import numpy as np

import bsp

DATA = Path(__file__).resolve().parents[2] / "examples" / "data" / "randhie.csv.gz"

# The maximum-likelihood fit as statsmodels computes it: GLM(family=Poisson), IRLS to 1e-14.
DEVIANCE = 83934.23786046743
COEFFICIENTS = [0.7003528786011323, -0.05253511535446124, -0.24708679413194104, 0.03529020169618529,
                -0.03457750671759563, 0.2717139788223735, 0.033941474481824614, -0.012635034402486693,
                0.05405632989443732, 0.20611511844007888]  # fmt: skip
STANDARD_ERRORS = [0.011162667126319971, 0.002883989197856994, 0.010617251896038559, 0.0018283368441268757,
                   0.001612848525779483, 0.012239138438007864, 0.0005647649744366439, 0.00925061122620058,
                   0.015309870675114452, 0.02627928271761967]  # fmt: skip


def my_rows(proc: bsp.Process) -> tuple[list[str], np.ndarray]:
    """The column names, and this process's share of the rows."""
    names, rows = [], 0
    if proc.pid == 0:
        with gzip.open(DATA, "rt") as file:
            names = file.readline().strip().split(",")
            rows = sum(1 for _ in file)
    names, rows = proc.broadcast((names, rows))
    first, last = (rows * k // proc.nprocs for k in (proc.pid, proc.pid + 1))
    mine = np.loadtxt(DATA, delimiter=",", skiprows=1 + first, max_rows=last - first, ndmin=2)
    return names, mine


def add_up(
    proc: bsp.Process, number: float, vector: np.ndarray, matrix: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """The sums over all processes of a number, a vector and a symmetric matrix, in one reduction."""
    half = np.triu_indices(vector.size)
    total = proc.allreduce(np.concatenate([[number], vector, matrix[half]]))
    whole = np.zeros_like(matrix)
    whole[half] = total[1 + vector.size :]
    return total[0], total[1 : 1 + vector.size], whole + np.triu(whole, 1).T


def fit(proc: bsp.Process, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, int]:
    """Coefficients, standard errors, deviance, iterations: Newton's method from the constant model."""
    total, rows = proc.allreduce(np.array([y.sum(), y.size]))
    state = bsp.State(beta=np.zeros(x.shape[1]), fit=None)
    state.beta[0] = np.log(total / rows)
    for iteration in proc.rounds(50, state):
        mu = np.exp(x @ state.beta)
        ratio = np.divide(y, mu, out=np.ones_like(y), where=y > 0)
        local_deviance = 2 * np.sum(y * np.log(ratio) - (y - mu))
        deviance, gradient, hessian = add_up(proc, local_deviance, x.T @ (y - mu), x.T @ (mu[:, None] * x))
        step = np.linalg.solve(hessian, gradient)
        if not bsp.expect(np.max(np.abs(step)) >= 1e-9, times=7):
            state.fit = state.beta, np.sqrt(np.diag(np.linalg.inv(hessian))), deviance, iteration
            break
        state.beta = state.beta + step
    if state.fit is None:
        raise ArithmeticError("Newton's method did not converge in 50 iterations")
    return state.fit


proc = bsp.process()
copies = int(sys.argv[1]) if len(sys.argv) > 1 else 1
names, data = my_rows(proc)
data = np.tile(data, (copies, 1))  # more work, the same coefficients
y = data[:, 0]
x = np.column_stack([np.ones(len(data)), data[:, 1:]])
beta, errors, deviance, iterations = fit(proc, x, y)

found = np.concatenate([[deviance / copies], beta, errors * sqrt(copies)])
right = np.max(np.abs(found / np.array([DEVIANCE, *COEFFICIENTS, *STANDARD_ERRORS]) - 1)) < 1e-6
if not bsp.expect(right, times=1):
    sys.exit(f"process {proc.pid}: the fit is not the known one: {deviance} {beta} {errors}")

if proc.pid == 0 and bsp.expect(right, times=0):  # there are numbers to print, but in an abstract prediction
    print(f"Poisson regression of {names[0]}, log link: {iterations} Newton iterations, deviance {deviance:.5f}")
    print(f"{'':<10} {'coef':>12} {'std err':>12} {'z':>9} {'P>|z|':>9}")
    for name, b, s in zip(["intercept", *names[1:]], beta, errors, strict=True):
        print(f"{name:<10} {b:>12.8f} {s:>12.8f} {b / s:>9.3f} {erfc(abs(b / s) / sqrt(2)):>9.3g}")
    print("matches the known fit to 1e-6")
