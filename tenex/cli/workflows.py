"""`tenex workflows`: draw, check, add and run workflows; also draws the phases and the graphs of agents."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tenex.core.errors import ConfigurationError, UsageError
from tenex.core.ids import Slug
from tenex.core.phases import PHASE_TRANSITIONS
from tenex.operations.short_ids import matching
from tenex.settings import resolve_paths

from .shared import examples, output
from .shared.agent_files import graph_json, keyed_agents, load_agents
from .shared.options import Globals
from .shared.register import group, register

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tenex.core.graph import TransitionGraph
    from tenex.prompting import AgentDefinition, PromptLibrary
    from tenex.workflows.definitions import LoadedWorkflow, LoadedWorkflows

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


@register(workflows)
def show(given: Globals, name: ShownArgument = "") -> None:
    """Print a workflow, an agent's own phases and output states, or the phases, as Mermaid diagrams."""
    if not name:
        graph = PHASE_TRANSITIONS
        terminal = [node for node in graph.nodes if node in graph.terminal]
        given.show({**graph_json(graph), "terminal": terminal}, graph.mermaid().rstrip("\n"))
        return
    project = _Project(given)
    name = project.full_name(name, project.agents)
    graphs = project.agent_graphs(name)
    if graphs is None:
        given.show(*_workflow(project.find(name)))
        return
    phases = graph_json(graphs["phases"], "when") if "phases" in graphs else {}
    outputs = {"output": graph_json(graphs["output"], "when")} if "output" in graphs else {}
    drawn = "\n\n".join(graph.mermaid().rstrip("\n") for graph in graphs.values())
    given.show({"name": name, **phases, **outputs}, drawn)


