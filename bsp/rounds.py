"""What an iteration carries from round to round."""

from __future__ import annotations

from types import SimpleNamespace


class State(SimpleNamespace):
    """Named values: `state = bsp.State(beta=np.zeros(3))`, then `state.beta`.

    Given to `proc.rounds`, it names all that a round needs of the last one; without clones that has no effect.
    """
