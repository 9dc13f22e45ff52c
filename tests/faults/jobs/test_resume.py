"""The second line on real processes: the whole machine is lost, the job goes on from its last checkpoint."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from bsp.faults.checkpoints.folder import claim

pytestmark = pytest.mark.jobs

BSPRUN = str(Path(sys.executable).with_name("bsprun"))
KILLS = 50 if os.environ.get("BSP_REPEAT") else 4

PROGRAM = """
import sys, time
import numpy as np
import bsp

proc = bsp.process()
data = proc.rng.normal(size=50)                      # a prologue with traffic
mean = proc.allreduce(data.sum()) / (50 * proc.nprocs)
ring = proc.coarray(2)
seen = []
state = bsp.State(beta=np.zeros(3), seen=seen)
for k in proc.rounds(int(sys.argv[1]), state):
    time.sleep(0.005)
    ring.put((proc.pid + 1) % proc.nprocs, [k, state.beta[0]])
    total = proc.allreduce(np.array([ring.local.sum(), proc.rng.random(), mean]))
    state.beta = 0.5 * state.beta + total
    if k % 7 == 0:
        seen.append(k)
    if k % 20 == 0:
        print(f"round {k} process {proc.pid}: {state.beta[0].hex()}")
print(f"end {proc.pid}: {' '.join(b.hex() for b in state.beta.tolist())} {len(seen)}")
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("resume") / "train.py"
    path.write_text(PROGRAM)
    return path


@pytest.fixture(scope="module")
def undisturbed(script: Path) -> str:
    """What the plain engine prints."""
    return bsprun("-p", "4", "-n", "2", script, "150").stdout


def bsprun(*arguments: object, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BSPRUN, *map(str, arguments)], capture_output=True, text=True, timeout=timeout)


def last_lines(text: str) -> list[str]:
    """How the program ended on each process: what a resumed job has to print, whatever was printed before."""
    return [line for line in text.splitlines() if line.startswith("end")]


def kill_everything(job: subprocess.Popen[str]) -> None:
    """The machine is gone: bsprun, launcher, agents, workers, at once."""
    family = [psutil.Process(job.pid), *psutil.Process(job.pid).children(recursive=True)]
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    job.communicate()
    psutil.wait_procs(family, timeout=300)


def wait_for(path: Path, word: str, job: subprocess.Popen[str], times: int = 1) -> None:
    """Until an event has been logged so often; the job's own end is the deadline."""
    while job.poll() is None:
        if path.exists() and path.read_text().count(f'"kind": "{word}"') >= times:
            return
        time.sleep(0.01)


