"""`tenex eval`: runs scenarios against a daemon of their own, and shows what failed and what the models took."""

import asyncio
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tenex.cli.shared import output
from tenex.cli.shared.options import Globals
from tenex.feature import Feature, extensions_of

if TYPE_CHECKING:
    from tenex.settings import Settings
    from tenex.settings.sections import Models

    from .scenario import Scenario

FAILED: Final = 1
_HEAD: Final = ("scenario", "model", "result", "calls", "sequential", "prompt", "cached", "notes", "cost", "seconds")
_WORDS: Final[dict[bool | None, str]] = {True: "passed", False: "FAILED", None: "skipped"}
_FIGURES: Final = {
    "calls": "{:,}",
    "sequentialCalls": "{:,}",
    "promptTokens": "{:,}",
    "cached": "{:.0%}",
    "notes": "{:,}",
    "costUsd": "${:.4f}",
    "seconds": "{:.1f}",
}


def evaluate(
    given: Globals,
    *,
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="Scenarios: YAML files, or names of shipped ones; default: all shipped."),
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="NAME",
            help='Let this model answer, as "openai:gpt-5-mini"; several compare. Default: whom each scenario names.',
        ),
    ] = None,
    show_list: Annotated[bool, typer.Option("--list", help="List the scenarios, and run none.")] = False,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the data folder of each run below this new folder.")
    ] = None,
) -> None:
    """Run scenarios: messages of a person, the answers of models, and what is expected.

    Each runs on a temporary data folder with an embedded relay; the user's workspace and conversations are not touched.
    Agents and models are those of the settings. Real models cost money. Exit code 1 where a scenario failed.

    The columns: CALLS are requests to models, with the router's. SEQUENTIAL is the longest chain of calls in which each
    began after the one before had ended. PROMPT are the tokens that models read, as the server reports or estimated
    from the bytes. CACHED: of the bytes of requests of agents that were asked before, how many begin as an earlier
    request did. NOTES are the messages published to the person. COST counts the calls whose price is known.
    """
    from .scenario import find, read_scenarios

    scenarios = read_scenarios(find(files or ()))
    if show_list:
        rows = [(one.name, one.answered_by, one.about) for one in scenarios]
        listed = [dict(zip(("name", "models", "about"), row, strict=True)) for row in rows]
        given.show(listed, output.table(("scenario", "models", "about"), rows))
        return
    settings = given.settings()
    chosen = {name: _models(settings, name) for name in models or ()}
    with output.without_logs():
        results = [
            _run(scenario, chosen.get(name), name, settings, given.features, keep)
            for scenario in scenarios
            for name in chosen or [scenario.answered_by]
        ]
    given.show(results, _as_text(results))
    if any(result["passed"] is False for result in results):
        raise typer.Exit(FAILED)


def _models(settings: "Settings", name: str) -> "Models":
    """The model table in which one model answers everything.

    Raises:
        UsageError: it cannot be used.
    """
    from tenex.cli.shared.demo_model import demo_model
    from tenex.settings import resolve_paths
    from tenex.settings.sections import PhaseModels, Provider

    given, _ = demo_model(settings, resolve_paths(settings).keys, name, in_terminal=False)
    assert given is not None, "one is named"
    own = {provider: Provider(**table) for provider, table in given.get("providers", {}).items()}
    return settings.models.model_copy(
        update={
            "default": given["default"],
            "router": None,
            "phases": PhaseModels(),
            "agents": {},
            "providers": {**settings.models.providers, **own},
        }
    )


def _run(
    scenario: "Scenario",
    models: "Models | None",
    name: str,
    settings: "Settings",
    features: Sequence[Feature],
    keep: Path | None,
) -> dict[str, Any]:
    from .run import run_scenario

    output.message(f"{scenario.name} ({name}) ...")
    folder = Path(tempfile.mkdtemp(prefix="tenex-eval-"))
    try:
        return asyncio.run(run_scenario(scenario, settings, models, name, folder, extensions_of(features)))
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            keep.mkdir(parents=True, exist_ok=True)
            shutil.move(folder, keep / re.sub(r"[^\w.-]+", "-", f"{scenario.name}-{name}"))


def _as_text(results: list[dict[str, Any]]) -> str:
    rows = [
        (
            one["scenario"],
            one["model"],
            _WORDS[one["passed"]],
            *("-" if one[name] is None else shape.format(one[name]) for name, shape in _FIGURES.items()),
        )
        for one in results
    ]
    passed, failed, skipped = (sum(one["passed"] is value for one in results) for value in _WORDS)
    ending = [f"{passed:,} passed, {failed:,} failed", *([f"{skipped:,} skipped"] if skipped else [])]
    return "\n".join(
        [
            output.table(_HEAD, rows),
            *(f"{one['scenario']} ({one['model']}): {failure}" for one in results for failure in one["failures"]),
            *(f"{one['scenario']} ({one['model']}): {one['skipped']}" for one in results if one["skipped"]),
            ", ".join(ending),
        ]
    )
