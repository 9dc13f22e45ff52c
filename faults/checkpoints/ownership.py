"""Check whether other users can change what is in a folder.

A checkpoint's seal keeps forged bytes out (`folder`).  This module guards the rest: no other user may add files to the
folder, remove them, or put another folder in its place.

Rule 1: the folder itself belongs to the user or to root, and neither its group nor others may write into it.
    A sticky bit does not help here: it prevents removing files, not adding them.
Rule 2: a folder above it that everybody may write into has the sticky bit, as /tmp has: without it anybody could
    rename what is in it.  Folders above that a group shares, or that belong to somebody else, are accepted: project
    folders on clusters are like that, and the seal protects there too.
Rule 3: a symbolic link on the way belongs to the user or to root, because its owner can point it elsewhere.
"""

from __future__ import annotations

import errno
import os
import shlex
import stat
from pathlib import PurePath

_MOST_LINKS = 40  # symbolic links that Linux follows in one path


def exposed(folder: str | os.PathLike[str]) -> str:
    """Return why another user could change what is in a folder, and what to do about it; "" if nobody can.

    Raises OSError if the folder, or one above it, does not exist.
    """
    shown = os.fspath(folder)
    # walk the path one name at a time, as the kernel does, so that each folder and link on the way is looked at
    ahead = list(reversed(PurePath(os.getcwd(), shown).parts[1:]))
    here, links = "/", 0
    while ahead:
        above = os.stat(here)
        if above.st_mode & stat.S_IWOTH and not above.st_mode & stat.S_ISVTX:
            return f"everybody may write into {here}, which holds it: chmod +t {shlex.quote(here)}, or name another"
        name = ahead.pop()
        found = os.lstat(os.path.join(here, name))
        if not stat.S_ISLNK(found.st_mode):
            here = os.path.dirname(here) if name == ".." else os.path.join(here, name)
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), shown)
        if found.st_uid not in (0, os.geteuid()):
            link = os.path.join(here, name)
            return f"{link} is a symbolic link of {_user(found.st_uid)}: name the folder that it points to, or another"
        target = PurePath(os.readlink(os.path.join(here, name)))
        ahead += reversed(target.parts[1:] if target.is_absolute() else target.parts)
        here = "/" if target.is_absolute() else here
    own = os.stat(here)
    if own.st_uid not in (0, os.geteuid()):
        return f"it belongs to {_user(own.st_uid)}, who could change what is in it: name a folder of your own"
    if own.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        who = "everybody" if own.st_mode & stat.S_IWOTH else "its group"
        return f"{who} may write into it (mode {stat.S_IMODE(own.st_mode):o}): chmod 700 {shlex.quote(shown)}"
    return ""


def _user(number: int) -> str:
    """Return a user in words: the name, or the number if it has none here."""
    import pwd

    try:
        return f"user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"user {number}"
