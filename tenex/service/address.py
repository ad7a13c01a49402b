"""Where a control socket is, and who is at the other end of it."""

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

PATH_BYTES: Final = 107
"""What the kernel takes for a socket's path: `sun_path`, without its last zero."""

_CREDENTIALS: Final = struct.Struct("3i")


class Peer(NamedTuple):
    """The process at the other end, as the kernel noted it when the connection was made."""

    pid: int
    user: int
    group: int


@contextmanager
def reachable(path: Path) -> Iterator[str]:
    """An address the kernel takes: a longer path is reached through a descriptor of its folder.

    Raises:
        OSError: there is no such folder.
    """
    if len(os.fsencode(path)) <= PATH_BYTES:
        yield os.fspath(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def peer_of(connection: socket.socket) -> Peer:
    """Who is at the other end."""
    return Peer(*_CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)))
