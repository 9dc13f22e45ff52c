"""Answers to who asks something of a running job: `bsp status`, `bsp drain`, `bsp join`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bsp.faults.bsprun.crew import Asked
from bsp.faults.protocol.messages import Role
from bsp.hosts.listing import Host

if TYPE_CHECKING:
    from bsp.faults.bsprun.incarnation import Incarnation


def answer(job: Incarnation, asked: Asked) -> None:
    """Answer an inquiry; one that is repeated has the same effect as one that is not (N14)."""
    about = asked.inquiry.about
    if asked.inquiry.what == "status":
        job.crew.answer(asked, "done", status(job))
    elif asked.inquiry.what == "drain":
        job.crew.answer(asked, *_drain(job, str(about["host"])))
    elif asked.inquiry.what == "join":
        host = Host(str(about["name"]), int(about["slots"]), str(about["rack"]))
        job.crew.answer(asked, "done", job.join(asked.who, host))


def status(job: Incarnation) -> dict[str, Any]:
    """Return what is known of the hosts, elements and clones of a job, as plain values."""
    arbiter, now = job.arbiter, job.seconds()
    names = {element: job.homes.hosts[job.crew.host_of(element)].name for element in job.crew.known()}
    clones = [
        {
            "bundle": progress.bundle, "element": report.element, "host": names.get(report.element, ""),
            "role": host.role.value, "superstep": progress.superstep, "tails": progress.tails,
            "silent": round(arbiter.quiet(report.element, now), 3), "line": progress.line,
            "waits_for": progress.waits_for, "phase": str(progress.phase), "seconds": round(progress.seconds, 3),
        }
        for report in arbiter.reports.values() for progress in report.clones
        for host in arbiter.view.hosts[progress.bundle] if host.element == report.element
    ]  # fmt: skip
    return {
        "program": job.launch.asked, "processes": job.launch.nprocs, "bundles": job.launch.elements,
        "seconds": round(now, 3), "superstep": job.superstep(), "incarnation": job.job.incarnation,
        "hosts": [
            {"name": host.name, "slots": host.slots, "ready": at in job.crew.ready(), "agents": job.crew.on(at)}
            for at, host in enumerate(job.homes.hosts)
        ],
        "clones": sorted(clones, key=lambda clone: (clone["bundle"], clone["role"] != Role.LIVE, clone["element"])),
        "standbys": {element: names.get(element, "") for element in arbiter.view.standbys},
        "dead": dict(arbiter.dead), "leaving": dict(arbiter.leaving),
    }  # fmt: skip


def _drain(job: Incarnation, name: str) -> tuple[str, str]:
    """Leave a host; return how far that is, as status and text.

    A host that has joined more than once is in the list as often, with one name: it is left everywhere.
    """
    found = [at for at, host in enumerate(job.homes.hosts) if host.name == name]
    if not found:
        names = ", ".join(dict.fromkeys(host.name for host in job.homes.hosts))
        return "refused", f"the job has no host {name}; it has {names}"
    for at in found:
        if at not in job.crew.left and (refused := job.drain(at, "bsp drain")):
            return "refused", refused
    left = sum(job.crew.on(at) for at in found)
    return ("under way", f"{left} elements are still on {name}") if left else ("done", f"no element is left on {name}")
