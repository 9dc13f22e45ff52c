"""`bsprun --predict`, `--trace`, `--report`, `--sweep`: predictions held against the traces of real runs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import psutil
import pytest

import bsp
from bsp.cost.machine_file import here, of_machine
from bsp.cost.model import Machine
from bsp.cost.record import account

pytestmark = [pytest.mark.jobs, pytest.mark.crossed]

BSPRUN = [os.path.join(os.path.dirname(sys.executable), "bsprun")]
BSP = [os.path.join(os.path.dirname(sys.executable), "bsp")]
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
SCHEMA = json.loads((Path(account.__file__).parent / "trace.schema.json").read_text())
COUNTS = ("processes", "supersteps", "words", "messages")
ROW = ("label", "call", "source", "h_sent", "h_sent_by", "h_received", "h_received_by", "h_mean", "messages", "choice")


def ran(*words: Any, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=300, **options)


def trace_of(folder: Path, *words: Any) -> dict[str, Any]:
    path = folder / "trace.json"
    done = ran(*BSPRUN, "--trace", path, *words)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(path.read_text())
    jsonschema.validate(found, SCHEMA)
    return found


def prediction_of(*words: Any) -> dict[str, Any]:
    done = ran(*BSPRUN, "--predict", "--json", *words)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    jsonschema.validate(found, SCHEMA)
    return found


def counts(record: dict[str, Any]) -> tuple[Any, ...]:
    whole = {name: record[name] for name in COUNTS}
    # which way data took between elements is the real run's own
    whole["choices"] = [choice for choice in record["choices"] if not choice["call"].endswith(" elements")]
    rows = [{name: row[name] for name in ROW} for row in record["per_superstep"]]
    return whole, rows, record["traffic"], record["per_process"]["sent"], record["per_process"]["received"]


@pytest.mark.parametrize("nprocs", [1, 3, 8, 64])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_words_messages_and_supersteps_are_those_of_the_real_run(example: Path, nprocs: int, tmp_path: Path) -> None:
    assert counts(prediction_of("-p", nprocs, example)) == counts(trace_of(tmp_path, "-p", nprocs, example))


def test_a_fit_of_classes_that_are_not_known_is_predicted_without_values() -> None:
    example = next(path for path in EXAMPLES if path.stem == "travel_modes")
    assert prediction_of("-p", 3, "--abstract", example)["supersteps"] > 1


@pytest.mark.thorough
@pytest.mark.parametrize("machine", ["ring:16", "cluster16"])
def test_counts_agree_under_any_profile_and_the_profile_is_told(machine: str, tmp_path: Path) -> None:
    example = next(path for path in EXAMPLES if path.stem == "sample_sort")
    words = ("-p", 12, "--machine", machine, example)
    predicted, traced = prediction_of(*words), trace_of(tmp_path, *words)
    assert counts(predicted)[1:] == counts(traced)[1:]
    assert predicted["machine"]["name"] == machine
    assert traced["elements"] == min(12, len(os.sched_getaffinity(0)))


def script(folder: Path, text: str) -> Path:
    path = folder / "program.py"
    path.write_text(text)
    return path


TALK = """
import bsp, numpy as np
proc = bsp.process()
x = proc.coarray((6, 5), dtype=np.int16)
y = proc.coarray(proc.pid + 3)
proc.sync(label="made")
x.put((proc.pid + 1) % proc.nprocs, 7, at=(slice(None), 2), op="add")
y.put_each(np.arange(proc.nprocs), np.zeros(proc.nprocs, int), 2.5, op="max")
proc.send((proc.pid * 3) % proc.nprocs, {"who": proc.pid, "what": "x" * proc.pid}, tag="t")
proc.sync(label="é <b>")
got = x.get((proc.pid + 2) % proc.nprocs, (slice(1, 3), slice(None)))
each = y.get_each([0, proc.nprocs - 1], [1, 2])
private = proc.private()
private.send(0, np.empty(0))
private.sync()
proc.allreduce(np.arange(1000.0))
proc.scan(proc.pid, op="max")
proc.gather({"pid": proc.pid}, root=proc.nprocs - 1)
half = range(0, proc.nprocs, 2)
proc.allgather(np.ones(proc.pid), group=list(half))
proc.total_exchange(np.arange(proc.nprocs * 4).reshape(-1, 2), counts=[2] * proc.nprocs)
proc.scatter(list(range(proc.nprocs)) if proc.pid == 0 else None)
for k in range(9):
    y[0, 0] = float(k)
