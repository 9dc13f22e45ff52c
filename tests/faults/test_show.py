"""`--show` of a nonstop job: the command and the environment that it is started with, and nothing is done."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

import bsp.command.bsprun
from bsp.command.launch import Launch
from bsp.errors import LaunchError
from bsp.faults.checkpoints.folder import commit, name_at, write_part
from bsp.faults.checkpoints.key import user_key
from bsp.faults.engine.job import identity
from bsp.host import find_mpiexec

pytestmark = [
    pytest.mark.solo,
    pytest.mark.skipif(find_mpiexec() is None, reason="needs an mpiexec to show"),
]

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


def split(words: list[str]) -> tuple[dict[str, str], list[str], dict[str, Any], list[str]]:
    """Environment, mpiexec with its options, an agent's settings, the program."""
    at = next(k for k, word in enumerate(words) if "=" not in word.partition("/")[0])
    agent = words.index("bsp.faults.engine.agent")
    environment = dict(word.split("=", 1) for word in words[:at])
    return environment, words[at : agent + 1], json.loads(words[agent + 1]), words[agent + 2 :]


def shown(line: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert bsp.command.bsprun.bsprun(["--show", *shlex.split(line)]) == 0
    out, err = capsys.readouterr()
    assert out.count("\n") == 1 and KEY not in out + err
    return shlex.split(out)


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
    """But for what bsprun finds only when it starts: its port, its own folder; and its secret."""
    if name == "resume":
        written(here / "old", ["train.py", "5"])
    words, environment = shown(LINES[name], capsys), dict(os.environ)
    for folder in ("c", "log.jsonl"):
        assert not (here / folder).exists()
    env, command = started(LINES[name], monkeypatch)
    extra, mpiexec, settings, program = split(words)
    _, really, really_settings, really_program = split(command)
    assert (mpiexec, program) == (really, really_program)
    own = re.escape(str(Path(env["PRTE_MCA_prte_tmpdir_base"]).parent))
    assert settings.pop("bsprun") == ["127.0.0.1", 0]
    assert really_settings.pop("bsprun")[0] == "127.0.0.1"
    placeholder = str(Path(extra["PRTE_MCA_prte_tmpdir_base"]).parent)
    assert placeholder.endswith("/bsprun-XXXXXXXX")
    assert settings == json.loads(re.sub(own, placeholder, json.dumps(really_settings)))
    assert extra.pop("PRTE_MCA_prte_tmpdir_base") == re.sub(own, placeholder, env.pop("PRTE_MCA_prte_tmpdir_base"))
    secret = env.pop("BSP_NONSTOP_SECRET")
    assert secret not in " ".join(words) and "BSP_NONSTOP_SECRET" not in " ".join(words)
    assert environment.pop("BSP_CHECKPOINT_KEY") == KEY  # bsprun's alone
    assert environment | extra == env


def test_the_options_of_mpiexec_and_the_hosts_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    line = "-p 4 -n 2 --clones 2 --hosts h1:2,h2:2 --mpi-args '--map-by node' train.py"
    environment, mpiexec, settings, program = split(shown(line, capsys))
    told = " ".join(mpiexec)
    assert "--with-ft ulfm" in told and "--host h1:2,h2:2 --map-by node -n 4 " in told
    assert "-x BSP_NONSTOP_SECRET " in told and "BSP_CHECKPOINT_KEY" not in told
    assert "PRTE_MCA_prte_tmpdir_base" not in environment
    assert settings["bsprun"][0] not in ("127.0.0.1", "") and program == ["train.py"]


def test_a_resumed_job_shows_the_checkpoint_that_it_goes_on_from(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(here / "old", ["train.py", "5"])
    _, mpiexec, settings, _ = split(shown("--resume old train.py 5", capsys))
    assert (settings["nprocs"], settings["bundles"]) == (4, 2)
    assert settings["resume"][0] == "old/checkpoint-000030" and [part[0] for part in settings["resume"][1]] == [0, 1]
    assert mpiexec[mpiexec.index("-n") + 1] == "2"


def test_auto_shows_what_it_chooses_even_the_plain_engine(capsys: pytest.CaptureFixture[str]) -> None:
    assert bsp.command.bsprun.bsprun(["--show", *shlex.split("-p 4 -n 2 --resilience auto --mtbf 1e9 train.py")]) == 0
    out, err = capsys.readouterr()
    assert "bsp.command.start" in out and "bsp.faults.engine.agent" not in out
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
    for line in ("-p 4 -n 2 train.py", "-p 4 -n 2 --clones 2 train.py"):
        assert "OMPI_MCA_btl=self, sm $HOME" in shown(line, capsys)


@pytest.mark.jobs
def test_whoever_pastes_it_learns_who_starts_agents(capsys: pytest.CaptureFixture[str]) -> None:
    """A shell takes it as it is; without a bsprun to work for the agents end at once, and say so."""
    bsp.command.bsprun.bsprun(["--show", *shlex.split("-p 2 -n 2 --clones 1 --standby 0 train.py 'it''s'")])
    line, note = capsys.readouterr()
    assert "bsprun itself listens on a port" in note
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=300)
    assert done.returncode != 0
    assert "an agent works for the bsprun that has started it; start the job with bsprun" in done.stderr
