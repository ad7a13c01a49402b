"""`tenex chat`: a terminal client, over a relay.

Messages come from the relay; those not signed by the project, its agents or the user are marked as a stranger's. A
daemon on this machine also reports what becomes durable (tools, phases, END) and what agents write for themselves.
Otherwise the project's status events are shown, if the daemon publishes them.
"""

import asyncio
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tenex.core.errors import ConfigurationError, TenexError, TransientError, UsageError
from tenex.core.phases import PHASES
from tenex.core.text.amounts import count, dollars
from tenex.operations.short_ids import conversation_of
from tenex.operations.transcript import Line
from tenex.service.client import ask

from .shared import output
from .shared.activity import (
    HAS_ENDED,
    NEXT_CYCLE,
    YOUR_TURN,
    DaemonWatch,
    RequestMeter,
    activity_lines,
    is_at_work,
    spinner,
    toolbar,
)
from .shared.console import Feed, Screen
from .shared.nostr_client import Activity, ChatClient, ReceivedMessage, connected_client
from .shared.options import Globals
from .shared.own_keys import OWNER, PROJECT, user_key

if TYPE_CHECKING:
    from tenex.core.ids import PublicKey
    from tenex.nostr.keys import KeyRing, SecretKey
    from tenex.settings import ProjectPaths

    from .shared.chat_places import ChatPlaces


WAIT: Final = 10.0
"""Seconds without an answer after which a user is shown where to look."""
LOOK: Final = 1.0
"""Seconds after which a chat without a terminal looks whether agents are at work."""
REPORT_DELAY: Final = 1.0
"""Seconds a message waits for the daemon's report of what came before it."""
HISTORY: Final = "chat-history"
"""The file of what was typed, in the data folder."""
MARKS: Final = "chat-read.json"
"""The file of when conversations were last seen, likewise."""
AGAIN: Final = 2.0
"""Seconds after which a shortcut counts again: pressed twice it would also end, or answer, what comes next."""
_ID: Final = re.compile(r"[0-9a-f]{64}")


def chat(
    given: Globals,
    relay: Annotated[
        str | None, typer.Option(metavar="URL", help="The relay; default: the first of the settings.")
    ] = None,
    to: Annotated[
        str | None, typer.Option(metavar="NPUB", help="The project; default: the one of the data folder.")
    ] = None,
    conversation: Annotated[
        str, typer.Option(metavar="ID", help="Continue this conversation: its id, or its beginning.")
    ] = "",
    wait: Annotated[
        float, typer.Option(help="Seconds without a message after which it ends, or warns in a terminal.")
    ] = WAIT,
) -> None:
    """Talk to the agents from this terminal, signed with keys/owner.nsec.

    Without a terminal each line of standard input is a message; it ends after --wait seconds without an answer. The
    exit code is 1 where there was none.
    """
    from tenex.nostr.keys import KeyRing, parse_public_key
    from tenex.nostr.urls import normalise_url
    from tenex.settings import resolve_paths
    from tenex.telemetry import configure

    settings = given.settings()
    ring = KeyRing(*resolve_paths(settings).key_folders)
    try:
        user = user_key(ring)
        project = parse_public_key(to) if to else ring.read("project").public
        url = normalise_url(relay or settings.relays.urls[0])
    except ValueError as error:
        raise UsageError(str(error)) from error
    except ConfigurationError as error:
        hint = ["`tenex init` makes both keys; `--to` names another project."] if not ring.names() else []
        raise ConfigurationError([*error.faults, *hint]) from error
    telemetry = configure("error", "auto")  # a lost connection shows in the missing answers
    try:
        where = resolve_paths(settings)
        chat = Chat(Screen(), where.socket, _places(where, ring, project, settings.store))
        known = conversation and asyncio.run(_full_id(conversation, where.conversations, settings.store))
        asyncio.run(chat.run(url, user, project, wait, known, _agents(ring, project)))
    finally:
        telemetry.close()