proc.sync()
assert got.value.shape == (2, 5)
odd = np.dtype([("a", "i4"), ("b", ">f8")])  # no dtype of NumPy's own: pickles tell whether it is the same object
for _ in range(2):
    proc.send((proc.pid + 1) % proc.nprocs, np.zeros(3, odd))
proc.sync()
proc.send((proc.pid + 2) % proc.nprocs, [message.payload for message in proc.inbox])
proc.sync()
"""


@pytest.mark.thorough
@pytest.mark.parametrize(("nprocs", "elements"), [(1, 1), (5, 1), (5, 2), (5, 3), (33, 4)])
def test_every_kind_of_traffic_is_counted_alike_on_any_number_of_elements(
    nprocs: int, elements: int, tmp_path: Path
) -> None:
    path = script(tmp_path, TALK)
    predicted = prediction_of("-p", nprocs, path)
    assert counts(predicted) == counts(trace_of(tmp_path, "-p", nprocs, "-n", elements, path))


def test_a_prediction_never_starts_mpi_and_prints_nothing_of_the_programs(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        "import sys, bsp\nproc = bsp.process()\nproc.sync()\nprint('hello')\nassert 'mpi4py' not in sys.modules\n",
    )
    done = ran(*BSPRUN, "-p", 4, "--predict", path, env=os.environ | {"PATH": "/nowhere"})
    assert done.returncode == 0, done.stderr
    assert "hello" not in done.stdout + done.stderr
    assert done.stdout.startswith(f"{path}: 4 processes on ")
    assert "all 4 processes run in this one; in their first superstep they need" in done.stderr


def test_a_prediction_says_that_processes_never_meet(tmp_path: Path) -> None:
    path = script(tmp_path, "import bsp\nbsp.run(lambda proc: proc.sync(), nprocs=3)\n")
    (said,) = [note for note in prediction_of("-p", 2, path)["notes"] if "never meet" in note]
    assert "supersteps of bsp.run and bsp.Session are not counted" in said
    assert not any("never meet" in note for note in prediction_of("-p", 1, path)["notes"])


def test_a_prediction_prints_nothing_whatever_way_the_script_takes(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        "import faulthandler, os, subprocess, sys\nfaulthandler.enable()\nsys.__stdout__.write('raw')\n"
        "os.write(1, b'raw')\nsubprocess.run(['echo', 'raw'])\nsys.stderr.buffer.write(b'told')\n",
    )
    done = ran(*BSPRUN, "-p", 2, "--predict", "--json", path)
    assert done.returncode == 0, done.stderr
    assert "raw" not in done.stdout
    assert json.loads(done.stdout)["processes"] == 2
    assert "told" in done.stderr


def test_a_trace_goes_into_pipes_and_devices_and_through_links(tmp_path: Path) -> None:
    path = script(tmp_path, "import bsp\nbsp.process().sync()\n")
    done = ran(*BSPRUN, "-p", 2, "--trace", "/dev/stdout", path)
    assert json.loads(done.stdout)["supersteps"] == 1
    target, link = tmp_path / "target.json", tmp_path / "link.json"
    target.write_text("old")
    link.symlink_to(target)
    assert ran(*BSPRUN, "-p", 2, "--trace", link, path).returncode == 0
    assert link.is_symlink()
    assert json.loads(target.read_text())["supersteps"] == 1


@pytest.mark.parametrize(
    ("program", "status", "said"),
    [
        ("import bsp\nbsp.process().sync()\nx = input()\n", 1, "reads standard input (program.py:3); a prediction has"),
        ("import sys\nn = int(sys.argv[1])\n", 1, "list index out of range (program.py:2, superstep 0)"),
        ("import sys\nsys.exit('usage: program N')\n", 1, "ends with status 1: usage: program N"),
        ("import argparse\np = argparse.ArgumentParser()\np.add_argument('n')\np.parse_args()\n", 2, "are required: n"),
        ("import bsp\np = bsp.process()\nif p.pid == 0: p.sync()\n", 1, "has returned"),
        ("x = (\n", 1, "SyntaxError"),
    ],
)
def test_a_program_that_cannot_be_predicted_gets_one_line(program: str, status: int, said: str, tmp_path: Path) -> None:
    done = ran(*BSPRUN, "-p", 2, "--predict", script(tmp_path, program), input="12\n")
    assert done.returncode == status
    assert said in done.stderr
    lines = [line for line in done.stderr.splitlines() if not line.startswith("bsprun: predict: ")]
    assert len(lines) == 1 or "SyntaxError" in said
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--predict", "--sweep", "0,x"], "--sweep 0,x: numbers of processes, 1 or more each"),
        (["--predict", "--sweep", "1,,2"], "--sweep 1,,2: numbers of processes, 1 or more each"),
        (["--predict", "--sweep", "2", "-p", "2"], "--sweep names the numbers of processes; leave -p out"),
        (["--sweep", "2"], "--sweep goes with --predict"),
        (["--abstract"], "--abstract goes with --predict"),
        (["--json"], "--json goes with --predict"),
        (["--predict", "-p", "9" * 12], f"--predict: notes on {'9' * 12} processes alone need 64 TB"),
        (["--predict", "--abstract", "-p", "9" * 12], "predict fewer processes"),
        (["--predict", "-p", "2", "-n", "3"], "-n 3 elements for 2 processes"),
        (["--machine", "none.toml"], "machine file 'none.toml' does not exist"),
        (["-p", "2", "-n", "1", "--machine", "ring:0"], "--machine ring:0: NETWORK:P"),
        (["-p", "4", "-n", "3", "--machine", "ring:2"], "machine 'ring:2' has P = 2 elements, -n asks for 3"),
        (["--trace", "/nowhere/f.json"], "--trace '/nowhere/f.json': cannot be written"),
        (["--report", "/"], "--report '/': cannot be written"),
    ],
)
def test_wrong_options_get_one_line_and_status_2(options: list[str], said: str, tmp_path: Path) -> None:
    done = ran(*BSPRUN, *options, script(tmp_path, "import bsp\n"))
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("bsprun: error: ")


@pytest.mark.parametrize("option", ["--trace", "--report"])
@pytest.mark.parametrize("predict", [[], ["--predict"]])
def test_a_record_never_overwrites_the_script(option: str, predict: list[str], tmp_path: Path) -> None:
    path = script(tmp_path, "import bsp\nbsp.process().sync()\n")
    done = ran(*BSPRUN, "-p", 2, *predict, option, "program.py", path, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"{option} 'program.py': that is the script, which would be overwritten" in done.stderr
    assert path.read_text() == "import bsp\nbsp.process().sync()\n"


def test_a_measured_machine_of_another_P_is_refused(tmp_path: Path) -> None:
    profile = of_machine(Machine(p=2, kind="measured", name="two"))
    lines = ['format = "bsp-machine"', "version = 1", 'kind = "measured"', 'name = "two"', "[machine]"]
    lines += [f"{name} = {value}" for name, value in profile["machine"].items()]
    lines += ["[measured]", *[f"{name} = {json.dumps(value)}" for name, value in here(None).items()]]
    path = tmp_path / "two.toml"
    path.write_text("\n".join(lines))
    program = script(tmp_path, "import bsp\nbsp.process().sync()\n")
    done = ran(*BSPRUN, "-p", 4, "-n", 1, "--machine", path, program)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert (
        "has P = 2 elements, -n asks for 1; leave -n out, or measure that many: bsp probe -n 1 -o FILE" in done.stderr
    )
    assert ran(*BSPRUN, "-p", 4, "--predict", "--machine", path, program).returncode == 0


def test_memory_that_was_freed_is_not_counted_though_the_c_library_keeps_it() -> None:
    code = (
        "import numpy as np\n"
        "from bsp.host import keep_freed_memory, memory_in_use\n"
        "keep_freed_memory()\n"
        "before = memory_in_use()\n"
        "held = [np.ones(1 << 19) for _ in range(16)]\n"  # 64 MiB
        "most = memory_in_use() - before\n"
        "del held[::2]\n"
        "print(most >> 20, memory_in_use() - before >> 20)\n"
    )
    most, left = map(int, ran(sys.executable, "-c", code).stdout.split())
    assert abs(most - 64) <= 2
    assert abs(left - 32) <= 2


def test_a_sweep_is_a_curve_as_text_and_as_json(tmp_path: Path) -> None:
    heat = next(path for path in EXAMPLES if path.stem == "heat")
    text = ran(*BSPRUN, "--predict", "--machine", "hypercube:8", "--sweep", "1,2,16", heat, 64, 5)
    assert text.returncode == 0, text.stderr
    rows = [line.split() for line in text.stdout.splitlines() if line.split()[0].isdecimal()]
    assert [(row[0], row[1]) for row in rows] == [("1", "1"), ("2", "2"), ("16", "8")]
    found = json.loads(ran(*BSPRUN, "--predict", "--json", "--sweep", "1,2", heat, 64, 5).stdout)
    assert [record["processes"] for record in found["predictions"]] == [1, 2]
    for record in found["predictions"]:
        jsonschema.validate(record, SCHEMA)


def test_what_a_sweep_has_predicted_before_it_fails_is_printed(tmp_path: Path) -> None:
    path = script(tmp_path, "import bsp\nproc = bsp.process()\nproc.sync()\nassert proc.nprocs < 3, 'too many'\n")
    done = ran(*BSPRUN, "--predict", "--abstract", "--sweep", "1,2,3,4", path)
    assert done.returncode == 1
    assert [line.split()[0] for line in done.stdout.splitlines() if line.split()[0].isdecimal()] == ["1", "2"]
    assert "raised AssertionError: too many" in done.stderr
    done = ran(*BSPRUN, "--predict", "--abstract", "--sweep", "3,4", path)
    assert (done.returncode, done.stdout) == (1, "")


def test_the_record_of_a_sweep_is_that_of_its_last_number_of_processes(tmp_path: Path) -> None:
    path, out = script(tmp_path, "import bsp\nbsp.process().sync()\n"), tmp_path / "t.json"
    done = ran(*BSPRUN, "--predict", "--abstract", "--sweep", "1,3,2", "--trace", out, path)
    assert done.returncode == 0
    assert json.loads(out.read_text())["processes"] == 2
    assert done.stderr.splitlines() == ["bsprun: the record is that of 2 processes, the last of the sweep"]


def test_abstract_predictions_of_what_no_machine_here_could_hold(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        "import bsp, numpy as np\n"
        "proc = bsp.process()\n"
        "x = proc.rng.normal(size=(10**9 // proc.nprocs, 125))\n"  # 1 TB in all
        "total = proc.allreduce(x.T @ x)\n"
        "print(f'{total[0, 0]:.3e}')\n",
    )
    found = prediction_of("-p", 512, "--abstract", "--machine", "infiniband1000", path)
    flops = 2 * 125**2 * (10**9 // 512)
    assert found["abstract"]
    assert found["peak_bytes"] > 10**12 / 512
    first = found["per_superstep"][0]
    assert first["w"] >= flops / 2.8e10
    assert found["supersteps"] >= 1


def test_a_branch_on_a_value_that_is_not_there_names_the_line(tmp_path: Path) -> None:
    path = script(
        tmp_path, "import bsp, numpy as np\nproc = bsp.process()\nx = np.zeros(5)\nif x.sum() > 0:\n    proc.sync()\n"
    )
    done = ran(*BSPRUN, "-p", 2, "--predict", "--abstract", path)
    assert done.returncode == 1
    assert "ValueNeeded: a branch needs the values of <bool> at program.py:4" in done.stderr
    assert "bsp.expect(condition, times=k)" in done.stderr
    assert done.stderr.count("\n") == 1


def test_numpys_functions_take_distributed_arrays_without_values_as_with_them(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        "import numpy as np, bsp.arrays as ba\n"  # first imported while NumPy's functions are replaced
        "x = ba.ones((6, 2), grid=(3, 1))\n"
        "for made in (\n"
        "    np.stack([x[0], x[1]]), np.vstack([x, x]), np.column_stack([x[:, 0], x[:, 1]]),\n"
        "    x + np.zeros_like(x) + np.ones_like(x) + np.full_like(x, 2), np.meshgrid(x[:, 0], x[:, 1])[0],\n"
        "):\n"
        "    made.sum(axis=0).persist()\n",
    )
    real, abstract = prediction_of("-p", 3, path), prediction_of("-p", 3, "--abstract", path)
    assert [real[name] for name in COUNTS] == [abstract[name] for name in COUNTS]
    assert real["words"] > 0


def test_expect_says_how_long_a_loop_runs(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        "import bsp, numpy as np\n"
        "proc = bsp.process()\n"
        "error = np.ones(())\n"
        "while bsp.expect(proc.allreduce(np.max(error)) > 2e-3, times=6):\n"
        "    error = error / 10\n",
    )
    real, assumed = prediction_of("-p", 3, path), prediction_of("-p", 3, "--abstract", path)
    assert real["supersteps"] == 5  # 3, 0.3, 0.03, 0.003, 0.0003
    assert assumed["supersteps"] == 7


def test_predict_from_python_is_the_prediction_of_the_command(tmp_path: Path) -> None:
    path = script(tmp_path, TALK)
    code = compile(path.read_text(), str(path), "exec")

    def main(proc: bsp.Process) -> None:
        exec(code, {"__name__": "__main__"})

    found = bsp.predict(main, nprocs=5)
    command = prediction_of("-p", 5, path)
    assert (found.supersteps, found.words, found.messages) == tuple(
        command[name] for name in ("supersteps", "words", "messages")
    )
    assert [row["h_sent"] for row in found] == [row["h_sent"] for row in command["per_superstep"]]
    assert len(found) == found.supersteps
    assert str(found).startswith("main: 5 processes on ")


def test_a_failing_run_leaves_its_trace_up_to_there(tmp_path: Path) -> None:
    path = script(
        tmp_path, "import bsp\nproc = bsp.process()\nproc.sync()\nproc.sync()\n1 / (proc.pid - 1)\nproc.sync()\n"
    )
    out = tmp_path / "t.json"
    done = ran(*BSPRUN, "-p", 4, "-n", 2, "--trace", out, path)
    assert done.returncode == 1
    found = json.loads(out.read_text())
    jsonschema.validate(found, SCHEMA)
    assert found["supersteps"] == 2
    assert "ZeroDivisionError" in found["notes"][0]


@pytest.mark.parametrize("nprocs", [2, 3])
def test_a_mismatch_between_elements_leaves_its_trace_up_to_there(nprocs: int, tmp_path: Path) -> None:
    path = script(
        tmp_path,
        "import bsp\nproc = bsp.process()\nproc.allreduce(1.0)\n"
        "if proc.pid: proc.send(0, 1)\nproc.sync() if proc.pid else proc.allreduce(2.0)\n",
    )
    out = tmp_path / "t.json"
    done = ran(*BSPRUN, "-p", nprocs, "-n", 2, "--trace", out, path)
    assert done.returncode == 1
    assert done.stderr.startswith("bsprun: SyncMismatch: process 0 waits in allreduce")
    assert done.stderr.count("\n") == 1
    found = json.loads(out.read_text())
    jsonschema.validate(found, SCHEMA)
    assert (found["supersteps"], found["messages"]) == (1, nprocs * (nprocs - 1))


def test_reports_and_perfetto_traces_are_written_and_nothing_is_left_beside_them(tmp_path: Path) -> None:
    path = script(tmp_path, TALK)
    out, page = tmp_path / "p.json", tmp_path / "r.html"
    done = ran(*BSPRUN, "-p", 4, "--trace", out, "--trace-format", "perfetto", "--report", page, path)
    assert done.returncode == 0, done.stderr
    assert json.loads(out.read_text())["traceEvents"]
    assert page.read_text().lower().startswith("<!doctype html>")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["p.json", "program.py", "r.html"]
    plain = tmp_path / "t.json"
    assert ran(*BSPRUN, "-p", 4, "--trace", plain, path).returncode == 0
    assert ran(*BSP, "report", plain, "-o", tmp_path / "again.html").returncode == 0
    plain.write_text(plain.read_text()[:200])
    cut = ran(*BSP, "report", plain)
    assert cut.returncode == 2
    assert cut.stderr.count("\n") == 1


def test_a_run_that_is_killed_tells_that_its_record_is_missing(tmp_path: Path) -> None:
    """Or the file of an earlier run would be taken for it."""
    path = script(tmp_path, "import bsp, os, signal\nbsp.process().sync()\nos.kill(os.getpid(), signal.SIGKILL)\n")
    trace, page = tmp_path / "t.json", tmp_path / "r.html"
    trace.write_text("of an earlier run")
    done = ran(*BSPRUN, "-p", 2, "--trace", trace, "--report", page, path)
    assert done.returncode == 128 + signal.SIGKILL
    assert done.stderr.splitlines()[1:] == [
        f"bsprun: not written: {trace}, {page} (the record of a run is made at its end)"
    ]
    assert trace.read_text() == "of an earlier run"
    assert not page.exists()


@pytest.mark.parametrize(("status", "told"), [(0, 2), (7, 7)])
def test_a_record_that_finds_no_room_leaves_the_programs_status(status: int, told: int, tmp_path: Path) -> None:
    path = script(tmp_path, f"import bsp, sys\nbsp.process().sync()\nsys.exit({status})\n")
    for option in ("--trace", "--report"):
        done = ran(*BSPRUN, "-p", 2, option, "/dev/full", path)
        assert (done.returncode, done.stdout) == (told, "")
        assert done.stderr == "bsprun: error: '/dev/full': cannot be written: No space left on device\n"
        done = ran(*BSPRUN, "-p", 2, "--predict", option, "/dev/full", path)
        assert done.stderr.splitlines()[-1].startswith("bsprun: error: "), done.stderr


def test_progress_shows_nothing_in_a_pipe(tmp_path: Path) -> None:
    done = ran(*BSPRUN, "-p", 2, "--progress", script(tmp_path, "import bsp\nbsp.process().sync()\n"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def shown_on(terminal: int, look: Callable[[bytes], object] = bool) -> bytes:
    """All that programs write to a terminal; `look` is called with what has come so far."""
    text = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while chunk := os.read(terminal, 4096):
            text += chunk
            look(text)
    os.close(terminal)
    return text


def test_progress_is_a_live_line_on_a_terminal(tmp_path: Path) -> None:
    import pty

    path = script(
        tmp_path,
        "import bsp, time\nproc = bsp.process()\nfor k in proc.rounds(12):\n    time.sleep(0.06)\n    proc.sync()\n",
    )
    master, slave = pty.openpty()
    child = subprocess.Popen([*BSPRUN, "-p", "2", "-n", "2", "--progress", path], stderr=slave, stdout=slave)
    os.close(slave)
    text = shown_on(master)
    assert child.wait(30) == 0
    assert b"superstep " in text
    assert b" of 12" in text
    assert b" s left" in text
    assert text.endswith(b"\r\x1b[K")


@pytest.mark.parametrize("elements", [1, 2])
def test_progress_is_on_the_terminal_while_the_program_runs(elements: int, tmp_path: Path) -> None:
    """The program goes on only when its line has been seen."""
    import pty

    seen = tmp_path / "seen"
    path = script(
        tmp_path,
        "import bsp, os, sys, time\nproc = bsp.process()\nfor k in proc.rounds(1000):\n    time.sleep(0.01)\n"
        "    proc.sync()\n"
        f"    if proc.allreduce(int(os.path.exists({str(seen)!r})), op='max'): break\n"
        "else: sys.exit('nobody has seen a line')\n",
    )
    master, slave = pty.openpty()
    child = subprocess.Popen([*BSPRUN, "-p", "2", "-n", str(elements), "--progress", path], stderr=slave, stdout=slave)
    os.close(slave)
    text = shown_on(master, lambda text: seen.touch() if b" of 1000" in text else None)
    assert child.wait(60) == 0, text


@pytest.mark.parametrize("elements", [1, 2])
def test_progress_makes_room_for_text_and_fits_the_terminal(elements: int, tmp_path: Path) -> None:
    """Text of process 0 appears at once, text of the others at the boundary; each begins in a row of its own."""
    import pty
    import termios

    path = script(
        tmp_path,
        "import bsp, sys\nproc = bsp.process()\nproc.sync()\n"  # after the first superstep a line is always shown
        # standard error of other elements is written by themselves, and knows of no line
        "stream = sys.stderr if 'stderr' in sys.argv and proc.pid == 0 else sys.stdout\n"
        "print(f'text of {proc.pid}', file=stream)\nproc.sync()\n",
    )
    for stream in ("stdout", "stderr"):
        master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (24, 30))
        words = [*BSPRUN, "-p", "2", "-n", str(elements), "--progress", path, stream]
        child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=slave, stdout=slave)
        os.close(slave)
        text = shown_on(master)
        assert child.wait(60) == 0, text
        assert b"\r\x1b[Ktext of 0\r\n" in text, text
        first = text.split(b"\x1b[K")[1].rstrip(b"\r")
        assert first.startswith(b"superstep 1, "), text
        assert len(first) == 29, text


def test_ctrl_c_ends_a_prediction_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = script(tmp_path, "import bsp\nprint('go')\nopen('started', 'w').close()\nwhile True: pass\n")
    child = subprocess.Popen(
        [*BSPRUN, "-p", "2", "--predict", path], cwd=tmp_path, stderr=subprocess.PIPE, start_new_session=True
    )
    deadline = time.monotonic() + 300
    while not (tmp_path / "started").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    family = psutil.Process(child.pid).children(recursive=True)
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=300)
    assert child.returncode == 130
    _, alive = psutil.wait_procs(family, timeout=300)
    assert alive == []


def test_plan_tells_what_was_chosen_and_at_which_prices() -> None:
    def main(proc: bsp.Process) -> tuple[str, str, list[str]]:
        proc.allreduce(proc.rng.random(100))
        plan = proc.plan()
        assert plan.collective is not None
        return str(plan), plan.collective.chosen, [name for name, _ in plan.collective.priced]

    text, chosen, priced = bsp.run(main, nprocs=4)[2]
    assert text.startswith(f"allreduce(float64[100], op='add'): {chosen}; priced: one-phase ")
    assert priced == ["one-phase", "two-phase", "tree-2", "tree-4", "tree-8", "tree-16"]


def test_an_error_of_a_library_is_told_at_the_line_of_the_program(tmp_path: Path) -> None:
    path = tmp_path / "reads.py"
    path.write_text("import json\nimport bsp\n\nbsp.process().sync()\nprint(json.loads('{bad'))\n")
    done = ran(*BSPRUN, "-p", 2, "--predict", path)
    assert done.returncode == 1
    assert "JSONDecodeError" in done.stderr
    assert "(reads.py:5, superstep 1)" in done.stderr


def test_a_script_for_numpy_is_named_as_on_the_command_line(tmp_path: Path) -> None:
    path = script(tmp_path, "import numpy as np\nprint(np.arange(100.0).sum())\n")
    assert prediction_of("-p", 2, "--numpy", path)["program"] == ["--numpy", str(path)]
    assert trace_of(tmp_path, "-p", 2, "--numpy", path)["program"] == ["--numpy", str(path)]
    done = ran(*BSPRUN, "-p", 2, "--numpy", "--predict", script(tmp_path, "raise SystemExit('usage: program N')\n"))
    assert "error: --predict: the program ends with status 1: usage: program N" in done.stderr
