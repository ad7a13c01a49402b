"""`tenex demo`: an embedded relay, a daemon and a chat, on this machine and in one process.

The chat is that of `tenex chat`. Without a terminal one conversation is held to its end, and what the daemon makes
durable in it is printed: messages, phases, turns, tools.
"""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tenex.core import records as r
from tenex.core.conversation import Conversation
from tenex.core.errors import ConfigurationError, OperatorError, UsageError
from tenex.core.messages import ModelRequest
from tenex.core.phases import Phase
from tenex.core.projection import is_idle
from tenex.operations.transcript import TranscriptRenderer
from tenex.workflows.missions.state import mission_of

from .chat import HISTORY, Chat
from .shared import output
from .shared.console import OVERDUE, QUIT, Feed, Screen
from .shared.nostr_client import ChatClient, connected_client
from .shared.options import Globals, current_folder

if TYPE_CHECKING:
    from tenex.app import Application
    from tenex.nostr.keys import Key, SecretKey

REQUEST = "Create hello.py that prints hello"
PACE = 0.3
"""Seconds the offline model takes for a step in a terminal: quick, and slow enough to be watched."""
FAILED = 1
"""The exit code where a mission has failed, or could not begin."""
WAITING = 6
"""The exit code where the conversation waits for a user and there is no terminal."""


def demo(
    given: Globals,
    message: Annotated[
        str | None,
        typer.Option(help="Send this, wait for the end, and exit; default: standard input, if it is no terminal."),
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="Of the embedded relay; else 7447, or a free one.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help='The model, as "openai:gpt-5-mini" or "offline"; else one that is available.'
        ),
    ] = None,
    workspace: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The folder the agents work in: . is this one; default: one for the demo."),
    ] = None,
) -> None:
    """Try it all on this machine: relay, daemon and chat.

    With --workspace the conversations are kept in the state folder, unless --data or TENEX_DATA names another. The
    settings that the workspace may hold are not used.

    The first line names the model and what it costs: the configured one; else a vendor's, where its key is set (such as
    OPENAI_API_KEY); else one of Ollama on this machine; else the offline model, which is free. Without a terminal only
    a configured or named model is used instead of the offline one.

    Without a terminal, or with --message, one conversation is held to its end: exit code 0; or 6 and the question,
    where it would have to wait for a user. `echo "Create a.py that prints hi" | tenex demo` sends just that, up to a
    line that is /quit; with nothing on stdin an example is requested.
    """
    if message is None:
        message = _piped()
        if message == "":
            raise typer.Exit  # to quit comes before any request
    from tenex.settings import resolve_paths

    from .shared.demo_model import demo_model

    own = _workspace(given, workspace) if workspace is not None else {}
    settings = given.settings(own)
    where = resolve_paths(settings)
    models, announcement = demo_model(settings, where.keys, model, in_terminal=sys.stdin.isatty())
    announcement += f"\nFolder: {where.workspace}, where the agents work."
    if _is_elsewhere(given, workspace, where.data):
        announcement += " To work in this one: `tenex demo --workspace .`"
    hold(
        given,
        message,
        port=port,
        overrides={**own, **({"models": models} if models else {})},
        announcement=announcement,
    )


def _is_elsewhere(given: Globals, workspace: Path | None, data: Path) -> bool:
    """Whether the data folder is not the current one, and no one has named it: it is the state folder."""
    if workspace is not None or given.data is not None or os.environ.get("TENEX_DATA"):
        return False
    cwd = current_folder()
    return cwd is not None and data != cwd


def _workspace(given: Globals, folder: Path) -> dict[str, Any]:
    """The settings for work in a folder; it is made where there is none.

    Raises:
        UsageError: it contains the data folder, or keys.
        ConfigurationError: nothing can be written there.
    """
    from tenex.settings import NO_CURRENT, workspace_data

    from .shared.files import make_folder

    cwd = current_folder()
    if cwd is None and not folder.is_absolute():
        raise ConfigurationError([NO_CURRENT])
    folder = Path(os.path.abspath((cwd or Path()) / folder))  # noqa: PTH100 `..` as it was typed; links stay
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; name another one with --workspace.")
    if given.data is None and not os.environ.get("TENEX_DATA"):
        given.data = workspace_data(folder, os.environ)
    data = given.folder()
    real = os.path.realpath(folder)
    if Path(os.path.realpath(data)).is_relative_to(real):
        raise UsageError(
            f"{folder} contains the data folder {data}, which agents could change. "
            "Name the folder of one project, or another data folder with --data."
        )
    if (folder / "keys" / "project.nsec").exists():
        raise UsageError(f"{folder} holds keys of tenex, which agents could read. Name another with --workspace.")
    make_folder(folder, 0o777)  # less the umask: it is a person's project, not ours
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        fault = f"{folder}: cannot be written ({error.strerror}). Choose a folder you own with --workspace."
        raise ConfigurationError([fault]) from error
    return {"paths": {"workspace": str(folder)}}


