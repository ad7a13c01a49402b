"""`tenex mcp serve`: offers the conversations of a data folder to MCP clients, such as Claude Code.

A client reads conversations and writes messages as the owner whose key is in the data folder. It approves nothing.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from tenex.cli.shared import output
from tenex.cli.shared.options import Globals
from tenex.cli.shared.own_keys import PROJECT, user_key
from tenex.core.errors import UsageError

if TYPE_CHECKING:
    from tenex.store.conversations import Conversations
    from tenex.store.disk import Disk

    from .access import ConversationAccess
    from .sender import Sender


def serve(
    given: Globals,
    http: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=0,
            max=65_535,
            help="Serve by HTTP on this port of 127.0.0.1 (0: a free one), not stdio.",
        ),
    ] = None,
    relay: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where messages are sent; default: the first relay of the settings."),
    ] = None,
) -> None:
    """Offer the conversations to MCP clients: on standard input and output, or by HTTP with a token.

    Anyone who can start it can write as the owner whose key is in this data folder. What is sent so is a message: it
    approves nothing, gives no commands and skips no checks.
    """
    from tenex.cli.shared.lookup import on_folder
    from tenex.mcp.servers import missing_sdk
    from tenex.telemetry import configure

    why = missing_sdk()
    if why:
        raise UsageError(why)
    sender = _sender(given, relay)
    telemetry = configure("error", "auto")  # on stderr

    async def run(folder: "Conversations", _: "Disk") -> None:
        from .access import ConversationAccess
        from .server import ConversationServer

        access = ConversationAccess(folder, sender)
        if http is None:
            await ConversationServer(access).run_stdio_async()
        else:
            await _serve_http(given, access, http)

    try:
        on_folder(given, run)
    finally:
        telemetry.close()


def _sender(given: Globals, relay: str | None) -> "Sender":
    """What sends messages as the owner of the data folder.

    Raises:
        UsageError: the relay's address is none.
        ConfigurationError: a key is missing.
    """
    from tenex.nostr.keys import KeyRing
    from tenex.nostr.urls import normalise_url
    from tenex.settings import resolve_paths

    from .sender import Sender

    settings = given.settings()
    ring = KeyRing(*resolve_paths(settings).key_folders)
    try:
        url = normalise_url(relay or settings.relays.urls[0])
    except ValueError as error:
        raise UsageError(str(error)) from error
    return Sender(user_key(ring), ring.read(PROJECT).public, url)


async def _serve_http(given: Globals, access: "ConversationAccess", port: int) -> None:
    from .server import ConversationServer, listening_socket, read_or_make_token, serve_http

    token, file = read_or_make_token(given.paths().keys)
    listener = listening_socket(port)
    address, bound_port = listener.getsockname()
    where = f"http://{address}:{bound_port}/mcp\nClients send `Authorization: Bearer` with the token in {file}."
    await serve_http(ConversationServer(access, token, bound_port), listener, lambda: output.message(where))
