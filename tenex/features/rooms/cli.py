"""`tenex rooms`: the groups of relays that the project's keys are members of."""

import asyncio
from typing import Any, Final

from tenex.cli.shared import output
from tenex.cli.shared.options import Globals
from tenex.cli.shared.register import group, register
from tenex.core.errors import TenexError
from tenex.core.text.amounts import count

PATIENCE: Final = 10.0
"""Seconds for the daemon's answer, which it has in memory."""

rooms = group("List the rooms that the project reads.")


@rooms.callback()
def _stay_a_group() -> None:  # typer makes a group with one command that command
    pass


@register(rooms, "list")
def list_(given: Globals) -> None:
    """List the rooms (groups of a relay) that keys of the project are in, as a running daemon knows them."""
    listed = asyncio.run(_ask(given.paths()))["rooms"]
    lines: list[str] = []
    for room in listed:
        name = output.one_line(room["name"]) or room["id"]
        sort = "private" if room["private"] else "public"
        lines.append(f"{name}  {sort}, {count(room['members'], 'member')}, with {', '.join(room['ours'])}")
        unread = "" if room["read"] else f": not read; {room['why'] or 'the relay is asked for it'}"
        lines.append(f"   {room['id']} at {room['relay']}{unread}")
    note = "No key of the project is in a room. Add one in a client of the relay; it is read from then on."
    given.show(listed, "\n".join(lines), "" if listed else note)


async def _ask(where: Any) -> Any:
    from tenex.operations.daemon_start import ask_when_started

    try:
        return await ask_when_started(where.socket, where.conversations, "rooms", patience=PATIENCE)
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError) as error:
        raise TenexError(f"No daemon runs on {where.data}. `tenex run` starts one.") from error
    except OSError as error:
        why = str(error) or f"no answer within {PATIENCE:g} s"
        raise TenexError(f"The daemon at {where.socket} does not answer: {why}. See `tenex status`.") from error
