"""The user's key, which seals checkpoints: without it nobody can make a checkpoint that a job goes on from.

The key is text of 32 characters or more; white space around it is ignored.  It is read from the environment variable
BSP_CHECKPOINT_KEY, or else from the file `nonstop-bsp/checkpoint-key` in the user's state folder (XDG_STATE_HOME, or
~/.local/state).  The file is made when the user writes the first checkpoint.

Only bsprun holds the key.  It sends the elements the digests of the parts that they are to read, over connections that
only the agents of its job can open.  So the key appears on no command line and in no environment of an element, and it
is never sent.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import stat
from io import FileIO
from pathlib import Path

from bsp.faults.checkpoints.ownership import exposed
from bsp.faults.errors import CheckpointError
from bsp.faults.state_folder import state_folder

VARIABLE = "BSP_CHECKPOINT_KEY"
_LEAST = 32  # the fewest characters of a key


class NoKey(CheckpointError):
    """Error: neither the environment variable nor the key file exists."""


class Key:
    """A checkpoint key, and where it comes from.  The secret appears in no message."""

    def __init__(self, secret: bytes, source: str) -> None:
        """Hold `secret`.  source : where it comes from, for messages."""
        self._secret = secret
        self.source = source  # for messages: the variable, the path, or a description

    @classmethod
    def fresh(cls) -> Key:
        """Return a random key, for checkpoints that only this process resumes from."""
        return cls(secrets.token_bytes(32), "the key of this job")

    def seal(self, content: bytes) -> str:
        """Return the HMAC-SHA256 of `content` in hexadecimal."""
        return self._hmac(b"seal\0", content)

    def name(self) -> str:
        """Return 16 hexadecimal digits that distinguish this key from others without revealing it."""
        return self._hmac(b"name\0", b"")[:16]

    def _hmac(self, purpose: bytes, content: bytes) -> str:
        """Return the HMAC of `content`.  `purpose` separates seals from names, so that neither gives the other."""
        code = hmac.new(self._secret, b"nonstop-bsp checkpoint " + purpose, "sha256")
        code.update(content)
        return code.hexdigest()


def user_key(make: bool) -> Key:
    """Return the user's key.  With `make`, create the key file if there is neither file nor variable.

    Raises NoKey where there is no key, and CheckpointError if the key is too short or cannot be read or made, or if
    other users can read its file or write into its folder.
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
    """Return the path of the user's key file.  Raises CheckpointError if the user has no home folder."""
    try:
        return state_folder() / "checkpoint-key"
    except CheckpointError:
        raise CheckpointError(f"there is no home folder to keep a key in: set {VARIABLE}") from None


def _make(path: Path) -> None:
    """Create the key file, complete or not at all; of several processes at once the first one's key stays."""
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
        with contextlib.suppress(FileExistsError):  # a link, unlike a rename, never replaces another process's key
            os.link(partial, path)
    finally:
        partial.unlink()


def regular(path: Path) -> FileIO:
    """Open a file for reading, unbuffered.  Raises CheckpointError for a pipe or a device; does not wait for it."""
    file = FileIO(str(path), opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise CheckpointError(f"{path} is no regular file")


def _read(path: Path) -> bytes:
    """Return the key in the file.  Raises CheckpointError unless only the user can read and write it."""
    with regular(path) as file:
        found = os.fstat(file.fileno())
        mode = stat.S_IMODE(found.st_mode)
        if found.st_uid != os.geteuid():
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
    """Return the key without white space around it.  Raises CheckpointError if it is too short."""
    key = text.strip()
    if len(key) < _LEAST:
        raise CheckpointError(
            f"the key in {where} has {len(key)} characters; a key has {_LEAST} or more: openssl rand -hex 32 makes one"
        )
    return key
