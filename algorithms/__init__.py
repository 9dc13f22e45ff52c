"""Algorithms that scientists use, as bulk-synchronous supersteps: matmul, qr, glm.

Each module says what it computes, what it costs (W, H, S, M) and where that is from; the tests count.
"""
