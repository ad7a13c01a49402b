"""`tenex chat`: a terminal client, over a relay.

Messages come from the relay; those not signed by the project or one of its agents are marked as a stranger's. Where the
daemon of this folder runs on this machine it also reports what becomes durable (tools, phases, END) and what agents
write for themselves. Elsewhere there are the project's status events, if the daemon sends them to the relay.
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

from tenex.core.errors import ConfigurationError, TransientError, UsageError
from tenex.operations.short_ids import conversation_of
from tenex.operations.transcript import ICONS, Line, Tone

from .activity import live_lines
from .console import Screen
from .feed import Feed
from .init import OWNER, PROJECT
from .nostr_client import Activity, ChatClient, Heard, talking
from .options import DataOption, open_settings
from .toolbar import HAS_ENDED, NEXT_CYCLE, YOUR_TURN, spinner, toolbar

if TYPE_CHECKING:
    from tenex.core.ids import PublicKey
    from tenex.nostr.keys import KeyRing, SecretKey


UNTOLD: Final = 1.0
"""Seconds a message waits for the daemon on this machine to tell what came before it."""
_ID: Final = re.compile(r"[0-9a-f]{64}")


def chat(
    ctx: typer.Context,
    relay: Annotated[str | None, typer.Option(metavar="URL", help="The relay; else the first of the settings.")] = None,
    to: Annotated[str | None, typer.Option(metavar="NPUB", help="The project; else this folder's.")] = None,
    conversation: Annotated[
        str, typer.Option(metavar="ID", help="Go on in this conversation: its id, or how that begins.")
    ] = "",
    wait: Annotated[
        float, typer.Option(help="Seconds of silence after which it ends, or in a terminal says that nobody answers.")
    ] = 10.0,
    data: DataOption = None,
) -> None:
    """Talk to the agents from this terminal, signed with keys/owner.nsec.

    Without a terminal each line of standard input is a message; answers are printed until it has been silent. Where
    nobody has answered by then, the exit code is 1.
    """
    from tenex.nostr.keys import KeyRing, parse_public_key
    from tenex.nostr.urls import normalise_url
    from tenex.settings import resolve_paths
    from tenex.telemetry import configure

    settings = open_settings(ctx, data)
    ring = KeyRing(Path(resolve_paths(settings).keys))
    try:
        person = ring.get("owner")
        project = parse_public_key(to) if to else ring.get("project").public
        url = normalise_url(relay or settings.relays.urls[0])
    except ValueError as error:
        raise UsageError(str(error)) from error
    except ConfigurationError as error:
        raise ConfigurationError(
            [*error.faults, "`tenex init` makes both keys; `--to` names another project."]
        ) from error
    telemetry = configure("error", "auto")  # a relay that comes and goes is told by the answers that come
    try:
        chat = _Chat(Screen(), resolve_paths(settings).socket)
        known = conversation and _checked(conversation, resolve_paths(settings).conversations)
        asyncio.run(chat.hold(url, person, project, wait, known, _agents(ring, project)))
    finally:
        telemetry.close()


def _agents(ring: "KeyRing", project: "PublicKey") -> "list[PublicKey]":
    """The keys of this folder's agents, where they work for the project; of another project the relay tells."""
    known: list[PublicKey] = []
    if PROJECT in ring.names() and ring.get(PROJECT).public == project:
        for name in ring.names():
            with suppress(ConfigurationError):  # `tenex doctor` reports a key that is broken; the relay tells of it too
                known += [ring.get(name).public] if name != OWNER else []
    return known


def _checked(conversation: str, folder: Path) -> str:
    """The whole id; of a conversation that is not in this folder it has to be given whole."""
    name = conversation.strip().lower()
    if _ID.fullmatch(name):
        return name
    here = [path.name for path in folder.iterdir() if _ID.fullmatch(path.name)] if folder.is_dir() else []
    return conversation_of(name, here)


def _unanswered(wait: float) -> str:
    return (
        f"nobody has answered within {wait:g} s. Does the daemon run (`tenex status` in its folder), and "
        "does it know you (`people` of its settings)?"
    )


