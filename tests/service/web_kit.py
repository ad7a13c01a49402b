"""Pages of a daemon: a port for them, and a link that logs in."""

import socket

from .kit import Folder, tenex


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
    return port


async def link(folder: Folder) -> str:
    code, out, err = await tenex("web", "--link", "--data", folder.data)
    assert code == 0, err
    return out.strip()
