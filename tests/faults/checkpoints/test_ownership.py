"""Folders: who else could change what is in them is told, with what to do; real modes, owners and links."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bsp.faults.checkpoints.ownership import exposed

STRANGER = 54321


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "check points"
    path.mkdir(mode=0o700)
    return path


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To a stranger; who is not root cannot, and becomes a stranger to it himself."""
    if os.geteuid() == 0:
        os.chown(path, STRANGER, -1, follow_symlinks=False)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: STRANGER)


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o750, 0o711, 0o1755, 0o2755])
def test_a_folder_that_only_the_user_can_write_into_is_his(folder: Path, mode: int) -> None:
    folder.chmod(mode)
    assert exposed(folder) == ""


@pytest.mark.parametrize(
    ("mode", "who"),
    [(0o770, "its group"), (0o775, "its group"), (0o2775, "its group"), (0o777, "everybody"), (0o702, "everybody"),
     (0o1777, "everybody")],
)  # fmt: skip
def test_one_that_others_can_write_into_is_not_whatever_its_sticky_bit(folder: Path, mode: int, who: str) -> None:
    folder.chmod(mode)
    assert exposed(folder) == f"{who} may write into it (mode {mode:o}): chmod 700 '{folder}'"


def test_one_of_somebody_else_is_not(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give_away(folder, monkeypatch)
    if os.geteuid() == 0:
        assert exposed(folder).startswith(f"it belongs to user {STRANGER}, ")
    else:
        assert exposed(folder).startswith("it belongs to user ")


def test_one_of_root_is_safe_for_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    assert os.stat("/usr").st_uid == 0
    assert exposed("/usr") == ""


def test_a_folder_above_that_everybody_may_write_into_needs_the_sticky_bit(tmp_path: Path) -> None:
    above, inside = tmp_path / "scratch", tmp_path / "scratch" / "mine" / "c"
    inside.mkdir(mode=0o700, parents=True)
    above.chmod(0o777)
    assert exposed(inside) == f"everybody may write into {above}, which holds it: chmod +t {above}, or name another"
    above.chmod(0o1777)
    assert exposed(inside) == ""
    above.chmod(0o2775)  # a project's folder: shared on purpose
    assert exposed(inside) == ""


def test_of_a_link_the_folder_that_it_points_to_counts_and_so_do_those_above_both(tmp_path: Path, folder: Path) -> None:
    links = tmp_path / "links"
    links.mkdir()
    (links / "absolute").symlink_to(folder)
    (links / "relative").symlink_to(Path("..") / folder.name)
    (links / "again").symlink_to("relative")
    for name in ("absolute", "relative", "again", "../links/./again"):
        folder.chmod(0o700)
        assert exposed(links / name) == ""
        folder.chmod(0o770)
        assert "its group may write into it" in exposed(links / name)
    folder.chmod(0o700)
    links.chmod(0o777)
    for name in ("absolute", "relative", "again"):
        assert exposed(links / name).startswith(f"everybody may write into {links}, ")


def test_a_link_of_somebody_else_may_point_elsewhere_tomorrow(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder)
    give_away(link, monkeypatch)
    assert exposed(link).startswith(f"{link} is a symbolic link of user ")


def test_links_in_a_circle_and_folders_that_are_not_there_are_errors_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        exposed(tmp_path / "a")
    with pytest.raises(FileNotFoundError):
        exposed(tmp_path / "none" / "c")
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        exposed(tmp_path / "file" / "c")


def test_a_relative_name_is_looked_up_from_here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert exposed(".") == exposed("../check points") == ""
    folder.chmod(0o777)
    assert exposed(".") == "everybody may write into it (mode 777): chmod 700 ."
