"""The faults of schedules: what each kind does to an element, a host, or bsprun."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from bsp.faults.protocol.messages import Died, Stuck
from bsp.faults.simulate.network import OUTSIDE
from bsp.faults.simulate.program import Worker
from bsp.faults.simulate.successors import overthrow

if TYPE_CHECKING:
    from bsp.faults.simulate.simulation import Simulation

_OF_ELEMENTS: dict[str, Callable[[Simulation, int, float], None]] = {}
_OTHERS: dict[str, Callable[[Simulation, int, float], None]] = {}
# These only change the speed of an element.
_HARMLESS = ("slow", "fast")


def strike(run: Simulation, what: str, element: int, much: float) -> None:
    """Apply a fault of the schedule: to an element that is alive, or to what the number means for this kind."""
    if run.outcome is not None or (what in _OF_ELEMENTS and not run.nodes[element].alive):
        return
    run.note("fault", {"what": what, "element": element, "much": much})
    (_OF_ELEMENTS.get(what) or _OTHERS[what])(run, element, much)


def _crash(run: Simulation, element: int, much: float) -> None:
    """Let an element die after `much` more effects: in the middle of what it does next."""
    run.nodes[element].fuse = int(much)


def _stop(run: Simulation, element: int, much: float) -> None:
    """Stop an element with its workers (SIGSTOP), for some seconds or for ever (0)."""
    run.nodes[element].stopped = True
    if much:
        run.at(run.now + much, run.wake, element)


def _slow(run: Simulation, element: int, much: float) -> None:
    """Multiply the computing times of an element."""
    run.nodes[element].factor = much


def _fast(run: Simulation, element: int, much: float) -> None:
    """Let a slow element compute as fast as others again."""
    run.nodes[element].factor = 1.0


def _drain(run: Simulation, element: int, much: float) -> None:
    """Have an element leave in good order, and another one join."""
    if not run.deaf:
        run.drain(element)
        run.join_soon()


def _kill_workers(run: Simulation, element: int, much: float) -> None:
    """Kill the workers of an element."""
    workers = run.nodes[element].workers
    for bundle, worker in list(workers.items()):
        del workers[bundle]
        run.at(run.now + 0.005, run.worker_event, element, Died(bundle, worker.life, "was killed"))


def _stop_workers(run: Simulation, element: int, much: float) -> None:
    """Stop the workers of an element for ever."""
    for bundle, worker in run.nodes[element].workers.items():
        worker.stopped = True
        _watch(run, element, bundle, worker)


def _watch(run: Simulation, element: int, bundle: int, worker: Worker) -> None:
    """Report a stopped worker to its agent as stuck, once per hang limit, as the real agent's watch does."""

    def seen() -> None:
        node = run.nodes[element]
        if node.workers.get(bundle) is worker and node.alive and run.outcome is None:
            run.worker_event(element, Stuck(bundle, worker.life, True))
            _watch(run, element, bundle, worker)

    run.at(run.now + run.schedule.limits.hang_limit, seen)


def _flip(run: Simulation, element: int, much: float) -> None:
    """Let each worker of an element send the next packets with a wrong bit."""
    for bundle, worker in run.nodes[element].workers.items():
        _look_whether_seen(run, element, bundle)
        worker.flip = True


def _flip_state(run: Simulation, element: int, much: float) -> None:
    """Turn over a bit of the state of each worker of an element."""
    for bundle, worker in run.nodes[element].workers.items():
        _look_whether_seen(run, element, bundle)
        worker.state ^= 1


def _look_whether_seen(run: Simulation, element: int, bundle: int) -> None:
    """Find out whether a sibling can notice a flipped bit; if none can, the run's answer is not judged."""
    run.flipped = True
    live = run.arbiter.view.live(bundle)
    steady = not run.schedule.tail and not run.schedule.lossy
    if len(live) < 3 and not steady:
        run.unprotected = True  # a clone that jumps over packets of its only sibling cannot compare them
    others = [what for _, what, _, _ in run.schedule.faults if what not in _HARMLESS]
    if element not in live or len(live) < 2 or len(others) > 1:
        run.unprotected = True  # a clone that joins cannot either


def _cut_in_two(run: Simulation, element: int, much: float) -> None:
    """Cut the network between a third of all elements and the rest, for some seconds."""
    places = [OUTSIDE, *range(len(run.nodes))]
    here = {place for place in places if place >= 0 and place % 3 == 0}
    run.network.cut([(a, b) for a in places for b in places if (a in here) != (b in here)], run.now + much)


def _end_bsprun(run: Simulation, element: int, much: float) -> None:
    """End bsprun after some effects (`element`) of it; another takes over `much` seconds later."""
    if not run.deaf:
        if element:
            run.bsprun_fuse, run.absence = element, much
        else:
            run.bsprun_dies(much)


def _overthrow(run: Simulation, element: int, much: float) -> None:
    """Let another bsprun take over from one that goes on for some seconds, because it has not heard of that."""
    if not run.deaf:
        overthrow(run, much)


def _crash_host(run: Simulation, host: int, much: float) -> None:
    """Let a host crash with all that it carries, bsprun included; it comes back after some seconds, or never (0)."""
    assert run.keepers is not None
    run.keepers.crash(host, much)
    if run.seat == host and not run.deaf:
        run.bsprun_dies(run.schedule.absence)


def _stop_host(run: Simulation, host: int, much: float) -> None:
    """Let a host stand still for some seconds."""
    assert run.keepers is not None
    run.keepers.sleep(host, much)


def _drain_host(run: Simulation, host: int, much: float) -> None:
    """Have the elements of a host leave in good order."""
    assert run.keepers is not None
    run.keepers.drain(host)


def _join(run: Simulation, element: int, much: float) -> None:
    """Let a new host join, with room for `much` elements."""
    assert run.keepers is not None
    run.keepers.join(int(much))


_OF_ELEMENTS.update({
    "crash": _crash, "stop": _stop, "slow": _slow, "fast": _fast, "drain": _drain, "worker dies": _kill_workers,
    "worker stops": _stop_workers, "flip": _flip, "flip state": _flip_state, "cut": _cut_in_two,
})  # fmt: skip
_OTHERS.update({
    "bsprun dies": _end_bsprun, "bsprun is superseded": _overthrow, "host crashes": _crash_host,
    "host stops": _stop_host, "host is drained": _drain_host, "host joins": _join,
})  # fmt: skip
