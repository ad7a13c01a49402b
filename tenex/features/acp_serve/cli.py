"""`tenex acp`: speaks the Agent Client Protocol with an editor on standard input and output."""

import importlib.metadata
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tenex.cli.shared.options import Globals
from tenex.cli.shared.own_keys import PROJECT, user_key
from tenex.core.errors import UsageError
from tenex.core.installation import pip_install

if TYPE_CHECKING:
    from tenex.store.conversations import Conversations
    from tenex.store.disk import Disk

EXTRA: Final = "acp"


def acp(
    given: Globals,
    relay: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where conversations are begun; default: the relays of the settings."),
    ] = None,
) -> None:
    """Be an agent of an editor (Agent Client Protocol), for the conversations of a running daemon.

    An editor starts it, and each of its sessions is a conversation, which goes on when the editor is closed. Anyone who
    can start it writes and decides as the owner whose key is in this data folder.
    """
    from tenex.cli.shared.lookup import on_folder
    from tenex.nostr.keys import KeyRing
    from tenex.nostr.urls import normalise_url
    from tenex.settings import resolve_paths
    from tenex.telemetry import configure

    try:
        importlib.metadata.version("agent-client-protocol")
    except importlib.metadata.PackageNotFoundError:
        raise UsageError(f"Editors need the extra `{EXTRA}`. Run: {pip_install(extra=EXTRA)}") from None
    settings = given.settings()
    places = resolve_paths(settings)
    ring = KeyRing(*places.key_folders)
    owner = user_key(ring)
    project = ring.read(PROJECT).public
    try:
        relays = [normalise_url(relay)] if relay else list(settings.relays.urls)
    except ValueError as error:
        raise UsageError(str(error)) from error
    telemetry = configure("error", "auto")  # on stderr

    async def run(folder: "Conversations", _: "Disk") -> None:
        from .agent import serve
        from .project import Project

        await serve(Project(folder=folder, places=places, owner=owner, key=project, relays=relays))

    try:
        on_folder(given, run)
    finally:
        telemetry.close()
