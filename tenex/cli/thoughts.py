"""What the daemon on this machine tells: what becomes durable, and what agents write by states, private parts too.

It is asked over its control socket.

A daemon elsewhere has no such socket here: then there is nothing to tell, and the relays have the rest.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tenex.core.errors import TenexError
from tenex.operations.transcript import Line
from tenex.service.client import ask

from .activity import ActivityView, live_lines
from .console import Screen
from .input_line import LIVE

AGAIN: Final = 5.0
"""Seconds before a daemon that did not answer is asked again: it may be starting anew."""
PATIENCE: Final = 30.0
"""Seconds an answer may take; the daemon waits for something to tell."""
KEPT: Final = 1_000
"""Characters kept of what is being written: only its end is shown."""

_COLORS: Final = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


class Thinking:
    """Who writes what, in one conversation."""

    def __init__(
        self,
        socket: Path,
        screen: Screen,
        conversation: Callable[[], str | None],
        on_lines: Callable[[Sequence[Line], Mapping[str, Any]], None] = lambda _lines, _status: None,
        on_gone: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare.

        Args:
            socket: the daemon's control socket.
            screen: shows what agents write for themselves.
            conversation: gives the id of the one that is shown.
            on_lines: takes what has become durable in it, and its status.
            on_gone: called when the daemon does not answer any more.
        """
        self._socket = socket
        self._screen = screen
        self._conversation = conversation
        self._writing: dict[str, tuple[str, ActivityView]] = {}
        """By agent: how it looks, and the end of it."""
        self._on_lines, self._on_gone = on_lines, on_gone

    async def listen(self) -> None:
        """Ask the daemon again and again, until cancelled."""
        after: int | None = None
        while True:
            try:
                answer = await ask(
                    self._socket, "watch", patience=PATIENCE, **({} if after is None else {"after": after})
                )
                if after is None:
                    await self._look()
                told, after = answer["told"], int(answer["after"])
                for one in told:
                    self.hear(one)
            except (OSError, TenexError, LookupError, TypeError, ValueError):  # none here, or of another version
                self._writing.clear()
                self._on_gone()
                after = None
                await asyncio.sleep(AGAIN)

    async def _look(self) -> None:
        """Take the status of a conversation that was there before us."""
        name = self._conversation()
        if name is not None:
            with suppress(TenexError):  # it is not this daemon's
                self._on_lines([], await ask(self._socket, "conversation", id=name))

    def hear(self, told: Mapping[str, Any]) -> None:
        """Take something the daemon told."""
        if told["conversation"] != self._conversation():
            return
        if told["kind"] == "lines":
            self._on_lines([Line(**line) for line in told["lines"]], told["status"])
            return
        agent, text = str(told["agent"]), str(told["text"])
        known = self._writing.pop(agent, None)
        match told["kind"]:
            case "piece":
                head = f"{agent} {told['emoji']} {told['readable_name']}"
                begun = known[1].text if known is not None and known[1].name == head else ""
                self._writing[agent] = (_style(str(told["color"])), ActivityView(head, "", (begun + text)[-KEPT:], 0.0))
            case "closed":
                head = f"{told['emoji']} {str(told['readable_name']).title()}"
                self._screen.think(head, agent, text, str(told["color"]))
            case "refused":
                self._screen.think("✗ asked again", agent, text, "red")

    def lines(self, width: int) -> list[tuple[str, str]]:
        """A line for each agent that is writing, with its style, narrower than `width` cells."""
        return [(style, line) for style, live in self._writing.values() for line in live_lines([live], width)]


def _style(color: str) -> str:
    """A colour of Rich in the words of prompt_toolkit."""
    name = next((word for word in color.split() if word in _COLORS), "")
    return f"italic fg:ansi{'gray' if name == 'white' else name}" if name else LIVE
