"""Reads and checks all prompts and agents before the daemon starts; all errors are reported at once."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.resources.abc import Traversable
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from tenex.core.agent_phases.program import AgentPhaseState, Link
from tenex.core.config import AgentKind
from tenex.core.errors import ConfigurationError, InternalError, UntrustedFolder
from tenex.core.file_guard import guarded
from tenex.core.graph import END
from tenex.core.ids import Slug
from tenex.core.messages import Note
from tenex.core.phases import Phase
from tenex.core.router.answer import USER
from tenex.core.text.foreign import decode

from . import render
from .agent_phases import is_template, rendered
from .agents import AgentDefinition, read_agent
from .frontmatter import choices
from .phase_guides import PhaseGuide, read_guide
from .templates import Source, Templates

_PACKAGE: Final = Path(__file__).resolve().parent.parent
LARGEST: Final = 256 * 1024
"""Bytes of a prompt's file: more than most models take in all."""

_KEBAB: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_RESERVED: Final = frozenset({END.lower(), USER.lower()})


def builtin_prompts(package: Path = _PACKAGE) -> Path:
    """Folder of the built-in prompts: inside the package (a wheel), else beside it (a checkout).

    Raises:
        ConfigurationError: they are in neither.
    """
    paths = (package / "prompts", package.parent / "prompts")
    for path in paths:
        if (path / render.ROUTER).is_file():
            return path
    looked = " and ".join(map(str, paths))
    raise ConfigurationError([f"The built-in prompts are missing; looked in {looked}. Install tenex again."])


@dataclass(frozen=True, slots=True)
class DisabledAgent:
    """An agent's file with faults, each a sentence that begins with where it is; no agent is read from it."""

    slug: Slug
    """Empty where the file can be no agent's."""
    source: str
    faults: tuple[str, ...]


