"""`tenex chat`: a terminal client for a daemon that runs elsewhere, over a relay.

Beside it, where the daemon of this folder runs on this machine, it shows what agents write for themselves.

Never: more than any other client can do, but for that; it knows the daemon only by its address.
"""

import asyncio
import re
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenex.core.errors import ConfigurationError, UsageError, WorldError

from .live import live_lines
from .options import DataOption, open_settings
from .screen import Screen
from .story import ICONS, Line
from .talk import Heard, Talk, talking

if TYPE_CHECKING:
    from tenex.core.ids import PublicKey
    from tenex.nostr.keys import SecretKey


def chat(
    ctx: typer.Context,
    relay: Annotated[str | None, typer.Option(metavar="URL", help="The relay; else the first of the settings.")] = None,
    to: Annotated[str | None, typer.Option(metavar="NPUB", help="The project; else this folder's.")] = None,
    conversation: Annotated[
        str, typer.Option(metavar="ID", help="Go on in this conversation: its id, as the end of a chat tells it.")
    ] = "",
    wait: Annotated[
        float, typer.Option(help="Seconds of silence after which it ends, or in a terminal says that nobody answers.")
    ] = 10.0,
    data: DataOption = None,
) -> None:  # fmt: skip
    """Talk to the agents from this terminal, signed with keys/owner.nsec.

    Without a terminal each line of standard input is a message; answers are printed until it has been silent. Where
    nobody has answered by then, the exit code is 1.
    """
    from tenex.nostr.keys import KeyRing, parse_public_key
    from tenex.nostr.urls import normalise_url
    from tenex.settings import places
    from tenex.telemetry import configure

    settings = open_settings(ctx, data)
    ring = KeyRing(Path(places(settings).keys))
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
        chat = _Chat(Screen(), places(settings).socket)
        asyncio.run(chat.hold(url, person, project, wait, _checked(conversation)))
    finally:
        telemetry.close()


def _checked(conversation: str) -> str:
    name = conversation.strip().lower()
    if name and not re.fullmatch(r"[0-9a-f]{64}", name):
        raise UsageError("--conversation takes a whole id, 64 hex digits; `tenex conversations list --json` shows them")
    return name


def _unanswered(wait: float) -> str:
    return (
        f"nobody has answered within {wait:g} s. Does the daemon run (`tenex status` in its folder), and "
        "does it know you (`people` of its settings)?"
    )


class _Chat:
    def __init__(self, screen: Screen, socket: Path) -> None:
        self._screen = screen
        self._socket = socket
        self._phase = ""
        self._last = 0.0
        self._is_owed = False

    async def hold(self, url: str, person: "SecretKey", project: "PublicKey", wait: float, conversation: str) -> None:
        is_chat = sys.stdin.isatty() and sys.stdout.isatty()
        async with talking(url, person, project, whispers=is_chat) as talk:
            talk.on_heard(self._heard)
            if conversation:
                talk.follow(conversation)
            if is_chat:
                await self._chat(talk, url, wait)
                if talk.root:
                    self._screen.say(f"To go on here later: tenex chat --conversation {talk.root}")
            else:
                await self._pipe(talk, wait)
        if self._is_owed and not is_chat:
            raise WorldError(f"{_unanswered(wait)} Else wait longer: --wait")

    async def _chat(self, talk: Talk, url: str, wait: float) -> None:
        from .prompt import above, typed
        from .thinking import Thinking

        self._screen.say(f"Connected to {url}. /help tells what the daemon understands; /quit leaves.")
        thinking = Thinking(self._socket, self._screen, lambda: talk.root)
        loop = asyncio.get_running_loop()
        reminder = loop.call_later(wait, self._remind, talk, wait)
        async with asyncio.TaskGroup() as group:
            listening = group.create_task(thinking.listen(), name="thoughts")
            with above():
                async for text in typed(
                    partial(self._toolbar, url),
                    lambda width: [*live_lines(talk.live, width), *thinking.lines(width)],
                ):
                    await self._send(talk, text)
                    reminder.cancel()
                    reminder = loop.call_later(wait, self._remind, talk, wait)
            reminder.cancel()
            listening.cancel()

    def _remind(self, talk: Talk, wait: float) -> None:
        if self._is_owed and not talk.live:
            self._screen.say(_unanswered(wait), "yellow")

    def _toolbar(self, url: str) -> str:
        return f"{url} · {self._phase or 'write to begin'}"

    async def _pipe(self, talk: Talk, wait: float) -> None:
        loop = asyncio.get_running_loop()
        while line := await asyncio.to_thread(sys.stdin.readline):
            if line.strip():
                await self._send(talk, line.strip())
        self._last = loop.time()
        while (left := self._last + wait - loop.time()) > 0:  # noqa: ASYNC110 every answer moves the end away
            await asyncio.sleep(left)

    async def _send(self, talk: Talk, text: str) -> None:
        self._is_owed = True
        outcome = await talk.send(text)
        if not outcome.accepted:
            self._screen.say(f"The relay refused it: {outcome.detail}", "red")

    def _heard(self, heard: Heard) -> None:
        self._last = asyncio.get_running_loop().time()
        self._is_owed = self._is_owed and heard.is_own
        if heard.phase_from:
            icon = next((icon for phase, icon in ICONS.items() if phase == heard.phase), "")
            self._screen.show(Line("phase", f"{icon} {heard.phase_from} → {heard.phase}"))
        self._phase = heard.phase or self._phase
        self._screen.show(Line("person" if heard.is_own else "agent", heard.name, heard.text, heard.at))
