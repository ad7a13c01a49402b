"""The entry point: which commands there are, and how every one of them ends.

Exit codes: 0 clean, 1 unexpected (`status`: no daemon runs), 2 usage, 3 configuration, 4 store locked or damaged,
5 forced stop, 6 waiting for a person, 130 interrupted.
"""

import errno
import os
import select
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer
from typer.core import TyperGroup

from tenex import __version__
from tenex.core.errors import TenexError

from . import output
from .options import Globals

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "demo": ("tenex.cli.demo:demo", "Try it all on this machine: relay, daemon and chat."),
    "run": ("tenex.cli.run:run", "Run the daemon."),
    "chat": ("tenex.cli.chat:chat", "Talk to the agents from this terminal."),
    "relay": ("tenex.cli.relay:relay", "Run the embedded relay alone."),
    "init": ("tenex.cli.init:init", "Make the configuration, the keys and the folders."),
    "status": ("tenex.cli.status:status", "Ask the daemon how it fares."),
    "doctor": ("tenex.cli.doctor:doctor", "Find out what is wrong, and how to mend it."),
    "conversations": ("tenex.cli.conversations:conversations", "List, show and search conversations."),
    "agents": ("tenex.cli.agents:agents", "List and show the agents."),
    "config": ("tenex.cli.config:config", "Show and check the settings."),
    "graph": ("tenex.cli.workflows:graph", "Draw what may follow what; check and run workflows."),
}
"""Name -> where its function or typer app is, and its line in the help."""

_INTERRUPTED: Final = 130
"""128 + SIGINT, as shells count it."""


class LazyGroup(TyperGroup):
    """Lists every command, and loads the one that is run."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the command that was named and put the real one in the place of its line in the help."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, load_command(name) if name and name in COMMANDS else found, rest


def load_command(name: str) -> Any:
    """Import a command's module and make its command."""
    module, _, attribute = COMMANDS[name][0].partition(":")
    target = getattr(import_module(module), attribute)
    if not isinstance(target, typer.Typer):
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(name)(target)
        target = single
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
            help="The data folder. Else $TENEX_DATA, else this folder where it holds tenex.toml or "
            "config/tenex.toml, else the state folder ($STATE_DIRECTORY, ~/.local/state/tenex).",
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The configuration, where it is not in the data folder.")
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show the trace of an unexpected error.")] = False,
    _show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Conversations between people and LLM agents over Nostr relays.

    Start with `tenex demo`; then `tenex init` and `tenex run`.
    """
    options = ctx.obj if isinstance(ctx.obj, Globals) else Globals()
    options.data, options.config, options.debug = data, config, debug
    ctx.obj = options


def _placeholder() -> None:
    """Stand for a command in the help."""


for _name, (_, _help) in COMMANDS.items():
    app.command(_name, help=_help)(_placeholder)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code; every error is one message on stderr."""
    sys.stdout, sys.stderr = sys.stdout or _nowhere(), sys.stderr or _nowhere()  # a supervisor may have closed them
    sys.stdin = sys.stdin or _nowhere("r")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a poor terminal gets an escape, not a traceback
    options, code = Globals(), 0
    try:
        code = _run(sys.argv[1:] if arguments is None else list(arguments), options)
        sys.stdout.flush()
    except BrokenPipeError:
        if not _is_reader_gone():
            raise
        return 0
    except OSError as fault:  # a full disk, where a file is written to
        output.say(f"tenex: what was asked for could not be written: {fault.strerror}")
        sys.stdout = _nowhere()  # or Python would try once more at exit, and say so
        return code or 1
    return code


def _nowhere(mode: Literal["r", "w"] = "w") -> TextIOWrapper:
    return Path(os.devnull).open(mode, encoding="utf-8")


def _run(arguments: list[str], options: Globals) -> int:
    # typer's own `main` would end silently on any broken pipe, also one of a socket, so the steps are taken here
    command = typer.main.get_command(app)
    try:
        with command.make_context("tenex", arguments, obj=options) as context:
            command.invoke(context)
    except typer.Exit as ending:
        return ending.exit_code
    except (KeyboardInterrupt, typer.Abort):
        output.say("tenex: interrupted")
        return _INTERRUPTED
    except typer.TyperException as fault:
        _show_usage(fault)
        return fault.exit_code
    except TenexError as fault:
        return _explained(fault, options)
    except ExceptionGroup as group:  # tasks of one command that ended together: one of them says why
        told = [fault for fault in _leaves(group) if isinstance(fault, TenexError)]
        return _explained(told[0], options) if len(told) == len(_leaves(group)) else _unexpected(options)
    except BrokenPipeError:
        if _is_reader_gone():
            return 0
        return _unexpected(options)
    except OSError as fault:
        if fault.errno == errno.ENOSPC:  # no fault of ours, wherever it was met
            raise
        return _unexpected(options)
    except Exception:  # noqa: BLE001 the last place that can say it in one line
        return _unexpected(options)
    return 0


def _explained(fault: TenexError, options: Globals) -> int:
    output.say(output.explain(fault))
    return _debugged(fault.exit_code, options)


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for fault in group.exceptions:
        found.extend(_leaves(fault) if isinstance(fault, BaseExceptionGroup) else [fault])
    return found


def _show_usage(fault: typer.TyperException) -> None:
    show = getattr(fault, "show", None)
    if callable(show):
        show()
    else:
        output.say(f"tenex: {fault.format_message()}")


def _unexpected(options: Globals) -> int:
    from tenex.telemetry import redact

    fault = sys.exception()
    first = next(iter(str(fault).splitlines()), "")
    output.say(redact(f"tenex: unexpected {type(fault).__name__}: {first}"))
    if not options.debug:
        output.say("tenex: this is a fault of the program; `tenex --debug ...` shows where it happened")
    return _debugged(1, options)


def _debugged(code: int, options: Globals) -> int:
    if options.debug:
        from tenex.telemetry import redact

        output.say(redact(traceback.format_exc()))
    return code


def _is_reader_gone() -> bool:
    """Whether nobody reads our stdout any more; if so, what is left goes nowhere, and nothing complains at exit."""
    try:
        out = sys.stdout.fileno()
    except OSError:  # it is no file
        return False
    look = select.poll()  # flushing would not tell where nothing is buffered, as with PYTHONUNBUFFERED
    look.register(out, 0)
    if not any(event & (select.POLLERR | select.POLLHUP) for _, event in look.poll(0)):
        return False
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, out)
    os.close(nowhere)
    return True


if __name__ == "__main__":
    sys.exit(main())
