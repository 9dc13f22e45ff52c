"""`--show` of a nonstop job: where it runs, the commands that start it, their environment; and nothing is done."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

import bsp.command.bsprun
from bsp.command.launch import Launch
from bsp.errors import LaunchError
from bsp.faults.bsprun.job import identity
from bsp.faults.checkpoints.folder import commit, name_at, write_part
from bsp.faults.checkpoints.key import user_key

pytestmark = pytest.mark.solo

KEY = "the key of the user whose jobs these are"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a script in it; the user's state folder is another."""
    folder = tmp_path / "here"
    folder.mkdir(mode=0o700)
    (folder / "train.py").write_text("import bsp\nprint(bsp.process().pid)\n")
    (folder / "machines").write_text("localhost slots=4\n")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("BSP_CHECKPOINT_KEY", KEY)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return folder


def written(folder: Path, program: list[str]) -> Path:
    """A folder with a checkpoint to go on from."""
    name = name_at(30)
    parts = [write_part(folder, name, bundle, [b"a part"]) for bundle in range(2)]
    job = identity(Launch(nprocs=4, elements=2, program=program))
    head = {"superstep": 30, "head": 10, "said": 0, "seconds": 1.0, "once": []}
    commit(folder, user_key(make=False), name, job, parts, head, keep=1)
    return folder


class Started(Exception):
    """A process would have been."""


def shown(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[list[str], list[list[str]]]:
    """What `--show` prints: where each element runs, and the command of each host's keeper, as words."""
    assert bsp.command.bsprun.bsprun(["--show", *shlex.split(line)]) == 0
    out, err = capsys.readouterr()
    assert KEY not in out + err
    places = [each for each in out.splitlines() if each.startswith("host ")]
    return places, [shlex.split(each) for each in out.splitlines()[len(places) :]]


def started(line: str, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, str], list[str]]:
    """Environment and command line of the first process that a job starts, when it is not shown."""
    found: dict[str, Any] = {}

    def popen(command: list[str], env: dict[str, str], **rest: Any) -> Any:
        found.update(env=env, command=command)
        raise LaunchError("enough")

    monkeypatch.setattr(subprocess, "Popen", popen)
    with pytest.raises(SystemExit):
        bsp.command.bsprun.bsprun(shlex.split(line))
    monkeypatch.undo()
    return found["env"], found["command"]


LINES = {
    "clones": "-p 4 -n 2 --clones 2 train.py 1 'two words'",
    "clones that are not whole, standbys": "-p 4 -n 2 --clones 1.5 --standby 2 --tail-limit 3 --hang-limit 20 train.py",
    "vertical": "-p 4 -n 2 --vertical 2 --seed 7 train.py",
    "standby": "-p 4 -n 2 --standby 1 --blas-threads 2 train.py",
    "checkpoint": "-p 4 -n 2 --checkpoint c --every 7 --keep 3 train.py",
    "injected faults, a log": "-p 4 -n 2 --clones 2 --inject 'kill:element=3,superstep=17' --events log.jsonl train.py",
    "a machine, a module": "-p 4 -n 2 --clones 2 --machine cluster16 -m json.tool",
    "auto": "-p 4 -n 2 --resilience auto --mtbf 0.1 --availability 0.9 train.py",
    "auto with checkpoints": "-p 4 -n 2 --resilience auto --mtbf 50 --checkpoint c --checkpoint-seconds 1 train.py",
    "resume": "--resume old train.py 5",
}


