"""`tenex agents`: list, show and add agents, with their tools, models, prompts and keys."""

import asyncio
import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tenex.core.errors import ConfigurationError, UsageError
from tenex.core.ids import Slug
from tenex.core.messages import AgentText, Note, UserText
from tenex.core.phases import Phase
from tenex.core.text.foreign import decode
from tenex.operations.short_ids import matching
from tenex.settings import Settings, resolve_paths

from .shared import examples, output
from .shared.agent_files import check_name, chosen_by_owners, graph_json, load_agents, npubs_of
from .shared.options import Globals, parse_phase
from .shared.register import group, register

if TYPE_CHECKING:
    from tenex.prompting import AgentDefinition

agents = group("List, show and add agents.")


@register(agents, "list")
def list_(given: Globals) -> None:
    """List the agents, the orchestrator among them."""
    settings = given.settings()
    library = load_agents(settings)
    settings = chosen_by_owners(settings, library)
    known = library.definitions
    npubs = npubs_of(settings, known)
    rows = [_row(agent, settings, npubs) for agent in known.values()]
    head = ("slug", "kind", "model", "in_phases", "npub")  # with the tools it would be twice as wide as a terminal
    table = output.table(head, [[_cell(row[name]) for name in head] for row in rows])
    note = "An agent without an npub has no key yet; `tenex init` makes it."
    if all(row["npub"] is not None for row in rows):
        note = ""
    disabled = [f"{one.slug or one.source} is disabled: {' '.join(one.faults)}" for one in library.disabled]
    rows += [{"slug": one.slug or None, "source": one.source, "faults": one.faults} for one in library.disabled]
    given.show(rows, table, note, *disabled)


@register(agents)
def show(
    given: Globals,
    slug: Annotated[str, typer.Argument(metavar="SLUG", help="Its slug or npub, or the beginning of one.")],
    as_prompt: Annotated[bool, typer.Option("--prompt", help="Print what its model would receive.")] = False,
    phase: Annotated[str, typer.Option(metavar="PHASE", help="With --prompt: in this phase.", show_default=False)] = "",
    conversation: Annotated[
        str, typer.Option(metavar="ID", help="With --prompt: in this conversation.", show_default=False)
    ] = "",
    message: Annotated[
        str,
        typer.Option(
            metavar="TEXT", help="With --prompt: in a new conversation with this message.", show_default=False
        ),
    ] = "",
) -> None:
    """Show one agent, with its own phases and its instructions."""
    settings = given.settings()
    library = load_agents(settings)
    known = library.definitions
    npubs = npubs_of(settings, known)
    found = matching(slug.removeprefix("@"), [*map(str, known), *npubs.values()], "agents")
    if found is None and (faults := library.faults.get(Slug(slug.removeprefix("@")))):
        raise ConfigurationError(faults)
    if found is None:
        raise UsageError(f"There is no agent {slug!r}. Choose from {', '.join(known)}.")
    agent = next(one for one in known.values() if found in (one.slug, npubs.get(one.slug)))
    if as_prompt:
        _show_prompt(given, settings, agent.slug, parse_phase(phase), conversation, message)
        return
    if phase or conversation or message:
        raise UsageError("--phase, --conversation and --message need --prompt")
    sections = [f"## In {phase}\n\n{text.strip()}" for phase, text in agent.in_phase.items()]
    chosen = _row(agent, chosen_by_owners(settings, library), npubs)
    models = tuple(dict.fromkeys(name for chain in chosen["models"].values() for name in chain))
    about = [line for feature in given.features for line in feature.about_agent(agent, models)]
    row = {
        **chosen,
        "instructions": "\n\n".join((agent.body.strip(), *sections)),
    }
    own = agent.program.graph if agent.program is not None else None
    facts = [(name, _cell(value)) for name, value in row.items() if name not in ("models", "instructions")]
    width = max(len(name) for name, _ in facts)
    parts = ["\n".join(f"{name.ljust(width)}  {value}" for name, value in facts)]
    parts += [own.mermaid().rstrip()] if own is not None else []
    drawn: dict[str, Any] = {"graph": graph_json(own, "when")} if own is not None else {}
    if about:
        parts.append("\n".join(about))
        drawn["about"] = about
    given.show({**row, **drawn}, "\n\n".join([*parts, row["instructions"]]))


