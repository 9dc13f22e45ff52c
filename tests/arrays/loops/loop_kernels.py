"""Kernels with loops, written from their mathematical definitions, and what `bsp.parallel` makes of their loops.

KERNELS: for each its arguments, and how many of its loops become array statements and how many stay.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

RNG = np.random.default_rng(5)


def gemm(alpha, beta, C, A, B):
    n, m = C.shape
    for i in range(n):
        for j in range(m):
            C[i, j] *= beta
    for i in range(n):
        for j in range(m):
            for k in range(A.shape[1]):
                C[i, j] += alpha * A[i, k] * B[k, j]


def two_products(A, B, C):
    n, m, p = A.shape[0], B.shape[1], C.shape[1]
    inner, out = np.zeros((n, m)), np.zeros((n, p))
    for i in range(n):
        for j in range(m):
            for k in range(A.shape[1]):
                inner[i, j] += A[i, k] * B[k, j]
    for i in range(n):
        for j in range(p):
            for k in range(m):
                out[i, j] += inner[i, k] * C[k, j]
    return out


def atax(A, x):
    n, m = A.shape
    inner, y = np.zeros(n), np.zeros(m)
    for i in range(n):
        for j in range(m):
            inner[i] += A[i, j] * x[j]
    for i in range(n):
        for j in range(m):
            y[j] += A[i, j] * inner[i]
    return y


def bicg(A, s, q, p, r):
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            s[j] += r[i] * A[i, j]
            q[i] += A[i, j] * p[j]


def gesummv(alpha, beta, A, B, x):
    y = np.zeros(len(x))
    for i in range(len(x)):
        for j in range(len(x)):
            y[i] += alpha * A[i, j] * x[j] + beta * B[i, j] * x[j]
    return y


def mvt(A, x1, x2, y1, y2):
    for i in range(len(A)):
        for j in range(len(A)):
            x1[i] += A[i, j] * y1[j]
            x2[i] += A[j, i] * y2[j]


def jacobi_1d(steps, A, B):
    n = len(A)
    for _ in range(steps):
        for i in range(1, n - 1):
            B[i] = (A[i - 1] + A[i] + A[i + 1]) / 3
        for i in range(1, n - 1):
            A[i] = (B[i - 1] + B[i] + B[i + 1]) / 3


def jacobi_2d(steps, A, B):
    n, m = A.shape
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                B[i, j] = 0.2 * (A[i, j] + A[i, j - 1] + A[i, 1 + j] + A[1 + i, j] + A[i - 1, j])
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                A[i, j] = B[i, j]


def seidel(A):
    n = len(A)
    for i in range(1, n - 1):
        for j in range(1, n - 1):
            A[i, j] = (A[i - 1, j] + A[i, j - 1] + A[i, j] + A[i, j + 1] + A[i + 1, j]) / 5


def heat_3d(A, B):
    n, m, k = A.shape
    for x in range(1, n - 1):
        for y in range(1, m - 1):
            for z in range(1, k - 1):
                across = A[x + 1, y, z] - 2 * A[x, y, z] + A[x - 1, y, z]
                along = A[x, y + 1, z] - 2 * A[x, y, z] + A[x, y - 1, z]
                up = A[x, y, z + 1] - 2 * A[x, y, z] + A[x, y, z - 1]
                B[x, y, z] = A[x, y, z] + 0.125 * (across + along + up)


def fdtd_2d(steps, ex, ey, hz):
    n, m = hz.shape
    for t in range(steps):
        for j in range(m):
            ey[0, j] = t
        for i in range(1, n):
            for j in range(m):
                ey[i, j] = ey[i, j] - 0.5 * (hz[i, j] - hz[i - 1, j])
        for i in range(n):
            for j in range(1, m):
                ex[i, j] = ex[i, j] - 0.5 * (hz[i, j] - hz[i, j - 1])
        for i in range(n - 1):
            for j in range(m - 1):
                hz[i, j] = hz[i, j] - 0.7 * (ex[i, j + 1] - ex[i, j] + ey[i + 1, j] - ey[i, j])


def covariance(X):
    n, m = X.shape
    mean, cov = np.zeros(m), np.zeros((m, m))
    for i in range(n):
        for j in range(m):
            mean[j] += X[i, j] / n
    for a in range(m):
        for b in range(m):
            for i in range(n):
                cov[a, b] += (X[i, a] - mean[a]) * (X[i, b] - mean[b]) / (n - 1)
    return cov


def correlation(X):
    n, m = X.shape
    mean = np.array([sum(X[i, j] for i in range(n)) / n for j in range(m)])
    spread = np.array([np.sqrt(sum((X[i, j] - mean[j]) ** 2 for i in range(n)) / n) for j in range(m)])
    for i in range(n):
        for j in range(m):
            X[i, j] = (X[i, j] - mean[j]) / (np.sqrt(n) * max(spread[j], 0.1))
    return np.array([[sum(X[i, a] * X[i, b] for i in range(n)) for b in range(m)] for a in range(m)])


def doitgen(A, C4):
    r, q, p = A.shape
    out = np.zeros((r, q, p))
    for i in range(r):
        for j in range(q):
            for k in range(p):
                for s in range(p):
                    out[i, j, k] += A[i, j, s] * C4[s, k]
    return out


def gramschmidt(A, Q, R):
    m, n = A.shape
    for k in range(n):
        total = 0.0
        for i in range(m):
            total += A[i, k] * A[i, k]
        R[k, k] = np.sqrt(total)
        for i in range(m):
            Q[i, k] = A[i, k] / R[k, k]
        for j in range(k + 1, n):
            for i in range(m):
                R[k, j] += Q[i, k] * A[i, j]
        for j in range(k + 1, n):
            for i in range(m):
                A[i, j] -= Q[i, k] * R[k, j]


def lu(A):
    n = len(A)
    for k in range(n):
        for i in range(k + 1, n):
            A[i, k] = A[i, k] / A[k, k]
        for i in range(k + 1, n):
            for j in range(k + 1, n):
                A[i, j] -= A[i, k] * A[k, j]


def cholesky(A):
    n = len(A)
    for k in range(n):
        A[k, k] = np.sqrt(A[k, k])
        for i in range(k + 1, n):
            A[i, k] = A[i, k] / A[k, k]
        for j in range(k + 1, n):
            for i in range(k + 1, n):
                A[i, j] -= A[i, k] * A[j, k]


def floyd_warshall(path):
    n = len(path)
    for k in range(n):
        for i in range(n):
            for j in range(n):
                path[i, j] = min(path[i, j], path[i, k] + path[k, j])


def running(x):
    for i in range(1, len(x)):
        x[i] = x[i - 1] + x[i]


def trisolv(L, x, b):
    for i in range(len(b)):
        x[i] = b[i]
        for j in range(i):
            x[i] -= L[i, j] * x[j]
        x[i] = x[i] / L[i, i]


def go_fast(a):
    trace = 0.0
    for i in range(a.shape[0]):
        trace += np.tanh(a[i, i])
    return a + trace


def mandelbrot(re, im, steps):
    zr, zi, count = np.zeros((len(re), len(im))), np.zeros((len(re), len(im))), np.zeros((len(re), len(im)))
    for _ in range(steps):
        for i in range(len(re)):
            for j in range(len(im)):
                if zr[i, j] * zr[i, j] + zi[i, j] * zi[i, j] < 4:
                    count[i, j] += 1
        new = zr * zr - zi * zi
        for i in range(len(re)):
            for j in range(len(im)):
                zi[i, j] = min(max(2 * zr[i, j] * zi[i, j] + im[j], -9), 9)
        for i in range(len(re)):
            for j in range(len(im)):
                zr[i, j] = min(max(new[i, j] + re[i], -9), 9)
    return count


def conv2d(x, w, y):
    n, m, k = y.shape[0], y.shape[1], w.shape[0]
    for a in range(k):
        for b in range(k):
            for i in range(n):
                for j in range(m):
                    y[i, j] += x[i + a, j + b] * w[a, b]


def forces(pos, mass, acc):
    n = len(mass)
    for i in range(n):
        for j in range(n):
            dx = pos[j, 0] - pos[i, 0]
            dy = pos[j, 1] - pos[i, 1]
            acc[i, 0] += mass[j] * dx / (dx * dx + dy * dy + 0.01) ** 1.5
    for i in range(n):
        for j in range(n):
            ex = pos[j, 0] - pos[i, 0]
            ey = pos[j, 1] - pos[i, 1]
            acc[i, 1] += mass[j] * ey / (ex * ex + ey * ey + 0.01) ** 1.5


def softmax(x):
    n, m = x.shape
    highest, total, out = x.max(axis=1), np.zeros(n), np.zeros((n, m))
    for i in range(n):
        for j in range(m):
            total[i] += math.exp(x[i, j] - highest[i])
    for i in range(n):
        for j in range(m):
            out[i, j] = math.exp(x[i, j] - highest[i]) / total[i]
    return out


def mlp(x, w1, b1, w2):
    hidden = x @ w1
    for i in range(hidden.shape[0]):
        for j in range(hidden.shape[1]):
            hidden[i, j] = max(hidden[i, j] + b1[j], 0)
    return hidden @ w2


def spmv(values, columns, starts, x, y):
    for i in range(len(y)):
        for k in range(starts[i], starts[i + 1]):
            y[i] += values[k] * x[columns[k]]


def distances(x, centres):
    n, k, d = x.shape[0], centres.shape[0], x.shape[1]
    out = np.zeros((n, k))
    for i in range(n):
        for c in range(k):
            for a in range(d):
                out[i, c] += (x[i, a] - centres[c, a]) ** 2
    return out


def nussinov(bases, table):
    n = len(bases)
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            table[i, j] = max(table[i, j - 1], table[i + 1, j]) if i < n - 1 else table[i, j - 1]
            pair = table[i + 1, j - 1] if i < j - 1 else 0
            if bases[i] + bases[j] == 3:
                pair += 1
            table[i, j] = max(table[i, j], pair)
            for k in range(i + 1, j):
                table[i, j] = max(table[i, j], table[i, k] + table[k + 1, j])


def durbin(r, y):
    n = len(r)
    z = np.zeros(n)
    y[0] = alpha = -r[0]
    beta = 1.0
    for k in range(1, n):
        beta *= 1 - alpha * alpha
        total = 0.0
        for i in range(k):
            total += r[k - 1 - i] * y[i]
        alpha = -(r[k] + total) / beta
        for i in range(k):
            z[i] = y[i] + alpha * y[k - 1 - i]
        for i in range(k):
            y[i] = z[i]
        y[k] = alpha


def deriche(image, a, b, c):
    """One direction each way: two recursions along every row, and their sum."""
    n, m = image.shape
    forth, back, out = np.zeros((n, m)), np.zeros((n, m)), np.zeros((n, m))
    for i in range(n):
        for j in range(2, m):
            forth[i, j] = a * image[i, j] + b * forth[i, j - 1] + c * forth[i, j - 2]
    for i in range(n):
        for j in range(m - 3, -1, -1):
            back[i, j] = a * image[i, j + 1] + b * back[i, j + 1] + c * back[i, j + 2]
    for i in range(n):
        for j in range(m):
            out[i, j] = forth[i, j] + back[i, j]
    return out


def azimint(values, radius, bins):
    most, found = radius.max(), np.zeros(bins)
    for k in range(bins):
        inside = np.logical_and(most * k / bins <= radius, radius < most * (k + 1) / bins)
        found[k] = values[inside].mean()
    return found


def azimint_by_elements(values, radius, bins):
    most = radius.max()
    total, count, found = np.zeros(bins), np.zeros(bins), np.zeros(bins)
    for k in range(bins):
        for i in range(len(radius)):
            if most * k / bins <= radius[i] and radius[i] < most * (k + 1) / bins:
                total[k] += values[i]
                count[k] += 1
    for k in range(bins):
        found[k] = total[k] / count[k]
    return found


def cavity(steps, u, v, p, dx, dt, nu):
    """A lid drives a fluid in a square: Navier and Stokes' equations by finite differences."""
    for _ in range(steps):
        b = np.zeros(p.shape)
        b[1:-1, 1:-1] = ((u[1:-1, 2:] - u[1:-1, :-2]) + (v[2:, 1:-1] - v[:-2, 1:-1])) / (2 * dx * dt) - (
            (u[1:-1, 2:] - u[1:-1, :-2]) / (2 * dx)
        ) ** 2
        for _ in range(3):
            old = p.copy()
            p[1:-1, 1:-1] = (
                old[1:-1, 2:] + old[1:-1, :-2] + old[2:, 1:-1] + old[:-2, 1:-1] - dx * dx * b[1:-1, 1:-1]
            ) / 4
            p[:, -1] = p[:, -2]
            p[0, :] = p[1, :]
            p[:, 0] = p[:, 1]
            p[-1, :] = 0
        un, vn = u.copy(), v.copy()
        u[1:-1, 1:-1] = (
            un[1:-1, 1:-1]
            - un[1:-1, 1:-1] * dt / dx * (un[1:-1, 1:-1] - un[1:-1, :-2])
            - vn[1:-1, 1:-1] * dt / dx * (un[1:-1, 1:-1] - un[:-2, 1:-1])
            - dt / (2 * dx) * (p[1:-1, 2:] - p[1:-1, :-2])
            + nu * dt / dx**2 * (un[1:-1, 2:] + un[1:-1, :-2] + un[2:, 1:-1] + un[:-2, 1:-1] - 4 * un[1:-1, 1:-1])
        )
        v[1:-1, 1:-1] = (
            vn[1:-1, 1:-1]
            - un[1:-1, 1:-1] * dt / dx * (vn[1:-1, 1:-1] - vn[1:-1, :-2])
            - vn[1:-1, 1:-1] * dt / dx * (vn[1:-1, 1:-1] - vn[:-2, 1:-1])
            - dt / (2 * dx) * (p[2:, 1:-1] - p[:-2, 1:-1])
            + nu * dt / dx**2 * (vn[1:-1, 2:] + vn[1:-1, :-2] + vn[2:, 1:-1] + vn[:-2, 1:-1] - 4 * vn[1:-1, 1:-1])
        )
        u[0, :] = u[:, 0] = u[:, -1] = v[0, :] = v[-1, :] = v[:, 0] = v[:, -1] = 0
        u[-1, :] = 1


