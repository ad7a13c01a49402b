"""`tenex stop` and `tenex reload`: act on the daemon of a data folder, from any terminal of its user.

The lock of the folder names the process, and the process has to listen at the control socket of the folder: so no other
command that works in the folder is signalled, nor a process that has got the id of a daemon that ended.
"""

import asyncio
import os
import select
import signal
import socket
import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tenex.core.errors import ConfigurationError, TenexError

from .shared import output
from .shared.options import Globals

if TYPE_CHECKING:
    from tenex.settings import ProjectPaths

TimeoutOption = Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="Seconds to wait at most.")]

AGAIN: Final = 0.1
"""Seconds after which the lock and the socket are looked at again."""
ALIVE: Final = 5.0
"""Seconds for the status of a healthy daemon, which needs some ms."""


def stop(given: Globals, timeout: TimeoutOption = 60.0) -> None:
    """Stop the daemon of this data folder, and wait until it has ended.

    It finishes running steps (shutdown.deadline); what is unfinished continues at the next start.
    """
    from tenex.store.lock import find_holder

    where = given.paths()
    until = time.monotonic() + timeout
    pid = _daemon_of(where, until)
    stopped = {"stopped": pid}, f"Stopped (process {pid})."
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:  # it has just ended
        given.show(*stopped)
        return
    try:
        if find_holder(where.conversations) != pid:  # it has just ended, and another process may have got its id
            given.show(*stopped)
            return
        if not _is_stopping(where):  # a second signal would not wait for steps
            _terminate(process, pid)
        if not select.select([process], [], [], max(0.0, until - time.monotonic()))[0]:
            raise TenexError(
                f"Process {pid} has not ended within {timeout:g} s; it may be finishing steps. Wait: `tenex stop`; or "
                f"end it: `kill -KILL {pid}`, work continues at the next start."
            )
    finally:
        os.close(process)
    given.show(*stopped)


def reload(given: Globals, timeout: TimeoutOption = 60.0) -> None:
    """Have the daemon of this data folder read its settings, agents, workflows and keys of models again.

    If something is refused, all faults are printed, and the daemon goes on with what it has. The exit code is 1 where
    an agent, a workflow, a tool, a skill or an MCP server was left out and the rest is in force.
    """
    where = given.paths()
    until = time.monotonic() + timeout
    pid = _daemon_of(where, until)
    try:
        done = asyncio.run(_ask(where, "reload", until - time.monotonic()))
    except ConfigurationError:
        output.message("tenex: the reload was refused, the daemon goes on with the configuration it has")
        raise
    except OSError as error:
        why = str(error) or f"no answer within {timeout:g} s"
        raise TenexError(f"Process {pid} may not have reloaded: {why}. Look with `tenex status`.") from error
    missing = [f"{name} is disabled: {' '.join(faults)}" for name, faults in done.get("disabled", {}).items()]
    missing += [f"Left out: {sentence}" for sentence in done.get("leftOut", ())]
    head = f"Reloaded (process {pid}), but for what is named below." if missing else f"Reloaded (process {pid})."
    given.show(done, "\n".join([head, *done.get("needsRestart", ()), *missing]))
    if missing:
        raise typer.Exit(1)


def reload_running(where: "ProjectPaths") -> str:
    """Have a running daemon read a change of the settings; what came of it in a sentence, empty where none runs."""
    from tenex.store.lock import HIDDEN, find_holder

    try:
        pid = find_holder(where.conversations)
    except OSError:  # of another user, or no folder yet
        return "If a daemon runs, have it read this: `tenex reload`."
    if pid is None:
        return ""
    if pid == HIDDEN:
        return "The daemon runs elsewhere, as in another container. Have it read this there: `tenex reload`."
    try:
        done = asyncio.run(_ask(where, "reload", ALIVE))
    except ConfigurationError as error:
        return f"The running daemon refused the reload, and goes on as before: {error}"
    except (OSError, TenexError):
        return "The running daemon has not read this yet: `tenex reload`."
    return " ".join(["The running daemon has read it.", *done.get("needsRestart", ())])


def _daemon_of(where: "ProjectPaths", until: float) -> int:
    """The daemon's process id; one that is starting is waited for.

    Raises:
        TenexError: none runs, it may not be asked, or the process may be no daemon.
    """
    from tenex.store.lock import HIDDEN, find_holder

    while True:
        try:
            pid = find_holder(where.conversations)
            listener = _listener(where)
        except PermissionError as error:
            raise TenexError(
                f"{error.filename or where.socket} belongs to another user. Run this as the daemon's user, or as root."
            ) from error
        except NotADirectoryError:
            pid = None
        if pid is None:
            raise _not_running(where)
        if pid == HIDDEN:
            raise TenexError(
                f"The process that holds {where.conversations} cannot be seen from here, as in another container. Run "
                "this command there."
            )
        if listener == pid:
            return pid
        if time.monotonic() >= until:
            raise TenexError(
                f"Process {pid} holds {where.conversations} and does not listen at {where.socket}: it starts, "
                f"hangs, or is another command. Look: `ps {pid}`."
            )
        time.sleep(AGAIN)


def _not_running(where: "ProjectPaths") -> TenexError:
    return TenexError(f"No daemon runs on {where.data}. `tenex run` starts one.")


def _listener(where: "ProjectPaths") -> int | None:
    """The process that listens at the control socket; None where none does."""
    from tenex.service.client import reachable
    from tenex.service.control import peer_of

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as probe:
        probe.settimeout(ALIVE)
        try:
            with reachable(where.socket) as address:
                probe.connect(address)
        except PermissionError:
            raise
        except OSError:  # nothing listens there, or too many ask it now
            return None
        return peer_of(probe).pid


def _is_stopping(where: "ProjectPaths") -> bool:
    """Whether the daemon stops already; one that has closed its socket does, one that does not answer may hang."""
    try:
        report = asyncio.run(_ask(where, "status", ALIVE))
    except TimeoutError:
        return False
    except (OSError, TenexError):
        return True
    return bool(report.get("state") == "stopping")


def _terminate(process: int, pid: int) -> None:
    try:
        signal.pidfd_send_signal(process, signal.SIGTERM)
    except PermissionError as error:
        raise TenexError(f"Process {pid} belongs to another user. Run this as that user, or as root.") from error
    except ProcessLookupError:  # it has ended by itself
        pass


async def _ask(where: "ProjectPaths", word: str, patience: float) -> Any:
    from tenex.service.client import ask

    return await ask(where.socket, word, patience=max(AGAIN, patience))
