"""Claims about several hosts: how near predictions are there, and collectives beside the link's limit and MPI's own.

The hosts are namespaces of this machine, joined by links of 1 Gb/s (tests/hosts/cluster.py); they share its cores, so
four hosts compute half as fast on two cores as four machines would.
"""

from __future__ import annotations

import functools
import json
import sys

from cost import ALGORITHMS, BSP, BSPRUN, EXAMPLES, HERE, Place, accuracy, algorithms, predicted_row

sys.path.insert(0, str(HERE.parent))
from hosts.cluster import Cluster, missing

Row = tuple[str, str, str, str, bool]
LINK = 1e9 / 8 * (1448 / 1538)  # bytes/s of data in Ethernet, IP and TCP frames of 1500 bytes
WORDS = 1_000_000
# so large that what a link lets pass at once does not matter
PREDICTED = [
    (HERE / "poisson_by_hand.py", "200"), (EXAMPLES / "transpose.py", "2000"),
    (EXAMPLES / "sample_sort.py", "1000000"), (EXAMPLES / "heat.py", "960", "50"),
]  # fmt: skip


def predictions(hosts: int, rounds: int) -> list[Row]:
    """Predicted over measured time with an element on each host, measured by `bsp probe --hosts` before."""
    with Cluster(hosts, rate="1gbit") as cluster:
        places = ",".join(f"{host.name}:1" for host in cluster.hosts)
        # elements that wait leave the cores, which the hosts share, to the others
        environment = cluster.environment() | {"OMPI_MCA_mpi_yield_when_idle": "1"}
        run = functools.partial(cluster.hosts[0].run, env=environment)
        machine = cluster.share / "machine.toml"
        done = run([str(BSP), "probe", "--hosts", places, "-o", str(machine)], timeout=600)
        if done.returncode:
            raise SystemExit(f"bsp probe --hosts {places} failed:\n{done.stderr}")
        place = Place(str(cluster.share), "-p", hosts, "--hosts", places, "--machine", machine, run=run)
        table = [
            predicted_row(f"{hosts} hosts at 1 Gb/s: predicted time of {name}", *told, least=0.8)
            for name, told in accuracy(place, rounds, PREDICTED).items()
        ]
        for work, told in algorithms(place, rounds, ("qr", "product")).items():
            what = f"{hosts} hosts at 1 Gb/s: predicted time of {ALGORITHMS[work]}, without data"
            table.append(predicted_row(what, *told, least=0.8))
        return table


def collectives(hosts: int = 4, slots: int = 4) -> list[Row]:
    """An allreduce and a total exchange beside what the links take at least; MPI's own in the same job."""
    with Cluster(hosts, rate="1gbit") as cluster:
        places = ",".join(f"{host.name}:{slots}" for host in cluster.hosts)
        script = str(HERE / "hosts_collectives.py")
        done = cluster.hosts[0].run(
            [str(BSPRUN), "--hosts", places, script, str(WORDS), "9"], timeout=300, env=cluster.environment()
        )
        if done.returncode:
            raise SystemExit(f"{script} failed:\n{done.stderr}")
        seconds = json.loads(done.stdout)
    away = (hosts - 1) / hosts
    least = {"allreduce": 2 * away * 8 * WORDS / LINK, "total exchange": away * slots * 8 * WORDS / LINK}
    told = {name: f"{seconds[name] * 1e3:.0f} ms; MPI's own {seconds[name + ' by MPI'] * 1e3:.0f} ms" for name in least}
    return [
        (f"{name} of 10⁶ words a process, {hosts} hosts × {slots} elements at 1 Gb/s", "the links' limit", "1.3×",
         f"{seconds[name] / limit:.2f}× ({told[name]})", seconds[name] <= 1.3 * limit)
        for name, limit in least.items()
    ]  # fmt: skip


def rows(rounds: int = 5) -> list[Row]:
    """What, against what, at most, measured, met: rows of docs/benchmarks.md."""
    if why := missing():
        print(f"not measured: several hosts ({why})", file=sys.stderr)
        return []
    return [*predictions(2, rounds), *predictions(4, rounds), *collectives()]


if __name__ == "__main__":
    for row in rows(int(sys.argv[1]) if len(sys.argv) > 1 else 5):
        print(*row, sep=" | ")