@register(agents)
def add(
    given: Globals,
    slug: Annotated[
        str,
        typer.Argument(
            metavar="SLUG",
            help="Its name: lower-case words joined with hyphens.",
            show_default=False,
        ),
    ] = "",
    kind: Annotated[
        Literal["worker", "expert"] | None,
        typer.Option(
            help="A worker (the default) changes files; an expert only advises.",
            show_default=False,
        ),
    ] = None,
    like: Annotated[
        str, typer.Option(metavar="EXAMPLE", help="Copy this example, under its own name or SLUG.", show_default=False)
    ] = "",
) -> None:
    """Write the file of a new agent to fill in, or a copy of a built-in one; without SLUG, list the examples.

    --like copies an example: agents with their own phases, in Python, or with output states.
    """
    if not slug and not like:
        note = "`tenex agents add --like EXAMPLE` copies one; `tenex agents add SLUG` writes one to fill in."
        examples.list_examples(given, examples.agent_examples(), note)
        return
    example = examples.choose(examples.agent_examples(), like) if like else None
    if example is not None and kind is not None:
        raise UsageError(f"--kind is for a new file; {like} defines its own kind")
    slug = slug or (example.name if example else "")
    check_name(slug)
    settings = given.settings()
    folder = resolve_paths(settings).agents
    library = load_agents(settings)
    sources = {str(name): agent.source for name, agent in library.definitions.items()}
    if broken := [one.source for one in library.disabled if one.slug == slug]:
        raise UsageError(f"{slug} exists already, in {broken[0]}, and has a fault; `tenex config check` shows it")
    if example is not None:
        for name in (slug, *example.brings):
            if name in sources:
                raise UsageError(f"{name} exists already, in {sources[name]}; choose another name, or move it away")
        files = examples.copy(example, folder, slug)
        what = f"a copy of the example {like}"
    else:
        source = sources.get(slug)
        if source is not None and not source.endswith(".md"):
            raise UsageError(f"{slug} is written in Python, in {source}; edit it, or move it away first")
        text = decode(Path(source).read_bytes()) if source else _template(slug, kind or "worker")
        files = examples.write({folder / f"{slug}.md": text})
        what = f"a copy of the built-in {slug}, which it replaces" if source else f"a new {kind or 'worker'}"
    examples.print_files(given, files)
    output.message(f"This is {what}. Edit it, check it with `tenex config check`,")
    output.message(f"and see what its model will read with `tenex agents show {slug} --prompt`.")
    output.message("It takes effect at the daemon's next start or `tenex reload`, which also makes its key.")
    if example is None and slug in examples.agent_examples():
        output.message(f"There is an example of that name too: remove the file, then `tenex agents add --like {slug}`.")


def _template(slug: str, kind: str) -> str:
    name = slug.replace("-", " ").title()
    tools = "read_file, list_files, search_files, git_status, git_diff"
    if kind == "worker":
        tools += ", write_file, edit_file, move_file, delete_file, check, shell"
    return f"""\
---
name: {name}
role: describes in a few words what {name} does for the project
kind: {kind}
use_when: describes when the orchestrator should choose {name} and not another agent
# where it usually works; leave the line out for everywhere
in_phases: [{"plan, verification, reflection" if kind == "expert" else "execute, verification, chores, reflection"}]
tools: [{tools}]
# model: openai:gpt-5.2
---
You are {name}. Write here what it knows, how it works, and what it leaves to others. It reads this in every phase.

- Write one rule per line; write what to do rather than what not to do.

## In verification

Write rules for a single phase under a heading like this one.
"""


def _show_prompt(
    given: Globals, settings: Settings, slug: str, phase: Phase | None, conversation: str, message: str
) -> None:
    from tenex.llm.messages import marked
    from tenex.operations.prompt_preview import SAMPLE, preview

    if conversation and message:
        raise UsageError("--message begins a new conversation; it cannot be used with --conversation")
    with output.without_logs():
        shown = asyncio.run(
            preview(settings, slug, phase, conversation=conversation or None, message=message or SAMPLE)
        )
    request = shown.request
    sent = "\n\n".join(
        marked(entry) for entry in request.entries if isinstance(entry, UserText | AgentText | Note)
    )  # as the providers receive it
    row = {
        "agent": str(request.agent),
        "phase": str(request.phase),
        "models": list(shown.models),
        "tokens": shown.tokens,
        "system": request.system,
        "tools": [dataclasses.asdict(tool) for tool in request.tools],
        "output_schema": request.output_schema,
        "entries": [{"type": type(entry).__name__, **dataclasses.asdict(entry)} for entry in request.entries],
        "message": sent,
    }
    parts = {"system": request.system.rstrip()}
    for tool in request.tools:
        parts[f"tool {tool.name}"] = f"{tool.description}\n{json.dumps(tool.parameters, ensure_ascii=False)}"
    if request.output_schema is not None:
        parts["the answer must be a JSON object"] = json.dumps(request.output_schema, ensure_ascii=False)
    parts["message"] = sent
    text = "\n\n".join(f"===== {name} =====\n{part}" for name, part in parts.items())
    models = ", then ".join(shown.models)
    notes = [f"In {request.phase}, to {models}; about {shown.tokens:,} tokens."]
    if shown.unlisted:
        row["unlisted"] = list(shown.unlisted)
        notes.append(
            f"Not shown: {', '.join(shown.unlisted)}. Tools of an MCP server are added when it runs; a daemon on this "
            "folder that has started it knows them."
        )
    given.show(row, text, *notes)


def _row(agent: "AgentDefinition", settings: Settings, npubs: dict[str, str]) -> dict[str, Any]:
    models = settings.models
    slug = str(agent.slug)
    if agent.kind == "orchestrator":
        named = {"route": list(models.for_router())}
    else:
        named = {str(phase): list(models.for_agent(slug, phase, agent.model or None)) for phase in Phase}
    chains = [", then ".join(chain) for chain in named.values()]
    usual = max(chains, key=chains.count)
    others = [f"{chain} in {phase}" for phase, chain in zip(named, chains, strict=True) if chain != usual]
    own: dict[str, Any] = {}
    if (program := agent.program) is not None:  # its own phases, state and sub-agents
        own["phases"] = list(program.graph.nodes) if program.graph is not None else []
        own["state"] = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in program.defaults.items()]
        own["agents"] = [str(link.agent) for link in program.links.values()]
    return {
        "slug": slug,
        "name": agent.name,
        "kind": str(agent.kind),
        "role": agent.role,
        "use_when": agent.use_when,
        "in_phases": [str(phase) for phase in agent.phases],
        **own,
        "tools": sorted({*agent.tools, *agent.methods}),
        "model": "; ".join([usual, *others]),
        "models": named,
        "npub": npubs.get(slug),
        "origin": f"{agent.origin['author']}, event {agent.origin['event']}" if agent.origin else None,
    }


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value) or "-"
    return str(value) if value else "-"
