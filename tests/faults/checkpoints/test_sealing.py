"""Sealed checkpoints on real jobs: what somebody without the key has made is refused, and never runs."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import queue
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import psutil
import pytest
import xxhash

from bsp.faults.checkpoints import archive
from bsp.faults.checkpoints.folder import PartFile, write_part
from bsp.faults.checkpoints.key import Key
from bsp.faults.engine.agent import Agent
from bsp.faults.protocol.messages import Read

BSPRUN = str(Path(sys.executable).with_name("bsprun"))
KEY = "the key of the user whose jobs these are"

PROGRAM = """
import sys, time
import numpy as np
import bsp
proc = bsp.process()
table = proc.coarray((2, 2))
state = bsp.State(sum=np.zeros(3), beta=np.zeros(3), more={"rows": np.ones((2, 3), order="F")})
for k in proc.rounds(int(sys.argv[1]), state):
    time.sleep(float(sys.argv[2]))
    state.sum = state.sum * 0.5 + proc.allreduce(proc.rng.random(3))
    state.beta = np.arange(3.0) * (k + 1) + proc.pid
    table.local[...] = k + 1
print(proc.pid, state.sum.tobytes().hex())
"""
ROUNDS = ["40", "0.02"]


def bsprun(*arguments: object, **environment: str | None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BSPRUN, *map(str, arguments)], capture_output=True, text=True, timeout=300, env=changed(environment)
    )


def changed(environment: dict[str, str | None]) -> dict[str, str]:
    """The tests' environment with the key, and what is given; None: without it."""
    every = os.environ | {"BSP_CHECKPOINT_KEY": KEY} | environment
    return {name: value for name, value in every.items() if value is not None}


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sealing") / "train.py"
    path.write_text(PROGRAM)
    return path


def stopped(folder: Path, script: Path, **environment: str | None) -> None:
    """Start a job, and end it with a checkpoint: the only one that is then in the folder."""
    events = folder.with_suffix(".jsonl")
    command = [BSPRUN, "-p", "2", "-n", "2", "--checkpoint", folder, "--keep", "1", "--events", events, script, *ROUNDS]
    job = subprocess.Popen(list(map(str, command)), env=changed(environment), stderr=subprocess.PIPE, text=True)
    while not (events.exists() and '"kind": "started"' in events.read_text()):
        assert job.poll() is None
    job.terminate()
    said = job.communicate(timeout=300)[1]
    assert job.returncode == 75, said
    assert inside(folder)


@pytest.fixture(scope="module")
def original(script: Path) -> tuple[Path, str]:
    """A folder with one checkpoint of a job, and what the job prints when nothing stops it."""
    stopped(script.parent / "original", script)
    whole = bsprun("-p", 2, "-n", 2, script, *ROUNDS)
    assert whole.returncode == 0, whole.stderr
    return script.parent / "original", whole.stdout


@pytest.fixture
def folder(original: tuple[Path, str], tmp_path: Path) -> Path:
    """A copy that may be spoiled."""
    return shutil.copytree(original[0], tmp_path / "checkpoints")


def inside(folder: Path) -> Path:
    (only,) = folder.iterdir()
    return only


