"""What goes on in a conversation at this moment: the status bar, and a line per agent that is working or writing.

Sources: typing indicators from the relay, and the control socket of a daemon on this machine, which also reports what
agents write for themselves.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from rich.cells import cell_len

from tenex.core.errors import TenexError
from tenex.core.ids import PublicKey
from tenex.core.text.amounts import dollars, duration
from tenex.core.text.foreign import printable
from tenex.operations.transcript import Line
from tenex.service.client import ask

from .console import Screen

SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
YOUR_TURN: Final = "it is your turn"
HAS_ENDED: Final = "■ this cycle has ended"
NEXT_CYCLE: Final = "write to begin the next"

EXPIRES: Final = 60.0
"""Seconds without an indicator after which an agent is no longer shown: one at work sends one every 20 s."""
MOST: Final = 6
"""Agents shown: anybody may send indicators in a thread."""
KEPT: Final = 1_000
"""Characters kept of what is being written: only the end is shown."""

RETRY: Final = 5.0
"""Seconds before a daemon that did not answer is asked again: it may be restarting."""
ANSWER: Final = 30.0
"""Seconds an answer may take: the daemon replies when there is something to report."""

WRITING_STYLE: Final = "italic fg:ansibrightblack"
"""prompt_toolkit's style for text that is still being written."""
_COLORS: Final = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


def spinner() -> str:
    """A mark that turns while something goes on."""
    return SPINNER[int(time.monotonic() * 10) % len(SPINNER)]


def toolbar(status: Mapping[str, Any], age: float = 0.0) -> str:
    """The status bar for a conversation's status (of `conversation_status`, with `usage`), `age` seconds later."""
    place = status.get("place") or status["phase"]  # a running daemon of an older version sends no place
    if status["status"] == "ended":
        return f"{HAS_ENDED} · {_usage(status['usage'])} · {NEXT_CYCLE}"
    if "turn" in status:
        runs = " · ".join(f"{run['agent']} {_state(run)}" for run in status.get("runs", ()))
        return f"{spinner()} {place} · {runs} · {int(status['turn']['seconds'] + age)} s"
    if "router" in status:
        state = "decides who is next" if status["router"]["state"] == "model" else _state(status["router"])
        return f"{spinner()} {place} · the orchestrator {state}"
    if status["status"] == "active":
        return f"{spinner()} {status.get('where') or place}"
    return f"{place} · {YOUR_TURN} · {_usage(status['usage'])}"


def is_at_work(status: Mapping[str, Any]) -> bool:
    """Whether agents or the orchestrator work, by a conversation's status."""
    return "turn" in status or "router" in status


class RequestMeter:
    """How long the last request took and what it cost: from the moment work begins until it is a user's turn."""

    def __init__(self) -> None:
        self._began: tuple[float, Mapping[str, Any]] | None = None
        self._usage: Mapping[str, Any] = {}
        self.text = ""
        """Of the last request, for the status bar; empty before one has been answered."""

    def update(self, status: Mapping[str, Any], at: float) -> None:
        """Take a newer status, `at` in seconds of a monotonic clock."""
        usage = status.get("usage", self._usage)
        if is_at_work(status):
            self._began = self._began or (at, self._usage or usage)
        elif self._began is not None and status["status"] != "active":
            began, before = self._began
            self._began = None
            self.text = ", ".join([f"last: {duration(at - began)}", *_taken(before, usage)])
        self._usage = usage


