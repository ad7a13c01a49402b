"""`tenex workflows`: draw, check, add and run workflows; also draws the seven phases and the graphs of agents."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tenex.core.errors import ConfigurationError, UsageError
from tenex.core.ids import Slug
from tenex.core.phases import PHASE_TRANSITIONS
from tenex.operations.short_ids import matching

from . import examples, output
from .agents import edges, load_agents
from .options import DataOption, JsonOption, data_folder, group, open_settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tenex.core.graph import TransitionGraph
    from tenex.settings import Settings
    from tenex.workflows.missions.definitions import MissionWorkflow
    from tenex.workflows.speakers.definitions import LoadedWorkflow

workflows = group("Draw, check, add and run workflows.")

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="A workflow's name, a file, or package.module:name.", show_default=False)
]
ShownArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="A workflow's or an agent's name, a file, or package.module:name.", show_default=False
    ),
]


@workflows.command()
def show(ctx: typer.Context, name: ShownArgument = "", data: DataOption = None, as_json: JsonOption = False) -> None:
    """Print a workflow, an agent's own phases and output states, or the seven phases, as Mermaid diagrams."""
    if name:
        settings = open_settings(ctx, data)
        name = _full_name(settings, name, load_agents(settings).definitions)
        own = _agent_graphs(settings, name)
        if own is None:
            _show_workflow(_found(settings, name), as_json=as_json)
        elif as_json:
            phases = edges(own["phases"]) if "phases" in own else {}
            output.result_json(
                {"name": name, **phases, **({"output": edges(own["output"])} if "output" in own else {})}
            )
        else:
            output.result("\n\n".join(one.mermaid().rstrip("\n") for one in own.values()))
        return
    if not as_json:
        output.result(PHASE_TRANSITIONS.mermaid().rstrip("\n"))
        return
    output.result_json(
        {
            "initial": str(PHASE_TRANSITIONS.initial),
            "nodes": [str(node) for node in PHASE_TRANSITIONS.nodes],
            "edges": [{"from": edge.source, "to": edge.target} for edge in PHASE_TRANSITIONS.edges],
            "terminal": [node for node in PHASE_TRANSITIONS.nodes if node in PHASE_TRANSITIONS.terminal],
        }
    )


def _show_workflow(found: "LoadedWorkflow", *, as_json: bool) -> None:
    from tenex.workflows.missions.definitions import MissionWorkflow

    workflow = found.workflow
    if isinstance(workflow, MissionWorkflow):
        _show_mission(found, workflow, as_json=as_json)
        return
    if not as_json:
        output.result(workflow.graph.mermaid(workflow.everybody).rstrip("\n"))
        return
    output.result_json(
        {
            "name": found.slug,
            "title": workflow.name or found.slug,
            "source": found.source,
            "participants": list(workflow.everybody),
            "view": workflow.view,
            "context": dict(workflow.context),
            "expectations": {
                name: {"warn": within.warn / 1000, "close": within.close / 1000}
                for name, within in workflow.within().items()
            },
            "graph": workflow.graph.to_dict(),
        }
    )


def _show_mission(found: "LoadedWorkflow", mission: "MissionWorkflow", *, as_json: bool) -> None:
    if not as_json:
        output.result(mission.graph.mermaid().rstrip("\n"))
        return
    rule = mission.graph.rule()
    output.result_json(
        {
            "name": found.slug,
            "title": found.slug,
            "source": found.source,
            "initial": rule.graph.initial,
            "nodes": {
                name: {
                    "phase": node.phase,
                    "timeout": None if node.timeout is None else node.timeout / 1000,
                    "retries": node.retries,
                    "onError": node.on_error,
                }
                for name, node in rule.nodes.items()
            },
            "edges": [
                {"from": edge.source, "to": edge.target, "label": str(edge.label or "")} for edge in rule.graph.edges
            ],
        }
    )


