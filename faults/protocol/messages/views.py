"""Views: which elements belong to a job, and the clones that they host."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple


class Role(StrEnum):
    """The part that a clone plays for its bundle."""

    LIVE = "live"  # has the state and computes every round
    JOINING = "joining"  # waits for a sibling's state: packets are retained for it, and nothing else counts it
    PASSIVE = "passive"  # a vertical clone: has the state of the last head, computes only when it is activated


class ClonePlace(NamedTuple):
    """The place of one clone in a view."""

    element: int
    role: Role
    since: int  # number of the view that gave this place; a clone that is made anew gets a new one
    row: int = 0  # of the placement: clones in row 0 are live once they have joined, those in other rows passive


@dataclass(frozen=True, slots=True)
class View:
    """The assignment of bundles to elements.

    Only bsprun makes views.  They are numbered, and the one with the largest number is in force.
    """

    number: int
    hosts: tuple[tuple[ClonePlace, ...], ...]  # indexed by bundle
    standbys: tuple[int, ...]

    def elements(self) -> set[int]:
        """Return all elements that belong to the job."""
        return {host.element for hosts in self.hosts for host in hosts} | set(self.standbys)

    def live(self, bundle: int) -> list[int]:
        """Return the elements that have a live clone of `bundle`."""
        return [host.element for host in self.hosts[bundle] if host.role is Role.LIVE]

    def plain(self) -> dict[str, Any]:
        """Return the view as the fields of an event in the log."""
        hosts = [{host.element: host.role.value for host in some} for some in self.hosts]
        return {"view": self.number, "hosts": hosts, "standbys": self.standbys}

    def columns(self, bundle: int) -> list[int]:
        """Return the elements that have a clone of `bundle`, those with live clones first.

        A clone's position in this list is its column.  Each column has one designated sender of large packets (N1).
        """
        return [host.element for host in sorted(self.hosts[bundle], key=lambda host: host.role is not Role.LIVE)]
