"""`make hosts`: a shell on the first host of a cluster on this machine."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from hosts import cluster, slurm


def main() -> int:
    """Make the hosts, give a shell, and take all down when it ends; return the shell's status."""
    parser = argparse.ArgumentParser(prog="make hosts")
    parser.add_argument("number", type=int)
    parser.add_argument("--rate", default="", help="of each host's link, as tc writes it: 1gbit")
    parser.add_argument("--slurm", action="store_true", help="the hosts are the nodes of a Slurm cluster")
    options = parser.parse_args()
    if why := slurm.missing() if options.slurm else cluster.missing():
        parser.exit(1, f"make hosts: {why}\n")
    kind = slurm.SlurmCluster if options.slurm else cluster.Cluster
    with kind(options.number, rate=options.rate) as made:
        names = ", ".join(host.name for host in made.hosts)
        example = "salloc -N2 bsprun script.py" if options.slurm else "bsprun --hosts h1:2,h2:2 script.py"
        print(
            f"This is a shell on h1 of {names}; all of them see {made.share}. Try: bsp doctor --hosts h1,h2; {example}."
        )
        print("From another terminal: " + made.hosts[1 % options.number].by_hand())
        print("It ends with this shell.", flush=True)
        signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C is for what runs in the shell
        shell = made.hosts[0].popen(["bash", "--norc"], env={**made.environment(), "PS1": "h1:\\w$ ", "TERM": "xterm"})
        return int(shell.wait())


if __name__ == "__main__":
    sys.exit(main())
