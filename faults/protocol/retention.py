"""What every clone has said that it has (N4): until all clones of a bundle have a packet, it is kept for them."""

from __future__ import annotations

from bsp.faults.protocol.messages import View

Key = tuple[int, int]  # (bundle, element)


class Retention:
    """The marks of all clones in the view, as one element has heard them."""

    def __init__(self) -> None:
        self._marks: dict[Key, int | None] = {}
        self._since: dict[Key, int] = {}
        self._view = View(0, (), ())

    def adopt(self, view: View) -> None:
        """A new view: clones that have come to a place in it have said nothing yet."""
        since = {(bundle, host.element): host.since for bundle, some in enumerate(view.hosts) for host in some}
        self._marks = {key: self._marks.get(key) if self._since.get(key) == since[key] else None for key in since}
        self._since, self._view = since, view

    def of(self, bundle: int, element: int) -> int | None:
        """A clone's mark: below that exchange it has everything."""
        return self._marks.get((bundle, element))

    def put(self, bundle: int, element: int, mark: int | None) -> None:
        """This element's own."""
        self._marks[bundle, element] = mark

    def hear(self, bundle: int, element: int, mark: int | None, view: int) -> bool:
        """A mark that another element has said under a view; whether it is news."""
        key = bundle, element
        if mark is None or key not in self._marks or not self._since[key] <= view <= self._view.number:
            return False  # of a clone that was there before this one, or under a view that is not ours yet
        known = self._marks[key]
        if known is not None and mark <= known:
            return False
        self._marks[key] = mark
        return True

    def said(self, bundle: int) -> list[int | None]:
        """The marks of a bundle's clones; None of one that has said nothing."""
        return [self._marks.get((bundle, host.element)) for host in self._view.hosts[bundle]]

    def low(self, bundle: int) -> int | None:
        """Below this exchange all clones of a bundle have everything; None while one has said nothing."""
        least: int | None = None
        for mark in self.said(bundle):
            if mark is None:
                return None
            if least is None or mark < least:
                least = mark
        return least

    def laggard(self, element: int) -> Key | None:
        """The clone on another element that is furthest back, two exchanges or more behind a sibling."""
        best: dict[int, int] = {}
        for (bundle, _), mark in self._marks.items():
            best[bundle] = max(best.get(bundle, 0), mark or 0)
        marks = [
            (mark, key)
            for key, mark in self._marks.items()
            if mark is not None and key[1] != element and mark + 2 <= best[key[0]]
        ]
        return min(marks)[1] if marks else None
