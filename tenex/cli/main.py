"""Runs a command, reports its errors and returns its exit code (`root_command.EXIT_CODES`)."""

import codecs
import errno
import os
import sys
import traceback
from collections.abc import Sequence
from io import StringIO, TextIOWrapper
from pathlib import Path
from typing import Final, Literal

import typer

from tenex.core.errors import ConfigurationError, TenexError
from tenex.feature import Feature

from .root_command import make_root
from .shared import output
from .shared.options import Globals, current_folder

_INTERRUPTED: Final = 130
"""128 + SIGINT, as shells count it."""


def run(arguments: Sequence[str] | None, features: Sequence[Feature]) -> int:
    """Run one command and return its exit code; every error is one message on stderr.

    Args:
        arguments: the words of the command line; None: those of this process.
        features: what the program has beside its own commands.
    """
    if arguments is None and sys.getfilesystemencoding() != "utf-8":
        _start_in_utf8_mode()
    output.set_command_options(None, None)
    sys.stdout, sys.stderr = sys.stdout or _null(), sys.stderr or _null()  # a supervisor may have closed them
    sys.stdin = sys.stdin or _null("r")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a limited terminal gets an escape, not a traceback
    options = Globals(features=features)
    code = 0
    try:
        if "_TENEX_COMPLETE" in os.environ and arguments is None:
            return _complete(features)
        code = _run(sys.argv[1:] if arguments is None else list(arguments), options)
        sys.stdout.flush()
    except BrokenPipeError:
        if not _is_reader_gone():
            raise
        return 0
    except OSError as error:  # a full disk
        output.message(f"tenex: the output could not be written: {error.strerror}")
        sys.stdout = _null()  # otherwise Python would try again at exit, and print an error
        return code or 1
    return code


def _start_in_utf8_mode() -> None:
    """Start the process again where the locale is not UTF-8, as under `LC_ALL=C`: it could open no file named `ü`.

    The terminal keeps its encoding, unless that is ASCII. Returns where Python does not read its variables (`-E`).
    """
    if os.environ.get("PYTHONUTF8") == "1":
        return
    wanted = {"PYTHONUTF8": "1"}
    encoding = sys.stdout.encoding if sys.stdout is not None else "ascii"
    if codecs.lookup(encoding).name != "ascii":
        wanted["PYTHONIOENCODING"] = os.environ.get("PYTHONIOENCODING") or encoding
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **wanted})  # noqa: S606 - itself


def _complete(features: Sequence[Feature]) -> int:
    """Answer the script of a shell; an error is silent, because it would be printed into the line that is typed."""
    from .completion import complete

    try:
        return complete(os.environ["_TENEX_COMPLETE"], features)
    except Exception:  # noqa: BLE001 any error
        return 1


def _null(mode: Literal["r", "w"] = "w") -> TextIOWrapper:
    return Path(os.devnull).open(mode, encoding="utf-8")


def _run(arguments: list[str], options: Globals) -> int:
    # typer's own `main` ends silently on any broken pipe, even of a socket
    command = make_root(options.features)
    try:
        with command.make_context("tenex", arguments, obj=options) as context:
            command.invoke(context)
    except typer.Exit as ending:
        return ending.exit_code
    except (KeyboardInterrupt, typer.Abort):
        output.message("tenex: interrupted")
        return _INTERRUPTED
    except typer.TyperException as error:
        show = getattr(error, "show", None)
        text = StringIO()
        if callable(show):
            show(text)
        output.message(text.getvalue().rstrip("\n") or f"tenex: {error.format_message()}")
        return error.exit_code
    except Exception as error:  # noqa: BLE001 the last place that can report it in one line
        return _failed(error, options)
    return 0


def _failed(error: Exception, options: Globals) -> int:
    """Report an error; returns the exit code."""
    cause: BaseException = error
    if isinstance(error, ExceptionGroup) and error.split(TenexError)[1] is None:
        while isinstance(cause, BaseExceptionGroup):  # tasks of one command that failed together
            cause = cause.exceptions[0]
    if isinstance(cause, FileNotFoundError) and current_folder() is None:  # a relative path was made absolute
        from tenex.settings import NO_CURRENT

        cause = ConfigurationError([NO_CURRENT])
    if isinstance(cause, TenexError):
        output.message(output.explain(cause))
    elif isinstance(error, BrokenPipeError) and _is_reader_gone():
        return 0
    elif isinstance(error, OSError) and error.errno == errno.ENOSPC:  # a full disk is no internal error
        raise error
    else:
        first = next(iter(str(error).splitlines()), "")
        output.message(f"tenex: unexpected {type(error).__name__}: {first}")
        if not options.debug:
            output.message("tenex: this is an internal error; `tenex --debug ...` shows where it happened")
    if options.debug:
        output.message(traceback.format_exc())
    return cause.exit_code if isinstance(cause, TenexError) else 1


def _is_reader_gone() -> bool:
    """Whether stdout is closed at the other end; if so, it is redirected to the null device, so that exit is silent."""
    try:
        out = sys.stdout.fileno()
    except OSError:  # it is not a file
        return False
    if not output.is_hung_up(out):
        return False
    output.redirect_to_null(out)
    return True
