"""Poisson's equation on a cubic mesh by conjugate gradients: boxes of the mesh, and what each process then moves.

Seven-point differences of -Δu = f with u = 0 on the border; f is made for a known u, which is found again.
Processes have boxes of the mesh (partition.bricks), so each sends the surface of its box in a product: at most
6·(n/p)^(2/3) words, where slabs would send 2·n^(2/3).  The picture has a bar of words for each process.
Run as: bsprun -p 8 examples/poisson_3d.py [nodes a side] [picture.svg]
"""

import sys

import numpy as np

import bsp
from bsp.algorithms import krylov
from bsp.arrays import sparse
from bsp.arrays.sparse import partition

proc = bsp.process()
p, side = proc.nprocs, int(sys.argv[1]) if len(sys.argv) > 1 else 16
n = side**3


def differences(low: int, high: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, columns and values of the equations of some nodes, numbered in C order."""
    nodes = np.arange(low, high)
    places = np.stack(np.unravel_index(nodes, (side, side, side)))
    rows, columns, values = [nodes], [nodes], [np.full(nodes.size, 6.0)]
    for axis, stride in enumerate((side * side, side, 1)):
        for step in (-1, 1):
            inside = (places[axis] + step >= 0) & (places[axis] + step < side)
            rows.append(nodes[inside])
            columns.append(nodes[inside] + step * stride)
            values.append(np.full(int(inside.sum()), -1.0))
    return np.concatenate(rows), np.concatenate(columns), np.concatenate(values)


deal = partition.bricks((side, side, side), p)
A = sparse.from_coo(*differences(n * proc.pid // p, n * (proc.pid + 1) // p), (n, n))
traffic = deal.product(A)  # what each product will move, before anything is dealt

wave = np.sin(np.pi * np.arange(1, side + 1) / (side + 1))
known = (wave[:, None, None] * wave[:, None] * wave).reshape(-1) + 0.1 * np.sin(np.arange(n))  # smooth, and rough
exact = deal.vector(known)
B = deal.matrix(A)
b = (B @ exact).persist()

x, info = krylov.cg(B, b, rtol=1e-10)
squares = [each.compute() for each in ((b - B @ x) @ (b - B @ x), b @ b)]
residual = float(np.sqrt(squares[0] / squares[1]))
error = float(abs(x - exact).max().compute())


def picture(words: np.ndarray) -> str:
    """Return an SVG image with a bar for each process: the words that it sends in a product."""
    tall, most = 24, max(int(words.max()), 1)
    bars = ""
    for k, each in enumerate(words):
        wide, top = 440 * int(each) // most, tall * k
        bars += (
            f'<text x="4" y="{top + 17}">process {k}</text><text x="{wide + 106}" y="{top + 17}">{each} words</text>'
        )
        bars += f'<rect x="100" y="{top + 3}" width="{wide}" height="{tall - 6}" fill="#4477aa"/>'
    size = f'width="640" height="{tall * words.size}" font-family="sans-serif" font-size="13"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{bars}</svg>\n'


if proc.pid == 0:
    print(f"{n} nodes on {p} processes: {info.iterations} iterations, residual {residual:.1e}, error {error:.1e}")
    print(f"boxes: {traffic}")
    for k, each in enumerate(traffic.out):
        print(f"process {k:3d} {'#' * (40 * int(each) // max(traffic.h, 1))} {each}")
    if len(sys.argv) > 2:
        with open(sys.argv[2], "w") as file:
            file.write(picture(traffic.out))
if info or residual > 1e-9 or error > 1e-7:
    sys.exit("not solved")
