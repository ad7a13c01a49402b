"""Serves the pages at a port of this machine, or at a Unix socket, until it is asked to stop."""

import asyncio
import os
import secrets
import signal
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import uvicorn

from tenex.core.errors import ConfigurationError, StoreLocked
from tenex.core.ids import PublicKey
from tenex.nostr.keys import parse_public_key
from tenex.operations.doctor.findings import PartProblems
from tenex.operations.doctor.runner import Report
from tenex.runtime.clock import SystemClock
from tenex.service.control import control_socket
from tenex.settings import ProjectPaths, Settings
from tenex.settings.sections import Web
from tenex.store.conversations import Conversations
from tenex.store.disk import Disk
from tenex.store.opening import open_conversations
from tenex.tools.checkpoints import Checkpoints
from tenex.tools.shadow_git import has_git
from tenex.tools.workspace import Workspace

from .app import application
from .guard import LOOPBACK_NAMES, Logins
from .key_login import KeyLogins
from .links import LINK
from .reply import Writer
from .signer_login import SignerLogins
from .site import PagePart, Site
from .source import Source

LOOPBACK: Final = "127.0.0.1"
OWN_NAMES: Final = LOOPBACK_NAMES
"""Names of this machine that no page of another can claim."""
GRACE: Final = 2
"""Seconds in which requests may end when the server stops."""
CONNECTIONS: Final = 400
"""At a time, of all browsers: `live.STREAMS`, and as many that ask for a page."""
STALLED: Final = 60
"""Seconds after which the connection of a tab that reads nothing is ended: it holds what the system could not send."""


class _Server(uvicorn.Server):
    """A server that leaves the signals to us."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def site_of(
    settings: Settings,
    places: ProjectPaths,
    examine: Callable[[], Awaitable[Report]],
    folder: Conversations,
    parts: Sequence[PagePart],
    problems: Mapping[str, PartProblems],
    *,
    is_loopback: bool,
) -> Site:
    """The pages of a data folder, below a path that no one else knows."""
    key_logins = KeyLogins(lambda key: _is_owner(settings, key))
    return Site(
        source=Source(places=places, folder=folder, clock=SystemClock(), problems_of_parts=problems),
        writer=Writer(settings, places, is_loopback=is_loopback),
        logins=Logins(),
        key_logins=key_logins,
        signer_logins=SignerLogins(key_logins, settings.relays.urls),
        base=f"/{secrets.token_urlsafe(12)}",
        name=settings.project.name,
        examine=examine,
        parts=parts,
        checkpoints=lambda: _checkpoints(settings, places),
    )


def _is_owner(settings: Settings, key: PublicKey) -> bool:
    try:
        return key in settings.peer_group(parse_public_key).owners
    except ConfigurationError:  # no one may talk here, or a key there is none
        return False


def server_of(
    site: Site, hosts: Collection[str], *, has_entry: bool = False, tls: tuple[Path, Path] | None = None
) -> uvicorn.Server:
    """A server of the pages; `hosts` are names by which it may be asked, beside those of this machine.

    With `tls`, the files of a certificate and its key, it speaks https.
    """
    config = uvicorn.Config(
        application(site, (*OWN_NAMES, *hosts), has_entry=has_entry),
        http="h11",
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=GRACE,
        limit_concurrency=CONNECTIONS,
        ssl_certfile=tls and tls[0],
        ssl_keyfile=tls and tls[1],
    )
    return _Server(config)


async def serve(
    settings: Settings,
    places: ProjectPaths,
    examine: Callable[[], Awaitable[Report]],
    parts: Sequence[PagePart],
    problems: Mapping[str, PartProblems],
    *,
    port: int,
    path: Path | None,
    on_ready: Callable[[str, Callable[[], str]], None],
) -> None:
    """Serve the pages of a data folder; with `path` at a Unix socket, else at a port of the loopback interface.

    Args:
        settings: of the data folder.
        places: its folders.
        examine: asks the doctor.
        parts: what features add to the pages.
        problems: what reports the problems in a part of the daemon's status that a feature adds, by its name.
        port: 0 lets the system choose.
        path: of the Unix socket.
        on_ready: is given the address without the path of the pages, and what makes a link that logs one browser in.

    Raises:
        ConfigurationError: the port or the socket cannot be used.
        StoreError: the database cannot be reached.
    """
    disk = Disk()
    try:
        async with open_conversations(settings.store, places.conversations, disk, SystemClock()) as folder:
            is_loopback = path is None and settings.web.is_loopback and not settings.web.hosts  # a proxy has a name
            site = site_of(settings, places, examine, folder, parts, problems, is_loopback=is_loopback)
            await _serve(site, settings, places, port, path, on_ready)
    finally:
        disk.close()


async def _serve(
    site: Site,
    settings: Settings,
    places: ProjectPaths,
    port: int,
    path: Path | None,
    on_ready: Callable[[str, Callable[[], str]], None],
) -> None:
    web = settings.web
    tls = _tls(settings, places) if path is None else None
    listening = _at_socket(path) if path is not None else at_port(port, web.listen)
    server = server_of(site, (*web.hosts, web.listen), has_entry=path is not None or tls is not None, tls=tls)

    def stop() -> None:
        site.streams.close()
        server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    is_https = path is not None or tls is not None
    address = f"http{'s' if is_https else ''}://{_address(listening, path, web)}"
    site.outer = _outer_address(address, web, path)

    def new_link() -> str:
        return f"{address}{site.base}/login#{site.logins.new_token()}"

    async def give_link(_: dict[str, Any]) -> dict[str, str]:
        return {"link": new_link()}

    try:
        async with AsyncExitStack() as stack:
            with suppress(StoreLocked, ConfigurationError):  # others serve this folder too, or it cannot be written to
                await stack.enter_async_context(control_socket(places.web_socket, {LINK: give_link}))
            on_ready(address, new_link)
            await server.serve(sockets=[listening])
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        listening.close()
        if path is not None:
            path.unlink(missing_ok=True)  # noqa: ASYNC240 at the end


def _tls(settings: Settings, places: ProjectPaths) -> tuple[Path, Path] | None:
    """The files of the certificate and its key; None where there are none.

    Raises:
        ConfigurationError: they cannot be used.
    """
    web = settings.web
    if not web.certificate:
        return None
    files = (places.data / web.certificate, places.data / web.key)
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(*files)
    except OSError as fault:  # an SSLError is one
        why = fault.strerror or str(fault)
        raise ConfigurationError([f"web.certificate: {files[0]} with {files[1]} cannot be used ({why})"]) from fault
    return files


def at_port(port: int, host: str = LOOPBACK) -> socket.socket:
    """Listen on a port of this machine; 0 takes a free one.

    Raises:
        ConfigurationError: the port cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # connections inherit it; without it the end of each answer waits 40 ms for the other side
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if sys.platform == "linux":
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STALLED * 1000)
    try:
        listening.bind((host, port))
    except OSError as fault:
        listening.close()
        raise ConfigurationError(
            [f"web.port: {host}:{port} cannot be used ({fault.strerror}); name another with --port"]
        ) from fault
    listening.listen()  # before the link is printed
    return listening


