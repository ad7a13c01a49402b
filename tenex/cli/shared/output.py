"""What commands print: results on stdout, everything else on stderr, errors in one form."""

import json
import os
import re
import select
import shlex
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Final, TextIO, TypeVar
from unicodedata import east_asian_width

from tenex.core.errors import ConfigurationError, TenexError
from tenex.core.text.foreign import CONTROL, printable, redact

T = TypeVar("T")

PROGRESS_AFTER: Final = 1.0
"""Seconds after which a terminal is shown a progress bar."""
_COMMAND: Final = re.compile(r"`tenex (?=[a-z])(?!\S*\.\.\.)")
_WORD: Final = re.compile(r"(\s*)((?:`[^`]*`|\S)+)")
"""A word of a message after its spaces; a command between backticks is one, so that it can be copied."""

_options = ""


def set_command_options(data: Path | None, config: Path | None) -> None:
    """Set what the commands that messages name have to repeat; None where they find it without."""
    global _options  # noqa: PLW0603 one command line per process; a message from any layer may name a command
    given = (("--data", data), ("--config", config))
    _options = "".join(f" {name} {shlex.quote(str(path))}" for name, path in given if path is not None)


def command(words: str = "") -> str:
    """A `tenex` command that works as printed, on the data folder of this one."""
    return f"{_program()}{_options} {words}".rstrip()


def with_options(text: str) -> str:
    """Complete the commands that a message names between backticks."""
    return _COMMAND.sub(lambda _: f"`{_program()}{_options} ", text)


def _program() -> str:
    """How this program was called, where `tenex` alone would call none or another one."""
    called = Path(sys.argv[0])
    if called.parts[-2:] == ("tenex", "__main__.py"):
        return f"{shlex.quote(sys.executable)} -m tenex"
    found = shutil.which("tenex")
    is_script = called.name == "tenex" and called.exists()
    if not is_script or (found is not None and os.path.realpath(found) == os.path.realpath(called)):
        return "tenex"
    return shlex.quote(sys.argv[0])


def result(text: str) -> None:
    """Print what the command was asked for; control characters are made visible."""
    sys.stdout.write(f"{printable(text)}\n")


def result_json(value: Any) -> None:
    """Print what the command was asked for as JSON; control characters are escaped."""
    result(escape_json(json.dumps(value, indent=2, ensure_ascii=False)))


def escape_json(text: str) -> str:
    """Escape the control characters of a JSON text; they can only be in its strings."""
    return CONTROL.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def message(text: str) -> None:
    """Print something beside the result, on stderr; control characters are made visible, and keys are left out."""
    sys.stderr.write(f"{fit(printable(redact(with_options(text))), sys.stderr)}\n")


def quote(text: str, mark: str) -> None:
    """Print somebody's words on stderr, with a mark before each line, also before those a terminal would begin."""
    width = _columns(sys.stderr)
    lines = printable(text).split("\n")
    if width is not None:
        room = max(20, width - len(mark))
        lines = [part for line in lines for piece in _broken(line, room, 0).split("\n") for part in _cut(piece, room)]
    sys.stderr.write("".join(f"{f'{mark}{line}'.rstrip()}\n" for line in lines))


def fit(text: str, stream: TextIO, indent: int = 0) -> str:
    """Break the lines of a text between words where they are wider than the terminal; elsewhere they stay whole.

    Args:
        text: the text.
        stream: where it will be written.
        indent: the columns before the second line and those after it, added to those of the first.
    """
    width = _columns(stream)
    return text if width is None else "\n".join(_broken(line, width, indent) for line in text.split("\n"))


def sentences(lines: Iterable[str]) -> str:
    """Lines of a result that are read by people, each broken between words where the terminal is narrower."""
    return "\n".join(fit(line, sys.stdout, 2) for line in lines)


def _columns(stream: TextIO) -> int | None:
    """The width of a terminal, as `--help` takes it; None where the stream is none."""
    if not stream.isatty():
        return None
    with suppress(OSError, ValueError):
        return int(os.environ.get("COLUMNS") or 0) or os.get_terminal_size(stream.fileno()).columns or None
    return None


def _broken(line: str, width: int, indent: int) -> str:
    if _cells(line) <= width:
        return line
    margin = len(line) - len(line.lstrip(" ")) + indent
    lines = [""]
    for gap, word in _words(line, width):
        if lines[-1].strip() and _cells(lines[-1] + gap + word) > width:
            lines.append(" " * max(0, min(margin, width - _cells(word))) + word)
        else:
            lines[-1] += gap + word
    return "\n".join(lines)


def _cut(line: str, width: int) -> Iterator[str]:
    """A line in pieces of that width, also where it has no spaces."""
    while _cells(line) > width:
        end = width if line.isascii() else width // 2
        yield line[:end]
        line = line[end:]
    yield line


def _words(line: str, width: int) -> Iterator[tuple[str, str]]:
    """The words of a line, each with the spaces before it."""
    for gap, word in _WORD.findall(line):
        if _cells(word) <= width:
            yield gap, word
        else:
            yield from zip(chain((gap,), repeat(" ")), word.split(), strict=False)


def _cells(text: str) -> int:
    """The columns of a text on a terminal."""
    return len(text) if text.isascii() else sum(2 if east_asian_width(char) in "WF" else 1 for char in text)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out rows under a head, in columns as wide as their widest cell."""
    lines = [tuple(name.upper() for name in head), *(tuple(one_line(text) for text in row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def one_line(text: str) -> str:
    """A text on one line, without control characters."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else " " for char in text)


def shorten(text: str, most: int = 60) -> str:
    """A text cut to fit into a column."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def explain(error: TenexError) -> str:
    """The message for an error; several faults of a configuration as a list."""
    if not isinstance(error, ConfigurationError):
        return f"tenex: {error}"
    if len(error.faults) == 1:
        return f"tenex: {error.faults[0]}"
    listed = "\n".join(f"  - {line}" for line in error.faults)
    return f"tenex: {len(error.faults)} faults in the configuration:\n{listed}"


def progress(items: Sequence[T], title: str = "Reading journals") -> Iterator[T]:
    """Yield the items; a terminal is shown a bar on stderr when it takes long."""
    began = time.monotonic()
    bar = None
    try:
        for number, item in enumerate(items):
            if bar is None and time.monotonic() - began > PROGRESS_AFTER and sys.stderr.isatty():
                from rich.console import Console
                from rich.progress import Progress

                bar = Progress(console=Console(stderr=True), transient=True)
                bar.start()
                task = bar.add_task(title, total=len(items))
            if bar is not None:
                bar.update(task, completed=number)
            yield item
    finally:
        if bar is not None:
            bar.stop()


def is_hung_up(descriptor: int) -> bool:
    """Whether the other end of a pipe or terminal is closed; flushing would not show it where nothing is buffered."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & (select.POLLERR | select.POLLHUP | select.POLLNVAL) for _, event in poll.poll(0))


def redirect_to_null(*descriptors: int) -> None:
    """Discard what is written to these from now on, because writing would fail."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in descriptors:
        os.dup2(null, descriptor)
    os.close(null)


@contextmanager
def without_logs() -> Iterator[None]:
    """Discard log lines: the command itself reports what the parts of the daemon it calls have found."""
    from tenex.telemetry import configure

    with Path(os.devnull).open("w", encoding="utf-8") as null:
        telemetry = configure("error", "json", null)
        try:
            yield
        finally:
            telemetry.close()
