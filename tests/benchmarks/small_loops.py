"""Loops over small arrays, in a script that knows only NumPy: the seconds of one of them.

Run as: python small_loops.py NAME, or bsprun -p 2 --numpy small_loops.py NAME
"""

import sys
import time

import numpy as np


def kalman():
    """A filter of two states, 2,000 steps."""
    F, H = np.array([[1, 0.1], [0, 1]]), np.array([[1.0, 0.0]])
    Q, R = np.eye(2) * 1e-3, np.array([[0.5]])
    z = np.cumsum(np.random.default_rng(1).normal(size=2000)) * 0.1
    x, P = np.zeros(2), np.eye(2)
    for k in range(2000):
        x = F @ x
        P = F @ P @ F.T + Q
        K = P @ H.T @ np.linalg.inv(H @ P @ H.T + R)
        x = x + K @ (z[k] - H @ x)
        P = (np.eye(2) - K @ H) @ P
    return x[0]


def change(s):
    """The derivative of Lorenz' system."""
    x, y, z = s
    return np.array([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])


def runge_kutta():
    """Lorenz' system, 2,000 steps of the fourth order."""
    s, dt, path = np.ones(3), 0.01, np.zeros((2000, 3))
    for k in range(2000):
        a = change(s)
        b = change(s + dt / 2 * a)
        c = change(s + dt / 2 * b)
        s = s + dt / 6 * (a + 2 * b + 2 * c + change(s + dt * c))
        path[k] = s
    return path.mean()


def bodies():
    """20 bodies that attract each other, 300 steps."""
    x = np.random.default_rng(2).normal(size=(20, 3))
    v, mass = np.zeros((20, 3)), np.ones(20)
    for _ in range(300):
        d = x[None, :, :] - x[:, None, :]
        v += 0.001 * (d * (mass / ((d**2).sum(axis=2) + 0.01) ** 1.5)[:, :, None]).sum(axis=1)
        x += 0.001 * v
    return x[0, 0]


def cells():
    """A table of 100 by 100, each element from three others, as alignments are computed."""
    weights = np.random.default_rng(3).random(10)
    table = np.zeros((101, 101))
    for i in range(1, 101):
        for j in range(1, 101):
            table[i, j] = max(table[i - 1, j] + weights[j % 10], table[i, j - 1], table[i - 1, j - 1] * 0.5 + i)
    return table[-1, -1]


WORKS = {"kalman": kalman, "runge_kutta": runge_kutta, "bodies": bodies, "cells": cells}

if __name__ == "__main__":
    work = WORKS[sys.argv[1]]
    work()  # the first warms up
    began = time.perf_counter()
    found = work()
    print(time.perf_counter() - began, float(found))
