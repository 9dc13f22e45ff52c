"""bsprun's side of the protocol of cloned execution: a state machine without I/O.

The arbiter decides which elements belong to the job and which clones they host.  bsprun lies outside the data path.
There is no election and no quorum: bsprun numbers the views, and sends its whole state repeatedly (rule N14).  All
rules are in member.py; here are the parts that bsprun has in them.

N2, N5  An element is fenced for silence, or because a clone cannot continue on it, but never for being late, and never
        if it is the last holder of a bundle's state.
N3      Time in which bsprun itself stood still counts neither as silence of an element nor against any other limit:
        see `tick`.  All limits grow with the pauses that bsprun and the elements have measured in themselves: see
        `_allow`.
N8      The end comes in two steps.  First the program is over: one clone of every bundle has ended, and its siblings
        had time to compare.  Then, when all text has been printed, every element leaves.
N9      The right to an effect passes to another clone only after its holder's confirmed death.  Where a death cannot be
        confirmed, because a host is lost or cut off, it passes on when the holder's lease has certainly run out: see
        lease.py.  Orders acknowledge reports, and leases run from the times of these.
N11     When digests differ, with three votes the minority is refreshed; with two the job stops by name.
N12     An exception belongs to the program when all live clones raise it alike; of three, one may be outvoted.  So
        does the end of a worker that as many elements as a bundle has clones, at least two, see alike in one superstep.
N13     Under a hold each clone names its next head, and the largest becomes the target of all, or the one behind the
        last checkpoint if that is later.  A clone that names none within a second is left out.
N16     A bsprun that takes over goes on from the newest orders that an element has, and from the values of proc.once
        that elements have.  It permits no call before those that its predecessor permitted have lapsed, and none that
        an element says it is making.  So that no value is lost which somebody has acted on, a value is given to the
        clones that wait for it only when two elements in different domains keep it: see `_answer`.
N15     An element that is to leave keeps its clones until others have joined in their places.  Nothing depends on when
        that is: until then it serves and is served as before, and if it dies it is replaced by the same newcomer.
N17     Who joins takes those vacant places whose bundles have the fewest other clones in its failure domain; of the
        standbys the one is promoted for which that number is least.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bsp.faults.protocol.clones.once_values import KEPT_TIMES, Copies, OnceValues
from bsp.faults.protocol.clones.votes import Jury, majority, votes_needed
from bsp.faults.protocol.lease import certainly_over
from bsp.faults.protocol.messages import (
    END_COMPARED,
    AgentReport,
    ClonePlace,
    Commit,
    Corrupt,
    Dismiss,
    Divergence,
    Fence,
    Finished,
    Hold,
    Limits,
    Lost,
    Note,
    Once,
    Order,
    Orders,
    Print,
    Progress,
    Reply,
    Role,
    Token,
    View,
)
from bsp.faults.protocol.pauses import Pauses, allowance
from bsp.faults.protocol.progress import Reach
from bsp.faults.protocol.text import Spoken

_WRITING = 5.0  # seconds that elements wait at the end for their text to be written
_NAMING = 1.0  # seconds for a clone to reach a head at which it can be held (N13)
# The allowance is at most this many hang limits.  More is not needed: after a longer stop of bsprun itself, everything
# is waited for anew (see `tick`).
_MOST = 2.0
_LONG = 1.0  # seconds that a worker has waited until it is looked whether what it waits for can come
_REIGN = 10**12  # views, and orders, of one bsprun of a job at most
_JUMP = 1.0  # seconds between two ticks that show that bsprun itself was stopped


class Arbiter:
    """The current view, the elements' latest reports, and the orders that follow from them."""

    def __init__(
        self, rows: Sequence[Sequence[int]], standbys: int, limits: Limits, domains: Sequence[str] | None = None
    ) -> None:
        """Create the first view.

        rows : rows[e] lists the bundles of element e; the first one gets a live clone there, the others passive ones.
        standbys : number of spare elements; they are numbered after those of `rows`.
        domains : the failure domain of each element (see domains.py); None: each element is one of its own.
        """
        self.limits = limits
        self.bundles = len({bundle for row in rows for bundle in row})
        hosts: list[list[ClonePlace]] = [[] for _ in range(self.bundles)]
        for element, row in enumerate(rows):
            for k, bundle in enumerate(row):
                hosts[bundle].append(ClonePlace(element, Role.PASSIVE if k else Role.LIVE, 1, k))
        # by bundle: the number of clones in the first row at the start
        self.goal = [sum(host.row == 0 for host in some) for some in hosts]
        # the places that elements have, as (bundle, row), and how many elements have these
        self._patterns = Counter(tuple(sorted((bundle, k) for k, bundle in enumerate(row))) for row in rows)
        spare = tuple(range(len(rows), len(rows) + standbys))
        self.view = View(1, tuple(tuple(some) for some in hosts), spare)
        self._domains = dict(enumerate(domains or ()))
        # places of dead elements that nobody has taken: by element, its bundles and their rows
        self._vacant: dict[int, list[tuple[int, int]]] = {}
        self.leaving: dict[int, str] = {}  # elements that are to leave, and why (N15)
        self._instead: dict[int, int] = {}  # by newcomer: the leaving element in whose places it joins
        self.reports: dict[int, AgentReport] = {}
        self.reach = Reach()
        self.dead: dict[int, str] = {}
        self._over_at: dict[int, float] = {}  # by dead element: time from which it certainly has no effect (N9)
        self._supersteps = [0] * self.bundles  # the latest that some clone has reached, by bundle
        self.orders = Orders(self.view)
        self.over = False
        self._orders_sent = 0
        self._effects: list[Any] = []
        self._now = 0.0
        self._pauses = Pauses()
        self._allowed = 0.0  # the largest allowance that an element has ever had
        self._ticked = -math.inf  # time of the last tick; silence counts only from the first one on
        self._heard: dict[int, float] = {}  # time of the last sign of life, by element
        self._fenced: set[int] = set()  # elements that are being killed
        self._jury = Jury()
        self._spoken = Spoken()
        self.taken = 0  # bytes of standard output to be printed, of which `orders.printed` have been written
        self._raised: set[tuple[int, int]] = set()  # (bundle, exchange) of exceptions that belong to the program (N12)
        self.once = OnceValues()
        self._copies = Copies()
        self._times: dict[int, float] = {}  # the latest readings of the clock, by superstep
        self._callers: dict[Token, tuple[int, int]] = {}  # (element, life) of the worker that may call (N9)
        self._permits_from = -math.inf  # time from which permissions that an earlier bsprun gave have lapsed (N16)
        self._ended_at: float | None = None  # time at which the last bundle had an ended clone (N8)
        self._hold_at = 0.0  # time of the hold's order (N13)
        self._beat_at = 0.0
        self._warned: set[tuple[int, int, int]] = set()  # (bundle, since, element) of failures that have been handled
        self._fenced_for: Counter[tuple[int, str]] = Counter()  # how many elements, by (bundle, failure)

    # ------------------------------------------------------------------------------ events

    def report(self, now: float, report: AgentReport) -> list[Any]:
        """Handle an element's report, which is also a sign of life; return the effects."""
        self._now = now
        element = report.element
        self.reach.hear(report, self.over)
        if element in self.dead or self.over:
            return []
        self._heard[element] = now
        known = self.reports.get(element)
        if known is not None and 0 < report.number < known.number:
            return []
        self.reports[element] = report
        changed = False
        for token, bundle in self._copies.confirm(element, report.kept):
            self._answer(bundle, token)
        for progress in report.clones:
            self._supersteps[progress.bundle] = max(self._supersteps[progress.bundle], progress.superstep)
            changed |= self._look(element, progress)
            if progress.seconds > _LONG and not self.over:
                self._look_for_short_end(progress)
            if progress.once is not None:
                if progress.calls:  # an earlier bsprun permitted it (N16)
                    self._callers.setdefault(progress.once[0], (element, progress.once[1]))
                self._once(element, progress.bundle, *progress.once)
        for found in report.divergences:
            changed |= self._compare(found)
        for bundle, late in report.overdue:
            if self._refresh(bundle, late, "it lags behind more than memory allows"):
                changed = True
        changed |= self._orders_changed()
        if changed:
            self._order()
        self._look_for_end()
        return self._flush()

    def died(self, now: float, element: int, how: str, confirmed: bool = True) -> list[Any]:
        """Handle the death of an element; return the effects.

        confirmed : whether the element has certainly ended.  If not, its permissions pass to others only when its lease
        has run out (N9).
        """
        self._now = now
        if element in self.dead or self.over:
            if math.isinf(self._over_at.get(element, 0.0)):  # one that has left
                self._over_at[element] = now if confirmed else now + self._lease()
            return []
        self.dead[element] = how
        self._over_at[element] = now if confirmed else now + self._lease()
        self._note("died", element=element, reason=how)
        self.reports.pop(element, None)
        self._remove(element)
        self._orders_changed()
        self._order()
        self._look_for_end()
        return self._flush()

    def add(self, now: float, element: int, domain: str | None = None) -> list[Any]:
        """Take a new element into the job; return the effects.

        It takes the places of a dead element, if any are vacant, and is a standby otherwise.
        """
        self._now = now
        if self.over:
            return []
        self._heard[element] = now
        if domain is not None:
            self._domains[element] = domain
        hosts, standbys = [list(some) for some in self.view.hosts], list(self.view.standbys)
        if self._vacant:
            # the places whose bundles have the fewest other clones in its domain; among equals those that fell first
            dead = min(self._vacant, key=lambda dead: self._near(element, [b for b, _ in self._vacant[dead]]))
            places = self._vacant.pop(dead)
            self._give(hosts, element, places)
            if dead in self.leaving:
                self._instead[element] = dead
            self._note("promoted", element=element, instead_of=dead, bundles=[bundle for bundle, _ in places])
        else:
            standbys.append(element)
        self._renew(hosts, standbys)
        self._orders_changed()
        self._order()
        return self._flush()

    def drain(self, now: float, element: int, why: str) -> list[Any]:
        """Have others take an element's places, and let it go when they have (N15); return the effects.

        A standby takes them, or the next element that is added.
        """
        self._now = now
        if self.over or element in self.leaving or element not in self.view.elements():
            return []
        self.leaving[element] = why
        if element in self.view.standbys:
            self._let_go(element)
        else:
            hosts, standbys = [list(some) for some in self.view.hosts], list(self.view.standbys)
            places = [(b, h.row) for b, some in enumerate(hosts) for h in some if h.element == element]
            self._replace_element(element, places, hosts, standbys)
            self._renew(hosts, standbys)
        self._orders_changed()
        self._order()
        return self._flush()

    def take_over(
        self, now: float, reign: int, orders: Orders, values: Iterable[tuple[Token, bytes]],
        present: Mapping[int, str | None],
    ) -> None:  # fmt: skip
        """Go on in place of a bsprun that is gone (N16); the arbiter is new and was created as that one's was.

        reign : a number that no bsprun of this job has had before.
        orders : the newest that an element has, with the largest allowance that any has.
        values : all that elements have of proc.once and proc.time.
        present : the elements that are there, with their failure domains; of others the death is to be reported.

        A checkpoint that was being written is given up, and so is a hold.
        """
        self._now = now
        self.view = replace(orders.view, number=reign * _REIGN)
        settled = max([orders.released, *(head for _, _, head in orders.writes)])
        self.taken, self._raised, self._orders_sent = orders.printed, set(orders.raised), reign * _REIGN
        self._set(view=self.view, printed=orders.printed, raised=orders.raised, released=settled)
        self._set(settled=orders.settled, repeats=orders.repeats, allowance=orders.allowance)
        self._heard = dict.fromkeys(present, now)
        self._domains = {element: domain for element, domain in present.items() if domain is not None}
        values = list(values)
        self.once.add(values)
        held = Counter(token for token, _ in values)
        self._copies.lose(token for token in self.once if held[token] < 2)
        readings = sorted((token[2], value) for token, value in self.once.items() if token[0] == "time")
        self._times = {superstep: struct.unpack("<d", value)[0] for superstep, value in readings[-KEPT_TIMES:]}
        self._allowed = orders.allowance
        self._permits_from = now + self._lease()
        there = Counter(
            tuple(sorted((b, h.row) for b, some in enumerate(self.view.hosts) for h in some if h.element == element))
            for element in self.view.elements()
        )
        missing = self._patterns - there
        self._vacant = {-1 - k: list(places) for k, places in enumerate(missing.elements())}

    def vacancies(self) -> int:
        """Return how many elements are missing for whose places there is no other."""
        return len(self._vacant)

    def _replace_element(
        self, element: int, places: Sequence[tuple[int, int]], hosts: list[list[ClonePlace]], standbys: list[int]
    ) -> bool:
        """Give a standby the places of an element in the next view; if there is none, remember that they are vacant.

        Returns whether there is one.
        """
        bundles = [bundle for bundle, _ in places]
        ready = [spare for spare in standbys if spare not in self._fenced]
        if not ready:
            self._vacant[element] = list(places)
            return False
        spare = min(ready, key=lambda spare: self._near(spare, bundles))
        standbys.remove(spare)
        self._give(hosts, spare, places)
        if element in self.leaving:
            self._instead[spare] = element
        self._note("promoted", element=spare, instead_of=element, bundles=bundles)
        return True

    def _let_go(self, element: int) -> None:
        """Make a view without an element that others have replaced, or that stands by (N15)."""
        hosts = [[host for host in some if host.element != element] for some in self.view.hosts]
        self._renew(hosts, [spare for spare in self.view.standbys if spare != element])
        self.dead[element] = f"has left: {self.leaving.pop(element)}"
        self._over_at[element] = math.inf  # until its end is reported: what it was permitted passes to nobody (N9)
        self.reports.pop(element, None)
        self._note("left", element=element, reason=self.dead[element])
        self._effects.append(Dismiss(element))

    def tick(self, now: float) -> list[Any]:
        """Handle the passing of time; return the effects.  The caller must have handled all messages first (N3)."""
        self._now = now
        pause = now - self._ticked
        jumped = pause > min(_JUMP, self.limits.hang_limit / 2)
        self._ticked = now
        if math.isfinite(pause):
            self._pauses.note(now, pause - self.limits.beat)  # two ticks are at most a beat apart
        self._allow()
        if self.over:
            if now >= self._beat_at:
                self._order()
            return self._flush()
        # bsprun stood still: all deadlines start again, or elements that it could not hear would be fenced (N3)
        if jumped:
            self._heard = dict.fromkeys(self._heard, now)
            self._hold_at = now
            self._ended_at = now if self._ended_at is not None else None
        self._listen()
        self._look_for_end()
        if now >= self._beat_at:
            self._order()
        return self._flush()

    def _allow(self) -> None:
        """Set the allowance of all limits of silence from the longest recent pause of any element or bsprun.

        What has stood still once may do so again, and so may others on the same machine; silence proves less than
        before (N3).
        """
        seen = max((report.paused for report in self.reports.values()), default=0.0)
        allowed = min(allowance(max(seen, self._pauses.longest(self._now))), _MOST * self.limits.hang_limit)
        if allowed != self.orders.allowance:
            self._set(allowance=allowed)
            self._allowed = max(self._allowed, allowed)

    def text(self, now: float, element: int, offset: int, data: bytes, since: int = 0) -> list[Any]:
        """Handle standard output of a clone; return the effects, which print what can be printed (N9, N11).

        since : `since` of the clone that wrote the text; text of a clone that has been made anew since is ignored.
        """
        self._now = now
        host = self._host(0, element)
        if since and (host is None or host.since != since):
            return []
        self._spoken.add(element, offset, data, self.taken)
        live = self.view.live(0)
        voted = votes_needed(len(live)) > 1
        clones = live if voted else [h.element for h in self.view.hosts[0] if h.role is not Role.JOINING]
        sound = self._spoken.sound(clones, voted)
        if sound:
            self._spoken.gone(len(sound))
            self.taken += len(sound)
            self._effects.append(Print(sound))
        return self._flush()

    def printed(self, now: float, count: int) -> list[Any]:
        """Note that the first `count` bytes of standard output have been written; return the effects.

        Until then elements keep them: should bsprun end before, the next one writes them (N16).
        """
        self._now = now
        if count > self.orders.printed:
            self._set(printed=count)
            self._look_for_end()
        return self._flush()

    def _once(self, element: int, bundle: int, token: Token, life: int, value: bytes | None) -> None:
        """Answer a clone in proc.once (N9).

        The first clone that asks gets permission to make the call.  Another one gets it only when that worker, or its
        element, is dead.  The result goes to all clones.
        """
        known = self.once.get(token)
        if known is None and token[0] == "time":
            self.once.add([(token, self._agreed_time(token))])
            self._copies.lose([token])
        elif known is None and value is not None:
            self.once.add([(token, value)])
            self._copies.lose([token])
            self._note_once(element, token, done=True)
            self._forget_rounds()
        if token in self.once:
            self._answer(bundle, token, element)
            return
        # The same worker may ask again, because reports are repeated.  A later worker of the same element may call too:
        # its predecessor is dead.
        holder = self._callers.get(token)
        if self._now < self._permits_from:
            return
        if holder is None or self._is_over(holder[0]) or (holder[0] == element and holder[1] <= life):
            self._callers[token] = element, life
            self._note_once(element, token, done=False)
            self._effects.append(Reply(element, Once(bundle, token, None)))

    def _answer(self, bundle: int, token: Token, *asking: int) -> None:
        """Give the value of a call to all clones that wait for it now, when two elements keep it (N16).

        They are to be in different failure domains.  Until then the elements of the bundle's clones, and after them all
        others, are asked to keep it; where there is one clone, nobody else has to.
        """
        value, places = self.once[token], {host.element for host in self.view.hosts[bundle]}
        copies = self._copies.of(token) & self.view.elements()
        domains = {self._domains.get(element, str(element)) for element in copies}
        if token in self._copies and len(places) > 1 and len(domains) < min(2, self._number_of_domains()):
            waited = self._copies.ask(token, bundle, self._now, self.limits.beat)
            asked = () if waited is None else places if waited == 0.0 else self.view.elements()
            for each in sorted(set(asked) - copies):
                self._effects.append(Reply(each, Once(bundle, token, value, keep=True)))
            return
        self._copies.settle(token)
        stand = {h.element for h in self.view.hosts[bundle] if self._stands(bundle, h, token)}
        for each in sorted(stand | set(asking)):
            self._effects.append(Reply(each, Once(bundle, token, value)))

    def _number_of_domains(self) -> int:
        """Return how many failure domains there are."""
        return len({self._domains.get(element, str(element)) for element in self.view.elements()})

    def _lease(self) -> float:
        """Return the seconds after which the lease of an element that is not heard has certainly run out (N9)."""
        return certainly_over(self.limits.alone + self._allowed)

    def _is_over(self, element: int) -> bool:
        """Return whether nothing that an element does can have an effect any more."""
        return element in self.dead and self._now >= self._over_at[element]

    def _note_once(self, element: int, token: Token, done: bool) -> None:
        """Log that permission for a call has been given, or (`done`) that its result is there."""
        what, process, at, sequence = token
        where = {"head": at} if what == "round" else {"superstep": at}
        self._note("once", what=what, process=process, sequence=sequence, element=element, done=done, **where)

    def _forget_rounds(self) -> None:
        """Drop the results of calls in rounds that nobody can run again.

        These are the rounds before the earliest head from which any clone would restart, or a checkpoint that is being
        written.
        """
        said = [self._progress(bundle, host) for bundle, some in enumerate(self.view.hosts) for host in some]
        start = min(p.restarts if p is not None and p.holds else -1 for p in said)
        repeats = tuple(sorted({each for p in said if p is not None for each in p.repeats}))
        for token in self.once.settle(start, repeats):
            self._callers.pop(token, None)
            self._copies.settle(token)
        self._set(settled=start, repeats=repeats)

    def _stands(self, bundle: int, host: ClonePlace, token: Token) -> bool:
        """Return whether a clone waits in proc.once for `token`."""
        said = self._progress(bundle, host)
        return said is not None and said.once is not None and said.once[0] == token

    def _agreed_time(self, token: Token) -> bytes:
        """Return the current time as the program's time at a superstep, but not later than that of any later superstep.

        The first clone that asks fixes the value for all.  Clones may be in different supersteps; the program's time
        must not run backwards between these.
        """
        later = [t for superstep, t in self._times.items() if superstep > token[2]]
        self._times[token[2]] = agreed = min([self._now, *later])
        if len(self._times) > KEPT_TIMES:
            del self._times[next(iter(self._times))]
        return struct.pack("<d", agreed)

    def hold(self, now: float) -> list[Any]:
        """Order all clones to stop at one head and to write a checkpoint of it (N13); return the effects."""
        self._now = now
        if self.orders.hold is None and not self.over:
            self._hold_at = now
            self._set(hold=Hold(self.view.number, None))
            self._orders_changed()
            self._order()
        return self._flush()

    def committed(self, now: float, head: int) -> list[Any]:
        """Handle the end of a checkpoint, written or failed: its states are no longer kept.  Return the effects."""
        self._now = now
        self._set(released=max(head, self.orders.released), writes=())
        self._order()
        return self._flush()

    def release(self, now: float, head: int) -> list[Any]:
        """Cancel a hold whose checkpoint could not be written, so that all clones continue; return the effects."""
        self._now = now
        self._set(hold=None)
        return self.committed(now, head)

    def end(self, now: float) -> list[Any]:
        """End the job, when all text has been printed (N8); return the effects."""
        self._now = now
        self.over = True
        self._set(end=True)
        self._order()
        return self._flush()

    def _flush(self) -> list[Any]:
        """Return the effects collected since the last call."""
        effects, self._effects = self._effects, []
        return effects

    def _note(self, kind: str, **fields: Any) -> None:
        """Add an event to the log."""
        self._effects.append(Note(kind, fields))

    def _order(self) -> None:
        """Send the orders to all elements, with a new number."""
        self._beat_at = self._now + self.limits.beat
        self._orders_sent += 1
        heard = tuple((element, report.number) for element, report in self.reports.items())
        self._effects.append(Order(replace(self.orders, number=self._orders_sent, heard=heard)))

    def _set(self, **changes: Any) -> None:
        """Change fields of the orders; `_order` sends them."""
        self.orders = replace(self.orders, **changes)

    # ------------------------------------------------------------------------------- views

    def _renew(self, hosts: Sequence[Sequence[ClonePlace]], standbys: Sequence[int]) -> None:
        """Make the next view, with these hosts and standbys."""
        self.view = View(self.view.number + 1, tuple(tuple(some) for some in hosts), tuple(standbys))
        self._set(view=self.view)
        self._note("view", **self.view.plain())

    def _replace(self, bundle: int, element: int, new: ClonePlace) -> None:
        """Make the next view, in which one clone's place changes."""
        hosts = [list(some) for some in self.view.hosts]
        hosts[bundle] = [new if host.element == element else host for host in hosts[bundle]]
        self._renew(hosts, self.view.standbys)

    def _host(self, bundle: int, element: int) -> ClonePlace | None:
        """Return the place of a clone of `bundle` on `element`, or None."""
        return next((host for host in self.view.hosts[bundle] if host.element == element), None)

    def _progress(self, bundle: int, host: ClonePlace) -> Progress | None:
        """Return the latest report about the clone in this place; None if it has not been reported yet."""
        report = self.reports.get(host.element)
        for progress in report.clones if report is not None else ():
            if progress.bundle == bundle and progress.since == host.since:
                return progress
        return None

    def _holders(self, bundle: int) -> list[int]:
        """Return the elements that have the complete state of a bundle (N5)."""
        return [
            host.element
            for host in self.view.hosts[bundle]
            if host.role is not Role.JOINING or ((said := self._progress(bundle, host)) is not None and said.holds)
        ]

    def _remove(self, element: int) -> None:
        """Make a view without a dead element; a standby takes its places if there is one."""
        places = [(b, h) for b, some in enumerate(self.view.hosts) for h in some if h.element == element]
        hosts = [[host for host in some if host.element != element] for some in self.view.hosts]
        standbys = [spare for spare in self.view.standbys if spare != element]
        lost: list[Lost] = []
        for bundle, _ in places:
            if not any(other.role is Role.LIVE for other in hosts[bundle]):
                heir = self._heir(bundle, hosts[bundle])
                if heir is None:
                    said = self._last_superstep(bundle)
                    lost.append(
                        Lost(bundle, said, f"element {element} {self.dead[element]}, and no other has its state")
                    )
                else:
                    hosts[bundle] = [h._replace(role=Role.LIVE) if h.element == heir else h for h in hosts[bundle]]
        self.leaving.pop(element, None)
        # of a newcomer that was to replace one that leaves, the places are still those of the other
        owner = self._instead.pop(element, element)
        successors = [newcomer for newcomer, leaving in self._instead.items() if leaving == element]
        for newcomer in successors:
            del self._instead[newcomer]
        if places and not lost and not successors:
            vacant = [(bundle, host.row) for bundle, host in places]
            if not self._replace_element(owner, vacant, hosts, standbys):
                for bundle, _ in places:
                    left, goal = sum(host.row == 0 for host in hosts[bundle]), self.goal[bundle]
                    if left < goal:
                        self._note("degraded", bundle=bundle, clones=left, goal=goal, passive=len(hosts[bundle]) - left)
        self._renew(hosts, standbys)
        self._effects.extend(lost)
        if lost:
            self.over = True

    def _give(self, hosts: list[list[ClonePlace]], element: int, places: Sequence[tuple[int, int]]) -> None:
        """Give an element places in the next view, in which it joins.

        places : pairs of a bundle and its row on the element.
        """
        for bundle, row in places:
            hosts[bundle].append(ClonePlace(element, Role.JOINING, self.view.number + 1, row))

    def _near(self, element: int, bundles: Sequence[int]) -> int:
        """Return how many clones of these bundles stand in the failure domain of an element."""
        domain = self._domains.get(element)
        others = [host.element for bundle in bundles for host in self.view.hosts[bundle]]
        return sum(domain is not None and self._domains.get(other) == domain for other in others if other != element)

    def domains_of_vacancies(self) -> set[str]:
        """Return the failure domains of the remaining clones of bundles that lack one."""
        bundles = {bundle for places in self._vacant.values() for bundle, _ in places}
        elements = {host.element for bundle in bundles for host in self.view.hosts[bundle]}
        return {self._domains[element] for element in elements if element in self._domains}

    def _heir(self, bundle: int, hosts: Sequence[ClonePlace]) -> int | None:
        """Return the element that becomes live for a bundle without live clones; None if no element has its state.

        A joining clone that has received the state is preferred to a passive one.
        """
        holders = set(self._holders(bundle))
        ready = [host for host in hosts if host.element in holders]
        return min(ready, key=lambda h: h.role is not Role.JOINING).element if ready else None

    def _last_superstep(self, bundle: int) -> int:
        """Return the latest superstep that some clone of a bundle has reached."""
        return self._supersteps[bundle]

    def _refresh(self, bundle: int, element: int, why: str) -> bool:
        """Have a clone made anew from a sibling's state; return whether it was possible.

        It is not if no other live clone exists: the last holder of a bundle's state stays (N5).
        """
        host = self._host(bundle, element)
        if host is None:
            return False
        others = [h for h in self.view.hosts[bundle] if h.element != element and h.role is Role.LIVE]
        if not others:
            return False
        self._jury.remade(bundle, element, self._progress(bundle, host))
        if bundle == 0:
            self._spoken.forget(element)
        self._replace(bundle, element, ClonePlace(element, Role.JOINING, self.view.number + 1, host.row))
        self._note("remade", bundle=bundle, element=element, reason=why)
        return True

    # ------------------------------------------------------------------------------ silence

    def _listen(self) -> None:
        """Fence elements that are silent for too long; report a loss if all holders of a bundle are silent (N5)."""
        limit = self.limits.hang_limit + self.orders.allowance
        told = f"silent for {round(limit, 1):g} s"
        silent = {e for e in self.view.elements() if self._now - self._heard.get(e, self._now) > limit}
        for element in sorted(silent - self._fenced):
            alone = self._alone(element, silent)
            if alone:
                why = f"every element with its state has been {told}"
                self._effects.append(Lost(alone[0], self._last_superstep(alone[0]), why))
                self.over = True
                return
            self._fenced.add(element)
            self._note("suspected", element=element, silent=round(self._now - self._heard[element], 3))
            self._effects.append(Fence(element, told))

    def suspect(self, now: float, elements: Sequence[int], why: str) -> list[Any]:
        """Fence elements of which nothing is heard because their host is lost or cut off; return the effects.

        Not those that alone hold a bundle's state (N5): their silence is judged by the hang limit.
        """
        self._now = now
        for element in elements:
            known = element in self.view.elements() and element not in self._fenced
            if known and not self.over and not self._alone(element, set(elements)):
                self._fenced.add(element)
                self._note("suspected", element=element, silent=round(now - self._heard.get(element, now), 3))
                self._effects.append(Fence(element, why))
        return self._flush()

    def _alone(self, element: int, silent: set[int]) -> list[int]:
        """Return the bundles of `element` that no other element holds that is neither silent nor fenced (N5)."""
        out = silent | self._fenced | {element}
        return [
            bundle
            for bundle, some in enumerate(self.view.hosts)
            if any(host.element == element for host in some) and set(self._holders(bundle)) <= out
        ]

    def appeared(self, now: float, element: int) -> None:
        """Record that an element has connected."""
        self._heard[element] = now

    def quiet(self, element: int, now: float) -> float:
        """Return the seconds since an element's last sign of life."""
        return now - self._heard.get(element, now)

    # ------------------------------------------------------------------------ reports of clones

    def _look(self, element: int, progress: Progress) -> bool:
        """Handle the reported state of one clone; return whether the view has changed.

        A newcomer that has joined gets its role.  A failing clone is made anew, or its element is fenced, or its bundle
        is lost if nothing else has its state or newcomers have failed alike (N12).
        """
        host = self._host(progress.bundle, element)
        if host is None or host.since != progress.since:
            return False
        if host.role is Role.JOINING and progress.joined:
            role = Role.PASSIVE if host.row else Role.LIVE
            self._replace(progress.bundle, element, host._replace(role=role))
            self._jury.joined(element, progress)
            self._note(
                "restored", bundle=progress.bundle, element=element, superstep=progress.superstep,
                rounds=progress.again, bytes=progress.given,
            )  # fmt: skip
            joining = any(h.element == element and h.role is Role.JOINING for some in self.view.hosts for h in some)
            if element in self._instead and not joining:
                self._let_go(self._instead.pop(element))
            return True
        if progress.failing is not None and (progress.bundle, host.since, element) not in self._warned:
            self._warned.add((progress.bundle, host.since, element))
            alone, failure = self._alone(element, set()), (progress.bundle, progress.failing)
            # fencing would lose the element's other bundles if it is their last holder (N5)
            if progress.stale or (alone and progress.bundle not in alone):
                if self._refresh(progress.bundle, element, progress.failing):
                    return True
            elif not alone and self._fenced_for[failure] + 1 < max(2, self.goal[progress.bundle]):
                self._fenced_for[failure] += 1
                self._fenced.add(element)
                self._effects.append(Fence(element, progress.failing))
                return False
            self._effects.append(Lost(progress.bundle, progress.superstep, progress.failing))
            self.over = True
        return False

    def _compare(self, found: Divergence) -> bool:
        """Judge a difference between clones; return whether the view has changed (N11)."""
        verdict = self._jury.hear(found, self.view.live(found.bundle))
        if verdict is None:
            return False
        if not verdict.wrong:
            self._note("diverged", bundle=found.bundle, superstep=found.superstep, elements=sorted(verdict.votes))
            self._effects.append(Corrupt(found._replace(votes=tuple(sorted(verdict.votes.items())))))
            self.over = True
            return False
        changed = False
        for element in verdict.wrong:
            self._note("outvoted", bundle=found.bundle, element=element, superstep=found.superstep)
            changed |= self._refresh(found.bundle, element, "outvoted")
        return changed

    def _orders_changed(self) -> bool:
        """Derive exceptions (N12), the hold (N13) and checkpoints from all reports; return whether orders changed."""
        if self.over:
            return False
        before = self.orders
        for bundle in range(self.bundles):
            self._hear_raised(bundle)
            if self.over:
                return False
        if len(self._raised) != len(before.raised):
            self._set(raised=tuple(sorted(self._raised)))
        # an ended clone never reaches another head, and clones that wait for it would wait for ever (N13)
        if self.orders.hold is not None and self._has_ended():
            self._set(hold=None)
        hold = self.orders.hold
        if hold is not None:
            named = [self._named(bundle) for bundle in range(self.bundles)]
            known = [head for head in named if head is not None]
            # no state is kept again at a head whose checkpoint has been written: then all go on to the next one
            target = max([self.orders.released + 1, *known])
            if len(known) == self.bundles and (hold.target is None or max(known) > hold.target):
                self._set(hold=Hold(hold.number, target))  # later if a bundle could keep no state there
                self._note("held", head=target)
        self._arrange_checkpoint()
        return self.orders != before

    def _hear_raised(self, bundle: int) -> None:
        """Decide whether an exception belongs to the program (N12).

        It does if all live clones of the bundle have raised it at the same exchange, or all but a minority (N11).
        """
        raised: dict[int, tuple[int, bytes]] = {}
        for host in self.view.hosts[bundle]:
            if host.role is Role.LIVE:
                said = self._progress(bundle, host)
                if said is None or said.raised is None:
                    return
                raised[host.element] = said.raised
        if len({exchange for exchange, _ in raised.values()}) != 1:
            return
        exchange = next(iter(raised.values()))[0]
        counts = Counter(digest for _, digest in raised.values()).most_common(2)
        superstep = self._last_superstep(bundle)
        if len(counts) > 1 and counts[0][1] == counts[1][1]:
            votes = tuple((element, digest) for element, (_, digest) in raised.items())
            self._effects.append(Corrupt(Divergence(bundle, exchange, superstep, votes)))
            self.over = True
            return
        self._raised.add((bundle, exchange))
        for element, (_, digest) in raised.items():
            if digest != counts[0][0]:
                self._note("outvoted", bundle=bundle, element=element, superstep=superstep)
                self._refresh(bundle, element, "outvoted")

    def _has_ended(self) -> bool:
        """Return whether the program has ended in some clone."""
        return any(progress.ended is not None for report in self.reports.values() for progress in report.clones)

    def _named(self, bundle: int) -> int | None:
        """Return the head at which a bundle can be held (N13); None if that is not known yet.

        Before there is a target: the furthest head that a clone names, so that no round is lost; slow clones are left
        out after a second.  Afterwards: the target, or, once all live clones name heads, the least of these, which may
        be later.
        """
        said = [self._progress(bundle, host) for host in self.view.hosts[bundle] if host.role is Role.LIVE]
        heads = [p.held for p in said if p is not None and p.held is not None]
        if self.orders.hold is not None and self.orders.hold.target is not None:
            return min(heads) if len(heads) == len(said) and heads else self.orders.hold.target
        waited = self._ticked > self._hold_at + _NAMING + self.orders.allowance
        return max(heads) if heads and (len(heads) == len(said) or waited) else None

    def _arrange_checkpoint(self) -> None:
        """Choose a head whose state every bundle has kept, and a writer for each part of its checkpoint.

        The newest such head is chosen, and for each bundle one clone that has kept its state writes the part.  When all
        parts are written, the commit is requested.  When a writer is lost, another one is chosen, or the head is given
        up.
        """
        pinned: list[dict[int, int]] = []
        for bundle in range(self.bundles):
            by_head: dict[int, int] = {}
            for host in self.view.hosts[bundle]:
                progress = self._progress(bundle, host) if host.role is Role.LIVE else None
                for head in progress.pins if progress is not None else ():
                    by_head.setdefault(head, host.element)
            pinned.append(by_head)
        if self.orders.writes:
            head = self.orders.writes[0][2]
            parts = [self._part(bundle, element, head) for bundle, element, _ in self.orders.writes]
            if all(part is not None for part in parts):
                if head > self.orders.released:
                    self._set(writes=())
                    self._committing = head
                    self._effects.append(Commit(head, tuple(parts)))
                return
            if all(pinned[bundle].get(head) is not None for bundle in range(self.bundles)):
                writers = tuple(
                    (bundle, element if self._keeps(bundle, element, head) else pinned[bundle][head], head)
                    for bundle, element, _ in self.orders.writes
                )
                if writers != self.orders.writes:
                    self._set(writes=writers)
                return
            # No clone of some bundle has the state any more.  Under a hold the clones are still at this head, and
            # another one will keep it; else the head is given up.
            hold = self.orders.hold
            held = hold is not None and hold.target is not None and head >= hold.target
            self._set(writes=(), released=self.orders.released if held else max(head, self.orders.released))
        common = set.intersection(*[set(by_head) for by_head in pinned])
        fresh = [head for head in common if head > max(self.orders.released, self._committing)]
        if fresh:
            head = max(fresh)
            self._set(writes=tuple((bundle, pinned[bundle][head], head) for bundle in range(self.bundles)))

    # the head of the commit requested last
    _committing = -1

    def _keeps(self, bundle: int, element: int, head: int) -> bool:
        """Return whether the clone of `bundle` on `element` keeps its state at `head` for a checkpoint."""
        host = self._host(bundle, element)
        progress = self._progress(bundle, host) if host is not None else None
        return progress is not None and head in progress.pins

    def _part(self, bundle: int, element: int, head: int) -> Any:
        """Return what the writer of a checkpoint's part has reported; None until it is written."""
        host = self._host(bundle, element)
        progress = self._progress(bundle, host) if host is not None else None
        return next((part for at, part in progress.parts if at == head), None) if progress is not None else None

    # ------------------------------------------------------------------------------- the end

    def _look_for_short_end(self, waiting: Progress) -> None:
        """Report the loss of a bundle whose live clones wait for packets of a bundle that has ended before these.

        The two have not carried out the same supersteps.
        """
        bundle = waiting.bundle
        for other in waiting.waits_for:
            live = [self._progress(bundle, host) for host in self.view.hosts[bundle] if host.role is Role.LIVE]
            ended = [self._progress(other, host) for host in self.view.hosts[other] if host.role is Role.LIVE]
            sent = [said.exchange for said in ended if said is not None and said.ended is not None]
            if live and sent and len(sent) == len(ended) and all(
                said is not None and said.ended is None and other in said.waits_for and said.exchange > max(sent)
                for said in live
            ):  # fmt: skip
                why = (
                    f"it waits for bundle {other}, which has ended before: the program is not deterministic, or not "
                    "the one that wrote the checkpoint (bsprun --check tells)"
                )
                self._effects.append(Lost(bundle, waiting.superstep, why))
                self.over = True
                return

    def _look_for_end(self) -> None:
        """End the program if every bundle has an ended clone whose text is to be printed (N8, first step).

        Its siblings may still end and be compared for `linger` seconds.  Clones that ended differently stop the job
        (N11).
        """
        if self.over:
            return
        digests: list[bytes] = []
        complete = True
        for bundle in range(self.bundles):
            hosts = [host for host in self.view.hosts[bundle] if host.role is not Role.JOINING]
            said = [(host, self._progress(bundle, host)) for host in hosts]
            ended = [
                (host, p.ended) for host, p in said if p is not None and p.ended is not None and p.said <= self.taken
            ]
            live = {host.element for host in hosts if host.role is Role.LIVE}
            complete = complete and live <= {host.element for host, _ in ended}
            if not ended:
                return
            compared = [digest[:END_COMPARED] for _, digest in ended]
            agreed = majority(compared)
            if agreed is None and len(ended) < len(live) and votes_needed(len(live)) > 1:
                return  # N11: of three clones one alone does not count; wait for another
            if agreed is None and len(set(compared)) > 1:
                votes = tuple((host.element, digest) for host, digest in ended)
                self._effects.append(Corrupt(Divergence(bundle, 0, self._last_superstep(bundle), votes)))
                self.over = True
                return
            digests.append(next(digest for _, digest in ended if agreed in (None, digest[:END_COMPARED])))
        if self._ended_at is None:
            self._ended_at = self._now
        # another bsprun can print what this one has not written, unless it takes so long that nobody may be reading it
        written = self.orders.printed >= self.taken or self._ticked >= self._ended_at + _WRITING
        if written and (complete or self._ticked >= self._ended_at + self.limits.linger):
            self._effects.append(Finished(tuple(digests)))
