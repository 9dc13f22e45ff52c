"""The marks of all clones: a packet is retained until every clone of its bundle has it (N4).

The mark of a clone is an exchange; the clone needs no packet of an earlier one.
"""

from __future__ import annotations

from bsp.faults.protocol.messages import View

Key = tuple[int, int]  # (bundle, element)


class Retention:
    """The marks of all clones in the view, as reported to one element."""

    def __init__(self) -> None:
        self._marks: dict[Key, int | None] = {}
        self._since: dict[Key, int] = {}
        self._view = View(0, (), ())

    def adopt(self, view: View) -> None:
        """Adopt a new view.  Clones that are new in it, or have been made anew, have no mark yet."""
        since = {(bundle, host.element): host.since for bundle, some in enumerate(view.hosts) for host in some}
        self._marks = {key: self._marks.get(key) if self._since.get(key) == since[key] else None for key in since}
        self._since, self._view = since, view

    def of(self, bundle: int, element: int) -> int | None:
        """Return a clone's mark; None if it has none yet."""
        return self._marks.get((bundle, element))

    def put(self, bundle: int, element: int, mark: int | None) -> None:
        """Set the mark of one of this element's own clones."""
        self._marks[bundle, element] = mark

    def hear(self, bundle: int, element: int, mark: int | None, view: int) -> bool:
        """Record a mark that another element sent under view number `view`; return whether it is larger than before."""
        key = bundle, element
        if mark is None or key not in self._marks or not self._since[key] <= view <= self._view.number:
            # Before `since`: the mark is that of an earlier clone in this place.  Under a later view than ours: our
            # view may lack a newcomer that still needs packets below the mark.
            return False
        known = self._marks[key]
        if known is not None and mark <= known:
            return False
        self._marks[key] = mark
        return True

    def said(self, bundle: int) -> list[int | None]:
        """Return the marks of a bundle's clones; None for a clone without one."""
        return [self._marks.get((bundle, host.element)) for host in self._view.hosts[bundle]]

    def low(self, bundle: int) -> int | None:
        """Return the exchange below which all clones of a bundle have everything; None while one has no mark."""
        least: int | None = None
        for mark in self.said(bundle):
            if mark is None:
                return None
            if least is None or mark < least:
                least = mark
        return least

    def laggard(self, element: int) -> Key | None:
        """Return the clone on another element that is furthest back, or None.

        It must be two exchanges or more behind a sibling.
        """
        best: dict[int, int] = {}
        for (bundle, _), mark in self._marks.items():
            best[bundle] = max(best.get(bundle, 0), mark or 0)
        marks = [
            (mark, key)
            for key, mark in self._marks.items()
            if mark is not None and key[1] != element and mark + 2 <= best[key[0]]
        ]
        return min(marks)[1] if marks else None
