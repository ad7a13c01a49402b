"""What agents do in a conversation right now: one line per agent, from its typing events, until its message is out."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from rich.cells import cell_len

from tenex.core.ids import PublicKey
from tenex.core.text import printable

FORGET: Final = 60.0
"""Seconds without a typing indicator after which an agent is taken to be gone: one at work is heard of every 20."""
MOST: Final = 6
"""Agents shown; anyone may publish typing indicators in a thread."""
KEPT: Final = 1_000
"""Characters of a text that are kept: only its end is shown."""


@dataclass(frozen=True, slots=True)
class ActivityView:
    """An agent at work: what it does, and the end of what it is writing."""

    name: str
    doing: str
    text: str
    at: float


class Lives:
    """Who is at work. Times are seconds of a clock that never goes back."""

    def __init__(self) -> None:
        self._lives: dict[PublicKey, ActivityView] = {}

    def does(self, agent: PublicKey, name: str, doing: str, at: float) -> None:
        """An agent has begun something; to be told of the same again changes nothing."""
        known = self._lives.get(agent)
        text = known.text if known is not None and known.doing == doing else ""
        self._lives[agent] = ActivityView(name, doing[:KEPT], text, at)

    def writes(self, agent: PublicKey, name: str, more: str, at: float) -> None:
        """An agent has written more of its text."""
        known = self._lives.get(agent) or ActivityView(name, "", "", at)
        self._lives[agent] = replace(known, text=(known.text + more)[-KEPT:], at=at)

    def ends(self, agent: PublicKey) -> None:
        """An agent has had its say, or has stopped."""
        self._lives.pop(agent, None)

    def now(self, at: float) -> list[ActivityView]:
        """Who is at work, the first to begin first."""
        for agent in [agent for agent, live in self._lives.items() if at - live.at > FORGET]:
            del self._lives[agent]
        return list(self._lives.values())[:MOST]


def live_lines(lives: Iterable[ActivityView], width: int, *, only_text: bool = False) -> list[str]:
    """Draw a line for each agent, narrower than `width` cells; with `only_text` for those who are writing."""
    return list(_lines(lives, width, only_text=only_text))


def _lines(lives: Iterable[ActivityView], width: int, *, only_text: bool) -> Iterator[str]:
    for live in lives:
        words = _plain(live.text)
        if words:
            head = f"  {_start(_plain(live.name), width // 3)} … "
            yield head + _end(words, width - 1 - cell_len(head))
        elif live.doing and not only_text:
            yield f"  {_start(_plain(live.doing), width - 3)}"


def _plain(text: str) -> str:
    return " ".join(printable(" ".join(text.split())).split())


def _end(text: str, cells: int) -> str:
    """The end of a text that fits, from the beginning of a word where there is one."""
    if cell_len(text) <= cells:
        return text
    text = text[-max(cells, 1) :]
    while text and cell_len(text) > cells:
        text = text[1:]
    _, space, rest = text.partition(" ")
    return rest if space and rest else text


def _start(text: str, cells: int) -> str:
    while text and cell_len(text) > cells:
        text = text[:-1]
    return text
