"""The man page: what `--help` prints for every command, written as roff.

The commands write their help to a formatter. This one writes roff in place of columns, so the page cannot differ from
`--help`, and nothing else is needed: click-man does not know typer's commands, and help2man is a Perl program that
reads one page of help.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tenex import __version__


def manual(root: Any, load: Any, exit_codes: str) -> str:
    """The page of a program.

    Args:
        root: the command of the program.
        load: gives the command of a name below it.
        exit_codes: what they mean.
    """
    page = _Page()
    context = root.make_context("tenex", [], resilient_parsing=True)
    about = " ".join((root.help or "").partition("\n\n")[0].split())
    page.line(f'.TH TENEX 1 "" "tenex {__version__}" "User Commands"')
    page.line(".SH NAME")
    page.line(f"tenex \\- {_escaped(about[:1].lower() + about[1:].rstrip('.'))}")
    page.line(".SH SYNOPSIS")
    root.format_help(context, page)
    for name, command in root.commands.items():
        if not command.hidden:
            page.line(f'.SH "TENEX {_escaped(name.upper())}"')
            _write(page, load(name), name, context)
    page.line(".SH EXIT STATUS")
    page.write_text(exit_codes)
    return page.getvalue()


def _write(page: "_Page", command: Any, name: str, parent: Any) -> None:
    context = command.make_context(name, [], resilient_parsing=True, parent=parent)
    command.format_help(context, page)
    for below, subcommand in getattr(command, "commands", {}).items():
        page.line(f'.SS "{_escaped(f"{context.command_path} {below}")}"')
        _write(page, subcommand, below, context)


class _Page:
    """Takes the calls that a formatter of help takes, and writes roff."""

    width = 80
    current_indent = 0

    def __init__(self) -> None:
        self._lines: list[str] = []

    def line(self, text: str) -> None:
        """Add a line of roff."""
        self._lines.append(text)

    def write(self, text: str) -> None:
        """Add text."""
        self._lines += [_escaped(line) for line in text.splitlines() if line.strip()]

    def write_usage(self, prog: str, args: str = "", *_: str) -> None:
        """Add the line of usage."""
        self._lines += [".PP", f"\\fB{_escaped(prog)}\\fR {_escaped(args)}".rstrip()]

    def write_heading(self, heading: str) -> None:
        """Add the head of a list."""
        self._lines += [".PP", f"\\fI{_escaped(heading)}:\\fR"]

    def write_paragraph(self) -> None:
        """Begin a paragraph."""
        self._lines.append(".PP")

    def write_text(self, text: str) -> None:
        """Add paragraphs."""
        for paragraph in re.split(r"\n\s*\n", text.strip()):
            self._lines += [".PP", _escaped(" ".join(paragraph.split()))]

    def write_dl(self, rows: Sequence[tuple[str, str]], *_: int) -> None:
        """Add a list of names and what they mean."""
        for name, meaning in rows:
            self._lines += [".TP", f"\\fB{_escaped(name)}\\fR", _escaped(" ".join(meaning.split())) or "\\&"]

    def indent(self) -> None:
        """Roff needs no indentation."""

    dedent = indent

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Add a head; what follows belongs to it."""
        self.write_heading(name)
        yield

    @contextmanager
    def indentation(self) -> Iterator[None]:
        """Roff needs no indentation."""
        yield

    def getvalue(self) -> str:
        """The page."""
        begins_paragraph = (".PP", ".SH", ".SS")  # a paragraph begins there without a line of its own
        lines = [
            line
            for before, line in zip(["", *self._lines], self._lines, strict=False)
            if line != ".PP" or not before.startswith(begins_paragraph)
        ]
        return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    return f"\\&{text}" if text.startswith((".", "'")) else text