def _places(where: "ProjectPaths", ring: "KeyRing", project: "PublicKey", store: str) -> "ChatPlaces":
    """What is known of the project: all where it is this folder's, of another nothing but what was typed."""
    from .shared.chat_places import ChatPlaces
    from .shared.read_marks import ReadMarks

    history = where.data / HISTORY if where.data.is_dir() else None
    if PROJECT not in ring.names() or ring.read(PROJECT).public != project:
        return ChatPlaces(history=history)
    agents = [name for name in ring.names() if name not in (PROJECT, OWNER)]
    marks = ReadMarks(where.data / MARKS if history is not None else None)
    return ChatPlaces(conversations=where.conversations, store=store, history=history, agents=agents, marks=marks)


def _agents(ring: "KeyRing", project: "PublicKey") -> "list[PublicKey]":
    """The keys of this folder's agents, where the project is this folder's; otherwise the relay has them."""
    known: list[PublicKey] = []
    if PROJECT in ring.names() and ring.read(PROJECT).public == project:
        for name in ring.names():
            with suppress(ConfigurationError):  # `tenex doctor` reports an invalid key
                known += [ring.read(name).public] if name != OWNER else []
    return known


async def _full_id(conversation: str, folder: Path, store: str) -> str:
    """The full id; a conversation that is not in this folder or its database has to be given by it."""
    from .shared.chat_places import ChatPlaces

    name = conversation.strip().lower()
    if _ID.fullmatch(name):
        return name
    return conversation_of(name, await ChatPlaces(conversations=folder, store=store).names())


def _unanswered(wait: float) -> str:
    return (
        f"No answer within {wait:g} s. Is the daemon running (`tenex status`), and are you an owner or a member "
        "(`people` in its settings)?"
    )


