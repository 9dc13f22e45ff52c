"""Tones in noise: a Fourier transform of one long signal finds them, and its inverse leaves the noise out.

The three tones are far below the noise, but each has its power in one frequency, the noise has it in all of them.  The
signal lies on all processes, and so does its spectrum: a long line is transformed by all processes together.

Cost: W = O(n/p log n) flops, H = 6n/p words and S = 3 for each transform.
Run as: bsprun -p 4 examples/spectrum.py
"""

import sys

import numpy as np

import bsp
import bsp.arrays as ba

RATE = 8000  # samples a second
SAMPLES = 32 * RATE
TONES = (440.0, 1234.5, 2500.0)  # in Hz
NOISE = 3.0  # standard deviation, where a tone's is 0.7

proc = bsp.process()
seconds = ba.arange(SAMPLES) / RATE
tones = sum(ba.sin(2 * np.pi * tone * seconds) for tone in TONES)
signal = tones + NOISE * ba.random.default_rng(5).normal(size=SAMPLES)

spectrum = ba.fft.rfft(signal)
power = abs(spectrum) ** 2
_, strongest = ba.topk(power, len(TONES))
clean = ba.fft.irfft(ba.where(power > 100 * power.mean(), spectrum, 0))
found, left, before = ba.compute(
    ba.fft.rfftfreq(SAMPLES, 1 / RATE)[strongest], (clean - tones).std(), (signal - tones).std()
)
if not bsp.expect(np.array_equal(np.sort(found), TONES), times=1):
    sys.exit(f"process {proc.pid}: the strongest frequencies are {found}")
if not bsp.expect(left < before / 100, times=1):
    sys.exit(f"process {proc.pid}: noise of {left:.3f} is left")
if proc.pid == 0 and bsp.expect(left > 0, times=0):  # there are numbers to print, but in an abstract prediction
    print(f"{SAMPLES} samples: tones of {', '.join(f'{tone:g}' for tone in np.sort(found))} Hz")
    print(f"standard deviation of the noise: {before:.3f} before, {left:.3f} after")
