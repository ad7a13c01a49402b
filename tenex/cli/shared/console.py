"""Draws the lines of a transcript on a terminal, or as plain text elsewhere, in the order of the journal."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from textwrap import indent
from typing import IO, Final

from rich.console import Console, RenderableType
from rich.markdown import Markdown
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from tenex.core.text.foreign import printable
from tenex.operations.transcript import Line

QUIT: Final = frozenset({"/quit", "/exit", "/q"})
"""What ends a chat where it is a line alone."""
OVERDUE: Final = 3.0
"""Seconds a line waits for the relay to deliver its message; after that it is shown anyway."""
STYLES: Final = {
    "person": "bold cyan",
    "agent": "bold green",
    "stranger": "bold yellow",
    "notice": "bold blue",
    "error": "bold red",
    "end": "bold magenta",
    "turn": "dim",
    "tool": "yellow",
    "refused": "red",
    "dim": "dim",
}
MESSAGES: Final = frozenset({"person", "agent", "stranger", "notice", "error"})
_SYMBOLS: Final = {"tool": "⚙", "refused": "✗", "end": "■", "turn": "┄"}


class _Console(Console):
    """A console that leaves the handling of a broken pipe to its caller; rich would end the process."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class Screen:
    """Prints transcript lines; ignores output once its reader is gone."""

    def __init__(self, file: IO[str] | None = None, *, terminal: bool | None = None) -> None:
        self._console = _Console(file=file, highlight=False, force_terminal=terminal)
        self.is_terminal = self._console.is_terminal
        self._console.soft_wrap = not self.is_terminal  # rich breaks lines only where a terminal has a width
        self._is_closed = False

    def show(self, line: Line) -> None:
        """Draw a line of the transcript."""
        head = printable(line.head)
        text = printable(line.text)
        if line.tone == "phase":
            self._show_phase(head, text)
        elif line.tone in MESSAGES:
            title = Text.assemble((head, STYLES[line.tone]), (f"  {line.time}" if line.at else "", "dim"))
            if self.is_terminal:
                body = Markdown(text.replace("\n", "  \n")) if line.tone == "agent" else Text(text)
                self._print(title, Padding(body, (0, 0, 0, 2)))
            else:
                self._print(title, Text(indent(text, "  ")))
        else:
            entry = Text(f"  {_SYMBOLS.get(line.tone, '·')} {head}", STYLES[line.tone])
            if text:
                entry.append(f"  {text}", "dim")
            self._print(entry)

    def _show_phase(self, head: str, text: str) -> None:
        if self.is_terminal:
            title = [(head, "bold magenta"), *([(f"  {text}", "dim")] if text else [])]
            self._print(Rule(Text.assemble(*title), style="magenta"))
        else:
            self._print(Text(f"== {head}  {text}".rstrip()))

    def show_thought(self, head: str, agent: str, text: str, style: str) -> None:
        """Draw text of an agent that is not published; an unknown `style` draws it plain."""
        self._print(
            Text.assemble((printable(head), style), (f"  {printable(agent)}", "dim")),
            Padding(Text(printable(text), style), (0, 0, 0, 4)),
        )

    def message(self, text: str, style: str = "dim") -> None:
        """Draw a message of the program itself."""
        self._print(Text(printable(text), style))

    def _print(self, *parts: RenderableType) -> None:
        if self._is_closed:
            return
        try:
            for part in parts:
                if isinstance(part, Text) and not self.is_terminal:
                    self._console.file.write(f"{part.plain}\n")  # rich would add nothing but time
                else:
                    self._console.print(part)
            self._console.file.flush()  # who reads a pipe sees each message when it is there
        except BrokenPipeError:
            self._is_closed = True


class Feed:
    """Shows lines in the order of the journal; a message waits until the relay has delivered its event."""

    def __init__(self, show: Callable[[Line], None]) -> None:
        self._show = show
        self._lines: deque[Line] = deque()
        self._delivered: set[str] = set()

    def queue(self, lines: Sequence[Line]) -> None:
        """Add lines of the journal."""
        self._lines.extend(lines)
        for line in lines:
            if line.event:
                asyncio.get_running_loop().call_later(OVERDUE, self.on_delivered, line.event)
        self._release()

    def on_delivered(self, event: str) -> None:
        """Release the line of an event that the relay has delivered, or that is overdue."""
        self._delivered.add(event)
        self._release()

    def _release(self) -> None:
        while self._lines and (not self._lines[0].event or self._lines[0].event in self._delivered):
            self._show(self._lines.popleft())

    @property
    def is_empty(self) -> bool:
        """Whether every line has been shown."""
        return not self._lines