def channel(u, force, dx, dt, nu):
    """Flow between two plates, periodic along them, until it hardly changes."""
    n, m = u.shape
    change, steps = 1.0, 0
    while change > 0.05 and steps < 8:
        old = u.copy()
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                u[i, j] = (
                    old[i, j]
                    - old[i, j] * dt / dx * (old[i, j] - old[i, j - 1])
                    + nu * dt / dx**2 * (old[i, j + 1] + old[i, j - 1] + old[i + 1, j] + old[i - 1, j] - 4 * old[i, j])
                    + force * dt
                )
        for i in range(1, n - 1):
            around = old[i, 1] + old[i, m - 2] - 2 * old[i, 0]
            slope = old[i, 0] - old[i, m - 2]
            u[i, 0] = old[i, 0] - old[i, 0] * dt / dx * slope + nu * dt / dx**2 * around + force * dt
        for i in range(1, n - 1):
            u[i, m - 1] = u[i, 0]
        change = (np.sum(u) - np.sum(old)) / np.sum(u)
        steps += 1
    return steps


def resnet_block(x, w1, w2, w3):
    out = x
    for w in (w1, w2, w3):
        b, h, width, channels = out.shape
        k, filters = w.shape[0], w.shape[3]
        padded = np.zeros((b, h + k - 1, width + k - 1, channels))
        padded[:, k // 2 : k // 2 + h, k // 2 : k // 2 + width, :] = out
        conv = np.zeros((b, h, width, filters))
        for s in range(b):
            for i in range(h):
                for j in range(width):
                    for f in range(filters):
                        for di in range(k):
                            for dj in range(k):
                                for c in range(channels):
                                    conv[s, i, j, f] += padded[s, i + di, j + dj, c] * w[di, dj, c, f]
        mean, spread = conv.mean(axis=(0, 1, 2)), conv.std(axis=(0, 1, 2))
        out = np.maximum((conv - mean) / np.sqrt(spread**2 + 1e-5), 0)
    return np.maximum(out + x, 0)


def k_means(x, centres, steps):
    n, k, d = x.shape[0], centres.shape[0], x.shape[1]
    for _ in range(steps):
        gap, total, count = np.zeros((n, k)), np.zeros((k, d)), np.zeros(k)
        for i in range(n):
            for c in range(k):
                for a in range(d):
                    gap[i, c] += (x[i, a] - centres[c, a]) ** 2
        nearest = np.argmin(gap, axis=1)
        for c in range(k):
            for i in range(n):
                if nearest[i] == c:
                    count[c] += 1
        for c in range(k):
            for a in range(d):
                for i in range(n):
                    if nearest[i] == c:
                        total[c, a] += x[i, a]
        for c in range(k):
            for a in range(d):
                if count[c] > 0:
                    centres[c, a] = total[c, a] / max(count[c], 1)
    return nearest


def comprehensions(A, x, y):
    n, m = A.shape
    roots = np.array([math.sqrt(x[j]) + j for j in range(m)])
    inner = sum(x[j] * y[j] for j in range(m))
    product = np.array([sum(A[i, j] * x[j] for j in range(m)) for i in range(n)])
    outer = np.asarray([[y[i] * x[j] for j in range(m)] for i in range(n)], dtype=np.float32)
    same = np.array([[x[i] for _ in range(3)] for i in range(m)])
    widest = max(abs(x[j] - y[m - 1 - j]) for j in range(m))
    some = sum(x[j] for j in range(m) if y[j] > 0.5 if j > 0)
    positive = any(x[j] > 0.9 for j in range(m)), all(y[j] > 0 for j in range(m))
    lowest = np.zeros(n)
    for i in range(n):
        lowest[i] = min(A[i, j] for j in range(m)) + sum(A[i, j] for j in range(m)) / m
    return roots, inner, product, outer, same, widest, some, *positive, lowest


def red_black(x):
    n = len(x) // 2
    for i in range(1, n):
        x[2 * i] = (x[2 * i - 1] + x[2 * i]) / 2


def clipped_energy(x, y, limit):
    total = 0.0
    for i in range(len(x)):
        d = x[i] - y[i]
        if d > 0 and d < limit:
            total += d * d
        else:
            total += limit
    return total


def red_black_2d(A):
    """Gauss and Seidel's method on a chessboard: fields of one colour from those of the other, four sets of rows."""
    n, m = A.shape
    for colour in range(2):
        for i in range(1, n - 1, 2):
            for j in range(1 + colour, m - 1, 2):
                A[i, j] = (A[i - 1, j] + A[i + 1, j] + A[i, j - 1] + A[i, j + 1]) / 4
        for i in range(2, n - 1, 2):
            for j in range(2 - colour, m - 1, 2):
                A[i, j] = (A[i - 1, j] + A[i + 1, j] + A[i, j - 1] + A[i, j + 1]) / 4


def steps(x, y):
    n = len(x)
    for i in range(n - 1, 0, -3):
        y[i] = x[i] - x[i - 1]
    for i in range(0, n, 2):
        x[i] = y[n - 1 - i] + i
    return sum(x[i] * y[i] for i in range(1, n, 3))


def gemm_of_rows(alpha, beta, C, A, B):
    """As it is written for caches."""
    n, m = C.shape
    for i in range(n):
        for j in range(m):
            C[i, j] *= beta
        for k in range(A.shape[1]):
            for j in range(m):
                C[i, j] += alpha * A[i, k] * B[k, j]


def product(A, B, C):
    n, m = C.shape
    for i in range(n):
        for j in range(m):
            total = 0.0
            for k in range(A.shape[1]):
                total += A[i, k] * B[k, j]
            C[i, j] = total


def averages(A, x, d, y):
    for i in range(len(y)):
        s = 0
        for j in range(len(x)):
            s += A[i, j] * x[j]
        y[i] = s / d[i]


def unit_rows(A):
    for i in range(A.shape[0]):
        norm = 0.0
        for j in range(A.shape[1]):
            norm += A[i, j] ** 2
        norm = math.sqrt(norm)
        for j in range(A.shape[1]):
            A[i, j] /= norm


def softmax_of_rows(x, out):
    for i in range(x.shape[0]):
        most = x[i, 0]
        for j in range(1, x.shape[1]):
            most = max(most, x[i, j])
        total = 0.0
        for j in range(x.shape[1]):
            out[i, j] = math.exp(x[i, j] - most)
            total += out[i, j]
        for j in range(x.shape[1]):
            out[i, j] /= total


def swapped(x, y):
    for i in range(len(x)):
        old = x[i]
        x[i] = y[i]
        y[i] = old


def shifted(x, y, z):
    for i in range(1, len(x)):
        y[i] = 2 * x[i]
        z[i] = z[i - 1] + y[i]
        x[i] = y[i - 1]
    for i in range(len(x) - 1):
        x[i] = x[i + 1] - x[i]


def syrk(alpha, beta, C, A):
    n, m = A.shape
    for i in range(n):
        for j in range(i + 1):
            C[i, j] *= beta
        for k in range(m):
            for j in range(i + 1):
                C[i, j] += alpha * A[i, k] * A[j, k]


def trmm(alpha, A, B):
    n, m = B.shape
    for i in range(n):
        for j in range(m):
            for k in range(i + 1, n):
                B[i, j] += A[k, i] * B[k, j]
            B[i, j] = alpha * B[i, j]


def covariance_of_a_triangle(X):
    n, m = X.shape
    mean, cov = np.zeros(m), np.zeros((m, m))
    for j in range(m):
        for i in range(n):
            mean[j] += X[i, j] / n
    for i in range(m):
        for j in range(i, m):
            for k in range(n):
                cov[i, j] += (X[k, i] - mean[i]) * (X[k, j] - mean[j])
            cov[i, j] /= n - 1.0
            cov[j, i] = cov[i, j]
    return cov


def triangular_product(L, x, y):
    for i in range(len(y)):
        s = 0.0
        for j in range(i + 1):
            s += L[i, j] * x[j]
        y[i] = s


def closest(x, d, least):
    """Divides by what is 0 on the diagonal, which no iteration reaches."""
    for i in range(len(x)):
        for j in range(i):
            d[i, j] = 1 / (x[i] - x[j]) ** 2
    for i in range(len(x)):
        for j in range(len(x) - 1, i, -1):
            least[i] = max(least[i], d[j, i])


class Kernel(NamedTuple):
    """A function, its arguments, and the numbers of its loops that become array statements, and that stay."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    becomes: int
    stays: int


def r(*shape: int) -> np.ndarray:
    return RNG.random(shape)


def positive(n: int) -> np.ndarray:
    a = r(n, n)
    return a @ a.T + n * np.eye(n)


KERNELS = [
    Kernel(gemm, (1.5, 0.5, r(7, 5), r(7, 6), r(6, 5)), 2, 0),
    Kernel(two_products, (r(7, 5), r(5, 6), r(6, 4)), 2, 0),
    Kernel(atax, (r(9, 5), r(5)), 2, 0),
    Kernel(bicg, (r(9, 5), np.zeros(5), np.zeros(9), r(5), r(9)), 1, 0),
    Kernel(gesummv, (1.5, 0.5, r(8, 8), r(8, 8), r(8)), 1, 0),
    Kernel(mvt, (r(7, 7), r(7), r(7), r(7), r(7)), 1, 0),
    Kernel(jacobi_1d, (3, r(11), r(11)), 2, 1),
    Kernel(jacobi_2d, (3, r(9, 7), r(9, 7)), 2, 1),
    Kernel(seidel, (r(6, 6),), 0, 2),
    Kernel(heat_3d, (r(6, 5, 7), np.zeros((6, 5, 7))), 1, 0),
    Kernel(fdtd_2d, (3, r(7, 6), r(7, 6), r(7, 6)), 4, 1),
    Kernel(covariance, (r(11, 4),), 2, 0),
    Kernel(correlation, (r(11, 4),), 4, 0),
    Kernel(doitgen, (r(3, 4, 5), r(5, 5)), 1, 0),
    Kernel(gramschmidt, (r(8, 5), np.zeros((8, 5)), np.zeros((5, 5))), 4, 1),
    Kernel(lu, (positive(7),), 2, 1),
    Kernel(cholesky, (positive(6),), 2, 1),
    Kernel(floyd_warshall, (10 * r(6, 6),), 0, 3),
    Kernel(running, (r(9),), 0, 1),
    Kernel(trisolv, (positive(6), np.zeros(6), r(6)), 1, 1),
    Kernel(go_fast, (r(6, 6),), 1, 0),
    Kernel(mandelbrot, (np.linspace(-2, 0.6, 9), np.linspace(-1, 1, 7), 6), 3, 1),
    Kernel(conv2d, (r(8, 9), r(3, 3), np.zeros((6, 7))), 1, 2),
    Kernel(forces, (r(7, 2), r(7), np.zeros((7, 2))), 2, 0),
    Kernel(softmax, (r(6, 5),), 2, 0),
    Kernel(mlp, (r(6, 5), r(5, 4), r(4), r(4, 3)), 1, 0),
    Kernel(spmv, (r(6), np.array([0, 3, 1, 2, 0, 3]), np.array([0, 2, 3, 4, 6]), r(4), np.zeros(4)), 0, 2),
    Kernel(distances, (r(9, 3), r(4, 3)), 1, 0),
    Kernel(nussinov, (np.array([0, 2, 1, 3, 3, 0, 1]), np.zeros((7, 7))), 1, 2),
    Kernel(durbin, (r(6), np.zeros(6)), 3, 1),
    Kernel(deriche, (r(5, 7), 0.4, 0.3, -0.1), 3, 0),
    Kernel(azimint, (r(40), r(40), 5), 0, 1),
    Kernel(azimint_by_elements, (r(40), r(40), 5), 2, 0),
    Kernel(cavity, (2, r(6, 6), r(6, 6), r(6, 6), 0.4, 0.01, 0.1), 0, 2),
    Kernel(channel, (np.zeros((6, 5)), 1.0, 0.5, 0.05, 0.1), 3, 0),
    Kernel(resnet_block, (r(2, 4, 5, 6), r(1, 1, 6, 3), r(3, 3, 3, 3), r(1, 1, 3, 6)), 1, 1),
    Kernel(k_means, (r(12, 3), r(3, 3), 3), 4, 1),
    Kernel(comprehensions, (r(4, 5), r(5), r(5)), 10, 0),
    Kernel(red_black, (r(11),), 1, 0),
    Kernel(red_black_2d, (r(9, 8),), 2, 1),
    Kernel(steps, (r(11), r(11)), 3, 0),
    Kernel(gemm_of_rows, (1.5, 0.5, r(7, 5), r(7, 6), r(6, 5)), 1, 0),
    Kernel(product, (r(7, 5), r(5, 6), r(7, 6)), 1, 0),
    Kernel(averages, (r(9, 5), r(5), r(9) + 1, r(9)), 1, 0),
    Kernel(unit_rows, (r(9, 4),), 1, 0),
    Kernel(softmax_of_rows, (r(9, 4), r(9, 4)), 1, 0),
    Kernel(swapped, (r(9), r(9)), 1, 0),
    Kernel(shifted, (r(11), r(11), r(11)), 2, 1),
    Kernel(syrk, (1.5, 0.5, r(6, 6), r(6, 4)), 1, 0),
    Kernel(trmm, (1.5, r(6, 6), r(6, 4)), 1, 1),
    Kernel(covariance_of_a_triangle, (r(9, 5),), 2, 0),
    Kernel(triangular_product, (r(7, 7), r(7), r(7)), 1, 0),
    Kernel(closest, (r(7), np.zeros((7, 7)), np.zeros(7)), 2, 0),
    Kernel(clipped_energy, (r(9), r(9), 0.3), 1, 0),
]
