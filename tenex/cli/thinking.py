"""What agents write by states at this moment, private parts too, as the daemon on this machine tells it.

It is asked over its control socket.

A daemon elsewhere has no such socket here: then there is nothing to tell, and the relays have the rest.

Never: hand on to anybody what is heard here.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tenex.core.errors import TenexError
from tenex.service.client import ask

from .live import Live, live_lines
from .prompt import LIVE
from .screen import Screen

AGAIN: Final = 5.0
"""Seconds before a daemon that did not answer is asked again: it may be starting anew."""
PATIENCE: Final = 30.0
"""Seconds an answer may take; the daemon waits for something to tell."""
KEPT: Final = 1_000
"""Characters kept of what is being written: only its end is shown."""

_COLORS: Final = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


class Thinking:
    """Who writes what, in one conversation."""

    def __init__(self, socket: Path, screen: Screen, conversation: Callable[[], str | None]) -> None:
        self._socket = socket
        self._screen = screen
        self._conversation = conversation
        self._writing: dict[str, tuple[str, Live]] = {}
        """By agent: how it looks, and the end of it."""

    async def listen(self) -> None:
        """Ask the daemon again and again, until cancelled."""
        after: int | None = None
        while True:
            try:
                answer = await ask(
                    self._socket, "watch", patience=PATIENCE, **({} if after is None else {"after": after})
                )
                told, after = answer["told"], int(answer["after"])
                for one in told:
                    self.hear(one)
            except (OSError, TenexError, LookupError, TypeError, ValueError):  # none here, or of another version
                self._writing.clear()
                after = None
                await asyncio.sleep(AGAIN)

    def hear(self, told: Mapping[str, Any]) -> None:
        """Take something the daemon told."""
        if told["conversation"] != self._conversation():
            return
        agent, text = str(told["agent"]), str(told["text"])
        known = self._writing.pop(agent, None)
        match told["kind"]:
            case "piece":
                head = f"{agent} {told['emoji']} {told['readable_name']}"
                begun = known[1].text if known is not None and known[1].name == head else ""
                self._writing[agent] = (_style(str(told["color"])), Live(head, "", (begun + text)[-KEPT:], 0.0))
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
