"""The key: where it comes from, that it is made once, and that nobody else can read or set it."""

from __future__ import annotations

import hashlib
import hmac
import multiprocessing
import os
import stat
from pathlib import Path

import pytest

from bsp.faults.checkpoints.key import Key, NoKey, user_key
from bsp.faults.errors import CheckpointError

TEXT = "correct horse battery staple, and more"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's state folder."""
    monkeypatch.delenv("BSP_CHECKPOINT_KEY", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def in_file(state: Path, text: str, mode: int = 0o600) -> Path:
    path = state / "nonstop-bsp" / "checkpoint-key"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def test_the_seal_is_hmac_sha256_and_every_key_and_content_has_its_own() -> None:
    key = Key(TEXT.encode(), "")
    prefix = b"nonstop-bsp checkpoint seal\0"
    assert key.seal(b"content") == hmac.new(TEXT.encode(), prefix + b"content", hashlib.sha256).hexdigest()
    keys = [key, Key(TEXT.upper().encode(), ""), Key.fresh(), Key.fresh()]
    assert len({each.seal(content) for each in keys for content in (b"content", b"Content", b"")}) == 12
    assert len({each.name() for each in keys}) == 4


def test_a_key_is_part_of_no_text() -> None:
    key = Key(TEXT.encode(), "the tests")
    assert TEXT not in f"{key!r} {key} {key.name()} {key.seal(b'')}"


def test_the_first_use_makes_a_file_that_only_the_user_can_read(state: Path) -> None:
    with pytest.raises(NoKey):
        user_key(make=False)
    assert not state.exists()
    key = user_key(make=True)
    path = state / "nonstop-bsp" / "checkpoint-key"
    assert key.source == str(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert len(bytes.fromhex(path.read_text())) == 32
    assert [each.name for each in path.parent.iterdir()] == ["checkpoint-key"]
    assert user_key(make=False).seal(b"x") == user_key(make=True).seal(b"x") == key.seal(b"x")


def test_modes_do_not_depend_on_the_umask(state: Path) -> None:
    for mask in (0o000, 0o022, 0o077):
        before = os.umask(mask)
        try:
            user_key(make=True)
        finally:
            os.umask(before)
        path = state / "nonstop-bsp" / "checkpoint-key"
        assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)
        path.unlink()
        path.parent.rmdir()
        state.rmdir()


def made(_: int) -> str:
    return user_key(make=True).seal(b"x")


@pytest.mark.jobs
def test_processes_that_make_it_at_once_have_the_same(state: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        for _ in range(10):
            assert len(set(pool.map(made, range(4), chunksize=1))) == 1
            (state / "nonstop-bsp" / "checkpoint-key").unlink()
    assert list((state / "nonstop-bsp").iterdir()) == []


def test_without_a_state_folder_of_ones_own_it_is_in_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for unset in ("", "relative/folder"):  # as the XDG specification has it
        monkeypatch.setenv("XDG_STATE_HOME", unset)
        assert user_key(make=True).source == str(tmp_path / "home/.local/state/nonstop-bsp/checkpoint-key")


def test_the_environment_comes_first_and_is_the_same_text(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_file(state, "0" * 64 + "\n")
    from_file = user_key(make=False)
    monkeypatch.setenv("BSP_CHECKPOINT_KEY", TEXT)
    assert user_key(make=False).seal(b"x") != from_file.seal(b"x")
    assert user_key(make=False).source == "BSP_CHECKPOINT_KEY"
    for text in ("0" * 64, f" {'0' * 64}\n"):
        monkeypatch.setenv("BSP_CHECKPOINT_KEY", text)
        assert user_key(make=False).seal(b"x") == from_file.seal(b"x")


def test_a_key_given_by_the_environment_makes_no_file(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BSP_CHECKPOINT_KEY", TEXT)
    user_key(make=True)
    assert not state.exists()


@pytest.mark.parametrize("text", ["", "secret", "x" * 31, " " * 40])
def test_a_short_key_is_refused_with_what_makes_one(text: str, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = f"has {len(text.strip())} characters; a key has 32 or more: openssl rand -hex 32 makes one"
    path = in_file(state, text)
    with pytest.raises(CheckpointError) as refused:
        user_key(make=True)
    assert str(refused.value) == f"the key in {path} {words}"
    monkeypatch.setenv("BSP_CHECKPOINT_KEY", text)
    with pytest.raises(CheckpointError) as refused:
        user_key(make=True)
    assert str(refused.value) == f"the key in BSP_CHECKPOINT_KEY {words}"


def test_no_key_is_told_with_both_places(state: Path) -> None:
    with pytest.raises(NoKey) as missing:
        user_key(make=False)
    assert f"BSP_CHECKPOINT_KEY is not set, and there is no file {state}/nonstop-bsp/checkpoint-key" in str(
        missing.value
    )


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o644, 0o666, 0o610])
def test_a_file_that_others_may_read_or_write_is_refused(mode: int, state: Path) -> None:
    path = in_file(state, TEXT, mode)
    with pytest.raises(CheckpointError, match=rf"others may read or write the key {path} \(mode {mode:o}\): chmod 600"):
        user_key(make=True)
    path.chmod(0o600)
    user_key(make=False)


def test_a_file_of_somebody_else_and_no_file_at_all_are_refused(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = in_file(state, TEXT)
    if os.geteuid() == 0:
        os.chown(path, 54321, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 54321)
    with pytest.raises(CheckpointError, match=f"the key {path} is not a file of yours"):
        user_key(make=False)
    path.unlink()
    path.mkdir()
    with pytest.raises(CheckpointError, match="Is a directory"):
        user_key(make=False)


@pytest.mark.parametrize("mode", [0o770, 0o777, 0o1777])
def test_a_folder_in_which_others_could_put_another_key_is_refused(mode: int, state: Path) -> None:
    folder = in_file(state, TEXT).parent
    folder.chmod(mode)
    with pytest.raises(CheckpointError, match=f"the folder {folder} of the key of your checkpoints is not safe: .*"):
        user_key(make=True)


def test_a_state_folder_that_cannot_be_made_is_told_with_the_other_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(CheckpointError, match=r"cannot be read or made: .*/file.*; set BSP_CHECKPOINT_KEY"):
        user_key(make=True)
