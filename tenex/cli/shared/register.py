"""Makes functions commands, with the options that every command takes."""

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar

import typer

from .options import DataOption, JsonOption

COMMON: Final = ("data", "as_json")
"""The options that every command takes; help shows them last."""

F = TypeVar("F", bound=Callable[..., Any])


def group(about: str) -> typer.Typer:
    """A command with subcommands."""
    return typer.Typer(
        help=about,
        short_help=about,  # it is wrapped where a group is listed, not cut off
        add_completion=False,
        rich_markup_mode=None,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )


def register(to: typer.Typer, name: str | None = None, *, has_json: bool = True) -> Callable[[F], F]:
    """Make a function a command of a group, with the options that every command takes.

    A coroutine is also given the folder of conversations, which it only reads.

    Args:
        to: the group.
        name: the command, where it is not the name of the function.
        has_json: whether it prints facts; a command that holds a conversation or serves does not.
    """

    def add(function: F) -> F:
        first, *own = inspect.signature(function, eval_str=True).parameters.values()
        is_reader = inspect.iscoroutinefunction(function)

        @wraps(function)
        def command(ctx: typer.Context, *, data: Path | None, as_json: bool = False, **arguments: Any) -> Any:
            given = ctx.find_root().obj
            given.data = data or given.data
            given.as_json = as_json
            if is_reader:
                from .lookup import on_folder  # it opens stores, which would slow `--help` down

                return on_folder(given, lambda folder, _: function(given, folder, **arguments))
            return function(given, **arguments)

        keyword = inspect.Parameter.KEYWORD_ONLY
        common = [inspect.Parameter("data", keyword, default=None, annotation=DataOption)]
        if has_json:
            common.append(inspect.Parameter("as_json", keyword, default=False, annotation=JsonOption))
        parameters = [first.replace(name="ctx", annotation=typer.Context), *(own[1:] if is_reader else own), *common]
        command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [parameter.replace(kind=keyword) for parameter in parameters]
        )
        about = inspect.getdoc(function) or ""
        sentence = " ".join(about.partition("\n\n")[0].split()).split(". ")[0].rstrip(".")
        to.command(name, short_help=f"{sentence}.")(command)  # as a `short_help` it is wrapped, not cut off
        return function

    return add
