"""The program `tenex`: its commands by name, each of which is loaded when it is run."""

import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from tenex import __version__

from .shared import output
from .shared.options import Globals
from .shared.register import register

EXIT_CODES: Final = (
    "0 clean, 1 unexpected (`status`: no daemon runs), 2 usage, 3 configuration, 4 store locked or damaged, "
    "5 forced stop, 6 waiting for a user, 130 interrupted."
)

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "demo": ("tenex.cli.demo:demo", "Try everything on this machine: relay, daemon and chat."),
    "run": ("tenex.cli.run:run", "Run the daemon."),
    "stop": ("tenex.cli.stop_reload:stop", "Stop the daemon, and wait until it has ended."),
    "reload": ("tenex.cli.stop_reload:reload", "Have the daemon read settings, agents and keys again."),
    "chat": ("tenex.cli.chat:chat", "Talk to the agents from this terminal."),
    "web": ("tenex.cli.web:web", "Serve pages that show conversations and take answers."),
    "relay": ("tenex.cli.relay:relay", "Run the embedded relay alone."),
    "init": ("tenex.cli.init:init", "Make the configuration, the keys and the folders."),
    "owner": ("tenex.cli.owner:owner", "List, add and remove owners, who may do everything."),
    "keys": ("tenex.cli.keys:keys", "Export and import secret keys, encrypted with a password."),
    "address": ("tenex.cli.address:address", "Show the project's address; in a terminal also as a QR code."),
    "trust": ("tenex.cli.trust:trust", "Trust the current folder, if you neither made nor named it."),
    "status": ("tenex.cli.status:status", "Show the state of the daemon."),
    "doctor": ("tenex.cli.doctor:doctor", "Find problems, and show how to fix them."),
    "worker": ("tenex.cli.worker:worker", "Take a daemon of a shared database out of work, and back."),
    "conversations": (
        "tenex.cli.conversations:conversations",
        "List, show, search and roll back conversations.",
    ),
    "agents": ("tenex.cli.agents:agents", "List, show and add agents."),
    "approvals": ("tenex.cli.approvals:approvals", "List and answer the calls that wait for a person."),
    "config": ("tenex.cli.config:config", "Show and check the settings."),
    "workflows": ("tenex.cli.workflows:workflows", "Draw, check, add and run workflows."),
    "workspace": ("tenex.cli.workspace:workspace", "Show and set up the project that agents work on."),
    "mcp": ("tenex.cli.mcp:mcp", "Try MCP servers, or offer conversations to MCP clients."),
    "eval": ("tenex.cli.evaluate:evaluate", "Run scenarios, and show what failed and what models took."),
    "completion": ("tenex.cli.completion:completion", "Install completion for your shell, and the man page."),
    "graph": ("tenex.cli.workflows:workflows", "The same as `workflows`."),
}
"""Name -> where its function or typer app is, and its line in the help."""
ALIASES: Final = frozenset({"graph"})
"""Commands that are not listed in the help."""

TALKING: Final = frozenset({"demo", "run", "chat", "web", "relay"})
"""Commands that hold a conversation or serve, and print no facts."""


class LazyGroup(TyperGroup):
    """Lists every command, and loads only the one that is run."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Resolve a command and load it."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, load_command(name) if name and name in COMMANDS else found, rest


def load_command(name: str) -> Any:
    """Import a command's module."""
    _import_log()
    module, _, attribute = COMMANDS[name][0].partition(":")
    target = getattr(import_module(module), attribute)
    if not isinstance(target, typer.Typer):
        function = target
        target = typer.Typer(add_completion=False, rich_markup_mode=None)
        register(target, name, has_json=name not in TALKING)(function)
    command = typer.main.get_command(target)
    command.name = name
    return command


def _import_log() -> None:
    """Import structlog without rich: it would load that, and pygments, for tracebacks that we print without them."""
    if "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        import_module("tenex.log")
    finally:
        del sys.modules["rich"]


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
    options.data = data
    options.config = config
    options.debug = debug
    ctx.obj = options


def _placeholder() -> None:
    """Placeholder for a command in the help."""


for _name, (_, _help) in COMMANDS.items():
    # as a `short_help` it is wrapped, not cut off
    app.command(_name, help=_help, short_help=_help, hidden=_name in ALIASES)(_placeholder)
