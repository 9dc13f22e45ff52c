"""Random arrays whose numbers depend on the seed and the shape, and on nothing else.

    rng = ba.random.default_rng(0)
    x = rng.normal(size=(1_000_000, 20))       # the same numbers on 1 process and on 64

Methods and arguments are those of numpy.random.Generator.  Every process makes the same calls.
"""

from typing import TYPE_CHECKING

from bsp.arrays.random.generator import Generator, default_rng

__all__ = ["Generator", "default_rng"]


def __dir__() -> list[str]:
    """Return the public names, which help and completion show."""
    return sorted(__all__)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> None:
        """Raise AttributeError for a name that is missing, such as `seed`: there is no global generator."""
        text = f"module 'bsp.arrays.random' has no attribute {name!r}"
        if not name.startswith("_"):
            text += ": numbers come from generators, rng = ba.random.default_rng(seed), with the methods of NumPy's"
        raise AttributeError(text)
