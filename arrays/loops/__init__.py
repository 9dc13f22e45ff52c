"""Loops over elements as array statements: `@bsp.parallel` on a function as one writes it for NumPy.

    @bsp.parallel
    def smooth(u, v):
        for i in range(1, len(u) - 1):
            v[i] = (u[i - 1] + u[i] + u[i + 1]) / 3

    smooth(ba.asarray(u), v)                   # the loop has become v[1:-1] = ..., planned in supersteps
    print(bsp.parallel.explain(smooth))        # what each loop has become, or why it stayed

`nests` reads loops, `dependences` says which of them may be carried out at once, `expressions` writes what they compute
as slices, sums and contractions, `statements` what they assign, `generators` does so for comprehensions; `perfect`
makes array statements of nests whose statements are all in the innermost loop, `triangles` puts masks on those whose
ranges depend on each other, `distribution` makes such nests of others, `pricing` counts what loops that stay cost, and
`functions` puts the parts together.
"""

from bsp.arrays.loops.functions import LoopReport, Parallel, parallel

__all__ = ["LoopReport", "Parallel", "parallel"]


def __dir__() -> list[str]:
    """Return the public names: what help and completion show."""
    return sorted(__all__)
