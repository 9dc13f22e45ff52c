"""The price of a lost host, a cut link, a drain and the end of bsprun for a nonstop job; rows of docs/benchmarks.md.

Four hosts (namespaces of this machine) with room for two elements each, and one slot more, run eight elements: four
bundles, two clones of each.  Progress is the time between two rounds' lines, as in nonstop.py; each run must have the
text of the undisturbed one, and lose no round.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import psutil
from cost import BSP, BSPRUN, HERE
from nonstop import Row, Run, between

sys.path.insert(0, str(HERE.parent))
from hosts.cluster import Cluster, Host, missing

from bsp.faults.events.log import read

PLACES = "h1:3,h2:3,h3:3,h4:3"
ROUNDS, SECONDS, AT = 160, 0.05, 40  # rounds, the seconds that each sleeps, and the round in which the fault comes
Strike = Callable[[Cluster, subprocess.Popen[str]], None]


def run(cluster: Cluster, strike: Strike | None) -> Run:
    """A job of nonstop_rounds.py, started on h1 and struck in round AT."""
    log = cluster.share / "events.jsonl"
    log.unlink(missing_ok=True)
    words = [str(BSPRUN), "-p", "4", "-n", "4", "--clones", "2", "--hosts", PLACES, "--events", str(log)]
    program = [str(HERE / "nonstop_rounds.py"), str(ROUNDS), str(SECONDS), "sleep"]
    job = cluster["h1"].popen([*words, *program], stdout=subprocess.PIPE, text=True)
    times, text = [], []
    for line in job.stdout:
        times.append(time.perf_counter())
        text.append(line)
        if strike is not None and len(text) == AT:
            threading.Thread(target=strike, args=(cluster, job)).start()
    status = job.wait()
    for host in cluster.hosts:
        host.heal_or_power_on()
    return Run(times, text, status, list(read(log)))


def cut_for_three_seconds(cluster: Cluster, job: subprocess.Popen[str]) -> None:
    """Cut the link of h3; heal it after three seconds."""
    cluster["h3"].cut()
    time.sleep(3)
    cluster["h3"].heal()


def drain(cluster: Cluster, job: subprocess.Popen[str]) -> None:
    """Have h3 left."""
    name = cluster["h1"].run([str(BSP), "jobs"]).stdout.split()[0]
    cluster["h1"].run([str(BSP), "drain", name, "h3"])


def on_h3(what: Callable[[Host], None]) -> Strike:
    return lambda cluster, job: what(cluster["h3"])


def attached(cluster: Cluster, quiet: Run) -> Row:
    """SIGKILL of bsprun, and another one on h2: whether the output is the same, and what is lost."""
    out, log = cluster.share / "out.txt", cluster.share / "events.jsonl"
    log.unlink(missing_ok=True)
    words = [str(BSPRUN), "-p", "4", "-n", "4", "--clones", "2", "--hosts", PLACES, "--events", str(log)]
    program = [str(HERE / "nonstop_rounds.py"), str(ROUNDS), str(SECONDS), "sleep"]
    with out.open("w") as file:
        job = cluster["h1"].popen([*words, *program], stdout=file)
    while out.read_text().count("\n") < AT:
        time.sleep(0.01)
    name = cluster["h1"].run([str(BSP), "jobs"]).stdout.split()[0]
    (bsprun,) = [child for child in psutil.Process(job.pid).children() if "bsprun" in " ".join(child.cmdline())]
    bsprun.kill()
    job.wait()
    with out.open("a") as file:
        cluster["h2"].run([str(BSPRUN), "--attach", name], capture_output=False, stdout=file, check=True)
    same = out.read_text() == "".join(quiet.text)
    lost = next(int(str(event["rounds_lost"])) for event in read(log) if event["kind"] == "ended")
    told = f"{lost}; {'the same' if same else 'others'}"
    what = "SIGKILL of bsprun, attached from another host: rounds lost; bytes of the output"
    return what, "", "0; the same", told, same and not lost


def rows() -> Iterator[Row]:
    """One by one."""
    if why := missing():
        print(f"not measured: nonstop jobs on hosts ({why})", file=sys.stderr)
        return
    with Cluster(4) as cluster:
        quiet = run(cluster, None)
        usual = statistics.median(quiet.gaps())

        def struck(strike: Strike) -> tuple[float, int, Run]:
            done = run(cluster, strike)
            assert (done.status, done.text) == (0, quiet.text), (strike, done.status)
            return max(done.gaps()) - usual, done.lost(), done

        for what, strike in (("killed", on_h3(Host.crash)), ("switched off", on_h3(Host.power_off))):
            stall, lost, done = struck(strike)
            back = between(done.events, "died", "restored")
            yield (f"a host of four is {what}, HC = 2: stall beyond a round; rounds lost; two clones again after", "",
                   "0.5 s; 0; 3 s", f"{stall:.2f} s; {lost}; {back:.2f} s",
                   stall <= 0.5 and not lost and back <= 3)  # fmt: skip
        for what, strike in (("for 3 s", cut_for_three_seconds), ("for ever", on_h3(Host.cut))):
            stall, lost, _ = struck(strike)
            yield (f"the link of a host of four is cut {what}, HC = 2: stall beyond a round; rounds lost", "",
                   "0.2 s; 0", f"{stall:.2f} s; {lost}", stall <= 0.2 and not lost)  # fmt: skip
        stall, lost, done = struck(drain)
        longest = max(done.gaps()) / usual
        yield ("`bsp drain` of a host of four, HC = 2: longest round; rounds lost", "the median round", "2.00×; 0",
               f"{longest:.2f}×; {lost}", longest <= 2 and not lost)  # fmt: skip
        yield attached(cluster, quiet)


if __name__ == "__main__":
    for row in rows():
        print("| " + " | ".join(map(str, row)) + " |", flush=True)