PythonAgents = Callable[[Path], tuple[Iterable[AgentDefinition], Iterable[DisabledAgent]]]
"""Reads the agents in the `.py` files of a folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptLibrary:
    """All agents, phase guides and templates, read and checked."""

    definitions: Mapping[Slug, AgentDefinition]
    """Every agent, with the orchestrator, sorted by slug."""
    guides: Mapping[Phase, PhaseGuide]
    templates: Templates
    disabled: tuple[DisabledAgent, ...] = ()
    """The operator's files with faults; a built-in agent that such a file was to replace is not used instead."""
    _routers: dict[tuple[str, str], str] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def load(
        cls,
        builtin: Traversable | Path,
        overrides: Path | None = None,
        *,
        tools: Collection[str] | None = None,
        python: PythonAgents | None = None,
    ) -> "PromptLibrary":
        """Read the built-in prompts and the operator's own agents.

        Args:
            builtin: A folder with `phases`, `agents`, `fragments` and the router's template.
            overrides: A folder of `<slug>.md`: each adds an agent, or replaces the built-in one of that slug. It may
                be missing.
            tools: Every tool there is, disabled ones too; None leaves the names in agents unchecked.
            python: Reads the agents of the `.py` files there.

        Raises:
            ConfigurationError: one sentence for every error in a built-in file, or in the orchestrator's, without which
                nothing is routed.
        """
        faults: list[str] = []
        guides = _read_guides(builtin / "phases", faults)
        definitions, disabled = _read_agents(builtin, overrides, tools, python, faults)
        templates = _read_templates(builtin, faults)
        if faults:
            raise ConfigurationError(faults)
        return cls(
            definitions=MappingProxyType(dict(sorted(definitions.items()))),
            guides=MappingProxyType(guides),
            templates=templates,
            disabled=disabled,
        )

    def without(self, faults: Mapping[Slug, Sequence[str]]) -> "PromptLibrary":
        """The same, with those agents disabled, and those that call them.

        Raises:
            ConfigurationError: the orchestrator is among them, or no other agent is left.
        """
        if not faults:
            return self
        fatal: list[str] = []
        found, disabled = _usable(dict(self.definitions), [*self.disabled], faults, fatal)
        if fatal:
            raise ConfigurationError(fatal)
        return replace(self, definitions=MappingProxyType(found), disabled=tuple(disabled))

    @property
    def faults(self) -> dict[Slug, tuple[str, ...]]:
        """The faults of each disabled agent."""
        found: dict[Slug, tuple[str, ...]] = {}
        for one in self.disabled:
            if one.slug:
                found[one.slug] = (*found.get(one.slug, ()), *one.faults)
        return found

    def with_tools(self, added: Callable[[Slug], Sequence[str]]) -> "PromptLibrary":
        """The same, where workers and experts have these tools besides those that their files name."""
        found = {
            slug: agent
            if agent.kind is AgentKind.ORCHESTRATOR
            else replace(agent, tools=tuple(dict.fromkeys([*agent.tools, *added(slug)])))
            for slug, agent in self.definitions.items()
        }
        return replace(self, definitions=MappingProxyType(found))

    @property
    def orchestrator(self) -> AgentDefinition:
        """The agent that routes."""
        return next(agent for agent in self.definitions.values() if agent.kind is AgentKind.ORCHESTRATOR)

    @property
    def roster(self) -> tuple[AgentDefinition, ...]:
        """The workers and experts, with those that only other agents call."""
        return tuple(agent for agent in self.definitions.values() if agent.kind is not AgentKind.ORCHESTRATOR)

    def system_prompt(
        self,
        slug: Slug,
        phase: Phase,
        *,
        tools: Sequence[str],
        project_name: str,
        lessons: Sequence[str] = (),
        workspace_notes: str | None = None,
        skills: render.SkillLines = render.NO_SKILLS,
        place: tuple[str, str] = ("phases", ""),
        position: AgentPhaseState | None = None,
    ) -> str:
        """The system prompt of an agent; see `render.agent_values`. In the place `phases` it depends on no phase.

        `position` is its own phase and state, for an agent whose text is a template.
        """
        definition = self.definitions.get(slug)
        if definition is None or definition.kind is AgentKind.ORCHESTRATOR:
            raise InternalError(f"There is no worker or expert {slug!r} to write a prompt for.")
        if position is not None and (definition.is_templated or is_template(definition.program)):
            own = {p: rendered(text, position, phase) for p, text in definition.in_phase.items() if p is phase}
            definition = replace(definition, body=rendered(definition.body, position, phase), in_phase=own)
        values = render.agent_values(
            definition,
            self.guides[phase],
            tools=tools,
            lessons=lessons,
            workspace_notes=workspace_notes,
            skills=skills,
            project_name=project_name,
            place=place,
        )
        parts = (self.templates.render(f"fragments/{name or place[0]}.md.j2", values) for name in render.PARTS)
        return "\n\n".join(filter(None, parts)) + "\n"

    def phase_note(self, slug: Slug, phase: Phase, *, tools: Sequence[str], withheld: Sequence[str] = ()) -> Note:
        """The note on a phase for an agent: its text, and the shorter of what it permits and withholds of its tools."""
        values = render.agent_values(self.definitions[slug], self.guides[phase], tools=tools, project_name="")
        values |= {"is_note": True, "withheld": tuple(f"`{name}`" for name in withheld)}
        return Note(title=f"The phase: {phase}", text=self.templates.render(render.PHASE, values))

    def router_prompt(self, *, project_name: str, plan_approval: str = "router") -> str:
        """The router's system prompt; see `render.router_values`."""
        known = self._routers.get((project_name, plan_approval))
        if known is None:  # it is needed before every turn and never differs
            values = render.router_values(
                self.orchestrator, self.guides, project_name=project_name, plan_approval=plan_approval
            )
            known = self._routers[project_name, plan_approval] = self.templates.render(render.ROUTER, values) + "\n"
        return known


def _read(file: Traversable | Path, faults: list[str]) -> str | None:
    """The file's text, lines ending in LF; None after adding an error."""
    try:
        with file.open("rb") as opened:
            content = opened.read(LARGEST + 1)
        if len(content) <= LARGEST:
            return decode(guarded(file, content))
        faults.append(f"{file}: is larger than {LARGEST // 1024} KiB. Shorten it: every request holds it.")
    except UntrustedFolder:  # somebody else may have written it: no part of the folder is used
        raise
    except ConfigurationError as error:
        faults.extend(error.faults)
    except FileNotFoundError:
        faults.append(f"{file}: the file is missing. Restore it.")
    except OSError as error:
        faults.append(f"{file}: cannot be read: {error.strerror or error}.")
    except UnicodeDecodeError as error:
        faults.append(f"{file}: is not UTF-8 (byte {error.start}). Save it as UTF-8.")
    except ValueError as error:
        faults.append(f"{file}: {error}.")
    return None


def _entries(folder: Traversable | Path, faults: list[str], *, may_miss: bool = False) -> list[Traversable]:
    """The entries of a folder, sorted, without hidden files and editors' backups."""
    try:
        found = sorted(folder.iterdir(), key=lambda entry: entry.name)
    except OSError as error:
        if not (may_miss and isinstance(error, FileNotFoundError)):
            faults.append(f"{folder}: cannot be read as a folder: {error.strerror or error}.")
        return []
    return [entry for entry in found if not entry.name.startswith(".") and not entry.name.endswith("~")]


