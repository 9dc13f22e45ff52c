"""Algorithms that scientists use, as bulk-synchronous supersteps: matmul, qr, glm.

Each module says what it computes, what it costs (W, H, S, M) and where that is from; the tests count.
"""

from bsp.source import also_ours as _also_ours

_also_ours(__file__)