def _taken(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    tokens = sum(after.get(name, 0) - before.get(name, 0) for name in ("inputTokens", "outputTokens"))
    cost = (after.get("costUsd") or 0.0) - (before.get("costUsd") or 0.0)
    return [*([f"{tokens:,} tokens"] if tokens > 0 else []), *([dollars(cost)] if cost > 0 else [])]


def _state(run: Mapping[str, Any]) -> str:
    match run["state"]:
        case "parked":
            return "waits for your answer"
        case "tools":
            return ", ".join(run["tools"])
        case "calling":
            return f"waits for {', '.join(run['sub_agents'])}"
        case "limited":
            return f"is limited: {run['why']}"
        case "held" | "retrying":
            return f"cannot reach its model: {run['why']}"
        case _:
            return "thinks"


def _usage(usage: Mapping[str, Any]) -> str:
    tokens = usage["inputTokens"] + usage["outputTokens"]
    cost = usage["costUsd"]
    spent = [*([f"{tokens:,} tokens"] if tokens else []), *([dollars(cost)] if cost else [])]
    return ", ".join([f"{usage['calls']} model calls", *spent])


@dataclass(frozen=True, slots=True)
class ActivityView:
    """An agent at work: what it does, and the end of what it is writing."""

    name: str
    doing: str
    text: str
    at: float
    style: str = WRITING_STYLE
    """Of prompt_toolkit."""


class Activities:
    """The agents at work by their indicators. Times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._views: dict[PublicKey, ActivityView] = {}

    def start(self, agent: PublicKey, name: str, doing: str, at: float) -> None:
        """An agent does something; a repeated indicator keeps the text written so far."""
        known = self._views.get(agent)
        text = known.text if known is not None and known.doing == doing else ""
        self._views[agent] = ActivityView(name, doing[:KEPT], text, at)

    def write(self, agent: PublicKey, name: str, more: str, at: float) -> None:
        """An agent has written more of its text."""
        known = self._views.get(agent) or ActivityView(name, "", "", at)
        self._views[agent] = replace(known, text=(known.text + more)[-KEPT:], at=at)

    def stop(self, agent: PublicKey) -> None:
        """An agent has published its message, or has stopped."""
        self._views.pop(agent, None)

    def current(self, at: float) -> list[ActivityView]:
        """The agents at work, in the order in which they began."""
        for agent in [agent for agent, view in self._views.items() if at - view.at > EXPIRES]:
            del self._views[agent]
        return list(self._views.values())[:MOST]


def activity_lines(views: Iterable[ActivityView], width: int, *, only_text: bool = False) -> list[tuple[str, str]]:
    """A style and a line narrower than `width` cells for each agent; with `only_text` for those that are writing."""
    lines = []
    for view in views:
        text = _plain(view.text)
        if text:
            head = f"  {_start(_plain(view.name), width // 3)} … "
            lines.append((view.style, head + _end(text, width - 1 - cell_len(head))))
        elif view.doing and not only_text:
            lines.append((view.style, f"  {_start(_plain(view.doing), width - 3)}"))
    return lines


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


@dataclass(frozen=True, slots=True)
class DaemonWatch:
    """Follows one conversation over the control socket of a daemon on this machine; idle where there is none."""

    socket: Path
    screen: Screen
    """Shows what agents write for themselves."""
    conversation: Callable[[], str | None]
    """Gives the id of the conversation that is shown."""
    on_lines: Callable[[Sequence[Line], Mapping[str, Any]], None]
    """Called with what has become durable in it, and its status."""
    on_gone: Callable[[], None]
    """Called when the daemon no longer answers."""
    writing: dict[str, ActivityView] = field(init=False, default_factory=dict)
    """What agents are writing for themselves."""

    async def run(self) -> None:
        """Poll the daemon until cancelled."""
        after: int | None = None
        while True:
            try:
                answer = await ask(self.socket, "watch", patience=ANSWER, **({} if after is None else {"after": after}))
                if after is None:
                    await self._fetch_status()
                reports = answer["entries"]
                after = int(answer["after"])
                for report in reports:
                    self.on_report(report)
            except (OSError, TenexError, LookupError, TypeError, ValueError):  # no daemon, or of another version
                self.writing.clear()
                self.on_gone()
                after = None
                await asyncio.sleep(RETRY)

    async def _fetch_status(self) -> None:
        """Fetch the status of a conversation that began before the first poll."""
        name = self.conversation()
        if name is not None:
            with suppress(TenexError):  # it is not in this daemon
                self.on_lines([], await ask(self.socket, "conversation", id=name))

    def on_report(self, report: Mapping[str, Any]) -> None:
        """Handle one entry of the daemon's answer to `watch`."""
        if report["conversation"] != self.conversation():
            return
        if report["kind"] == "lines":
            self.on_lines([Line(**line) for line in report["lines"]], report["status"])
            return
        agent = str(report["agent"])
        text = str(report["text"])
        known = self.writing.pop(agent, None)
        match report["kind"]:
            case "piece":
                head = f"{agent} {report['emoji']} {report['readable_name']}"
                begun = known.text if known is not None and known.name == head else ""
                style = _style(str(report["color"]))
                self.writing[agent] = ActivityView(head, "", (begun + text)[-KEPT:], 0.0, style)
            case "closed":
                head = f"{report['emoji']} {str(report['readable_name']).title()}"
                self.screen.show_thought(head, agent, text, str(report["color"]))
            case "refused":
                self.screen.show_thought("✗ asked again", agent, text, "red")


def _style(color: str) -> str:
    """A colour of Rich as a style of prompt_toolkit."""
    name = next((word for word in color.split() if word in _COLORS), "")
    return f"italic fg:ansi{'gray' if name == 'white' else name}" if name else WRITING_STYLE
