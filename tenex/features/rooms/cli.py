"""`tenex rooms`: the groups of relays that the project's keys are members of."""

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from tenex.cli.shared import output
from tenex.cli.shared.options import Globals
from tenex.cli.shared.register import group, register
from tenex.core.errors import TenexError
from tenex.core.text.amounts import count

PATIENCE: Final = 10.0
"""Seconds for what the daemon has in memory."""
PATIENCE_OF_RELAYS: Final = 55.0
"""Seconds for what a relay has to answer; the daemon gives up after a minute."""

rooms = group("List, join and leave the rooms of relays that the project works in.")

RoomArgument = Annotated[str, typer.Argument(metavar="ROOM", help="The room's id, or its name.")]
RelayOption = Annotated[
    str, typer.Option("--relay", metavar="URL", help="The relay, where several of the settings have such a room.")
]
AgentsOption = Annotated[
    list[str] | None,
    typer.Option("--agent", metavar="NAME", help="Only this agent, or `project`; may be repeated."),
]
WhoArgument = Annotated[
    str, typer.Argument(metavar="WHO", help="The public key (npub1...) of a person, or the name of an agent.")
]
RoleOption = Annotated[
    str, typer.Option("--role", metavar="ROLE", help="The role in the room, as the relay names it: admin, member, ...")
]
OwnerFileOption = Annotated[
    Path | None, typer.Option("--owner-file", metavar="FILE", help="A file with the owner's nsec.")
]
TagOption = Annotated[
    str,
    typer.Option("--tag", metavar="JSON", help='An attestation for the one --agent, made elsewhere: ["auth", ...].'),
]


@register(rooms, "list")
def list_(given: Globals) -> None:
    """List the rooms (groups of a relay) that keys of the project are in, as a running daemon knows them."""
    listed = _ask(given, "rooms", PATIENCE)["rooms"]
    lines: list[str] = []
    for room in listed:
        name = output.one_line(room["name"]) or room["id"]
        sort = "private" if room["private"] else "public"
        ours = [f"{one} (attested)" if one in room["attested"] else one for one in room["ours"]]
        lines.append(f"{name}  {sort}, {count(room['members'], 'member')}, with {', '.join(ours)}")
        unread = "" if room["read"] else f": not read; {room['why'] or 'the relay is asked for it'}"
        lines.append(f"   {room['id']} at {room['relay']}{unread}")
    note = "No key of the project is in a room. `tenex rooms join ROOM` joins one; people can add it in their client."
    given.show(listed, "\n".join(lines), "" if listed else note)


@register(rooms)
def join(given: Globals, room: RoomArgument, agents: AgentsOption = None, relay: RelayOption = "") -> None:
    """Join a room with the project and all its agents, or with those of --agent.

    A running daemon asks the relay, and reads the room from then on. An agent can write in a room, and be mentioned
    there, only as a member of it. Into a private room somebody in charge of it has to add them. Exits with 1 if the
    relay refuses one of them.
    """
    words = {"room": room, "agents": agents or [], "relay": relay}
    _show(given, _ask(given, "join_room", PATIENCE_OF_RELAYS, **words))


@register(rooms)
def leave(given: Globals, room: RoomArgument, agents: AgentsOption = None, relay: RelayOption = "") -> None:
    """Leave a room with all keys of the project that are in it, or with those of --agent.

    It is no longer read once none of them is a member. Exits with 1 if the relay refuses one of them.
    """
    words = {"room": room, "agents": agents or [], "relay": relay}
    _show(given, _ask(given, "leave_room", PATIENCE_OF_RELAYS, **words))


@register(rooms)
def invite(
    given: Globals, room: RoomArgument, who: WhoArgument, role: RoleOption = "", relay: RelayOption = ""
) -> None:
    """Add a person or an agent to a room, by a key of the project that may do so there.

    In most private rooms only owners and admins may; the error names them.
    """
    words = {"room": room, "who": who, "role": role, "relay": relay}
    _show(given, _ask(given, "invite_to_room", PATIENCE_OF_RELAYS, **words))


@register(rooms)
def attest(
    given: Globals, agents: AgentsOption = None, owner_file: OwnerFileOption = None, tag: TagOption = ""
) -> None:
    """Attest the keys of the project and its agents as an owner (NIP-OA), so that clients show whose they are.

    The owner's secret key (nsec) is taken from the file that you name, from $TENEX_OWNER_NSEC, from keys/owner.nsec
    if it is there, or typed. It signs once for each key and is not stored; the attestations are, and everybody can see
    them in the profiles (kind 0). A remote signer cannot do it: NIP-46 signs events only. Where the owner's key is
    elsewhere, another program can make an attestation there for --tag.
    """
    from .attest import attest_keys

    where = given.paths()
    made = attest_keys(given.settings(), where, agents or [], owner_file, tag)
    from tenex.cli.stop_reload import reload_running

    lines = [f"{row['name']}  attested by {row['owner']}" for row in made]
    given.show(made, "\n".join(lines), reload_running(where))


_STATES: Final = {
    "joined": "joined",
    "already": "was a member already",
    "asked": "asked; the relay lists it once somebody in charge of the room has accepted",
    "left": "left",
    "absent": "was no member",
    "refused": "refused",
}


def _show(given: Globals, done: Mapping[str, Any]) -> None:
    """Print what became of each key.

    Raises:
        typer.Exit: with 1, where the relay has refused one.
    """
    room = done["room"]
    name = output.one_line(room["name"]) or room["id"]
    is_read = "is read" if room["read"] else "is not read"
    lines = [f"{name}  {room['id']} at {room['relay']}, {count(room['members'], 'member')}, {is_read}"]
    lines += [f"   {line}" for line in _outcomes(done["keys"])]
    if not done["keys"]:
        lines.append("   No key of the project is in it.")
    given.show(done, "\n".join(lines), "")
    if any(key["state"] == "refused" for key in done["keys"]):
        raise typer.Exit(1)


def _outcomes(keys: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for key in keys:
        by = f", added by {key['by']}" if key["by"] and key["state"] == "joined" else ""
        answer = f": {output.one_line(key['answer'])}" if key["answer"] else ""
        yield f"{output.one_line(key['name'])}  {_STATES[key['state']]}{by}{answer}"


def _ask(given: Globals, do: str, patience: float, **words: Any) -> Any:
    from tenex.operations.daemon_start import ask_when_started

    where = given.paths()
    try:
        return asyncio.run(ask_when_started(where.socket, where.conversations, do, patience=patience, **words))
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError) as error:
        raise TenexError(f"No daemon runs on {where.data}. `tenex run` starts one.") from error
    except OSError as error:
        why = str(error) or f"no answer within {patience:g} s"
        raise TenexError(f"The daemon at {where.socket} does not answer: {why}. See `tenex status`.") from error
