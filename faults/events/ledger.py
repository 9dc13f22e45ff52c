"""The ledger of faults: derives, from earlier events, which fault an event shows, since when, and the rounds lost.

A state machine without I/O: `complete(event)` returns the fields to add.  Its only clock is the events' own times.

1. A fault is *detected* by `suspected`, `fenced`, `died` (an element), `relaunched` (a worker), `tail` (a laggard),
   `outvoted`, `remade` or `diverged` (wrong bytes).
2. It is *mended* by `restored`, `caught_up`, `jumped` or `resumed`; their field `seconds` is the time since the
   detection.
3. The field `injected` contains the fault that was injected into that element or worker and not detected before, if
   there is one.
4. A round is *lost* when all clones of a bundle compute it again: when all of them replay at the same time, or all have
   gone back to a checkpoint.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from bsp.faults.injection import Fault, parse

Event = Mapping[str, Any]
Fields = dict[str, Any]
_Key = tuple[int, int]  # (bundle, element)


class _Seen(NamedTuple):
    """A detected fault: the time of its detection, and the text of the injected fault that it shows, if any."""

    time: float
    injected: str | None

    def fields(self) -> Fields:
        """Return the fields of an event that shows this fault."""
        return {} if self.injected is None else {"injected": self.injected}

    def mended(self, event: Event) -> Fields:
        """Return the fields of an event that mends this fault, with the seconds since its detection."""
        return {"seconds": round(event["time"] - self.time, 6), **self.fields()}


class Ledger:
    """The faults of a job that were injected, detected and mended, and the rounds lost to them."""

    def __init__(self) -> None:
        self.rounds_lost = 0
        self._live: list[set[int]] = []  # the elements of the live clones, by bundle
        self._handlers: Mapping[str, Callable[[Event], Fields]] = {
            "injected": self._injected, "view": self._view, "suspected": self._struck, "fenced": self._struck,
            "died": self._struck, "promoted": self._promoted, "restored": self._restored,
            "relaunched": self._relaunched, "caught_up": self._caught_up, "tail": self._tail, "jumped": self._jumped,
            "outvoted": self._outvoted, "remade": self._remade, "diverged": self._diverged, "lost": self._lost,
            "resumed": self._resumed, "started": self._started, "ended": self._ended,
        }  # fmt: skip
        self._broken: _Seen | None = None  # the fault that ends this incarnation
        self._forget()

    def _forget(self) -> None:
        """Reset for another incarnation: faults are injected anew, and all clones are new."""
        self._made: list[tuple[Fault, int]] = []  # injected and not detected yet, with the element
        self._lasting: dict[int, list[Fault]] = {}  # by element: faults that make it slow
        self._elements: dict[int, _Seen] = {}
        self._joining: dict[_Key, _Seen] = {}
        self._replaying: dict[_Key, _Seen] = {}
        self._late: dict[_Key, _Seen] = {}
        self._wrong: dict[_Key, _Seen] = {}
        self._again: set[int] = set()  # bundles of which all clones replay
        self._last: _Seen | None = None

    def complete(self, event: Event) -> Fields:
        """Return the fields to add to an event.  Call it with each event, in order."""
        handler = self._handlers.get(event["kind"])
        return {} if handler is None else handler(event)

    # ------------------------------------------------------------------------- made, and seen

    def _injected(self, event: Event) -> Fields:
        """Remember an injected fault until an event shows it; lasting ones may be shown by any number of events."""
        faults: list[Fault] = []
        with contextlib.suppress(ValueError):
            faults = list(parse(event["fault"]))
        for fault in faults:
            if fault.kind in ("slow", "tails"):
                self._lasting.setdefault(event["element"], []).append(fault)
            elif event["element"] is not None:
                self._made.append((fault, event["element"]))
        return {}

    def _see(self, event: Event, fits: Callable[[Fault, int], bool]) -> _Seen:
        """Record a detection.  The first injected fault that fits and is not yet detected is taken as its cause."""
        for made in self._made:
            if fits(*made):
                self._made.remove(made)
                return _Seen(event["time"], str(made[0]))
        return _Seen(event["time"], None)

    def _struck(self, event: Event) -> Fields:
        """Record that an element is suspected, fenced or dead; all three events of an element show the same fault."""
        element = event["element"]
        if element not in self._elements:
            self._elements[element] = self._see(event, lambda fault, _: fault.element == element)
        self._last = self._elements[element]
        return self._last.fields()

    def _relaunched(self, event: Event) -> Fields:
        """Record that a worker was started again.

        If the clone was replaying already, its recovery still counts from the first fault.
        """
        key = event["bundle"], event["element"]
        seen = self._see(event, lambda fault, _: fault.worker == key[1])
        known = self._replaying.get(key)
        self._replaying[key] = seen if known is None else known._replace(injected=seen.injected or known.injected)
        self._judge()
        return seen.fields()

    def _tail(self, event: Event) -> Fields:
        """Record a late clone.  A fault that slows or stops its element is the cause; it may cause many tails."""
        element = event["element"]
        lasting = [fault for fault in self._lasting.get(element, ()) if fault.lasts(event["superstep"])]
        stops = [fault for fault, _ in self._made if fault.kind == "stop" and fault.host == element]
        injected = next((str(fault) for fault in (*lasting, *stops)), None)
        seen = self._late[event["bundle"], element] = _Seen(event["time"], injected)
        return seen.fields()

    def _outvoted(self, event: Event) -> Fields:
        """Record that a clone was outvoted; a bit flipped in its element is the cause."""
        element = event["element"]
        seen = self._see(event, lambda fault, at: fault.kind == "flip" and at == element)
        self._wrong[event["bundle"], element] = seen
        return seen.fields()

    def _diverged(self, event: Event) -> Fields:
        """Record that clones differ without a majority; a bit flipped in one of them is the cause."""
        self._last = self._see(event, lambda fault, at: fault.kind == "flip" and at in event["elements"])
        return self._last.fields()

    # --------------------------------------------------------------------------------- mended

    def _promoted(self, event: Event) -> Fields:
        """Record that a standby takes a dead element's bundles: it mends that element's fault when it is restored."""
        if "instead_of" in event:
            seen = self._elements.get(event["instead_of"], _Seen(event["time"], None))
            for bundle in event["bundles"]:
                self._joining[bundle, event["element"]] = seen
        return {}

    def _remade(self, event: Event) -> Fields:
        """Record that a clone is made anew from a sibling's state: it mends the wrong bytes when it is restored."""
        key = event["bundle"], event["element"]
        self._replaying.pop(key, None)
        self._joining[key] = self._wrong.pop(key, _Seen(event["time"], None))
        return self._joining[key].fields()

    def _restored(self, event: Event) -> Fields:
        """Record that a newcomer is live: the fault for which it was made is mended."""
        seen = self._joining.pop((event["bundle"], event["element"]), None)
        self._last = None
        return {} if seen is None else seen.mended(event)

    def _jumped(self, event: Event) -> Fields:
        """Record that a clone has jumped.  It ends a tail; a replay that it shortens is mended only by `caught_up`."""
        key = event["bundle"], event["element"]
        seen = self._late.pop(key, None) or self._replaying.get(key)
        return {} if seen is None else seen.mended(event)

    def _caught_up(self, event: Event) -> Fields:
        """Record that a replay has ended; its rounds are lost if all clones of the bundle replayed at once."""
        bundle, key = event["bundle"], (event["bundle"], event["element"])
        seen = self._replaying.pop(key, _Seen(event["time"], None))
        lost = event["rounds"] if bundle in self._again else 0
        self._again.discard(bundle)
        self.rounds_lost += lost
        return {"rounds_lost": lost, **seen.mended(event)}

    def _view(self, event: Event) -> Fields:
        """Take over the new view, and forget the faults of clones that are no longer in it."""
        self._live = [{int(e) for e, role in some.items() if role == "live"} for some in event["hosts"]]
        hosted = {(bundle, int(e)) for bundle, some in enumerate(event["hosts"]) for e in some}
        for kept in (self._joining, self._replaying, self._late, self._wrong):
            for key in kept.keys() - hosted:
                del kept[key]
        self._judge()
        return {}

    def _judge(self) -> None:
        """Mark the bundles of which every live clone is replaying: the rounds they replay are lost."""
        for bundle, live in enumerate(self._live):
            if live and all((bundle, element) in self._replaying for element in live):
                self._again.add(bundle)

    # --------------------------------------------------------------------------- incarnations

    def _lost(self, event: Event) -> Fields:
        """Remember the fault that ends this incarnation."""
        self._broken = self._last or _Seen(event["time"], None)
        return {}

    def _resumed(self, event: Event) -> Fields:
        """Add the rounds lost by going back to a checkpoint, and start a new incarnation."""
        self.rounds_lost += event.get("rounds_lost") or 0
        self._forget()
        return {} if self._broken is None else self._broken.mended(event)

    def _started(self, event: Event) -> Fields:
        """Record that a job runs: after a resume, the fault that ended the one before is mended."""
        broken, self._broken = self._broken, None
        return {} if broken is None else broken.mended(event)

    def _ended(self, _: Event) -> Fields:
        """Return the rounds lost in the whole job."""
        return {"rounds_lost": self.rounds_lost}
