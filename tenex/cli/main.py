"""The entry point: the commands, their errors and exit codes.

Exit codes: 0 clean, 1 unexpected (`status`: no daemon runs), 2 usage, 3 configuration, 4 store locked or damaged,
5 forced stop, 6 waiting for a user, 130 interrupted.
"""

import errno
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from io import StringIO, TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer
from typer.core import TyperGroup

from tenex import __version__
from tenex.core.errors import ConfigurationError, TenexError

from . import output
from .options import Globals, current_folder, register

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "demo": ("tenex.cli.demo:demo", "Try everything on this machine: relay, daemon and chat."),
    "run": ("tenex.cli.run:run", "Run the daemon."),
    "stop": ("tenex.cli.stop_reload:stop", "Stop the daemon, and wait until it has ended."),
    "reload": ("tenex.cli.stop_reload:reload", "Have the daemon read settings, agents and keys again."),
    "chat": ("tenex.cli.chat:chat", "Talk to the agents from this terminal."),
    "relay": ("tenex.cli.relay:relay", "Run the embedded relay alone."),
    "init": ("tenex.cli.init:init", "Make the configuration, the keys and the folders."),
    "trust": ("tenex.cli.trust:trust", "Trust the current folder, if you neither made nor named it."),
    "status": ("tenex.cli.status:status", "Show the state of the daemon."),
    "doctor": ("tenex.cli.doctor:doctor", "Find problems, and show how to fix them."),
    "conversations": (
        "tenex.cli.conversations:conversations",
        "List, show, search and roll back conversations.",
    ),
    "agents": ("tenex.cli.agents:agents", "List, show and add agents."),
    "config": ("tenex.cli.config:config", "Show and check the settings."),
    "workflows": ("tenex.cli.workflows:workflows", "Draw, check, add and run workflows."),
    "workspace": ("tenex.cli.workspace:workspace", "Show and set up the project that agents work on."),
    "eval": ("tenex.cli.evaluate:evaluate", "Run scenarios, and show what failed and what models took."),
    "completion": ("tenex.cli.completion:completion", "Install completion for your shell, and the man page."),
    "graph": ("tenex.cli.workflows:workflows", "The same as `workflows`."),
}
"""Name -> where its function or typer app is, and its line in the help."""
ALIASES: Final = frozenset({"graph"})
"""Commands that are not listed in the help."""

TALKING: Final = frozenset({"demo", "run", "chat", "relay"})
"""Commands that hold a conversation or serve, and print no facts."""

_INTERRUPTED: Final = 130
"""128 + SIGINT, as shells count it."""


class LazyGroup(TyperGroup):
    """Lists every command, and loads only the one that is run."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Resolve a command and load it."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, load_command(name) if name and name in COMMANDS else found, rest


def load_command(name: str) -> Any:
    """Import a command's module."""
    module, _, attribute = COMMANDS[name][0].partition(":")
    target = getattr(import_module(module), attribute)
    if not isinstance(target, typer.Typer):
        function, target = target, typer.Typer(add_completion=False, rich_markup_mode=None)
        register(target, name, has_json=name not in TALKING)(function)
    command = typer.main.get_command(target)
    command.name = name
    return command


app = typer.Typer(
    cls=LazyGroup,
    add_completion=False,
    rich_markup_mode=None,  # importing rich for colours would double the time of --help
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # they print local variables, and with them secrets
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(is_wanted: bool) -> None:
    if is_wanted:
        output.result(f"tenex {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    ctx: typer.Context,
    *,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            readable=False,
            help="The data folder; default: $TENEX_DATA, or this folder if it holds tenex.toml or "
            "config/tenex.toml, or the state folder ($STATE_DIRECTORY, ~/.local/state/tenex).",
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The configuration, if it is not in the data folder.")
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show the trace of an unexpected error.")] = False,
    _show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Run conversations between people and LLM agents over Nostr relays.

    Start with `tenex demo`; then `tenex init` and `tenex run`.
    """
    options = ctx.obj if isinstance(ctx.obj, Globals) else Globals()
    options.data, options.config, options.debug = data, config, debug
    ctx.obj = options


def _placeholder() -> None:
    """Placeholder for a command in the help."""


for _name, (_, _help) in COMMANDS.items():
    # as a `short_help` it is wrapped, not cut off
    app.command(_name, help=_help, short_help=_help, hidden=_name in ALIASES)(_placeholder)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; every error is one message on stderr."""
    output.set_command_options(None, None)
    sys.stdout, sys.stderr = sys.stdout or _null(), sys.stderr or _null()  # a supervisor may have closed them
    sys.stdin = sys.stdin or _null("r")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a limited terminal gets an escape, not a traceback
    options, code = Globals(), 0
    try:
        if "_TENEX_COMPLETE" in os.environ and arguments is None:
            return _complete()
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


def _complete() -> int:
    """Answer the script of a shell; an error is silent, because it would be printed into the line that is typed."""
    from .completion import complete

    try:
        return complete(os.environ["_TENEX_COMPLETE"])
    except Exception:  # noqa: BLE001 any error
        return 1


def _null(mode: Literal["r", "w"] = "w") -> TextIOWrapper:
    return Path(os.devnull).open(mode, encoding="utf-8")


def _run(arguments: list[str], options: Globals) -> int:
    # typer's own `main` ends silently on any broken pipe, even of a socket
    command = typer.main.get_command(app)
    try:
        with command.make_context("tenex", arguments, obj=options) as context:
            command.invoke(context)
    except typer.Exit as ending:
        return ending.exit_code
    except (KeyboardInterrupt, typer.Abort):
        output.message("tenex: interrupted")
        return _INTERRUPTED
    except typer.TyperException as error:
        show, text = getattr(error, "show", None), StringIO()
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


if __name__ == "__main__":
    sys.exit(main())