class Payload:
    """Unpickled, it makes a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.marker),)


def forged(folder: Path, payload: Payload) -> tuple[dict[str, Any], bytes]:
    """A part with a payload in it, right in all that needs no key; the manifest that names it, and its body."""
    manifest = inside(folder) / "manifest.json"
    content = json.loads(manifest.read_text())
    with np.load(inside(folder) / content["parts"][0]["file"], allow_pickle=False) as read:
        members = [("part.json", read["part.json"]), ("handover.pickle", pickle.dumps(payload, 5))]
    part = write_part(folder, inside(folder).name, 0, archive.blocks(members))
    content["parts"][0] = asdict(part)
    del content["key"], content["seal"]
    return content, json.dumps(content, indent=1).encode()[: -len(b"\n}")]


def with_the_old_seal(folder: Path, payload: Payload) -> None:
    old = json.loads((inside(folder) / "manifest.json").read_text())
    _, body = forged(folder, payload)
    sealed = body + f',\n "key": "{old["key"]}",\n "seal": "{old["seal"]}"\n}}\n'.encode()
    (inside(folder) / "manifest.json").write_bytes(sealed)


def with_a_seal_of_ones_own(folder: Path, payload: Payload) -> None:
    _, body = forged(folder, payload)
    key = Key(b"the key of somebody who can write there", "")
    sealed = body + f',\n "key": "{key.name()}",\n "seal": "{key.seal(body)}"\n}}\n'.encode()
    (inside(folder) / "manifest.json").write_bytes(sealed)


def as_earlier_versions_had_it(folder: Path, payload: Payload) -> None:
    content, _ = forged(folder, payload)
    content["format"] = 2
    part = inside(folder) / content["parts"][0]["file"]
    part.write_bytes(pickle.dumps(payload, 5))
    content["parts"][0] |= {"size": part.stat().st_size, "digest": xxhash.xxh3_128_hexdigest(part.read_bytes())}
    body = json.dumps(content, indent=1).encode()[: -len(b"\n}")]
    sealed = body + b',\n "digest": "%s"\n}\n' % xxhash.xxh3_128_hexdigest(body).encode()
    (inside(folder) / "manifest.json").write_bytes(sealed)


def in_the_place_of_a_part(folder: Path, payload: Payload) -> None:
    content = json.loads((inside(folder) / "manifest.json").read_text())
    part = inside(folder) / content["parts"][0]["file"]
    part.write_bytes(pickle.dumps(payload, 5).ljust(part.stat().st_size, b"\0"))


FORGERIES: dict[Callable[[Path, Payload], None], str] = {
    with_the_old_seal: "manifest.json is damaged: its seal does not match",
    with_a_seal_of_ones_own: "it was sealed by another key (",
    as_earlier_versions_had_it: "it is not sealed, as those of earlier versions are not",
    in_the_place_of_a_part: " (bundle 0) is damaged: its digest does not match",
}


@pytest.mark.jobs
@pytest.mark.parametrize("forge", FORGERIES)
def test_a_forged_checkpoint_is_refused_and_its_payload_never_runs(
    forge: Callable[[Path, Payload], None], folder: Path, script: Path, tmp_path: Path
) -> None:
    payload = Payload(tmp_path / "the payload has run")
    forge(folder, payload)
    done = bsprun("--resume", folder, script, *ROUNDS)
    assert (done.returncode, done.stdout) == (2, "")
    refused, end = done.stderr.splitlines()
    assert refused.startswith(f"bsprun: checkpoint: {inside(folder).name} refused: ")
    assert FORGERIES[forge] in refused
    assert end == f"bsprun: error: --resume {folder}: none of its checkpoints can be used (see above)"
    assert not payload.marker.exists()
    pickle.loads(pickle.dumps(payload))  # it does run when it is let
    assert payload.marker.exists()


def test_an_agent_unpickles_nothing_but_the_bytes_that_bsprun_has_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A part that is changed behind bsprun's look at it; the same part unchanged is read."""

    class Ended(Exception):
        pass

    def end(why: str) -> NoReturn:
        raise Ended(why)

    monkeypatch.setattr("bsp.faults.engine.agent._end_by_force", end)
    told = json.loads((inside(folder) / "manifest.json").read_text())["parts"]
    job = json.loads(np.load(inside(folder) / told[0]["file"])["part.json"])["job"]
    agent = object.__new__(Agent)
    agent._settings = {
        "resume": (str(inside(folder)), [list(PartFile(**part).__dict__.values()) for part in told]),
        "job": job,
    }
    agent._done, agent.element = queue.SimpleQueue(), 1
    agent._bell = os.eventfd(0, os.EFD_CLOEXEC)
    agent._read_part(Read(0, 5))
    state = agent._done.get()
    assert (state.bundle, state.since) == (0, 5)  # type: ignore[union-attr]
    payload = Payload(tmp_path / "the payload has run")
    in_the_place_of_a_part(folder, payload)
    with pytest.raises(Ended):
        agent._read_part(Read(0, 5))
    assert agent._done.empty() and not payload.marker.exists()
    assert "bsprun: element 1: " in (said := capsys.readouterr().err) and "is damaged" in said
    agent._settings["job"] = "another"
    with pytest.raises(Ended):
        agent._read_part(Read(1, 5))
    assert "it is the part of another checkpoint: job " in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------ the key


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr


