"""A neural network whose training does not stop: classes, an optimizer, minibatches and a history, as one writes them.

Does a person see a doctor at all (see doctor_visits.py)?  Each process has a share of the people and draws minibatches
from it; gradients are averaged, so all processes keep the same weights.  What stands in the bsp.State stays the same
object for the whole training: the rounds say `network`, `optimizer` and `history`, and a process that is made again has
them as its siblings do.

    bsprun -p 8 -n 2 --clones 2 --standby 1 examples/nonstop_network.py

Cost of a step, w weights and b rows: W = 6bw flops, H = w words, one allreduce.
Run as: bsprun ... examples/nonstop_network.py [epochs]
"""

import gzip
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import bsp

DATA = Path(__file__).resolve().parent / "data" / "randhie.csv.gz"
BATCH, HIDDEN = 256, 24


class Network:
    """One hidden layer of tanh, and a logistic unit."""

    def __init__(self, columns: int) -> None:
        rng = np.random.default_rng(1)  # every process begins with the same weights
        self.first = rng.normal(size=(columns, HIDDEN)) / np.sqrt(columns)
        self.last = rng.normal(size=HIDDEN) / np.sqrt(HIDDEN)

    def loss(self, x: np.ndarray, y: np.ndarray) -> np.floating:
        """Return the mean of -log(probability of what happened)."""
        z = np.tanh(x @ self.first) @ self.last
        return np.mean(np.logaddexp(0, z) - y * z)

    def slopes(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the gradient of the loss as a vector."""
        hidden = np.tanh(x @ self.first)
        wrong = (1 / (1 + np.exp(-(hidden @ self.last))) - y) / len(y)
        back = np.outer(wrong, self.last) * (1 - hidden**2)
        return np.concatenate([(x.T @ back).ravel(), hidden.T @ wrong])


class Momentum:
    """Gradient descent with momentum, on the weights of a network."""

    def __init__(self, network: Network, rate: float) -> None:
        self.network, self.rate = network, rate
        self.velocity = np.zeros(network.first.size + network.last.size)

    def step(self, slopes: np.ndarray) -> None:
        """Move the weights."""
        self.velocity = 0.9 * self.velocity - self.rate * slopes
        cut = self.network.first.size
        self.network.first += self.velocity[:cut].reshape(self.network.first.shape)
        self.network.last += self.velocity[cut:]


def my_rows(proc: bsp.Process) -> tuple[np.ndarray, np.ndarray]:
    """Return this process's share of the people: standardised columns, and whether they saw a doctor."""
    with gzip.open(DATA, "rt") as file:
        table = np.loadtxt(file, delimiter=",", skiprows=1)
    x = (table[:, 1:] - table[:, 1:].mean(axis=0)) / table[:, 1:].std(axis=0)
    mine = slice(proc.pid, None, proc.nprocs)
    return np.column_stack([np.ones(len(x)), x])[mine], (table[mine, 0] > 0).astype(float)


def batches(
    rng: np.random.Generator, x: np.ndarray, y: np.ndarray, count: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield as many minibatches on each process, of rows in random order."""
    for rows in np.array_split(rng.permutation(len(y)), count):
        yield x[rows], y[rows]


epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
proc = bsp.process()
x, y = my_rows(proc)
steps = int(proc.allreduce(len(y), op="max")) // BATCH + 1

network = Network(x.shape[1])
optimizer = Momentum(network, rate=0.2)
history: list[float] = []
state = bsp.State(network=network, optimizer=optimizer, history=history)
for epoch in proc.rounds(epochs, state):
    for rows, seen in batches(proc.rng, x, y, steps):
        optimizer.step(proc.allreduce(network.slopes(rows, seen)) / proc.nprocs)
    history.append(proc.allreduce(network.loss(x, y)) / proc.nprocs)
    if proc.pid == 0 and epoch % 5 == 4:
        print(f"epoch {epoch + 1:3d}  loss {history[-1]:.6f}", flush=True)

if proc.pid == 0:
    print("loss", " ".join(f"{loss:.4f}" for loss in history))
    print("weights", " ".join(f"{weight:.17g}" for weight in network.last[:4]))
