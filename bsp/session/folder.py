"""The folder of a session: its sockets and small files, removed with it, or by a later session if it was killed.

A session holds a lock on its folder while its interpreter lives.  A folder that nobody locks is of a session whose
interpreter was killed or left by `os._exit`, and the next session of the same user removes it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress

from bsp.host import temporary_folder

_NAME = "bsp-session-"


class SessionFolder:
    """A folder that is locked by this interpreter until it is removed."""

    def __init__(self) -> None:
        parent = temporary_folder()
        _remove_abandoned(parent)
        new = tempfile.mkdtemp(prefix="bsp-new-", dir=parent)
        self._lock = os.open(new, os.O_RDONLY)
        with suppress(OSError):  # a file system without locks
            fcntl.flock(self._lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        self.path = os.path.join(parent, _NAME + os.path.basename(new).removeprefix("bsp-new-"))
        os.rename(new, self.path)  # only now may others look whether it is locked

    def remove(self) -> None:
        """Remove the folder, and give up the lock."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _remove_abandoned(parent: str) -> None:
    """Remove the folders of this user's sessions that nobody locks."""
    with suppress(OSError), os.scandir(parent) as entries:
        for each in entries:
            if not each.name.startswith(_NAME) or each.is_symlink():
                continue
            with suppress(OSError):
                if each.stat().st_uid == os.geteuid() and not _is_locked(each.path):
                    shutil.rmtree(each.path, ignore_errors=True)


def _is_locked(folder: str) -> bool:
    """Return whether somebody locks a folder, or it cannot be told."""
    found = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(found)
    return False