class _Chat:
    def __init__(self, screen: Screen, socket: Path) -> None:
        self._screen = screen
        self._socket = socket
        self._feed = Feed(self._line)
        self._waiting: dict[str, Heard] = {}
        """Messages that wait for the lines before them, by the event's id."""
        self._phase = ""
        self._status: Mapping[str, Any] | None = None
        """Of the conversation, as the daemon on this machine tells it; None where there is none or nothing was told."""
        self._status_at = 0.0
        self._is_told = False
        """Whether that daemon tells what becomes durable in it."""
        self._active: Activity | None = None
        """The same as the project tells it over the relay."""
        self._last = 0.0
        self._is_owed = False

    async def hold(
        self,
        url: str,
        person: "SecretKey",
        project: "PublicKey",
        wait: float,
        conversation: str,
        agents: Iterable["PublicKey"] = (),
    ) -> None:
        is_chat = sys.stdin.isatty() and sys.stdout.isatty()
        async with talking(url, person, project, agents=agents, typing_indicators=is_chat) as talk:
            talk.on_heard(self._heard)
            talk.on_active(self._is_active)
            if conversation:
                talk.follow(conversation)
            if is_chat:
                await self._chat(talk, url, wait)
                if talk.root:
                    self._screen.say(f"To go on here later: tenex chat --conversation {talk.root}")
            else:
                await self._pipe(talk, wait)
        if self._is_owed and not is_chat:
            raise TransientError(f"{_unanswered(wait)} Else wait longer: --wait")

    async def _chat(self, talk: ChatClient, url: str, wait: float) -> None:
        from .input_line import above, typed
        from .thoughts import Thinking

        self._screen.say(f"Connected to {url} · /help for commands · Ctrl-C clears the line · /quit leaves")
        thinking = Thinking(self._socket, self._screen, lambda: talk.root, self._told, self._forget)
        loop = asyncio.get_running_loop()
        reminder = loop.call_later(wait, self._remind, talk, wait)
        async with asyncio.TaskGroup() as group:
            listening = group.create_task(thinking.listen(), name="thoughts")
            with above():
                async for text in typed(
                    partial(self._toolbar, url),
                    lambda width: [
                        *live_lines(talk.live, width, only_text=self._status is not None),
                        *thinking.lines(width),
                    ],
                ):
                    await self._send(talk, text)
                    reminder.cancel()
                    reminder = loop.call_later(wait, self._remind, talk, wait)
            reminder.cancel()
            listening.cancel()

    def _remind(self, talk: ChatClient, wait: float) -> None:
        if self._is_owed and not talk.live:
            self._screen.say(_unanswered(wait), "yellow")

    def _toolbar(self, url: str) -> str:
        if self._status is not None:
            return toolbar(self._status, time.monotonic() - self._status_at)
        active = self._active
        if active is not None and active.names:
            return f"{spinner()} {self._phase} · {', '.join(active.names)} at work"
        if active is not None and active.status == "ended":
            return f"{HAS_ENDED} · {NEXT_CYCLE}"
        if active is not None:
            return f"{self._phase} · {YOUR_TURN}"
        return f"{url} · {self._phase or 'write to begin'}"

    async def _pipe(self, talk: ChatClient, wait: float) -> None:
        loop = asyncio.get_running_loop()
        while line := await asyncio.to_thread(sys.stdin.readline):
            if line.strip():
                await self._send(talk, line.strip())
        self._last = loop.time()
        while (left := self._last + wait - loop.time()) > 0:  # noqa: ASYNC110 every answer moves the end away
            await asyncio.sleep(left)

    async def _send(self, talk: ChatClient, text: str) -> None:
        self._is_owed = True
        outcome = await talk.send(text)
        if not outcome.accepted:
            self._screen.say(f"The relay refused it: {outcome.detail}", "red")

    # ---- what the relay brings ----

    def _heard(self, heard: Heard) -> None:
        if heard.is_stranger:  # nothing else follows from it: no answer is owed to it, and none was awaited of it
            self._screen.show(Line("stranger", heard.name, heard.text, heard.at))
            return
        loop = asyncio.get_running_loop()
        self._last = loop.time()
        self._is_owed = self._is_owed and heard.is_own
        if not self._is_told or heard.is_own:
            self._show(heard)
        else:
            self._waiting[heard.id] = heard
            loop.call_later(UNTOLD, self._show_waiting, heard.id)
        self._feed.arrived(heard.id)

    def _show_waiting(self, event: str) -> None:
        heard = self._waiting.pop(event, None)
        if heard is not None:
            self._show(heard)

    def _show(self, heard: Heard) -> None:
        if heard.phase_from and not self._is_told:  # else the transition was told, with its reason
            icon = next((icon for phase, icon in ICONS.items() if phase == heard.phase), "")
            self._screen.show(Line("phase", f"{icon} {heard.phase_from} → {heard.phase}"))
        self._phase = heard.phase or self._phase
        tone: Tone = "person" if heard.is_own else "error" if heard.error else "agent"
        self._screen.show(Line(tone, heard.name, heard.text, heard.at))
        if heard.tokens and self._screen.is_terminal:
            cost = "" if heard.cost is None else f", ${heard.cost:.4f}"
            self._screen.say(f"  {heard.tokens:,} tokens{cost}")

    def _is_active(self, active: Activity) -> None:
        is_new = self._active is None or self._active.status != active.status
        self._active, self._is_owed = active, False
        if is_new and active.status == "ended" and self._status is None:
            self._screen.show(Line("end", "END"))

    # ---- what the daemon on this machine tells ----

    def _told(self, lines: Sequence[Line], status: Mapping[str, Any]) -> None:
        self._status, self._status_at = status, time.monotonic()
        if lines:
            self._is_told, self._is_owed = True, False
        self._feed.tell(lines)

    def _forget(self) -> None:
        if self._status is not None:  # the daemon on this machine has gone: what it last said of its work is outdated
            self._active = None
        self._status, self._is_told = None, False

    def _line(self, line: Line) -> None:
        if line.event:  # its words come from the relay
            self._show_waiting(line.event)
        elif line.tone != "person":
            self._screen.show(line)