@workflows.command()
def check(ctx: typer.Context, name: NameArgument = "", data: DataOption = None, as_json: JsonOption = False) -> None:
    """List faults and warnings of a workflow, or of an agent's own phases; without a name, of all.

    A workflow with a fault is disabled and the exit code is 3; one with warnings can be used.
    """
    from tenex.configuration.workflows import faults_here
    from tenex.settings import resolve_paths
    from tenex.workflows.speakers.definitions import LoadedWorkflows, find_workflows

    settings = open_settings(ctx, data)
    where = resolve_paths(settings)
    name = _full_name(settings, name, [slug for slug, *_ in _with_phases(settings, "")])
    own = _with_phases(settings, name)
    read = LoadedWorkflows() if name and own else LoadedWorkflows((_found(settings, name),)) if name else None
    read = read if read is not None else find_workflows(where.workflows, settings.workflows, where.code_refusal)
    agents = _agents(settings)
    read = read.without(lambda one: faults_here(one, agents))
    if as_json:
        rows = [{"name": one.slug, "source": one.source, "warnings": one.warnings} for one in read.found]
        rows += [{"name": one.slug, "source": one.source, "faults": one.faults} for one in read.disabled]
        output.result_json([*rows, *({"name": slug, "source": source, "warnings": []} for slug, _, source in own)])
    else:
        for slug, phases, source in own:
            output.result(f"{slug}  {phases}  {source}")
        for one in read.found:
            output.result(f"{one.slug}  {', '.join(_parts(one))}  {one.source}")
            for warning in one.warnings:
                output.result(f"  warning: {warning}")
        for source in read.others:
            output.result(f"{source}  defines no workflow; it is loaded for what it registers")
        if not read.found and not read.disabled and not own:
            output.message(f"There are no workflows in {where.workflows}. `tenex workflows add` lists examples.")
    if read.disabled:
        raise ConfigurationError(read.faults)


@workflows.command()
def run(
    ctx: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="A name that `tenex workflows check` lists, a file, or package.module:name."
        ),
    ],
    message: Annotated[str, typer.Option(help="The first message.")] = "Begin.",
    variables: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Set a variable at the start; repeatable.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="Of the embedded relay; default: 7447, or a free one.")
    ] = None,
    data: DataOption = None,
) -> None:
    """Run a workflow to its end with its own relay and daemon, as `tenex demo --message` does.

    Exit code 0 at its end; 1 where a mission failed or could not begin; 6 where it waits for a user.
    """
    from tenex.configuration.workflows import faults_here

    from .demo import hold

    settings = open_settings(ctx, data)
    name = _full_name(settings, name, ())
    found = _found(settings, name)
    if faults := faults_here(found, _agents(settings)):
        raise ConfigurationError(faults)
    lines = [f"@{found.slug} {message}", *(f"/set {pair}" for pair in variables or ())]
    hold(ctx, "\n".join(lines), port=port, data=data, overrides=_with(settings, name))