class Chat:
    """What a user sees of one conversation."""

    def __init__(self, screen: Screen, socket: Path, places: "ChatPlaces | None" = None) -> None:
        self._screen = screen
        self._socket = socket
        self._places = places
        self._pressed = -AGAIN
        """When a shortcut was used, in seconds of a monotonic clock."""
        self._feed = Feed(self._line)
        self._waiting: dict[str, ReceivedMessage] = {}
        """Messages that wait for the lines before them, by event id."""
        self._phase = ""
        self._status: Mapping[str, Any] | None = None
        """Of the conversation, as the daemon on this machine reports it; None without a report."""
        self._status_at = 0.0
        self._meter = RequestMeter()
        self._has_report = False
        """Whether that daemon reports what becomes durable in it."""
        self._active: Activity | None = None
        """The same from the project's status event."""
        self._last = 0.0
        self._awaits_answer = False

    async def run(
        self,
        url: str,
        user: "SecretKey",
        project: "PublicKey",
        wait: float,
        conversation: str,
        agents: Iterable["PublicKey"] = (),
    ) -> None:
        """Connect, and send what is typed, or each line of standard input where there is no terminal.

        Raises:
            TransientError: nothing answered within `wait` seconds, and there is no terminal.
            UsageError: the conversation is held in direct messages.
        """
        is_chat = sys.stdin.isatty() and sys.stdout.isatty()
        if conversation and self._places is not None:
            await self._places.refuse_private(conversation)
        async with connected_client(url, user, project, agents=agents, indicators=True) as talk:
            if conversation:
                await talk.resume(conversation)
            if is_chat:
                hint = f"Connected to {url} · /help · Tab completes · Alt-Enter: another line · /conversations · /quit"
                self._screen.message(hint)
                await self.hold(talk, url, wait)
                if talk.root:
                    self._screen.message(f"To continue later: {output.command(f'chat --conversation {talk.root}')}")
            else:
                await self._pipe(talk, wait)
        if self._awaits_answer and not is_chat:
            raise TransientError(f"{_unanswered(wait)} Use --wait to wait longer.")

    async def hold(self, talk: ChatClient, url: str, wait: float = WAIT) -> None:
        """Send what the user types until they leave; the agents at work are shown above it."""
        from prompt_toolkit.patch_stdout import patch_stdout

        from .shared.chat_places import ChatPlaces
        from .shared.input_completion import InputCompleter
        from .shared.input_history import InputHistory
        from .shared.input_line import Shortcut, typed_lines

        places = self._places or ChatPlaces()
        talk.on_message = self._on_message
        talk.on_activity = self._on_activity
        watch = DaemonWatch(self._socket, self._screen, lambda: talk.root, self._on_lines, self._on_gone)
        loop = asyncio.get_running_loop()
        reminder = loop.call_later(wait, self._remind, talk, wait)

        def lines(width: int) -> list[tuple[str, str]]:
            views = (*talk.activities, *watch.writing.values())
            return activity_lines(views, width, only_text=self._status is not None)

        async with asyncio.TaskGroup() as group:

            def say(text: str) -> None:
                self._pressed = time.monotonic()
                self._screen.message(f"  {text}")
                group.create_task(self._send(talk, text), name="shortcut")

            def may_stop() -> bool:
                return self._is_working(talk) and self._is_first_press()

            def may_answer() -> bool:
                return self._is_asked() and self._is_first_press()

            watching = group.create_task(watch.run(), name="daemon watch")
            group.create_task(self._report_new(talk, places), name="what is new")
            with patch_stdout(raw=True):  # so that output is printed above the input line
                async for text in typed_lines(
                    partial(self._toolbar, url),
                    lines,
                    history=InputHistory(places.history),
                    completer=InputCompleter(places.commands(), places.agents, places.arguments),
                    shortcuts=(
                        Shortcut(("escape",), partial(say, "/stop"), may_stop),
                        Shortcut(("escape", "y"), partial(say, "yes"), may_answer),
                        Shortcut(("escape", "n"), partial(say, "no"), may_answer),
                    ),
                ):
                    if await self._is_own_command(talk, places, text):
                        continue
                    await self._send(talk, text)
                    reminder.cancel()
                    reminder = loop.call_later(wait, self._remind, talk, wait)
            watching.cancel()
        reminder.cancel()
        self._note_seen(talk)

    async def _is_own_command(self, talk: ChatClient, places: "ChatPlaces", text: str) -> bool:
        """Carry out a command of the chat itself; returns whether it was one."""
        command, _, argument = text.strip().partition(" ")
        match command.lower():
            case "/conversations":
                self._note_seen(talk)
                try:
                    for line in await places.find(argument.strip()):
                        self._screen.message(line)
                except TenexError as error:
                    self._screen.message(output.with_options(str(error)), "yellow")
            case "/open":
                try:
                    name = await places.named(argument.strip())
                    await places.refuse_private(name)
                    await self._open(talk, name)
                except TenexError as error:
                    self._screen.message(output.with_options(str(error)), "yellow")
            case _:
                return False
        return True

    async def _open(self, talk: ChatClient, conversation: str) -> None:
        """Go on with another conversation; what it already holds is shown."""
        self._note_seen(talk)
        self._status = self._active = None
        self._has_report = self._awaits_answer = False
        self._phase = ""
        self._waiting.clear()
        self._meter = RequestMeter()
        self._feed = Feed(self._line)
        self._screen.show(Line("phase", conversation[:12]))
        await talk.resume(conversation)
        self._note_seen(talk)
        with suppress(OSError, TenexError):  # no daemon on this machine, or it is not in it
            self._on_lines([], await ask(self._socket, "conversation", id=conversation))

    def _note_seen(self, talk: ChatClient) -> None:
        if talk.root and self._places is not None:
            self._places.marks.note(talk.root)

    async def _report_new(self, talk: ChatClient, places: "ChatPlaces") -> None:
        with suppress(OSError, TenexError):
            number = await places.count_new(talk.root or "")
            if number:
                self._screen.message(f"Something is new in {count(number, 'other conversation')}: /conversations")

    def _hint(self) -> str:
        """The keys that do something now, or what the last request took, for the status bar."""
        if self._is_asked():
            return " · Alt-Y: yes, Alt-N: no, Esc stops"
        if self._status is not None and is_at_work(self._status):
            return " · Esc stops"
        return f" · {self._meter.text}" if self._meter.text else ""

    def _is_first_press(self) -> bool:
        return time.monotonic() - self._pressed > AGAIN

    def _is_asked(self) -> bool:
        """Whether an agent waits for an answer or a permission."""
        runs = (self._status or {}).get("runs", ())
        return any(run["state"] == "parked" for run in runs)

    def _is_working(self, talk: ChatClient) -> bool:
        """Whether something goes on that `/stop` ends."""
        if self._status is not None:
            return is_at_work(self._status)
        return bool(talk.activities or (self._active is not None and self._active.names))

    def _remind(self, talk: ChatClient, wait: float) -> None:
        if self._awaits_answer and not talk.activities:
            self._screen.message(output.with_options(_unanswered(wait)), "yellow")

    def _toolbar(self, url: str) -> str:
        if self._status is not None:
            return f"{toolbar(self._status, time.monotonic() - self._status_at)}{self._hint()}"
        active = self._active
        if active is not None and active.names:
            return f"{spinner()} {self._phase} · {', '.join(active.names)} at work"
        if active is not None and active.status == "ended":
            return f"{HAS_ENDED} · {NEXT_CYCLE}"
        if active is not None:
            return f"{self._phase} · {YOUR_TURN}"
        return f"{url} · {self._phase or 'write to begin'}"

    async def _pipe(self, talk: ChatClient, wait: float) -> None:
        talk.on_message = self._on_message
        talk.on_activity = self._on_activity
        loop = asyncio.get_running_loop()
        while line := await asyncio.to_thread(sys.stdin.readline):
            if line.strip():
                await self._send(talk, line.strip())
        self._last = loop.time()
        while (remaining := self._last + wait - loop.time()) > 0:
            await asyncio.sleep(min(remaining, LOOK))
            if talk.activities:  # somebody is at work, as indicators say that go out of date by themselves
                self._last = loop.time()

    async def _send(self, talk: ChatClient, text: str) -> None:
        self._awaits_answer = True
        outcome = await talk.send(text)
        if not outcome.accepted:
            self._screen.message(f"The relay refused it: {outcome.detail}", "red")

    # ---- from the relay ----

    def _on_message(self, message: ReceivedMessage) -> None:
        line = message.line
        if line.tone == "stranger":  # it is not an answer, and none is expected to it
            self._screen.show(line)
            return
        is_own = line.tone == "person"
        loop = asyncio.get_running_loop()
        self._last = loop.time()
        self._awaits_answer = self._awaits_answer and (is_own or message.is_past)
        if not self._has_report or is_own:
            self._show(message)
        else:
            self._waiting[line.event] = message
            loop.call_later(REPORT_DELAY, self._show_waiting, line.event)
        self._feed.on_delivered(line.event)

    def _show_waiting(self, event: str) -> None:
        message = self._waiting.pop(event, None)
        if message is not None:
            self._show(message)

    def _show(self, message: ReceivedMessage) -> None:
        if message.phase_from and not self._has_report:  # otherwise the report shows the transition, with its reason
            icon = next((facts.icon for phase, facts in PHASES.items() if phase == message.phase), "")
            self._screen.show(Line("phase", f"{icon} {message.phase_from} → {message.phase}"))
        self._phase = message.phase or self._phase
        self._screen.show(message.line)
        if message.tokens and self._screen.is_terminal:
            cost = f", {dollars(message.cost)}" if message.cost else ""
            self._screen.message(f"  {message.tokens:,} tokens{cost}")

    def _on_activity(self, active: Activity) -> None:
        is_new = self._active is None or self._active.status != active.status
        self._active = active
        self._awaits_answer = False
        if is_new and active.status == "ended" and self._status is None:
            self._screen.show(Line("end", "END"))

    # ---- from the daemon on this machine ----

    def _on_lines(self, lines: Sequence[Line], status: Mapping[str, Any]) -> None:
        self._status, self._status_at = status, time.monotonic()
        self._meter.update(status, self._status_at)
        if lines:
            self._has_report = True
            self._awaits_answer = False
        self._feed.queue(lines)

    def _on_gone(self) -> None:
        if self._status is not None:  # the daemon stopped: its last status is outdated
            self._active = None
        self._status = None
        self._has_report = False

    def _line(self, line: Line) -> None:
        if line.event:  # its text comes from the relay
            self._show_waiting(line.event)
        elif line.tone != "person":
            self._screen.show(line)
