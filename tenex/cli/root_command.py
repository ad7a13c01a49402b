"""The program `tenex`: its commands by name, each of which is loaded when it is run."""

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from tenex import __version__
from tenex.feature import Command, Feature

from .shared import output
from .shared.options import Globals
from .shared.register import COMMON, register

EXIT_CODES: Final = (
    "0 clean, 1 unexpected (`status`: no daemon runs), 2 usage, 3 configuration, 4 store locked or damaged, "
    "5 forced stop, 6 waiting for a user, 130 interrupted."
)

COMMANDS: Final = (
    Command("demo", "tenex.cli.demo:demo", "Try everything on this machine: relay, daemon and chat.", has_json=False),
    Command("run", "tenex.cli.run:run", "Run the daemon.", has_json=False),
    Command("stop", "tenex.cli.stop_reload:stop", "Stop the daemon, and wait until it has ended."),
    Command("reload", "tenex.cli.stop_reload:reload", "Have the daemon read settings, agents and keys again."),
    Command("chat", "tenex.cli.chat:chat", "Talk to the agents from this terminal.", has_json=False),
    Command("web", "tenex.cli.web:web", "Serve pages that show conversations and take answers.", has_json=False),
    Command("relay", "tenex.cli.relay:relay", "Run the embedded relay alone.", has_json=False),
    Command("init", "tenex.cli.init:init", "Make the configuration, the keys and the folders."),
    Command("owner", "tenex.cli.owner:owner", "List, add and remove owners, who may do everything."),
    Command("keys", "tenex.cli.keys:keys", "Export and import secret keys, encrypted with a password."),
    Command("address", "tenex.cli.address:address", "Show the project's address; in a terminal also as a QR code."),
    Command("trust", "tenex.cli.trust:trust", "Trust the current folder, if you neither made nor named it."),
    Command("status", "tenex.cli.status:status", "Show the state of the daemon."),
    Command("doctor", "tenex.cli.doctor:doctor", "Find problems, and show how to fix them."),
    Command("worker", "tenex.cli.worker:worker", "Take a daemon of a shared database out of work, and back."),
    Command(
        "conversations", "tenex.cli.conversations:conversations", "List, show, search and roll back conversations."
    ),
    Command("agents", "tenex.cli.agents:agents", "List, show and add agents."),
    Command("config", "tenex.cli.config:config", "Show and check the settings."),
    Command("workflows", "tenex.cli.workflows:workflows", "Draw, check, add and run workflows."),
    Command("workspace", "tenex.cli.workspace:workspace", "Show and set up the project that agents work on."),
    Command("mcp", "tenex.cli.mcp:mcp", "Try MCP servers, or offer conversations to MCP clients."),
    Command("completion", "tenex.cli.completion:completion", "Install completion for your shell, and the man page."),
    Command("graph", "tenex.cli.workflows:workflows", "The same as `workflows`.", is_hidden=True),
)
"""The program's own commands, in the order of the help."""


class LazyGroup(TyperGroup):
    """Lists every command, and loads only the one that is run."""

    features: Sequence[Feature] = ()

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Resolve a command and load it."""
        name, _, rest = super().resolve_command(ctx, args)
        assert name is not None
        return name, load_command(name, self.features), rest


def command_table(features: Sequence[Feature]) -> Mapping[str, Command]:
    """The commands of the program by name, the features' after its own, without those that are in a group."""
    offered = [command for feature in features for command in feature.commands]
    return {command.name: command for command in (*COMMANDS, *offered) if " " not in command.name}


def load_command(name: str, features: Sequence[Feature]) -> Any:
    """Import a command's module, and those of the commands that features offer in its group."""
    _import_log()
    command = _imported(command_table(features)[name], name)
    for offered in (command for feature in features for command in feature.commands):
        group, _, word = offered.name.partition(" ")
        if word and group == name:
            made = _imported(offered, word)
            if offered.is_variant:
                _join(command.commands[word], made)
            else:
                command.add_command(made)
    return command


def _join(command: Any, variant: Any) -> None:
    """Add a variant's options and help to a command, whose calls it is asked to take first."""
    own_names = {parameter.name for parameter in command.params}
    variant_names = {parameter.name for parameter in variant.params}
    own_call = command.callback

    def call(**arguments: Any) -> None:
        is_taken = variant.callback(**{name: arguments[name] for name in variant_names})
        if not is_taken:
            own_call(**{name: arguments[name] for name in own_names})

    command.callback = call
    command.params += [parameter for parameter in variant.params if parameter.name not in own_names]
    command.params.sort(key=lambda parameter: parameter.name in COMMON)
    command.help = f"{command.help}\n\n{variant.help}"


def _imported(offered: Command, name: str) -> Any:
    """The command that a function or a typer app makes."""
    module, _, attribute = offered.function.partition(":")
    target = getattr(import_module(module), attribute)
    if not isinstance(target, typer.Typer):
        function = target
        target = typer.Typer(add_completion=False, rich_markup_mode=None)
        register(target, name, has_json=offered.has_json)(function)
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


def _version(is_wanted: bool) -> None:
    if is_wanted:
        output.result(f"tenex {__version__}")
        raise typer.Exit


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


def make_root(features: Sequence[Feature]) -> Any:
    """The command of the program, with the commands of features."""
    app = typer.Typer(
        cls=LazyGroup,
        add_completion=False,
        rich_markup_mode=None,  # importing rich for colours would double the time of --help
        no_args_is_help=True,
        pretty_exceptions_enable=False,  # they print local variables, and with them secrets
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for name, command in command_table(features).items():
        # as a `short_help` it is wrapped, not cut off
        app.command(name, help=command.about, short_help=command.about, hidden=command.is_hidden)(_placeholder)
    root = typer.main.get_command(app)
    assert isinstance(root, LazyGroup)
    root.features = features
    return root
