"""Random streams of processes are the generators that NumPy documents."""

from __future__ import annotations

import numpy as np

from bsp.interpreter.generators import NumPyStream, generator


def test_streams_are_the_generators_numpy_documents() -> None:
    assert generator(3, 2).random() == np.random.Generator(np.random.PCG64(np.random.SeedSequence([3, 2]))).random()
    kept = np.random.get_bit_generator()  # type: ignore[attr-defined]
    try:
        a, b = NumPyStream(0, 0), NumPyStream(0, 1)
        drawn: list[float] = []
        for k in range(400):  # past the 624 words of a key, with pairs of normals cut in the middle
            a.enter()
            drawn.append(float(np.random.standard_normal()) if k % 3 else float(np.random.random()))
            a.leave()
            b.enter()
            np.random.standard_normal(k % 4)
            b.leave()
    finally:
        np.random.set_bit_generator(kept)  # type: ignore[attr-defined]
    alone_state = np.random.RandomState(np.random.MT19937(np.random.SeedSequence([0, 0, 1])))
    wanted = [float(alone_state.standard_normal()) if k % 3 else float(alone_state.random_sample()) for k in range(400)]
    assert drawn == wanted