def _read_guides(folder: Traversable | Path, faults: list[str]) -> dict[Phase, PhaseGuide]:
    guides: dict[Phase, PhaseGuide] = {}
    for phase in Phase:
        file = folder / f"{phase}.md"
        text = _read(file, faults)
        guide = None if text is None else read_guide(phase, text, str(file), faults)
        if guide is not None:
            guides[phase] = guide
    names = {f"{phase}.md" for phase in Phase}
    faults.extend(
        f"{entry}: there is no such phase. The phases are fixed: {', '.join(Phase)}."
        for entry in _entries(folder, faults)
        if entry.name not in names
    )
    return guides


def _read_agents(
    builtin: Traversable | Path,
    overrides: Path | None,
    tools: Collection[str] | None,
    python: PythonAgents | None,
    faults: list[str],
) -> tuple[dict[Slug, AgentDefinition], tuple[DisabledAgent, ...]]:
    """The agents that can be used and the operator's files with faults; what no daemon can do without is a fault."""
    known = len(faults)
    found, broken = _read_folder(_entries(builtin / "agents", faults), tools)
    faults.extend(fault for one in broken for fault in one.faults)
    disabled: list[DisabledAgent] = []
    router = next((slug for slug, agent in found.items() if agent.kind is AgentKind.ORCHESTRATOR), None)
    if overrides is not None:
        own, disabled = _read_folder(_entries(overrides, faults, may_miss=True), tools)
        written, failed = python(overrides) if python is not None else ((), ())
        disabled += failed
        for definition in written:
            if definition.slug in _RESERVED:
                sentence = f"{definition.source}: {definition.slug} is a reserved word of routing. Rename the file."
                disabled.append(DisabledAgent(definition.slug, definition.source, (sentence,)))
            own[definition.slug] = definition
        bad = {one.slug for one in disabled}
        found |= own
        faults.extend(fault for one in disabled if one.slug == router for fault in one.faults)
        found = {slug: definition for slug, definition in found.items() if slug not in bad}
    if len(faults) > known:
        return found, tuple(disabled)  # a file that could not be read may be the one that seems missing
    routers = {slug: agent for slug, agent in found.items() if agent.kind is AgentKind.ORCHESTRATOR}
    if not routers:
        faults.append("No agent is of kind orchestrator. Give one of them `kind: orchestrator`.")
    kept = router if router in routers else next(iter(routers), None)
    surplus = {
        slug: [
            f"{agent.source}: {routers[kept].source} is the orchestrator. Keep one; to replace it, use its file name."
        ]
        for slug, agent in routers.items()
        if kept is not None and slug != kept
    }
    found, disabled = _usable(found, disabled, surplus, faults)
    return found, tuple(disabled)


def _usable(
    found: dict[Slug, AgentDefinition],
    disabled: list[DisabledAgent],
    wrong: Mapping[Slug, Sequence[str]],
    faults: list[str],
) -> tuple[dict[Slug, AgentDefinition], list[DisabledAgent]]:
    """The agents without those that are wrong, and without those that call one of them; with sub-agents described."""
    while True:
        for slug, sentences in wrong.items():
            definition = found.pop(slug)
            disabled.append(DisabledAgent(slug, definition.source, tuple(sentences)))
        linked, wrong = _linked(found, {one.slug for one in disabled})
        if not wrong:
            break
    found |= linked
    routers = [agent for agent in found.values() if agent.kind is AgentKind.ORCHESTRATOR]
    if not routers:
        faults.extend(fault for one in disabled for fault in one.faults if fault not in faults)
    elif len(found) == len(routers):
        faults.append("There is no worker and no expert to route to. Add an agent.")
        faults.extend(fault for one in disabled for fault in one.faults)
    return found, disabled


def _linked(
    found: Mapping[Slug, AgentDefinition], disabled: Collection[Slug]
) -> tuple[dict[Slug, AgentDefinition], dict[Slug, list[str]]]:
    """The agents that have sub-agents, with a description of each; and the faults of those that call who cannot be."""
    linked: dict[Slug, AgentDefinition] = {}
    wrong: dict[Slug, list[str]] = {}
    for slug, definition in found.items():
        program = definition.program
        if program is None or not program.links:
            continue
        links: dict[str, Link] = {}
        faults: list[str] = []
        for name, link in program.links.items():
            callee = found.get(link.agent)
            where = f"{definition.source}:{definition.link_lines.get(name, 1)}"
            if link.agent in disabled:
                faults.append(f"{where}: its sub-agent {link.agent} is disabled. Fix that one first.")
            elif callee is None:
                known = [str(other) for other in found if other != slug]
                faults.append(f"{where}: there is no agent {str(link.agent)!r}. {choices(link.agent, known)}")
            elif link.agent == slug:
                faults.append(f"{where}: an agent cannot be its own sub-agent. Remove it.")
            elif callee.kind is AgentKind.ORCHESTRATOR:
                faults.append(f"{where}: {link.agent} is an orchestrator and cannot be a sub-agent. Remove it.")
            else:
                about = f"Asks {callee.name}, who {callee.role}. Use it when {callee.use_when}."
                links[name] = replace(link, description=link.description or about)
        if faults:
            wrong[slug] = faults
        linked[slug] = replace(definition, program=replace(program, links=links))
    return linked, wrong