@pytest.mark.parametrize("name", LINES)
def test_what_is_shown_is_what_is_started(
    name: str, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "resume":
        written(here / "old", ["train.py", "5"])
    places, (words,) = shown(LINES[name], capsys)
    environment = dict(os.environ)
    for folder in ("c", "log.jsonl"):
        assert not (here / folder).exists()
    env, command = started(LINES[name], monkeypatch)
    at = next(k for k, word in enumerate(words) if "=" not in word.partition("/")[0])
    assert words[at:] == command
    assert environment.pop("BSP_CHECKPOINT_KEY") == KEY  # bsprun's alone
    assert environment | dict(word.split("=", 1) for word in words[:at]) == env
    assert places[0].startswith("host localhost: element 0, processes 0-1") and len(places) >= 2


def test_hosts_and_the_clones_on_them_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Clones apart; one command a host, with the words that reach it."""
    line = "-p 4 -n 2 --clones 2 --standby 1 --hosts h1:2,h2:2,h3:1 --reach 'enter {host}' train.py"
    places, commands = shown(line, capsys)
    assert places == [
        "host h1: element 0, processes 0-1",
        "host h1: element 1, processes 2-3",
        "host h2: element 2, processes 0-1",
        "host h2: element 3, processes 2-3",
        "host h3: element 4, a standby",
    ]
    assert [words[words.index("enter") :][:2] for words in commands] == [["enter", f"h{k}"] for k in (1, 2, 3)]
    assert all(words[-1] == "train.py" for words in commands)


def test_clones_that_cannot_be_kept_apart_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """By process and host; with --strict nothing runs.  Hosts of one rack are one domain."""
    line = "-p 4 -n 2 --clones 2 --hosts h1:3,h2:1 train.py"
    assert bsp.command.bsprun.bsprun(["--show", *shlex.split(line)]) == 0
    told = "clones of processes 2-3 cannot be kept apart: they stand on h1 together, and are lost together"
    assert f"bsprun: warning: {told}" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        bsp.command.bsprun.bsprun(["--show", "--strict", *shlex.split(line)])
    assert f"--strict: {told}" in capsys.readouterr().err
    Path("racks").write_text("h1 slots=2 rack=a\nh2 slots=2 rack=a\nh3 slots=1 rack=b\n")
    assert bsp.command.bsprun.bsprun(["--show", *shlex.split("-p 4 -n 2 --clones 2 --hostfile racks train.py")]) == 0
    assert "clones of processes 2-3 cannot be kept apart: they stand on a together" in capsys.readouterr().err


def test_more_elements_than_slots_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bsp.command.bsprun.bsprun(shlex.split("--show -p 4 -n 2 --clones 2 --standby 1 --hosts h1:2,h2:2 train.py"))
    assert "5 elements (clones and standbys included), but the hosts have 4 slots" in capsys.readouterr().err


def test_auto_shows_what_it_chooses_even_the_plain_engine(capsys: pytest.CaptureFixture[str]) -> None:
    assert bsp.command.bsprun.bsprun(["--show", *shlex.split("-p 4 -n 2 --resilience auto --mtbf 1e9 train.py")]) == 0
    out, err = capsys.readouterr()
    assert "bsp.command.start" in out and "bsp.faults" not in out
    assert err.startswith("bsprun: --resilience auto: ") and "the plain engine runs it" in err


@pytest.mark.parametrize("name", LINES)
def test_nothing_is_started_made_or_changed(
    name: str, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No folder, no log, and no key for a user who has none."""
    if name == "resume":
        written(here / "old", ["train.py", "5"])
    else:
        monkeypatch.delenv("BSP_CHECKPOINT_KEY")
    before = sorted((path, path.stat().st_mtime_ns) for path in here.parent.rglob("*"))

    def popen(*_: Any, **__: Any) -> Any:
        raise Started

    monkeypatch.setattr(subprocess, "Popen", popen)
    monkeypatch.setattr(os, "fork", popen)
    shown(LINES[name], capsys)
    assert sorted((path, path.stat().st_mtime_ns) for path in here.parent.rglob("*")) == before


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("-p 4 -n 2 --clones 0.5 train.py", "--clones 0.5: 1 or more"),
        ("-p 4 -n 2 --clones 2 --inject kill:element=9,superstep=1 train.py", "element"),
        ("-p 4 -n 2 --checkpoint open train.py", "--checkpoint 'open': everybody may write into it (mode 777): chmod "),
        ("--resume open train.py", "--resume 'open': everybody may write into it (mode 777): chmod 700 open"),
        ("-p 4 -n 2 --checkpoint old train.py 5", "--checkpoint old: checkpoints of this very job are there already"),
        ("--resume old train.py 6", "--resume old: none of its checkpoints can be used (see above)"),
        ("--resume empty train.py 6", "--resume empty: there is no checkpoint in empty"),
    ],
)  # fmt: skip
def test_what_the_job_would_be_refused_for_is_told(
    line: str, said: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(here / "old", ["train.py", "5"])
    (here / "empty").mkdir()
    (here / "open").mkdir()
    (here / "open").chmod(0o777)
    with pytest.raises(SystemExit) as left:
        bsp.command.bsprun.bsprun(["--show", *shlex.split(line)])
    out, err = capsys.readouterr()
    assert (left.value.code, out) == (2, "")
    assert said in err.splitlines()[-1]


def test_a_value_that_a_shell_would_take_apart_is_quoted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OMPI_MCA_btl", "self, sm $HOME")
    monkeypatch.setenv("PYTHONHASHSEED", "1; reboot")
    assert "OMPI_MCA_btl=self, sm $HOME" in shown("-p 4 -n 2 train.py", capsys)[1][0]
    assert "PYTHONHASHSEED=1; reboot" in shown("-p 4 -n 2 --clones 2 train.py", capsys)[1][0]


@pytest.mark.jobs
def test_whoever_pastes_it_learns_who_starts_keepers(capsys: pytest.CaptureFixture[str]) -> None:
    """A shell takes it as it is; without a bsprun to work for the keeper ends at once, and says so."""
    assert bsp.command.bsprun.bsprun(["--show", *shlex.split("-p 2 -n 2 --clones 1 --standby 0 train.py 'it''s'")]) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    assert done.returncode != 0
    assert "no settings on standard input; start the job with bsprun" in done.stderr
