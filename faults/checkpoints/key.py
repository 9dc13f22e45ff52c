"""The user's key, by which checkpoints are sealed: without it nobody can make one that a job goes on from.

It is text of 32 characters or more, white space around it left out.  It comes from the environment variable
BSP_CHECKPOINT_KEY, or else from the file `checkpoint-key` in the folder `nonstop-bsp` of the user's state folder
(XDG_STATE_HOME, or ~/.local/state), which is made when the user's first checkpoint is.

Only bsprun holds it.  Elements are told by bsprun, over connections that only its job's agents can open, which digests
the parts must have that they read.  So the key is on no command line, in no environment of an element, and never sent.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import stat
from pathlib import Path

from bsp.faults.checkpoints.ownership import exposed
from bsp.faults.errors import CheckpointError

VARIABLE = "BSP_CHECKPOINT_KEY"
_LEAST = 32  # characters of a key


class NoKey(CheckpointError):
    """There is neither the variable nor the file."""


class Key:
    """A key, and where it comes from.  It is never part of a text."""

    def __init__(self, secret: bytes, source: str) -> None:
        self._secret = secret
        self.source = source  # in words

    @classmethod
    def fresh(cls) -> Key:
        """Return a key for checkpoints that nobody but this process goes on from."""
        return cls(secrets.token_bytes(32), "the key of this job")

    def seal(self, content: bytes) -> str:
        """Return the HMAC-SHA256 of the content in hexadecimal digits."""
        return self._hmac(b"seal\0", content)

    def name(self) -> str:
        """Return 16 digits that tell one key from another, and do not tell the key."""
        return self._hmac(b"name\0", b"")[:16]

    def _hmac(self, purpose: bytes, content: bytes) -> str:
        code = hmac.new(self._secret, b"nonstop-bsp checkpoint " + purpose, "sha256")
        code.update(content)
        return code.hexdigest()


def user_key(make: bool) -> Key:
    """Return the user's key; `make` it if there is none.

    Raises NoKey where there is none, CheckpointError where others know it or could have put it there.
    """
    given = os.environ.get(VARIABLE)
    if given is not None:
        return Key(_long_enough(os.fsencode(given), VARIABLE), VARIABLE)
    path = _file()
    try:
        if make and not path.exists():
            _make(path)
        return Key(_read(path), str(path))
    except FileNotFoundError:
        raise NoKey(
            f"there is no key to check its seal by: {VARIABLE} is not set, and there is no file {path}; "
            f"set {VARIABLE} to the key of the job that wrote it, or copy that job's key file here"
        ) from None
    except OSError as wrong:
        raise CheckpointError(
            f"the key of your checkpoints cannot be read or made: {wrong}; set {VARIABLE} to 32 characters or more"
        ) from None


def _file() -> Path:
    state = os.environ.get("XDG_STATE_HOME", "")
    try:
        home = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    except RuntimeError:
        raise CheckpointError(f"there is no home folder to keep a key in: set {VARIABLE}") from None
    return home / "nonstop-bsp" / "checkpoint-key"


def _make(path: Path) -> None:
    """Make the file, whole or not at all; the first of several processes that do so at once wins."""
    for folder in reversed(path.parents):
        if not folder.exists():
            folder.mkdir(mode=0o700, exist_ok=True)
    partial = path.with_name(f".{path.name}-{secrets.token_hex(8)}.partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(secrets.token_hex(32).encode() + b"\n")
            file.flush()
            os.fsync(descriptor)
        with contextlib.suppress(FileExistsError):
            os.link(partial, path)
    finally:
        partial.unlink()


def _read(path: Path) -> bytes:
    """Return the key in a file that only the user can read and write."""
    with path.open("rb") as file:
        found = os.fstat(file.fileno())
        mode = stat.S_IMODE(found.st_mode)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise CheckpointError(f"the key {path} is not a file of yours: remove it, and a new one is made")
        if mode & 0o077:
            raise CheckpointError(
                f"others may read or write the key {path} (mode {mode:o}): chmod 600 {path}; if somebody may have read "
                "it, remove it: a new one is made, and what the old one has sealed is refused"
            )
        if why := exposed(path.parent):
            raise CheckpointError(f"the folder {path.parent} of the key of your checkpoints is not safe: {why}")
        return _long_enough(file.read(), str(path))


def _long_enough(text: bytes, where: str) -> bytes:
    """Return the key without white space around it."""
    key = text.strip()
    if len(key) < _LEAST:
        raise CheckpointError(
            f"the key in {where} has {len(key)} characters; a key has {_LEAST} or more: openssl rand -hex 32 makes one"
        )
    return key