def _read_folder(
    entries: Sequence[Traversable], tools: Collection[str] | None
) -> tuple[dict[Slug, AgentDefinition], list[DisabledAgent]]:
    """The agents of Markdown files; a file with a fault, and another file of the same agent, gives none."""
    found: dict[Slug, AgentDefinition] = {}
    disabled: list[DisabledAgent] = []
    files: dict[str, str] = {}
    for file in entries:
        if file.name.endswith(".py") or file.name == "__pycache__":  # agents in Python, and states of output
            continue
        if not file.name.endswith(".md"):
            sentence = f"{file}: is not an agent. Agents are Markdown files, `<slug>.md`, directly in this folder."
            disabled.append(DisabledAgent(Slug(""), str(file), (sentence,)))
            continue
        faults: list[str] = []
        word = file.name.removesuffix(".md")
        slug = Slug("-".join(re.findall(r"[a-z0-9]+", word.lower())))
        if not _KEBAB.fullmatch(word):
            advice = f"Rename the file to {slug}.md." if slug else "Name it by lower-case words joined with hyphens."
            faults.append(f"{file}: {word!r} is not kebab-case. {advice}")
        if slug in _RESERVED:
            faults.append(f"{file}: {word!r} is a reserved word of routing. Choose another name.")
        if slug and slug in files:
            faults.append(f"{file}: is the same agent as {files[slug]}. Keep one, or rename it.")
        files[slug] = str(file)
        text = _read(file, faults)
        definition = None if text is None else read_agent(slug, text, str(file), tools, faults)
        if faults:
            disabled.append(DisabledAgent(slug, str(file), tuple(faults)))
        elif definition is not None:
            found[slug] = definition
    bad = {one.slug for one in disabled}
    return {slug: definition for slug, definition in found.items() if slug not in bad}, disabled


def _read_templates(builtin: Traversable | Path, faults: list[str]) -> Templates:
    sources: dict[str, Source] = {}
    for name in (*render.FRAGMENTS, render.ROUTER):
        file = builtin / name
        text = _read(file, faults)
        if text is not None:
            sources[name] = Source(text, str(file))
    faults.extend(
        f"{entry}: no prompt uses this fragment. The fragments are: {', '.join(render.FRAGMENTS)}."
        for entry in _entries(builtin / "fragments", faults)
        if f"fragments/{entry.name}" not in render.FRAGMENTS
    )
    templates, wrong = _checked_templates(tuple(sources.items()))
    faults.extend(wrong)
    return templates


@lru_cache(maxsize=4)
def _checked_templates(sources: tuple[tuple[str, Source], ...]) -> tuple[Templates, tuple[str, ...]]:
    """The templates and their faults; to render them with all samples takes 30 ms, and they rarely change."""
    templates = Templates(dict(sources))
    faults: list[str] = []
    for name, _ in sources:
        faults.extend(templates.faults(name, _router_samples() if name == render.ROUTER else _agent_samples()))
    return templates, tuple(faults)


def _sample(kind: AgentKind) -> AgentDefinition:
    return AgentDefinition(slug=Slug("sample"), name="Sample", role="is a sample", kind=kind, body="Be a sample.")


_SAMPLE_GUIDES: Final = {
    phase: PhaseGuide(phase=phase, purpose="A purpose.", enter="A condition.", text="A text.") for phase in Phase
}


def _agent_samples() -> list[dict[str, Any]]:
    """Values for every phase, once with everything and once with nothing optional."""
    samples: list[dict[str, Any]] = []
    for phase, guide in _SAMPLE_GUIDES.items():
        everything = render.agent_values(
            replace(_sample(AgentKind.WORKER), in_phase={phase: "Instructions for this phase."}),
            guide,
            tools=("complete", "ask"),
            lessons=("One.",),
            workspace_notes="Notes.",
            skills=render.SkillLines(("- `a`: One.",), ("- `b`: Two.",)),
            project_name="sample",
        )
        samples += [{**everything, "place": place, "name": "sample"} for place in render.PLACES]
        samples.append({**everything, "is_note": True})
        samples.append(render.agent_values(_sample(AgentKind.EXPERT), guide, tools=(), project_name=""))
    return samples


def _router_samples() -> list[dict[str, Any]]:
    router = _sample(AgentKind.ORCHESTRATOR)
    return [
        render.router_values(router, _SAMPLE_GUIDES, project_name="sample", plan_approval=approval)
        for approval in ("router", "person")
    ]
