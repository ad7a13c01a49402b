"""Draws lines of a story on a terminal, or as plain text where there is none."""

from textwrap import indent
from typing import IO, Final

from rich.console import Console
from rich.markdown import Markdown
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from tenex.core.text import printable
from tenex.operations.transcript import Line

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
SPOKEN: Final = frozenset({"person", "agent", "stranger", "notice", "error"})


class _Console(Console):
    """A console that leaves to us what a broken pipe means; rich would end the process wherever it stands."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class Screen:
    """A console that tells stories."""

    def __init__(self, file: IO[str] | None = None, *, terminal: bool | None = None) -> None:
        self.console = _Console(file=file, highlight=False, force_terminal=terminal)
        self.is_terminal = self.console.is_terminal
        self.console.soft_wrap = not self.is_terminal  # on a terminal rich breaks lines, elsewhere nobody does
        self.is_gone = False
        """Nobody reads our output any more; what is told goes nowhere."""

    def show(self, line: Line) -> None:
        """Draw a line."""
        if self.is_gone:
            return
        try:
            self._show(line)
        except BrokenPipeError:
            self.is_gone = True

    def _show(self, line: Line) -> None:
        head, text = printable(line.head), printable(line.text)
        if line.tone == "phase":
            self._phase(head, text)
        elif line.tone in SPOKEN:
            self._speech(line, head, text)
        else:
            mark = {"tool": "⚙", "refused": "✗", "end": "■", "turn": "┄"}.get(line.tone, "·")
            words = Text(f"  {mark} {head}", STYLES[line.tone])
            if text:
                words.append(f"  {text}", "dim")
            self.console.print(words)

    def _phase(self, head: str, text: str) -> None:
        if self.is_terminal:
            words = [(head, "bold magenta"), *([(f"  {text}", "dim")] if text else [])]
            self.console.print(Rule(Text.assemble(*words), style="magenta"))
        else:
            self.console.print(Text(f"== {head}  {text}".rstrip()))

    def _speech(self, line: Line, head: str, text: str) -> None:
        title = Text.assemble((head, STYLES[line.tone]), (f"  {line.time}" if line.at else "", "dim"))
        self.console.print(title)
        if self.is_terminal:
            body = Markdown(text.replace("\n", "  \n")) if line.tone == "agent" else Text(text)
            self.console.print(Padding(body, (0, 0, 0, 2)))
        else:
            self.console.print(Text(indent(text, "  ")))

    def think(self, head: str, who: str, text: str, style: str) -> None:
        """Draw what an agent has written for itself; `style` is a colour of Rich, and none where Rich knows none."""
        if self.is_gone:
            return
        try:
            self.console.print(Text.assemble((printable(head), style), (f"  {printable(who)}", "dim")))
            self.console.print(Padding(Text(printable(text), style), (0, 0, 0, 4)))
        except BrokenPipeError:
            self.is_gone = True

    def say(self, text: str, style: str = "dim") -> None:
        """Draw words of the program itself."""
        if self.is_gone:
            return
        try:
            self.console.print(Text(printable(text), style))
        except BrokenPipeError:
            self.is_gone = True
