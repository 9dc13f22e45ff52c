"""What elements unpickle, and where they leave their status, lies in a folder that bsprun has made, or nowhere."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bsp.checking.overlaps import Checker
from bsp.checking.record import TURNS, Record
from bsp.cost.model import DEFAULT
from bsp.errors import LaunchError
from bsp.host import is_own
from bsp.runner import serve
from bsp.transport.base import Solo

pytestmark = pytest.mark.solo


class Payload:
    """Unpickled, it makes a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "bsprun-x7"
    path.mkdir(mode=0o700)
    return path


def given_away(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0:
        os.chown(folder, 54321, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 54321)


def linked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to("elsewhere")


NOT_OURS: dict[str, Callable[[Path, pytest.MonkeyPatch], None]] = {
    "everybody's": lambda folder, _: folder.chmod(0o777),
    "a group's": lambda folder, _: folder.chmod(0o750),
    "somebody else's": given_away,
    "a link": linked,
}


def test_a_folder_that_bsprun_makes_is_its_own(folder: Path) -> None:
    assert is_own(str(folder))
    assert not is_own(str(folder / "none"))
    (folder / "file").write_text("")
    assert not is_own(str(folder / "file"))


@pytest.mark.parametrize("whose", NOT_OURS)
def test_nothing_is_unpickled_from_any_other(whose: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    payload = Payload(folder.parent / "it has run")
    (folder / "main").write_bytes(pickle.dumps(payload))
    NOT_OURS[whose](folder, monkeypatch)
    check = {"check": {"pass": TURNS, "known": str(folder / "main"), "record": None, "watch": None}}
    with pytest.raises(LaunchError, match="is not the folder that bsprun made"):
        Checker.of(check, Solo())
    with pytest.raises(LaunchError, match="is not on this machine"):
        serve(str(folder / "main"), str(folder / "results"), 1, 0, Solo(), DEFAULT, None, None)
    assert not payload.path.exists()


@pytest.mark.parametrize("whose", NOT_OURS)
def test_nothing_is_written_into_any_other(whose: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that somebody has put there would have any file of the user's written over."""
    precious = folder.parent / "precious"
    precious.write_text("mine")
    (folder / "record").symlink_to(precious)
    NOT_OURS[whose](folder, monkeypatch)
    Checker(path=str(folder / "record")).keep(Solo())
    assert precious.read_text() == "mine"


def test_in_the_right_one_both_are_found(folder: Path) -> None:
    record = Record()
    record.clocks[3] = 0.5
    (folder / "record").write_bytes(pickle.dumps(record))
    check = {"check": {"pass": TURNS, "known": str(folder / "record"), "record": None, "watch": None}}
    checker = Checker.of(check, Solo())
    assert checker is not None and checker.record.clocks == {3: 0.5}