@pytest.mark.jobs
def test_a_wrong_key_a_missing_key_and_a_short_key_are_told_apart(folder: Path, script: Path, tmp_path: Path) -> None:
    resume = ["--resume", folder, script, *ROUNDS]
    wrong = refusal(bsprun(*resume, BSP_CHECKPOINT_KEY="x" * 32))
    names = [Key(text.encode(), "").name() for text in (KEY, "x" * 32)]
    assert f"sealed by another key ({names[0]}) than yours ({names[1]}, from BSP_CHECKPOINT_KEY)" in wrong
    missing = refusal(bsprun(*resume, BSP_CHECKPOINT_KEY=None, XDG_STATE_HOME=str(tmp_path / "state")))
    assert f"--resume {folder}: there is no key to check its seal by: BSP_CHECKPOINT_KEY is not set" in missing
    assert not (tmp_path / "state").exists()
    short = refusal(bsprun(*resume, BSP_CHECKPOINT_KEY="secret"))
    assert f"--resume {folder}: the key in BSP_CHECKPOINT_KEY has 6 characters; a key has 32 or more" in short
    assert "secret" not in short


@pytest.mark.jobs
def test_what_no_key_has_sealed_is_told_without_one(folder: Path, script: Path, tmp_path: Path) -> None:
    nothing: dict[str, str | None] = {"BSP_CHECKPOINT_KEY": None, "XDG_STATE_HOME": str(tmp_path / "state")}
    (tmp_path / "empty").mkdir(mode=0o700)
    empty = refusal(bsprun("--resume", tmp_path / "empty", "-p", 2, "-n", 2, script, *ROUNDS, **nothing))
    assert f"--resume {tmp_path / 'empty'}: there is no checkpoint in {tmp_path / 'empty'}" in empty
    as_earlier_versions_had_it(folder, Payload(tmp_path / "the payload has run"))
    older = refusal(bsprun("--resume", folder, "-p", 2, "-n", 2, script, *ROUNDS, **nothing))
    assert "refused: it is not sealed, as those of earlier versions are not, so anybody could have written it" in older
    assert "no key" not in empty + older and not list((tmp_path / "state").rglob("checkpoint-key"))


@pytest.mark.jobs
def test_with_the_right_key_the_job_goes_on_to_the_same_bytes(
    folder: Path, script: Path, original: tuple[Path, str]
) -> None:
    done = bsprun("--resume", folder, script, *ROUNDS)
    assert (done.returncode, done.stdout, done.stderr) == (0, original[1], "")


@pytest.mark.jobs
def test_the_users_own_key_is_made_with_the_first_checkpoint_and_used_for_the_next(
    script: Path, original: tuple[Path, str], tmp_path: Path
) -> None:
    state, c = {"BSP_CHECKPOINT_KEY": None, "XDG_STATE_HOME": str(tmp_path / "state")}, tmp_path / "c"
    key = tmp_path / "state" / "nonstop-bsp" / "checkpoint-key"
    clones = bsprun("-p", 2, "-n", 2, "--clones", 2, script, "1", "0", **state)
    assert clones.returncode == 0 and not key.exists()  # nothing to seal
    stopped(c, script, **state)
    text = key.read_text()
    assert (stat.S_IMODE(key.stat().st_mode), stat.S_IMODE(c.stat().st_mode)) == (0o600, 0o700)
    again = bsprun("--resume", c, script, *ROUNDS, **state)
    assert (again.returncode, again.stdout, again.stderr) == (0, original[1], "")
    assert key.read_text() == text
    elsewhere = bsprun("--resume", c, "--show", script, *ROUNDS, BSP_CHECKPOINT_KEY=text.strip())
    assert elsewhere.returncode == 0, elsewhere.stderr  # the same key on a machine of another home
    key.chmod(0o644)
    refused = refusal(bsprun("--resume", c, script, *ROUNDS, **state))
    assert f"--resume {c}: others may read or write the key {key} (mode 644): chmod 600 {key}" in refused


