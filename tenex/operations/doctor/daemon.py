"""Whether a daemon runs on this folder: the lock, the control socket, and problems in the daemon's own status."""

import asyncio
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from tenex.core.errors import ModelUnavailable, RelayUnavailable, StoreError, TenexError, TransientError
from tenex.core.text.amounts import count
from tenex.operations.daemon_start import WAIT, ask_when_started, is_starting, why_silent
from tenex.service.control import ELSEWHERE, why_no_socket
from tenex.store.lock import find_holder

from .findings import Case, Finding, PartProblems, Repair, fault, ok, url_text, warning

STATUS_TIMEOUT: Final = 8.0
"""Seconds a busy daemon has to answer with its status."""


def daemon(case: Case) -> Iterator[Finding]:
    """Report which process holds the folder, and put it into the case."""
    folder = case.paths.conversations
    if folder.is_dir():
        case.daemon = lock_holder(folder)
        yield ok(f"a daemon runs: {case.daemon}" if case.daemon else "no daemon runs here", folder)


def lock_holder(folder: Path) -> str:
    """The process that holds the lock of a folder, in words; empty where none does.

    Raises:
        OSError: the lock cannot be read.
    """
    match find_holder(folder):
        case None:
            return ""
        case 0:
            return "a process that cannot be seen from here"
        case pid:
            return f"process {pid}"


def control(case: Case) -> Iterator[Finding]:
    """Report the state of the control socket, and through it what the daemon could not write or reach."""
    path = case.paths.socket
    folder = case.paths.conversations
    runs = bool(case.daemon)
    if path.exists() and not path.is_socket():
        yield fault("this is not a socket", path, "move it away; the daemon listens there")
        return
    try:
        status = asyncio.run(ask_when_started(path, folder, "status", patience=STATUS_TIMEOUT, wait=WAIT))
    except FileNotFoundError:
        yield from _no_socket(case)
    except ConnectionRefusedError:
        if runs and is_starting(folder):
            yield _starting(case)
        elif runs:
            message = "a daemon runs, but does not answer at its control socket"
            yield fault(message, path, "look at its logs; if it hangs, restart it", TransientError)
        else:
            repair = Repair(partial(path.unlink, missing_ok=True), "removed", needs_lock=True)
            yield warning("this was left by a daemon that has ended", path, "the next start replaces it", repair)
    except (OSError, TenexError) as error:  # TimeoutError is an OSError
        reason = str(error) or f"timeout of {STATUS_TIMEOUT:g} s"
        fix = "look at the daemon's logs; if it hangs or is older than this program, restart it"
        yield fault(f"the daemon does not answer with its status: {reason}", path, fix, TransientError)
    else:
        yield ok("the daemon answers", path)
        with suppress(AttributeError, LookupError, TypeError):  # a status of another version
            yield from problems_in_status(status, case.problems)


def _no_socket(case: Case) -> Iterator[Finding]:
    path = case.paths.socket
    if not case.daemon:
        why = why_no_socket(path) if os.access(path.parent, os.W_OK) else ""
        if why:
            yield fault(f"no socket can be made there ({why})", path, f"paths.socket: {ELSEWHERE}")
    elif is_starting(case.paths.conversations):
        yield _starting(case)
    else:
        fix = "restart the daemon, so that `tenex status` can ask it"
        yield warning("a daemon runs, but its control socket is missing", path, fix)


def _starting(case: Case) -> Finding:
    message = why_silent(case.paths.conversations, case.daemon)
    return warning(message, case.paths.socket, "run `tenex doctor` again then")


def problems_in_status(
    status: Mapping[str, Any], of_parts: Mapping[str, PartProblems] = MappingProxyType({})
) -> Iterator[Finding]:
    """Report the problems in a status of `operations.status`, and in the parts that features add to it."""
    for part, problems_in in of_parts.items():
        yield from problems_in(status.get(part))
    settings = status["configuration"]
    stored = status["conversations"]
    file = settings["file"] or "the settings"
    if refused := settings.get("refused"):
        message = (
            f"the configuration was refused at the last reload ({len(refused)} faults); the one before is in force"
        )
        yield warning(
            message, file, "fix the faults that the check `settings` reports, then `tenex reload`, or restart"
        )
    if needs := settings.get("needsRestart"):
        yield warning(f"changes that need a restart: {', '.join(needs)}", file, "restart the daemon")
    yield from _problems_of_relays(status)
    for server in status.get("mcp", ()):
        if server["state"] != "ready" and server["why"]:
            message = f"this MCP server does not run: {server['why']}"
            fix = "correct it, then `tenex mcp test`; the daemon keeps trying one that can be started"
            yield warning(message, f"mcp.servers.{server['name']}", fix)
        for left in server.get("leftOut", ()):
            message = f"its tool {left['tool']} is left out: {left['why']}"
            fix = "report it to the maker of the server, or name the tools that you want in its `tools`"
            yield warning(message, f"mcp.servers.{server['name']}", fix)
    pages = status.get("web") or {}
    if pages and pages["state"] != "running" and pages["why"]:
        message = f"the pages are not served: {pages['why']}"
        yield warning(message, "web.enabled", "correct it, or set it to false; the daemon keeps trying")
    held = [
        {"id": one["id"], "why": status["models"].get("lastFailure", {}).get("why", "")}
        for one in stored["open"]
        if one["kind"] == "held"
    ]
    is_held = "held, because a model cannot be reached; the last failure"
    model_fix = "fix what the check `models` reports with --probe; the daemon keeps trying"
    journal_fix = "see what the check `conversations` reports about its journal"
    for conversations, state, fix, error in (
        (stored["suspended"], "suspended", "make room or repair the disk; the daemon keeps trying", StoreError),
        (stored["quarantined"], "quarantined", journal_fix, StoreError),
        (held, is_held, model_fix, ModelUnavailable),
    ):
        for one in conversations:
            message = f"{state}{_since(one.get('since'))}: {one['why']}"
            yield fault(message, f"conversation {one['id']}", fix, error)


def _problems_of_relays(status: Mapping[str, Any]) -> Iterator[Finding]:
    """The relays that do not serve the daemon, and those that refused what it sent."""
    for relay in status["relays"]:
        if relay["state"] != "connected":
            reason = "; ".join(relay["refused"]) or relay["fault"] or "it does not answer"
            message = f"the daemon is not served here{_since(relay['unresponsiveSince'])}: {reason}"
            fix = "see what the check `relays` reports; the daemon keeps trying"
            yield fault(message, url_text(relay["url"]), fix, RelayUnavailable)
    for last in status.get("refusals", ()):
        message = f"it has refused {count(last['count'], 'event')} of ours; the last: {last['reason']}"
        fix = "let the relay, or the room there, accept that key; or use another relay"
        yield warning(message, url_text(last["relay"]), fix)


def _since(at: str | None) -> str:
    return f" since {at}" if at else ""