def _piped() -> str | None:
    """What standard input gives before a line that quits; None where it gives nothing, or is a terminal.

    Raises:
        UsageError: it is more than a message may hold.
    """
    from tenex.nostr.events import MAX_EVENT_BYTES

    if sys.stdin.isatty():
        return None
    given = sys.stdin.buffer.read(MAX_EVENT_BYTES + 1)
    if len(given) > MAX_EVENT_BYTES:
        raise UsageError(f"Standard input gives more than {MAX_EVENT_BYTES:,} bytes: too long for one message.")
    lines = given.decode("utf-8", "replace").strip().splitlines()
    asked = takewhile(lambda line: line.strip().lower() not in QUIT, lines)
    return "\n".join(asked).strip() if lines else None


def hold(
    given: Globals,
    message: str | None,
    *,
    port: int | None,
    overrides: Mapping[str, Any] | None = None,
    announcement: str = "",
) -> None:
    """Hold one conversation to its end, or chat where there is no message and there is a terminal.

    Raises:
        typer.Exit: with the exit code, where it is not 0.
    """
    from tenex.nostr.keys import KeyRing
    from tenex.settings import resolve_paths
    from tenex.telemetry import configure

    from .shared.files import make_folder

    settings = given.settings()
    where = resolve_paths(settings)
    make_folder(where.data)
    ring = KeyRing(*where.key_folders)
    user = ring.get_or_create("owner")
    project = ring.read_or_create("project")
    is_chat = message is None and sys.stdin.isatty() and sys.stdout.isatty()
    log = open(where.data / "tenex.log", "a", encoding="utf-8", opener=_private)  # noqa: SIM115 closed with telemetry
    telemetry = configure(settings.log.level, "json", log)
    try:
        screen = Screen(terminal=True if is_chat else None)
        if announcement:
            screen.message(announcement)
        own = {"people": {"owners": [*settings.people.owners, user.npub]}, **(overrides or {})}
        show = _Demo(screen, is_chat=is_chat, message=message or REQUEST)
        code = asyncio.run(show.hold(given, own, user, project, port))
    finally:
        telemetry.close()
        log.close()
    if code:
        raise typer.Exit(code)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class _Demo:
    """One demonstration."""

    def __init__(self, screen: Screen, *, is_chat: bool, message: str) -> None:
        self._screen = screen
        self._is_chat = is_chat
        self._message = message
        self._transcript = TranscriptRenderer()
        self._feed = Feed(screen.show)
        self._conversations: dict[str, Conversation] = {}
        """The own one, and those of an earlier demo that go on."""
        self._resumed: str | None = None
        """The first of these: what is typed in a terminal continues it."""
        self._may_be_idle = asyncio.Event()
        self._client: ChatClient | None = None
        self._refused: set[str] = set()
        """Conversations in which a workflow could not begin."""

    async def hold(
        self, given: Globals, overrides: Mapping[str, Any], user: "SecretKey", project: "Key", port: int | None
    ) -> int:
        """Start everything, converse, stop everything; returns the exit code."""
        from tenex.app import open_application
        from tenex.feature import extensions_of

        async with _relay(port) as url:
            settings = given.settings({"relays": {"urls": [url]}, **overrides})
            pace = _pace if self._is_chat else None
            extensions = extensions_of(given.features)
            opening = open_application(settings, observers=(self,), pace=pace, extensions=extensions)
            async with opening as app, app.serving():
                agents = [one.pubkey for one in app.current.now.identities]
                async with connected_client(
                    url, user, project.public, agents=agents, indicators=self._is_chat
                ) as client:
                    self._client = client
                    self._continue_resumed()
                    await client.introduce(os.environ.get("USER") or "you")
                    with suppress(TimeoutError):  # else the first message may be read before its author's name
                        async with asyncio.timeout(OVERDUE):
                            while user.public not in app.names:  # noqa: ASYNC110 it comes with the pool's events
                                await asyncio.sleep(0.01)
                    try:
                        return await (self._chat(app, client, url) if self._is_chat else self._once(client))
                    finally:
                        if client.root:
                            folder: Path = app.places.conversations / client.root
                            self._screen.message(f"\nThe conversation: {folder}/conversation.json")
                            self._screen.message(f"What was made:    {app.places.workspace}")
                            self._screen.message(f"To read it again: {output.command('conversations show')}")

    async def _chat(self, app: "Application", client: ChatClient, url: str) -> int:
        agents = ", ".join(agent.name for agent in app.policy.roster.values())
        model = ", ".join(app.current.now.settings.models.for_agent("", Phase.CHAT))
        self._screen.message(f"tenex demo · relay {url} · {agents} · {model}", "bold")
        self._screen.message(f"Try: {REQUEST}   (/help, /stop, /quit; you may type at any time)")
        from .shared.chat_places import ChatPlaces

        places = ChatPlaces(
            conversations=app.places.conversations,
            store=app.settings.store,
            history=app.places.data / HISTORY,
            agents=[str(slug) for slug in app.policy.roster],
        )
        await Chat(self._screen, app.places.socket, places).hold(client, url)
        return 0

    def _continue_resumed(self) -> None:
        """Continue the conversation of an earlier demo, unless a new one has begun."""
        if self._is_chat and self._client is not None and self._client.root is None and self._resumed is not None:
            self._client.follow(self._resumed, int(time.time()))

    def on_records(self, conversation: Conversation, records: Sequence[r.Record]) -> None:
        """The daemon has made records durable."""
        is_own = self._client is not None and conversation.id == self._client.root
        if not is_own and any(isinstance(record, r.ProcessRestarted) for record in records):
            self._screen.message(f"Continuing an unfinished conversation: {conversation.identity.title}", "bold")
            self._resumed = self._resumed or conversation.id
            self._continue_resumed()
        if self._is_chat:
            return
        lines = [line for record in records for line in self._transcript.render(record)]
        # our client does not listen in the threads of other conversations
        self._feed.queue(lines if is_own else [replace(line, event="") for line in lines])
        for record in records:
            if not isinstance(record, r.MessageSent) or not record.is_published:
                continue
            if ("error", "workflow") in record.tags:
                self._refused.add(conversation.id)
        self._conversations[conversation.id] = conversation
        self._may_be_idle.set()

    async def _once(self, client: ChatClient) -> int:
        """Hold one conversation to its end, without a terminal."""
        client.on_message = lambda message: self._feed.on_delivered(message.line.event)
        outcome = await client.send(self._message)
        if not outcome.accepted:
            raise UsageError(f"The relay refused the message: {outcome.detail}")
        root = str(client.root)
        while root not in self._conversations or not all(map(is_idle, self._conversations.values())):
            self._may_be_idle.clear()
            await self._may_be_idle.wait()
        while not self._feed.is_empty or self._conversations[root].delivery.outbox:  # noqa: ASYNC110 relay and screen are behind
            await asyncio.sleep(0.05)
        conversation = self._conversations[root]
        if conversation.cycle.status == "ended":
            mission = mission_of(conversation)
            return FAILED if (mission.outcome == "failed" if mission else root in self._refused) else 0
        self._screen.message("It waits for your answer to its last message.", "bold")
        return WAITING


async def _pace(_: ModelRequest) -> None:
    await asyncio.sleep(PACE)


@asynccontextmanager
async def _relay(port: int | None) -> AsyncIterator[str]:
    """The relay, at the same address in each run if it can be: conversations remember their relay."""
    from tenex.nostr.embedded import embedded_relay
    from tenex.settings import EMBEDDED_RELAY_PORT

    async with AsyncExitStack() as stack:
        try:
            url = await stack.enter_async_context(embedded_relay(EMBEDDED_RELAY_PORT if port is None else port))
        except OperatorError:
            if port is not None:
                raise
            url = await stack.enter_async_context(embedded_relay())
        yield url