def _address(listening: socket.socket, path: Path | None, web: Web) -> str:
    """What a browser has to ask; behind a socket that is the name of the server before it."""
    if path is not None:
        return web.hosts[0] if web.hosts else "localhost"
    port = listening.getsockname()[1]
    if web.hosts and not web.is_loopback:
        return web.hosts[0] if ":" in web.hosts[0] else f"{web.hosts[0]}:{port}"
    return f"[{web.listen}]:{port}" if ":" in web.listen else f"{web.listen}:{port}"


def _outer_address(address: str, web: Web, path: Path | None) -> str:
    """What a browser on another machine has to ask; "" where none can."""
    if path is None and web.is_loopback:
        return f"https://{web.hosts[0]}" if web.hosts else ""
    return address


def _at_socket(path: Path) -> socket.socket:
    """Listen where no other process does; only this user can connect."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        _clear(path)
        listening.bind(os.fspath(path))
        path.chmod(0o600)  # before `listen` no one can connect
    except OSError as fault:
        listening.close()
        raise ConfigurationError([f"{path}: no socket can be made there ({fault.strerror or fault})"]) from fault
    listening.listen()
    return listening


def _clear(path: Path) -> None:
    """Remove the socket of a server that was killed, and nothing else."""
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as probe:
        probe.settimeout(1)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)


def _checkpoints(settings: Settings, places: ProjectPaths) -> Checkpoints | None:
    """The checkpoints of the workspace, to be read; None where there are none."""
    workspace = Workspace(places.workspace)
    is_there = settings.tools.checkpoints and places.checkpoints.is_dir() and has_git(workspace.root)
    return Checkpoints(places.checkpoints, workspace.root, reads_only=True) if is_there else None