def _workflow(found: "LoadedWorkflow") -> tuple[dict[str, Any], str]:
    """A workflow or a mission as JSON and as a diagram."""
    from tenex.workflows.missions.definitions import MissionWorkflow

    workflow = found.workflow
    if isinstance(workflow, MissionWorkflow):
        rule = workflow.graph.rule()
        nodes = {
            name: {
                "phase": node.phase,
                "timeout": None if node.timeout is None else node.timeout / 1000,
                "retries": node.retries,
                "onError": node.on_error,
            }
            for name, node in rule.nodes.items()
        }
        facts: dict[str, Any] = {"name": found.slug, "title": found.slug, "source": found.source}
        drawn = workflow.graph.mermaid().rstrip("\n")
        return {**facts, **graph_json(rule.graph, "label"), "nodes": nodes}, drawn
    facts = {
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
    return facts, workflow.graph.mermaid(workflow.everybody).rstrip("\n")


@register(workflows)
def check(given: Globals, name: NameArgument = "") -> None:
    """List faults and warnings of a workflow, or of an agent's own phases; without a name, of all.

    A workflow with a fault is disabled and the exit code is 3; one with warnings can be used.
    """
    from tenex.configuration.workflows import faults_here
    from tenex.workflows.definitions import LoadedWorkflows

    project = _Project(given)
    name = project.full_name(name, project.own_phases)
    own = [(slug, *row) for slug, row in project.own_phases.items() if name in ("", slug)]
    read = project.workflows if not name else LoadedWorkflows() if own else LoadedWorkflows((project.find(name),))
    read = read.without(lambda one: faults_here(one, project.workers))
    rows = [{"name": one.slug, "source": one.source, "warnings": one.warnings} for one in read.found]
    rows += [{"name": one.slug, "source": one.source, "faults": one.faults} for one in read.disabled]
    rows += [{"name": slug, "source": source, "warnings": []} for slug, _, source in own]
    lines = [f"{slug}  {phases}  {source}" for slug, phases, source in own]
    for one in read.found:
        lines.append(f"{one.slug}  {', '.join(_parts(one))}  {one.source}")
        lines += [f"  warning: {warning}" for warning in one.warnings]
    lines += [f"{source}  defines no workflow; it is loaded for what it registers" for source in read.others]
    none = f"There are no workflows in {project.paths.workflows}. `tenex workflows add` lists examples."
    given.show(rows, output.sentences(lines), "" if read.found or read.disabled or own else none)
    if read.disabled:
        raise ConfigurationError(read.faults)


@register(workflows, has_json=False)
def run(
    given: Globals,
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
) -> None:
    """Run a workflow to its end with its own relay and daemon, as `tenex demo --message` does.

    Exit code 0 at its end; 1 where a mission failed or could not begin; 6 where it waits for a user.
    """
    from tenex.configuration.workflows import faults_here

    from .demo import hold

    project = _Project(given)
    name = project.full_name(name, ())
    found = project.find(name)
    if faults := faults_here(found, project.workers):
        raise ConfigurationError(faults)
    lines = [f"@{found.slug} {message}", *(f"/set {pair}" for pair in variables or ())]
    hold(given, "\n".join(lines), port=port, overrides=project.overrides_for(name))


@register(workflows)
def add(
    given: Globals,
    name: Annotated[
        str, typer.Argument(metavar="EXAMPLE", help="A name from the list printed without it.", show_default=False)
    ] = "",
) -> None:
    """Copy an example of a workflow or a mission to edit; without a name, list the examples."""
    from tenex.workflows.definitions import SUFFIXES, slug_of

    found = examples.workflow_examples()
    if not name:
        note = "`tenex workflows add EXAMPLE` copies one into your folder of workflows."
        examples.list_examples(given, found, note)
        return
    example = examples.choose(found, name.removeprefix("@"))
    project = _Project(given)
    folder = project.paths.workflows
    agent = project.agents.get(Slug(example.name))
    if agent is not None:
        raise UsageError(f"{example.name} is the name of an agent, in {agent.source}; rename that one")
    for file in sorted(folder.iterdir()) if folder.is_dir() else ():
        if file.suffix in SUFFIXES and slug_of(file) == example.name:
            raise UsageError(f"{file} exists; edit it, or move it away first")
    examples.print_files(given, examples.copy(example, folder))
    output.message(f"Edit it, check it with `tenex workflows check {example.name}`,")
    output.message(f"and try it with `tenex workflows run {example.name}`.")
    output.message(f"A daemon knows @{example.name} from its next start or `tenex reload` on.")


class _Project:
    """The agents and workflows of a data folder, each read when it is needed."""

    def __init__(self, given: Globals) -> None:
        self.settings = given.settings()
        self.paths = resolve_paths(self.settings)

    @cached_property
    def library(self) -> "PromptLibrary":
        return load_agents(self.settings)

    @property
    def agents(self) -> "Mapping[Slug, AgentDefinition]":
        return self.library.definitions

    @property
    def workers(self) -> tuple[str, ...]:
        """The slugs of the agents that can take part in a workflow."""
        return keyed_agents(self.library)

    @cached_property
    def workflows(self) -> "LoadedWorkflows":
        """The configured workflows, as they are read."""
        from tenex.configuration.workflows import references
        from tenex.workflows.definitions import find_workflows

        return find_workflows(self.paths.workflows, references(self.settings), self.paths.code_refusal)

    @property
    def own_phases(self) -> dict[str, tuple[str, str]]:
        """The phases and the file of each agent with phases of its own."""
        return {
            str(slug): (", ".join(agent.program.graph.nodes), agent.source)
            for slug, agent in self.agents.items()
            if agent.program is not None and agent.program.graph is not None
        }

    def full_name(self, start: str, agents: "Iterable[str]") -> str:
        """The workflow, or one of these agents, whose name begins with `start`; `start` itself where there is none.

        Raises:
            UsageError: several match.
        """
        start = start.removeprefix("@")
        if not start or _is_source(start):
            return start
        workflows = [*(one.slug for one in self.workflows.found), *(one.slug for one in self.workflows.disabled)]
        return matching(start, map(str, [*agents, *workflows]), "agents and workflows") or start

    def find(self, name: str) -> "LoadedWorkflow":
        """The configured workflow of that name, or the one in that file or module.

        Raises:
            UsageError: there is none.
            ConfigurationError: it has faults.
        """
        from tenex.workflows.definitions import read_workflow, slug_of

        if self._is_in_folder(name) and Path(name).exists():
            name = slug_of(Path(name))  # it may use its neighbours
        if _is_source(name):
            found = read_workflow(name)
            if found is None:
                raise UsageError(f"{name} defines no workflow")
            return found
        for one in self.workflows.found:
            if one.slug == name:
                return one
        if faults := [fault for one in self.workflows.disabled if one.slug == name for fault in one.faults]:
            raise ConfigurationError(faults)
        known = ", ".join(one.slug for one in self.workflows.found)
        hint = "`tenex workflows add` and `tenex agents add` list examples."
        raise UsageError(
            f"There is no workflow {name!r} in {self.paths.workflows}. {f'Known: {known}. ' if known else ''}{hint}"
        )

    def overrides_for(self, name: str) -> dict[str, Any]:
        """Settings that add a file or a module that is not configured."""
        if not _is_source(name) or self._is_in_folder(name):
            return {}
        name = name if ":" in name else str(Path(name).absolute())
        return {} if name in self.settings.workflows else {"workflows": [*self.settings.workflows, name]}

    def agent_graphs(self, name: str) -> "dict[str, TransitionGraph] | None":
        """The graphs of an agent's own `phases` and `output` states; None where there is no such agent."""
        slug = Slug(name)
        known = self.agents.get(slug)
        if known is None:
            return None
        found: dict[str, TransitionGraph] = {}
        if known.program is not None and known.program.graph is not None:
            found["phases"] = known.program.graph
        if known.output is not None:
            from tenex.configuration.output_states import graph_of, outputs_of

            found["output"] = graph_of(outputs_of(self.library, self.paths)[slug])
        if not found:
            raise UsageError(f"{name} has no phases or output states; add `phases:` or `output:` to {known.source}")
        return found

    def _is_in_folder(self, name: str) -> bool:
        """Whether it names a file in the folder of workflows."""
        is_file = ":" not in name and _is_source(name)
        return is_file and Path(name).absolute().parent.resolve() == self.paths.workflows.resolve()


def _is_source(name: str) -> bool:
    """Whether it names a file or a module rather than a configured workflow."""
    from tenex.workflows.definitions import SUFFIXES

    return ":" in name or name.endswith(SUFFIXES)


def _parts(found: "LoadedWorkflow") -> "Iterable[str]":
    """The participants of a workflow, or the nodes of a mission."""
    from tenex.workflows.missions.definitions import MissionWorkflow

    one = found.workflow
    return one.graph.rule().nodes if isinstance(one, MissionWorkflow) else one.everybody
