"""The calls of `tenex agents add` that name an agent which somebody has published."""

import re
from typing import Annotated, Final, Literal

import typer

from tenex.cli.shared.options import Globals
from tenex.core.errors import UsageError

_ADDRESS: Final = re.compile(r"(?:nostr:)?(?:naddr|nevent|note)1", re.IGNORECASE)
_ID: Final = re.compile(r"[0-9a-f]{64}", re.IGNORECASE)


def add_published(
    given: Globals,
    slug: Annotated[str, typer.Argument()] = "",
    kind: Annotated[Literal["worker", "expert"] | None, typer.Option()] = None,
    like: Annotated[str, typer.Option()] = "",
    event: Annotated[
        str, typer.Option(metavar="ID", help="A published agent: its id in hex, in place of an address.")
    ] = "",
    name: Annotated[
        str, typer.Option(metavar="SLUG", help="A published agent: its name here; default: made of its title.")
    ] = "",
    relays: Annotated[
        list[str] | None,
        typer.Option("--relay", metavar="URL", help="A published agent: ask this relay too; may be repeated."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="A published agent: do not ask for confirmation.")] = False,
) -> bool:
    """In place of SLUG an address (naddr1..., nevent1..., note1...) names an agent that somebody has published.

    Such agents are of kind 4199, as TENEX's clients publish them; one is an expert unless --kind says worker. It is
    fetched from your relays and those that the address names, and shown with all that it says and asks for. It is
    written after a yes, with those of its tools that are here. Given again, the command shows what its author has
    changed since; what you have changed stays.
    """
    if not event and not _ADDRESS.match(slug):
        if name or relays or yes:
            raise UsageError("--name, --relay and --yes are for the address of a published agent, such as naddr1...")
        if _ID.fullmatch(slug):
            raise UsageError(
                "SLUG is the name of an agent, and this looks like a key. Delete it from your shell's history. "
                "If it is the id of a published agent, give it as `--event`."
            )
        return False
    from .addition import add_agent, read_wanted  # the relay client, which other commands do without

    if like:
        raise UsageError("--like copies an example, and an address names a published agent. Give one of them.")
    add_agent(given, read_wanted(slug, event, name, kind, relays or (), is_agreed=yes))
    return True