@pytest.mark.thorough
def test_after_sigkill_of_everything_at_random_moments_a_resumed_job_ends_alike(
    script: Path, undisturbed: str, tmp_path: Path
) -> None:
    """Each life is killed at a random moment after its first checkpoint; the last one ends with the same bytes."""
    rng = random.Random(4)
    folder = tmp_path / "checkpoints"
    resumed = 0
    for k in range(KILLS):
        events = tmp_path / f"events-{k}.jsonl"
        options = ["--resume", folder] if folder.exists() and list(folder.glob("*/manifest.json")) else []
        resumed += bool(options)
        job = subprocess.Popen(
            list(map(str, [BSPRUN, "-p", 4, "-n", 2, "--clones", 1 + k % 2, "--checkpoint", folder, "--every", 3,
                           "--events", events, *options, script, 150])),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        wait_for(events, "checkpoint", job, rng.randrange(1, 4))
        until = time.monotonic() + rng.random() * 0.05
        while time.monotonic() < until and job.poll() is None:
            pass
        if job.poll() is None:
            kill_everything(job)
        else:
            assert job.communicate()[0].endswith("\n".join(last_lines(undisturbed)) + "\n")
            for old in folder.iterdir():  # it has ended: begin again
                for file in old.iterdir():
                    file.unlink()
                old.rmdir()
    assert resumed >= KILLS // 3
    if not list(folder.glob("*/manifest.json")):
        return
    done = bsprun("-p", 4, "-n", 2, "--resume", folder, script, 150)
    assert (done.returncode, last_lines(done.stdout)) == (0, last_lines(undisturbed)), done.stderr
    assert undisturbed.endswith(done.stdout[-len(done.stdout) // 2 :])


def test_sigterm_writes_a_checkpoint_and_ends_with_75_and_the_two_halves_are_the_whole(
    script: Path, undisturbed: str, tmp_path: Path
) -> None:
    events, folder = tmp_path / "events.jsonl", tmp_path / "checkpoints"
    job = subprocess.Popen(
        list(map(str, [BSPRUN, "-p", 4, "-n", 2, "--clones", 2, "--checkpoint", folder, "--every", 10,
                       "--events", events, script, 150])),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_for(events, "checkpoint", job)
    job.send_signal(signal.SIGTERM)
    out, said = job.communicate(timeout=300)
    assert job.returncode == 75, said
    assert "go on with --resume" in said
    rest = bsprun("-p", 4, "-n", 2, "--resume", folder, script, 150)
    assert rest.returncode == 0, rest.stderr
    assert out + rest.stdout == undisturbed


@pytest.mark.thorough
def test_a_resumed_job_goes_on_with_standard_error_where_the_state_was_taken(tmp_path: Path) -> None:
    """What stands before the loop is said again; of the rounds every line is said, by one of the two lives."""
    events, folder, program = tmp_path / "events.jsonl", tmp_path / "checkpoints", tmp_path / "program.py"
    second = tmp_path / "second life"  # the first has long rounds: it must not end before the signal arrives
    wait = f"time.sleep(0.001 if os.path.exists({str(second)!r}) else 0.05)"
    say = f'sys.stderr.write(f"round {{k}} {{proc.pid}}\\n"); {wait}; state.x += proc.allreduce(1)\n'
    loop = "state = bsp.State(x=0)\nfor k in proc.rounds(150, state):\n    "
    program.write_text("import os, sys, time\nimport bsp\nproc = bsp.process()\n" + loop + say)
    options = ["-p", "2", "-n", "2", "--clones", "2", "--checkpoint", str(folder), "--every", "10"]
    command = [BSPRUN, *options, "--events", str(events), str(program)]
    job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(events, "checkpoint", job)
    job.send_signal(signal.SIGTERM)
    said = job.communicate(timeout=300)[1]
    assert job.returncode == 75, said
    second.touch()
    rest = bsprun("-p", 2, "-n", 2, "--clones", 2, "--resume", folder, program)
    assert rest.returncode == 0, rest.stderr
    lines = [line for line in (said + rest.stderr).splitlines() if line.startswith("round")]
    # a clone that names no head within a second goes on (N13), so that what it says there may be said again
    assert set(lines) == {f"round {k} {pid}" for k in range(150) for pid in range(2)}
    assert len(lines) <= 302


@pytest.mark.thorough
def test_a_checkpoint_holds_the_values_of_calls_that_it_needs_and_no_others(tmp_path: Path) -> None:
    """N9: the one before the newest, which is damaged, has its own; those of rounds long past are in none."""
    folder, events, log = tmp_path / "checkpoints", tmp_path / "events.jsonl", tmp_path / "effects"
    program = tmp_path / "program.py"
    program.write_text(f"""
import time
import bsp
proc = bsp.process()
made = proc.once(lambda: time.time())
state = bsp.State(values=[])
for k in proc.rounds(150, state):
    time.sleep(0.004)
    state.values.append(proc.once(lambda: open({str(log)!r}, "a").write(f"{{proc.pid}} {{k}}\\n") + k))
    proc.sync()
print(made, state.values)
""")
    options = ["--clones", 2, "--checkpoint", folder, "--every", 40, "--events", events]
    whole = bsprun("-p", 2, "-n", 2, *options, program)
    assert whole.returncode == 0, whole.stderr
    assert sorted(log.read_text().splitlines()) == sorted(f"{pid} {k}" for pid in range(2) for k in range(150))
    newest = max(folder.iterdir())
    kept = [token for token, _ in json.loads((newest / "manifest.json").read_text())["head"]["once"]]
    assert [token[:2] for token in sorted(kept) if token[0] == "once"] == [["once", 0], ["once", 1]]
    assert min(head for what, _, head, _ in kept if what == "round") >= 40
    next(newest.glob("part-000001-*")).write_bytes(b"damaged")
    rest = bsprun("-p", 2, "-n", 2, "--resume", folder, program)
    assert (rest.returncode, rest.stdout) == (0, whole.stdout), rest.stderr


@pytest.fixture(scope="module")
def checkpoints(script: Path) -> Path:
    """The folder of a job's checkpoints; only to be copied."""
    folder = script.parent / "checkpoints"
    whole = bsprun("-p", 4, "-n", 2, "--checkpoint", folder, "--every", 40, script, 150)
    assert whole.returncode == 0, whole.stderr
    return folder


NEEDS = """
import pathlib, sys, time
import bsp
proc = bsp.process()
folder = pathlib.Path(sys.argv[1])
state = bsp.State(total=0.0)
def read():
    (folder / "asked").touch()
    return (folder / "data").read_text()
for k in proc.rounds(8, state):
    if k == 5:
        OPENS
    state.total += proc.allreduce(proc.pid + k)
    while k == 4 and proc.pid == 1 and not (folder / "asked").exists():
        time.sleep(0.01)  # so that the state of process 1 is taken after process 0 has failed
print("end", proc.pid, state.total)
"""


@pytest.mark.parametrize("opens", ["proc.pid == 0 and read()", "proc.once(read)"])
def test_a_program_that_ended_for_want_of_a_file_goes_on_from_its_checkpoint(tmp_path: Path, opens: str) -> None:
    """The checkpoint holds nothing that was sent after it: processes do something else now."""
    program, saved = tmp_path / "program.py", tmp_path / "saved"
    program.write_text(NEEDS.replace("OPENS", opens))
    failed = bsprun("-p", 2, "-n", 2, "--checkpoint", saved, "--every", 1, program, tmp_path)
    assert failed.returncode == 1
    assert "No such file" in failed.stderr
    (tmp_path / "data").write_text("7")
    rest = bsprun("-p", 2, "-n", 2, "--resume", saved, program, tmp_path)
    assert (rest.returncode, last_lines(rest.stdout)) == (0, ["end 0 64.0", "end 1 64.0"]), rest.stderr


@pytest.mark.parametrize("damage", ["truncated", "flipped", "foreign"])
def test_a_damaged_checkpoint_is_refused_by_name_and_the_one_before_is_used(
    script: Path, undisturbed: str, checkpoints: Path, tmp_path: Path, damage: str
) -> None:
    folder, events = tmp_path / "checkpoints", tmp_path / "events.jsonl"
    shutil.copytree(checkpoints, folder)
    before, newest = sorted(path.name for path in folder.iterdir())
    part = next((folder / newest).glob("part-000001-*"))
    data = bytearray(part.read_bytes())
    if damage == "truncated":
        part.write_bytes(data[: len(data) // 2])
    elif damage == "flipped":
        data[len(data) // 3] ^= 4
        part.write_bytes(data)
    else:
        manifest = folder / newest / "manifest.json"
        other = tmp_path / "other.py"
        other.write_text(PROGRAM + "\n# another program\n")
        elsewhere = tmp_path / "elsewhere"
        # rounds enough for the next one to be written, too: a job does not wait at its end for what it is writing
        again = bsprun("-p", 4, "-n", 2, "--checkpoint", elsewhere, "--every", 40, other, 190)
        assert again.returncode == 0
        manifest.write_bytes((elsewhere / newest / "manifest.json").read_bytes())
    rest = bsprun("-p", 4, "-n", 2, "--resume", folder, "--events", events, script, 150)
    assert rest.returncode == 0, rest.stderr
    assert f"{newest} refused" in rest.stderr
    assert undisturbed.endswith(rest.stdout) and last_lines(rest.stdout) == last_lines(undisturbed)
    log = [json.loads(line) for line in events.read_text().splitlines()]
    assert log[-1]["kind"] == "ended"
    assert before < newest


@pytest.mark.thorough
def test_resume_takes_the_numbers_of_processes_and_elements_from_the_checkpoint(
    script: Path, undisturbed: str, tmp_path: Path
) -> None:
    """Whatever the cores here are; what is given and differs is refused in words, with what to give."""
    folder = tmp_path / "checkpoints"
    whole = bsprun("-p", 6, "-n", 3, "--checkpoint", folder, "--every", 40, script, 90)
    rest = bsprun("--resume", folder, script, 90)
    assert rest.returncode == 0, rest.stderr
    assert whole.stdout.endswith(rest.stdout) and len(last_lines(rest.stdout)) == 6
    changed = tmp_path / "train.py"
    changed.write_text(PROGRAM + "# one line more\n")
    for options, words in [
        (["-n", 2, "--resume", folder, script, 90], "its number of elements is 3, not 2; give -n 3"),
        (["-p", 4, "-n", 3, "--resume", folder, script, 90], "its number of processes is 6, not 4; give -p 6"),
        (["--seed", 1, "--resume", folder, script, 90], "its seed is 0, not 1; give --seed 0"),
        (["--blas-threads", 2, "--resume", folder, script, 90],
         "its number of BLAS threads is 1, not 2; give --blas-threads 1"),
        (["--resume", folder, script, 91], "it ran 'train.py 90', and this is 'train.py 91'"),
        (["--resume", folder, changed, 90], "the script has changed since"),
        (["--machine", "cluster16", "--resume", folder, script, 90],
         "it chose its algorithms by the profile of another machine; leave --machine out"),
    ]:  # fmt: skip
        refused = bsprun(*options)
        assert refused.returncode == 2 and refused.stdout == ""
        newest, _, end = refused.stderr.splitlines()
        assert newest == f"bsprun: checkpoint: checkpoint-000081 refused: it is another job's: {words}"
        assert end == f"bsprun: error: --resume {folder}: none of its checkpoints can be used (see above)"


@pytest.mark.thorough
def test_resume_takes_the_machine_from_the_checkpoint(script: Path, tmp_path: Path) -> None:
    """The profile of the hosts here may be another: those that the job had may be gone."""
    folder = tmp_path / "checkpoints"
    given = ["--machine", "cluster16", "-p", 3, "-n", 3]
    whole = bsprun(*given, "--checkpoint", folder, "--every", 40, script, 90)
    rest = bsprun("--resume", folder, script, 90)
    assert rest.returncode == 0, rest.stderr
    assert whole.stdout.endswith(rest.stdout) and len(last_lines(rest.stdout)) == 3


def test_two_jobs_at_once_in_one_folder_are_refused(script: Path, checkpoints: Path, tmp_path: Path) -> None:
    """They would remove each other's checkpoints: of two that resume at once, one goes on."""
    folder = tmp_path / "checkpoints"
    shutil.copytree(checkpoints, folder)
    held = claim(folder)
    refused = bsprun("--resume", folder, script, 150)
    os.close(held)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == (
        f"bsprun: error: --resume {folder}: another bsprun writes its checkpoints there now; wait for its end\n"
    )
    assert bsprun("--resume", folder, script, 150).returncode == 0


def test_nothing_to_resume_is_one_clear_error(script: Path, tmp_path: Path) -> None:
    none = bsprun("-p", 2, "-n", 2, "--resume", tmp_path / "nowhere", script, 5)
    assert (none.returncode, none.stdout) == (2, "")
    assert "there is no such folder" in none.stderr
    (tmp_path / "empty").mkdir()
    empty = bsprun("-p", 2, "-n", 2, "--resume", tmp_path / "empty", script, 5)
    assert empty.returncode == 2
    assert "no checkpoint" in empty.stderr


@pytest.mark.thorough
def test_a_lost_bundle_goes_on_from_the_last_checkpoint_inside_the_same_bsprun(
    script: Path, undisturbed: str, tmp_path: Path
) -> None:
    """Both clones of bundle 1 die in one superstep; without a checkpoint that is status 3."""
    events = tmp_path / "events.jsonl"
    options = ["-p", 4, "-n", 2, "--clones", 2, "--inject", "kill:element=1,superstep=90;kill:element=3,superstep=90"]
    saved = bsprun(*options, "--checkpoint", tmp_path / "c", "--every", 10, "--events", events, script, 150)
    assert (saved.returncode, saved.stdout) == (0, undisturbed), saved.stderr
    kinds = [json.loads(line)["kind"] for line in events.read_text().splitlines()]
    assert kinds.count("lost") == 1 and kinds.count("resumed") == 1
    lost = bsprun(*options, script, 150)
    assert lost.returncode == 3
    assert "BundleLost: processes 2-3 (bundle 1), superstep" in lost.stderr
    assert undisturbed.startswith(lost.stdout)


def test_a_job_whose_only_host_is_lost_goes_on_from_its_checkpoint_when_the_host_is_back(
    script: Path, undisturbed: str, tmp_path: Path
) -> None:
    """The keeper is killed, and all agents die with it; bsprun starts another keeper before it starts agents."""
    events = tmp_path / "events.jsonl"
    options = ["-p", 4, "-n", 2, "--clones", 2, "--checkpoint", tmp_path / "c", "--every", 10, "--events", events]
    words = [BSPRUN, *map(str, options), str(script), "150"]
    job = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(events, "checkpoint", job)
    for keeper in psutil.Process(job.pid).children():
        keeper.kill()
    text, said = job.communicate(timeout=300)
    assert (job.returncode, text) == (0, undisturbed), said
    kinds = [json.loads(line)["kind"] for line in events.read_text().splitlines()]
    assert kinds.count("lost") == 1 and kinds.count("resumed") == 1