@pytest.mark.jobs
def test_the_key_is_on_no_command_line_and_in_no_environment_of_an_element(script: Path, tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    command = [
        BSPRUN,
        "-p",
        "2",
        "-n",
        "2",
        "--checkpoint",
        str(tmp_path / "c"),
        "--every",
        "1",
        "--events",
        str(events),
    ]
    job = subprocess.Popen([*command, str(script), "100000", "0.01"], env=changed({}), stdout=subprocess.PIPE)
    try:
        while not (events.exists() and '"kind": "checkpoint"' in events.read_text()):
            assert job.poll() is None
        family = psutil.Process(job.pid).children(recursive=True)
        assert len(family) >= 6  # the keeper and its fork server, two agents, theirs, their workers
        seen = "".join(f"{process.cmdline()} {process.environ()}" for process in family)
        assert "PYTHONHASHSEED" in seen
        assert KEY not in seen and KEY not in events.read_text()
        assert KEY not in "".join(path.read_text() for path in (tmp_path / "c").glob("*/manifest.json"))
    finally:
        job.terminate()
        job.communicate(timeout=300)


# --------------------------------------------------------------------------------------- folders and what is in them


@pytest.mark.jobs
@pytest.mark.parametrize("option", ["--checkpoint", "--resume"])
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
def test_a_folder_that_others_can_write_into_is_refused(option: str, mode: int, folder: Path, script: Path) -> None:
    folder.chmod(mode)
    before = sorted(folder.rglob("*"))
    said = refusal(bsprun("-p", 2, "-n", 2, option, folder, script, *ROUNDS))
    who = "everybody" if mode & 0o002 else "its group"
    assert said == f"bsprun: error: {option} '{folder}': {who} may write into it (mode {mode:o}): chmod 700 {folder}\n"
    assert sorted(folder.rglob("*")) == before


@pytest.mark.jobs
def test_arrays_in_a_checkpoint_are_read_by_numpy_alone(folder: Path) -> None:
    for bundle in range(2):
        (path,) = inside(folder).glob(f"part-{bundle:06d}-*.npz")
        with np.load(path, allow_pickle=False) as part:
            table = part[f"process-{bundle}/coarray-0.0"]
            rounds = table[0, 0]
            np.testing.assert_array_equal(table, np.full((2, 2), rounds))
            np.testing.assert_array_equal(part[f"process-{bundle}/state.beta"], np.arange(3.0) * rounds + bundle)
            inner = [part[name] for name in part.files if name.startswith(f"process-{bundle}/array-")]
            assert any(array.flags.f_contiguous and array.tolist() == [[1.0] * 3] * 2 for array in inner)
            assert json.loads(part["part.json"])["bundle"] == bundle


@pytest.mark.jobs
def test_a_script_that_is_changed_while_it_runs_stays_the_job_that_was_started(tmp_path: Path) -> None:
    """Its later checkpoints are those of the script that it runs, not of what the file has become."""
    script, events, folder = tmp_path / "train.py", tmp_path / "events.jsonl", tmp_path / "c"
    script.write_text(PROGRAM)
    command = [BSPRUN, "-p", "2", "-n", "2", "--checkpoint", str(folder), "--every", "1", "--events", str(events)]
    command += ["--orphan-limit", "0"]
    job = subprocess.Popen([*command, str(script), "100000", "0.01"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        changed = 0
        while (count := events.read_text().count('"kind": "checkpoint"') if events.exists() else 0) < changed + 3:
            assert job.poll() is None
            if count and not changed:
                script.write_text("# another\n")
                changed = count
    finally:
        job.kill()
        job.communicate(timeout=300)
    written = [json.loads(path.read_text())["job"]["script"] for path in folder.glob("*/manifest.json")]
    assert set(written) == {hashlib.sha256(PROGRAM.encode()).hexdigest()}