@workflows.command()
def add(
    ctx: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="EXAMPLE", help="A name from the list printed without it.", show_default=False)
    ] = "",
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy an example of a workflow or a mission to edit; without a name, list the examples."""
    from tenex.settings import resolve_paths
    from tenex.workflows.speakers.definitions import SUFFIXES

    found = examples.workflow_examples()
    if not name:
        data_folder(ctx, data)
        examples.list_examples(found, as_json=as_json)
        output.message("`tenex workflows add EXAMPLE` copies one into your folder of workflows.")
        return
    example = examples.choose(found, name.removeprefix("@"))
    settings = open_settings(ctx, data)
    folder = resolve_paths(settings).workflows
    if example.name in (agents := load_agents(settings).definitions):
        raise UsageError(
            f"{example.name} is the name of an agent, in {agents[Slug(example.name)].source}; rename that one"
        )
    for file in sorted(folder.iterdir()) if folder.is_dir() else ():
        if file.suffix in SUFFIXES and examples.slug_of(file) == example.name:
            raise UsageError(f"{file} exists; edit it, or move it away first")
    examples.print_files(examples.copy(example, folder), as_json=as_json)
    output.message(f"Edit it, check it with `tenex workflows check {example.name}`,")
    output.message(f"and try it with `tenex workflows run {example.name}`.")
    output.message(f"A daemon knows @{example.name} from its next start or reload (SIGHUP) on.")


def _with(settings: "Settings", name: str) -> dict[str, Any]:
    """Settings that add a file or a module that is not configured."""
    from tenex.settings import resolve_paths

    if not _is_source(name):
        return {}
    if ":" not in name:
        path = Path(name).absolute()
        if path.parent.resolve() == resolve_paths(settings).workflows.resolve():
            return {}
        name = str(path)
    return {} if name in settings.workflows else {"workflows": [*settings.workflows, name]}


def _full_name(settings: "Settings", start: str, agents: "Iterable[str]") -> str:
    """The workflow or agent whose name begins with `start`; `start` itself where there is none.

    Raises:
        UsageError: several match.
    """
    from tenex.settings import resolve_paths
    from tenex.workflows.speakers.definitions import find_workflows

    start = start.removeprefix("@")
    if not start or _is_source(start):
        return start
    where = resolve_paths(settings)
    read = find_workflows(where.workflows, settings.workflows, where.code_refusal)
    workflows = [*(one.slug for one in read.found), *(one.slug for one in read.disabled)]
    return matching(start, map(str, [*agents, *workflows]), "agents and workflows") or start


def _is_source(name: str) -> bool:
    """Whether it names a file or a module rather than a configured workflow."""
    from tenex.workflows.speakers.definitions import SUFFIXES

    return ":" in name or name.endswith(SUFFIXES)


def _parts(found: "LoadedWorkflow") -> "Iterable[str]":
    """The participants of a workflow, or the nodes of a mission."""
    from tenex.workflows.missions.definitions import MissionWorkflow

    one = found.workflow
    return one.graph.rule().nodes if isinstance(one, MissionWorkflow) else one.everybody


def _found(settings: "Settings", name: str) -> "LoadedWorkflow":
    """The configured workflow of that name, or the one in that file or module.

    Raises:
        UsageError: there is none.
        ConfigurationError: it has faults.
    """
    from tenex.settings import resolve_paths
    from tenex.workflows.speakers.definitions import SUFFIXES, find_workflows, read_workflow, slug_of

    path = Path(name)
    if (
        path.suffix in SUFFIXES
        and path.parent.resolve() == resolve_paths(settings).workflows.resolve()
        and path.exists()
    ):
        name = slug_of(path)  # it may use its neighbours
    if _is_source(name):
        found = read_workflow(name)
        if found is None:
            raise UsageError(f"{name} defines no workflow")
        return found
    where = resolve_paths(settings)
    read = find_workflows(where.workflows, settings.workflows, where.code_refusal)
    one = next((known for known in read.found if known.slug == name.removeprefix("@")), None)
    faults = [fault for other in read.disabled if other.slug == name.removeprefix("@") for fault in other.faults]
    if one is None and faults:
        raise ConfigurationError(faults)
    if one is None:
        known = f"Known: {', '.join(known.slug for known in read.found)}. " if read.found else ""
        hint = "`tenex workflows add` and `tenex agents add` list examples."
        raise UsageError(f"There is no workflow {name!r} in {where.workflows}. {known}{hint}")
    return one


def _agent_graphs(settings: "Settings", name: str) -> "dict[str, TransitionGraph] | None":
    """The graphs of an agent's own `phases` and `output` states; None where there is no such agent."""
    from tenex.settings import resolve_paths

    library, slug = load_agents(settings), Slug(name.removeprefix("@"))
    known = library.definitions.get(slug)
    if known is None:
        return None
    found: dict[str, TransitionGraph] = {}
    if known.program is not None and known.program.graph is not None:
        found["phases"] = known.program.graph
    if known.output is not None:
        from tenex.configuration.output_states import graph_of, outputs_of

        found["output"] = graph_of(outputs_of(library, resolve_paths(settings))[slug])
    if not found:
        raise UsageError(f"{name} has no phases or output states; add `phases:` or `output:` to {known.source}")
    return found


def _with_phases(settings: "Settings", name: str) -> list[tuple[str, str, str]]:
    """Slug, phases and file of each agent with its own phases, or of the one named."""
    graphs = [
        (str(slug), agent.program.graph, agent.source)
        for slug, agent in load_agents(settings).definitions.items()
        if agent.program is not None and agent.program.graph is not None
    ]
    wanted = name.removeprefix("@")
    return [(slug, ", ".join(own.nodes), source) for slug, own, source in graphs if wanted in ("", slug)]


def _agents(settings: "Settings") -> list[str]:
    from tenex.core.config import Kind

    known = load_agents(settings).definitions
    return [slug for slug, agent in known.items() if agent.kind is not Kind.ORCHESTRATOR]
