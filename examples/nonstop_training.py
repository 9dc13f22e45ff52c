"""Nonstop training: logistic regression in 500 rounds, to be killed on purpose while it runs.

Who sees a doctor at all?  The RAND Health Insurance Experiment again (see doctor_visits.py).  Each round
is one gradient over everybody's rows and one step of Nesterov's method; what a round needs of the last
one stands in a bsp.State, so any process can be made again at the head of any round.

    bsprun -p 64 -n 4 --clones 2 --standby 2 --events events.jsonl examples/nonstop_training.py

Kill agents (their pids are in the log) and workers as you like: the output is the same, byte for byte.
Cost of a round, d columns: W = 4(n/p)d flops, H = d + 1 words, one allreduce.
Run as: bsprun ... examples/nonstop_training.py [rounds] [copies of the data]
"""

import gzip
import sys
from pathlib import Path

import numpy as np

import bsp

DATA = Path(__file__).resolve().parent / "data" / "randhie.csv.gz"


def my_rows(proc: bsp.Process, copies: int) -> tuple[np.ndarray, np.ndarray]:
    """This process's share of the people: standardised columns, and whether they saw a doctor."""
    with gzip.open(DATA, "rt") as file:
        table = np.loadtxt(file, delimiter=",", skiprows=1)
    x = (table[:, 1:] - table[:, 1:].mean(axis=0)) / table[:, 1:].std(axis=0)
    x = np.column_stack([np.ones(len(x)), x])
    first, last = (len(x) * k // proc.nprocs for k in (proc.pid, proc.pid + 1))
    return np.tile(x[first:last], (copies, 1)), np.tile(table[first:last, 0] > 0, copies).astype(float)


rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 500
copies = int(sys.argv[2]) if len(sys.argv) > 2 else 1

proc = bsp.process()
x, y = my_rows(proc, copies)
people = proc.allreduce(float(len(y)))
largest = proc.allreduce(x.T @ x)  # the step is 1 over the largest curvature: lambda_max(X'X) / 4n
step = 4 * people / np.linalg.eigvalsh(largest)[-1]

state = bsp.State(beta=np.zeros(x.shape[1]), ahead=np.zeros(x.shape[1]), slope=np.inf)
for k in proc.rounds(rounds, state):
    z = x @ state.ahead
    loss = np.sum(np.logaddexp(0, z) - y * z)
    total = proc.allreduce(np.append(x.T @ (1 / (1 + np.exp(-z)) - y), loss)) / people
    gradient, loss = total[:-1], total[-1]
    beta = state.ahead - step * gradient
    state.ahead = beta + k / (k + 3) * (beta - state.beta)
    state.beta, state.slope = beta, float(np.linalg.norm(gradient))
    if proc.pid == 0 and k % 50 == 0:
        print(f"round {k:4d}  loss {loss:.12f}  slope {state.slope:.3e}", flush=True)

if proc.pid == 0:
    print("beta", " ".join(b.hex() for b in state.beta.tolist()))
# the slope of a strictly convex loss is 0 at its minimum alone
if not bsp.expect(rounds < 500 or state.slope < 1e-9, times=1):
    sys.exit(f"process {proc.pid}: not converged, slope {state.slope:.3e}")
if proc.pid == 0:
    print(f"trained on {int(people)} people in {rounds} rounds" + (": converged" if rounds >= 500 else ""))
