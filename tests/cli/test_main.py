"""How the program starts and ends: help, exit codes, errors, pipes, and what it does not import."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import typer

from tenex import __version__
from tenex.cli import root_command
from tenex.cli.init import prepare
from tenex.cli.root_command import command_table, load_command, make_root
from tenex.cli.run import DEFERRED, _serve, run
from tenex.cli.shared.options import Globals
from tenex.core.errors import ConfigurationError, RelayUnavailable, StoreLocked
from tenex.main import FEATURES, main
from tenex.nostr.keys import parse_public_key
from tenex.settings import load
from tests.kits.commands import command
from tests.service.kit import environment

Captured = pytest.CaptureFixture[str]
LIBRARIES = {"pydantic_settings", "structlog", "rich", "coincurve", "pynostr", "websockets", "jinja2", "cryptography"}
OURS = {
    *(
        "main",
        "feature",
        "features",
        "cli",
        "cli.main",
        "cli.root_command",
        "cli.shared",
        "cli.shared.options",
        "cli.shared.output",
    ),
    *("cli.shared.register", "core", "core.errors", "core.ids", "core.messages", "core.text", "core.text.foreign"),
    *(name for one in FEATURES for name in (f"features.{one.name}", f"features.{one.name}.feature")),
}


def test_help_lists_every_command_and_imports_neither_commands_nor_heavy_libraries() -> None:
    code = "import sys; from tenex.main import FEATURES, main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    line = [sys.executable, "-c", code]
    done = subprocess.run(line, env=environment(COLUMNS="80"), capture_output=True, text=True, timeout=60, check=True)
    listed = dict(line.strip().split(maxsplit=1) for line in done.stdout.split("Commands:\n")[1].splitlines())
    assert listed == {name: one.about for name, one in command_table(FEATURES).items() if not one.is_hidden}
    loaded = done.stderr.split()
    assert LIBRARIES.isdisjoint(loaded)
    assert {name for name in loaded if name.startswith("tenex.")} == {f"tenex.{name}" for name in OURS}


def helps(command: Any, words: str, width: int | None = None) -> list[tuple[str, str]]:
    """Each page below a command; without a width in that of the terminal."""
    below = getattr(command, "commands", {})
    context = command.make_context(words, [], resilient_parsing=True)
    context.terminal_width = width
    pages = [pair for name in below for pair in helps(below[name], name, width)]
    return [(words, command.get_help(context)), *pages]


@pytest.mark.parametrize("width", [80, 60])
@pytest.mark.parametrize("name", ["", *command_table(FEATURES)])
def test_every_command_in_the_table_exists_and_its_help_fits_a_terminal_uncut(
    name: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load_command(name, FEATURES) if name else make_root(FEATURES)
    assert loaded.name == name or not name
    unbroken = [set(text.split()) for _, text in helps(loaded, name, 10_000)]
    monkeypatch.setenv("COLUMNS", str(width))
    for (words, text), whole in zip(helps(loaded, name), unbroken, strict=True):
        assert loaded.help
        assert not re.search(r"\w,?\.\.\.$", text.partition("Commands:")[2], re.MULTILINE), words
        assert max(map(len, text.splitlines())) <= width, words
        assert set(text.split()) <= whole, words


SECRET = "nsec1vl029mgpspedva04g90vltkh6fvh240zq"
UNEXPECTED = """\
tenex: unexpected RuntimeError: lost [redacted] \\x1b[31m
tenex: this is an internal error; `tenex --debug ...` shows where it happened
"""


@pytest.mark.parametrize(
    ("fault", "code", "stderr"),
    [
        (ConfigurationError(["a: b"]), 3, "tenex: a: b\n"),
        (ConfigurationError(["a", "b"]), 3, "tenex: 2 faults in the configuration:\n  - a\n  - b\n"),
        (StoreLocked("held by 7"), 4, "tenex: held by 7\n"),
        (ExceptionGroup("tasks", [ExceptionGroup("inner", [RelayUnavailable("away")])]), 1, "tenex: away\n"),
        (KeyboardInterrupt(), 130, "tenex: interrupted\n"),
        (typer.Exit(6), 6, ""),
        (typer.Abort(), 130, "tenex: interrupted\n"),
        (RuntimeError(f"lost {SECRET} \x1b[31m\nsecond line"), 1, UNEXPECTED),
    ],
)
def test_every_error_is_one_message_and_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured, fault: BaseException, code: int, stderr: str
) -> None:
    raising(monkeypatch, fault)
    assert main(["graph"]) == code
    assert capsys.readouterr() == ("", stderr)


def raising(monkeypatch: pytest.MonkeyPatch, fault: BaseException) -> None:
    def command() -> None:
        """Fail."""
        raise fault

    single = typer.Typer()
    single.command("graph")(command)
    monkeypatch.setattr(root_command, "load_command", lambda *_: typer.main.get_command(single))


@pytest.mark.parametrize("fault", [RuntimeError(f"lost {SECRET}"), BrokenPipeError(32, "Broken pipe of a socket")])
def test_debug_shows_the_trace_without_secrets(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured, fault: Exception
) -> None:
    raising(monkeypatch, fault)
    assert main(["--debug", "graph"]) == 1
    stderr = capsys.readouterr().err
    assert f"unexpected {type(fault).__name__}" in stderr
    assert "Traceback" in stderr
    assert SECRET not in stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_who_goes_away_is_no_error_and_a_full_disk_is_one_line(unbuffered: str) -> None:
    """Whether it is met when the buffer is flushed at the end, or in the middle of a long result."""
    line, env = [*command(), "graph", "show"], environment(PYTHONUNBUFFERED=unbuffered)
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(line, env=env, stdout=writing, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(line, env=env, stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr == b"tenex: the output could not be written: No space left on device\n"


def test_a_closed_stdout_and_one_of_few_characters_are_no_errors(data: Path) -> None:
    (data / "tenex.toml").write_text("[project]\nname = 'Ünï 项目'\n", encoding="utf-8")
    env = environment(PYTHONIOENCODING="ascii", TENEX_DATA=str(data))
    for closed, shown in (("", b"\\u9879"), (">&-", b"")):  # some supervisors start their daemons so
        line = " ".join([*command(), "config show", closed])
        done = subprocess.run(["/bin/sh", "-c", line], env=env, capture_output=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
        assert shown in done.stdout


def test_the_module_is_the_program() -> None:
    line = [sys.executable, "-m", "tenex", "--version"]
    assert subprocess.run(line, capture_output=True, check=True).stdout.decode() == f"tenex {__version__}\n"


def test_a_stop_while_libraries_are_loaded_ends_the_start(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon was given what counts dropped log lines, for its metrics."""
    prepare(data, None, ["ws://127.0.0.1:1"])
    settings = load(None, data, env={}, parse_key=parse_public_key)
    counted: list[int] = []

    def loading(_: Globals) -> Any:
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        return settings

    @asynccontextmanager
    async def opening(_: object, *, lines_dropped: Callable[[], int], **__: object) -> AsyncIterator[None]:
        counted.append(lines_dropped())
        await asyncio.wait_for(asyncio.Event().wait(), 20)
        yield

    monkeypatch.setattr(Globals, "settings", loading)
    monkeypatch.setattr("tenex.app.open_application", opening)
    monkeypatch.setattr("tenex.cli.run.serve", lambda settings, _: asyncio.run(_serve(settings, (), None, lambda: 7)))
    run(Globals())
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()).isdisjoint(DEFERRED)
    assert counted == [7]
