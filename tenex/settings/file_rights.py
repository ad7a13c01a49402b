"""Who besides the owner may change a file: what a daemon runs, no other user may."""

import grp
import os
import pwd
import shlex
import stat
from pathlib import Path


def is_own_group(group: int, user: int) -> bool:
    """Whether a group is that of one user alone; most systems give each user one, and a umask that lets it write."""
    try:
        account = pwd.getpwuid(user)
        members = set(grp.getgrgid(group).gr_mem)
    except KeyError:
        return False
    if account.pw_gid != group or members - {account.pw_name}:
        return False
    return all(other.pw_uid == user for other in pwd.getpwall() if other.pw_gid == group)


def why_not_ours(path: Path, folder: Path) -> str:
    """Why a file of a folder may not be used, with what to do: it is a link to elsewhere, or others may change it.

    Empty if it may be used. The folder's owner is who runs the daemon, and root.
    """
    try:
        real = Path(os.path.realpath(path))
        root = Path(os.path.realpath(folder))
        if not real.is_relative_to(root):
            return f"it is a link that leads out of {folder}. Copy the file to there"
        above = [place for place in real.parents if place.is_relative_to(root)]
        owner = os.geteuid() or root.stat().st_uid  # root may run the daemon on another user's folder
        for place in (real, *above):
            status = place.stat()
            if status.st_uid not in (owner, 0):
                return f"{place} belongs to user {status.st_uid}. Run `chown {owner} {shlex.quote(str(place))}` as root"
            is_own = is_own_group(status.st_gid, status.st_uid)
            if status.st_mode & (stat.S_IWOTH if is_own else stat.S_IWOTH | stat.S_IWGRP):
                return f"others may change {place}. Run `chmod go-w {shlex.quote(str(place))}`"
    except OSError as error:
        return f"it cannot be read ({error.strerror}). Check its rights"
    return ""
