"""The algorithms of every collective, their prices, and the choice of the cheapest.

A collective is an object `Collective`; each of its algorithms is a function that carries it out, decorated with its
costs.  So there is no algorithm without a price, and none with a price that does not run:

    ALLGATHER = Collective("allgather")

    @ALLGATHER.algorithm("one-phase", lambda at: [at.each_to_all(at.n, (at.p - 1) * at.n)])
    def _one_phase(steps: Steps, packed: Packed) -> dict[int, Packed]: ...

The choice is a pure function of p, of sizes that all processes have, and of the machine profile, never of the number
of elements (D5).  `Process.plan` and traces show it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from bsp.collectives.domains import several
from bsp.collectives.sizes import ARITIES, Sizes
from bsp.cost.choice import Choice
from bsp.cost.model import DEFAULT, WORD, Cost, Machine
from bsp.errors import UnknownAlgorithm

if TYPE_CHECKING:
    from bsp.processes import Process

_KNOWN = 4096  # sizes whose prices are kept

Costs = Callable[[Sizes], list[Cost]]  # the costs of an algorithm's supersteps, in order
Function = Callable[..., Any]

COLLECTIVES: dict[str, Collective] = {}


class Algorithm(NamedTuple):
    """One way to carry out a collective.

    run : the function that does; its arguments are the collective's.  cuts : whether it cuts values into pieces.
    by_hosts : whether it is for all processes of several hosts only (see `domains`).
    """

    name: str
    run: Function
    costs: Costs
    cuts: bool
    by_hosts: bool

    def price(self, machine: Machine, sizes: Sizes) -> float:
        """Return its flop-times on the elements that the processes take."""
        machine = machine.using(sizes.P) if machine.levels else machine
        return sum(cost.price(machine) for cost in self.costs(sizes))


class Collective:
    """A collective and its algorithms, the preferred one of equals first."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.algorithms: dict[str, Algorithm] = {}
        COLLECTIVES[name] = self

    def algorithm(
        self, name: str, costs: Costs, cuts: bool = False, by_hosts: bool = False
    ) -> Callable[[Function], Function]:
        """Decorate the function that carries out the algorithm `name`."""

        def register(run: Function) -> Function:
            self.algorithms[name] = Algorithm(name, run, costs, cuts, by_hosts)
            return run

        return register

    def trees(self, costs: Callable[..., list[Cost]]) -> Callable[[Function], Function]:
        """Decorate the function that carries out tree-2, tree-4, ...; its first argument is the arity."""

        def register(run: Function) -> Function:
            for arity in ARITIES:
                self.algorithm(f"tree-{arity}", partial(costs, arity=arity))(partial(run, arity))
            return run

        return register

    def prices(self, machine: Machine, p: int, words: float, cuttable: bool, grouped: bool = False) -> dict[str, float]:
        """Return each algorithm's price in flop-times, for values of `words` words that can be cut or not.

        grouped : whether some processes may be left out.
        """
        sizes = Sizes(machine, p, words)
        hosts = several(sizes.hosts) and not grouped
        known = self.algorithms.values()
        return {
            each.name: each.price(machine, sizes)
            for each in known
            if (cuttable or not each.cuts) and (hosts or not each.by_hosts)
        }

    def cheapest(self, machine: Machine, p: int, count: int, itemsize: int) -> list[Cost]:
        """Return the costs of the cheapest algorithm's supersteps, for arrays of `count` items."""
        words = -(-count * itemsize // WORD)
        found = self.prices(machine, p, words, True)
        return self.algorithms[min(found, key=found.__getitem__)].costs(Sizes(machine, p, words, count, itemsize))

    @lru_cache(maxsize=1024)  # noqa: B019  collectives live as long as the interpreter
    def supersteps(self, algorithm: str, p: int, machine: Machine = DEFAULT) -> int:
        """Return the number of supersteps of an algorithm."""
        return int(sum(cost.S for cost in self.algorithms[algorithm].costs(Sizes(machine, p, 1))))

    def choose(
        self, proc: Process, words: int, algorithm: str | None, text: str, grouped: bool, cuttable: bool = False
    ) -> Algorithm:
        """Return the cheapest algorithm, the first of equals, or the one that the caller names.

        Raises UnknownAlgorithm for another name.
        """
        element = proc._task.element
        known = element.prices.get((self.name, words, grouped, cuttable))
        if known is None:
            found = self.prices(element.machine, proc.nprocs, words, cuttable, grouped)
            known = min(found, key=found.__getitem__), tuple(found.items())
            if len(element.prices) >= _KNOWN:
                element.prices.clear()
            element.prices[self.name, words, grouped, cuttable] = known
        chosen, priced = known
        if algorithm is not None:
            chosen = "tree-2" if algorithm == "tree" else algorithm
            names = [name for name, _ in priced]
            if chosen not in names:
                raise UnknownAlgorithm(f"{text}: algorithm {algorithm!r} is none of {', '.join(names)}")
        task = proc._task
        task.choice = task.chosen = Choice(text, chosen, algorithm is not None, priced)
        return self.algorithms[chosen]
