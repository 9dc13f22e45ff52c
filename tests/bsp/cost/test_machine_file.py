"""Machine files: what is written is read, and what is wrong with one is said in one line."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from bsp.abstract.work import ADDED, FLOPS
from bsp.cost import machine_file
from bsp.cost.machine_file import READY_MADE, matching, named, of_machine, read, to_machine
from bsp.cost.model import DEFAULT, Level, Machine
from bsp.cost.probe.command import to_toml
from bsp.errors import MachineError

GOOD = """
format = "bsp-machine"
version = 1
kind = "imagined"
name = "two"
[machine]
p = 2
r = 1e9
g = 4.0
L = 1e4
o = 100
"""
LEVEL = "\n[[levels]]\ng = 1\no = 1\nL = 1"


def write(folder: Path, text: str, name: str = "m.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_the_least_file_is_a_machine(tmp_path: Path) -> None:
    machine = to_machine(read(write(tmp_path, GOOD)))
    assert (machine.p, machine.r, machine.g, machine.L, machine.o) == (2, 1e9, 4.0, 1e4, 100)
    assert (machine.name, machine.kind, machine.levels) == ("two", "imagined", ())


def test_a_machine_survives_being_a_profile() -> None:
    level = Level("inside", 1.0, 2.0, 3.0, ((8, 1.0), (64, 0.5)), 9.0, 1, 0.25)
    deep = Machine(
        p=8, r=3e9, g=2.0, L=5e3, o=70.0, name="deep", kind="imagined", memory=1e9, slowdown=1.25, registration=5.0,
        fresh=2.0, levels=(level, Level("between", 4.0, 5.0, 6.0, ports=4)), rates={"blas1": 1e9},
    )  # fmt: skip
    assert to_machine(of_machine(deep)) == deep
    assert to_machine(None) == DEFAULT


def test_there_is_a_rate_for_each_class_of_work() -> None:
    assert (*FLOPS, "bandwidth") == machine_file.RATES
    assert set(machine_file.LATER) == set(ADDED)


def test_files_of_older_versions_lack_some_rates(tmp_path: Path) -> None:
    rates = "\n[rates]\nblas1 = 1e9\nblas2 = 1e9\nblas3 = 1e9\nelementwise = 1e9\nbandwidth = 1e9\n"
    assert not {"functions", "narrow", "triangle"} & set(to_machine(read(write(tmp_path, GOOD + rates))).rates)
    with pytest.raises(MachineError, match=r"\[rates\] functions = -1.0"):
        read(write(tmp_path, GOOD + rates + "functions = -1.0\n"))
    with pytest.raises(MachineError, match=r"\[rates\] bandwidth is missing"):
        read(write(tmp_path, GOOD + rates.replace("bandwidth", "functions")))
    with pytest.raises(MachineError, match=r"\[rates\] narow is no rate; they are blas1, .* narrow"):
        read(write(tmp_path, GOOD + rates + "narow = 1e9\n"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("g = 4.0", "g = -4.0"), "[machine] g = -4.0; a number above 0"),
        (("g = 4.0", "g = 0"), "[machine] g = 0; a number above 0"),
        (("g = 4.0", 'g = "four"'), "[machine] g = 'four'; a number above 0"),
        (("g = 4.0", f"g = 1{'0' * 400}"), "[machine] g = 1000"),
        (("o = 100", "o = " + "[" * 9000), "is damaged: maximum recursion depth"),
        (("g = 4.0", "g = nan"), "[machine] g = nan; a number above 0"),
        (("L = 1e4", ""), "[machine] L is missing"),
        (("p = 2", "p = 2.5"), "[machine] p = 2.5; the number of elements, an integer of 1 or more"),
        (("p = 2", "p = 0"), "[machine] p = 0; the number of elements, an integer of 1 or more"),
        (("[machine]", "[engine]"), "[machine] is missing"),
        (("version = 1", "version = 7"), "is of version 7, not 1; probe anew with `bsp probe`"),
        (('kind = "imagined"', 'kind = "dreamt"'), 'kind = \'dreamt\'; it is "measured" or "imagined"'),
        (('kind = "imagined"', 'kind = "measured"'), "[measured] is missing"),
        (('format = "bsp-machine"', 'format = "recipe"'), 'no machine file: it does not say format = "bsp-machine"'),
        (("o = 100", "o = "), "is damaged: Invalid value (at line"),
        (("o = 100", "o = 100\n[[levels]]\ng = 1\no = 1\nL = 1"), "[[levels]] are two tables or more"),
        (("o = 100", "o = 100\nfresh = -1"), "[machine] fresh = -1; a number above 0"),
        (("o = 100", "o = 100" + 2 * "\n[[levels]]\ng = 1\no = 1\nL = 1\nfine = -1"), "[[levels]] number 1, fine = -1"),
        (("version = 1", "version = true"), "is of version True, not 1"),
        (("version = 1", "version = 1\nlevel = 3"), "level is unknown; there are format, version"),
        (("o = 100", "o = 100\n[network]\ng = 1"), "network is unknown"),
        (("o = 100", "o = 100\nfrsh = 1"), "[machine] frsh is unknown; there are p, r, memory"),
        (('name = "two"', "name = 5"), "name = 5; a text"),
        (("o = 100", "o = 100\nslowdown = 0.5"), "[machine] slowdown = 0.5; a number of 1 or more"),
        (("o = 100", "o = 100\nmemory = 'lots'"), "[machine] memory = 'lots'; a number above 0"),
        (("o = 100", "o = 100\nmemory = -5"), "[machine] memory = -5; a number above 0"),
        (("o = 100", "o = 100\nmemory = nan"), "[machine] memory = nan; a number above 0"),
        (("o = 100", "o = 100" + LEVEL + LEVEL + "\nports = true"), "[[levels]] number 2, ports = True"),
        (("o = 100", "o = 100" + LEVEL + LEVEL + "\nports = [2, true]"), "[[levels]] number 2, ports = [2, True]"),
        (("o = 100", "o = 100" + LEVEL + LEVEL + "\nname = 5"), "[[levels]] number 2, name = 5; a text"),
        (("o = 100", "o = 100" + LEVEL + LEVEL + "\nfin = 5"), "[[levels]] fin is unknown"),
        (("o = 100", "o = 100" + LEVEL + LEVEL + "\nblocks = [[8, nan], [16, 3.0]]"), "number 2, blocks: pairs"),
        (("o = 100", "o = 100" + LEVEL + LEVEL + "\nblocks = [[8, 1.0], [16, inf]]"), "number 2, blocks: pairs"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_place(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    path = write(tmp_path, GOOD.replace(*change))
    with pytest.raises(MachineError) as wrong:
        read(path)
    assert f"machine file '{path}'" in str(wrong.value)
    assert said in str(wrong.value)
    assert "\n" not in str(wrong.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("p", 0), ("p", 2.0), ("p", True), ("r", -1), ("r", 0), ("g", math.nan), ("L", -5), ("o", math.inf),
     ("memory", "lots"), ("slowdown", 0), ("fresh", -1.0), ("registration", None)],
)  # fmt: skip
def test_a_machine_refuses_a_number_that_none_has(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"Machine: {name} = "):
        Machine(**{name: value})


def test_what_editors_make_of_a_file_does_no_harm(tmp_path: Path) -> None:
    """A byte order mark, ends of lines as on Windows, and a date without quotes."""
    measured = '\n[measured]\nhost = "h"\ncpu = "c"\nmpiexec = "m"\ndate = 2026-11-28T10:55:05Z\n'
    text = GOOD.replace('"imagined"', '"measured"') + measured
    (tmp_path / "m.toml").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    found = read(tmp_path / "m.toml")
    assert found["measured"]["date"].startswith("2026-11-28")
    json.dumps(found)  # as elements are given it


def test_without_a_home_folder_there_are_no_measured_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("BSP_MACHINES", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    assert machine_file.matching(2, None) is None
    assert machine_file.named("gigabit")["name"] == "gigabit"
    with pytest.raises(MachineError, match="there is no home folder: set BSP_MACHINES"):
        machine_file.cache()


def test_a_list_of_machines_says_what_is_wrong_with_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bsp.cost.probe.command import listing

    monkeypatch.setenv("BSP_MACHINES", str(tmp_path))
    write(tmp_path, GOOD, "a-machine-that-has-a-long-name.toml")
    path = write(tmp_path, GOOD.replace("g = 4.0", "g = nan"))
    lines = listing().splitlines()
    assert lines[1].startswith("a-machine-that-has-a-long-name  imagined")
    assert f"machine file '{path}': [machine] g = nan; a number above 0" in lines


def test_a_missing_file_names_the_ready_made_ones(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=r"does not exist; .* name one of: cluster16, gigabit, infiniband1000"):
        read(tmp_path / "none.toml")


def test_binary_files_and_folders_are_no_machines(tmp_path: Path) -> None:
    (tmp_path / "b.toml").write_bytes(os.urandom(300))
    for path in (tmp_path / "b.toml", tmp_path):
        with pytest.raises(MachineError):
            read(path)


@pytest.mark.parametrize("path", sorted(READY_MADE.glob("*.toml")), ids=lambda path: path.stem)
def test_ready_made_machines_are_good_and_name_their_sources(path: Path) -> None:
    machine = to_machine(read(path))
    assert machine.kind == "imagined"
    assert machine.name == path.stem
    assert len(machine.levels) == 3
    assert machine.p % machine.levels[-1].ports == 0
    assert "published figures" in path.read_text()


def test_machines_are_named_by_file_by_name_and_by_network(tmp_path: Path) -> None:
    assert named("cluster16")["name"] == "cluster16"
    assert named(str(write(tmp_path, GOOD)))["name"] == "two"
    ring = to_machine(named("ring:16"))
    assert (ring.p, ring.g, ring.L) == (16, 16 * DEFAULT.g, 16 * DEFAULT.L)
    for wrong in ("star:16", "ring:0", "ring:x"):
        with pytest.raises(MachineError, match="NETWORK:P"):
            named(wrong)


def measured(elements: int) -> machine_file.Profile:
    profile = of_machine(
        Machine(p=elements, name="here", kind="measured", rates=dict.fromkeys(machine_file.RATES, 1e9))
    )
    profile["machine"] |= {"memory": 1e9, "slowdown": 1.0, "registration": 1.0, "fresh": 1.0}
    level = {"name": 'a "level"', "ports": 1, "g": 1.0, "o": 2.0, "L": 3.0, "fine": 4.0, "staged": 0.5,
             "blocks": [[8, 1.5]]}  # fmt: skip
    profile |= {"levels": [level, level], "alone": dict.fromkeys(machine_file.RATES, 1e9),
                "intervals": {"L": [1.0, 2.0]}, "held_out": {"ring": 0.1},
                "measured": {**machine_file.here(None), "tight": True, "seconds": 1.5}}  # fmt: skip
    return profile


def test_what_probe_writes_is_what_is_read_and_a_run_picks_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BSP_MACHINES", str(tmp_path))
    profile = measured(2)
    write(tmp_path, to_toml(profile), machine_file.cache_name(2))
    found = matching(2, None)
    assert found == profile
    assert matching(3, None) is None
    assert matching(2, "/another/mpiexec") is None


@pytest.mark.parametrize("key", ["host", "cpu"])
def test_a_profile_of_another_host_or_processor_is_not_picked(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BSP_MACHINES", str(tmp_path))
    profile = measured(2)
    profile["measured"][key] = "another"
    write(tmp_path, to_toml(profile), machine_file.cache_name(2))
    assert matching(2, None) is None
