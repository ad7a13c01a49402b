"""An agent's own phases and state: conditions, the program made of front matter, and its text as templates.

Conditions are Jinja expressions over the state: `plan`, `state.plan`, `phase`, `conversation.phase`. The text of an
agent with phases or state is a template with the same names; the template of its task sees the task as `message` too.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property, lru_cache
from typing import Any, Final, TypeVar

from jinja2 import Template, TemplateSyntaxError, meta

from tenex.core.agent_phases.program import AgentPhaseState, Link, Program, Scope
from tenex.core.graph import Edge, TransitionGraph
from tenex.core.ids import Slug
from tenex.core.phases import Phase
from tenex.core.work.tool_names import server_of
from tenex.log import get_logger

from .frontmatter import FrontMatter, FrontMatterReader, Location, ToolTable, choices
from .templates import MISTAKES, Source, Templates, sandbox

log = get_logger(__name__)

_ENVIRONMENT: Final = sandbox()
_Table = TypeVar("_Table", bound=ToolTable)


@dataclass(frozen=True)
class Expression:
    """A condition as it was written; two are equal if their text is."""

    text: str

    @cached_property
    def _compiled(self) -> Any:
        return _ENVIRONMENT.compile_expression(self.text, undefined_to_none=False)

    def holds(self, facts: Any) -> bool:
        """Whether it is true of these values."""
        return bool(self._compiled(**facts))


def values(agent_state: AgentPhaseState, conversation: Phase | None) -> dict[str, Any]:
    """The variables that conditions and templates of an agent see."""
    phase = None if conversation is None else str(conversation)
    history = [{"source": move.source, "target": move.target, "at": move.at} for move in agent_state.history]
    state = {"history": history, **agent_state.values, "phase": agent_state.phase}
    return {**agent_state.values, "state": state, "phase": agent_state.phase, "conversation": {"phase": phase}}


# ---- the program ----


def read_program(
    front: FrontMatter, reader: FrontMatterReader, tools: Collection[str] | None, always: Collection[str]
) -> Program | None:
    """The phases, state, scoped tools and sub-agents of an agent; None if it has none of them.

    Args:
        front: Its front matter.
        reader: Takes errors.
        tools: Every tool there is; None leaves the names unchecked.
        always: Those every agent has, which need not be named.
    """
    graph = _graph(front, reader)
    phases = tuple(map(str, graph.nodes)) if graph is not None else ()

    def scope(table: ToolTable, at: Location) -> Scope:
        for name in table.phases:
            if name not in phases:
                sentence = f"{name!r} is none of the agent's own phases. {choices(name, phases)}"
                reader.fault((*at, "phases"), sentence)
        return Scope(phases=frozenset(table.phases), when=_condition(table.when, front, reader, (*at, "when")))

    scopes: dict[str, Scope] = {}
    for at, name, table in _named("tools", front.tools, reader):
        if tools is not None and name not in tools and name not in always and not server_of(name):
            reader.fault(at, f"there is no tool {name!r}. {choices(name, set(tools) - set(always))}")
        if table.model_fields_set:
            scopes[name] = scope(table, at)
    links: dict[str, Link] = {}
    for at, name, call in _named("agents", front.agents, reader):
        links[tool := f"ask_{name.replace('-', '_')}"] = Link(
            agent=Slug(name), description=call.description, scope=scope(call, at), is_shared=call.shared
        )
        if tools is not None and tool in tools:
            reader.fault(at, f"{tool} is a tool already and cannot be a sub-agent's too. Rename the agent.")
    if graph is None and not front.state and not scopes and not links:
        return None
    return Program(
        graph=graph,
        defaults={name: one.initial for name, one in front.state.items()},
        schema={name: one.schema_ for name, one in front.state.items()},
        look=values,
        scopes=scopes,
        links=links,
        is_settable=bool(front.state),
        has_triggers=front.triggers,
    )


def _named(
    key: str, items: Iterable[Mapping[str, _Table]], reader: FrontMatterReader
) -> Iterator[tuple[Location, str, _Table]]:
    """Each name with its table; a repeated name is an error where a table names phases, as none could win."""
    known: dict[str, _Table] = {}
    for index, item in enumerate(items):
        for name, table in item.items():
            at = (key, index, name) if (key, index, name) in reader.lines else (key, index)
            if name in known and (table.model_fields_set or known[name].model_fields_set):
                reader.fault(at, f"`{name}` appears in `{key}` twice. Keep one, with the phases of both.")
            known[name] = table
            yield at, name, table


def _graph(front: FrontMatter, reader: FrontMatterReader) -> TransitionGraph | None:
    if not front.phases:
        return None
    edges = []
    for index, (source, target, text) in enumerate(front.phases):
        when = _condition(text, front, reader, ("phases", index, 2))
        edges.append(Edge(source, target, when, label=when.text if when is not None else ""))
    names = tuple(dict.fromkeys(name for source, target, _ in front.phases for name in (source, target)))
    # an agent may end its work in any of its phases
    graph = TransitionGraph(nodes=names, initial=names[0], edges=tuple(edges), terminal=frozenset(names))
    faults = list(graph.faults(by_rules=not front.triggers))
    pairs: dict[str, Edge] = {}
    for edge in edges if front.triggers else ():
        one = pairs.setdefault(name := f"{edge.source}_to_{edge.target}", edge)
        if one.source != edge.source:
            faults.append(
                f"{one.source} -> {one.target} and {edge.source} -> {edge.target} would both be the trigger {name}. "
                "Rename a phase."
            )
    entered = {edge.target for edge in edges}
    left = {edge.source for edge in edges}
    faults += [
        f"nothing leads to {names[0]} and nothing leads out of {name}. If they are one phase, spell it in one way; if "
        "not, give them names that differ more."
        for name in names
        if names[0] not in entered and name not in left and _is_misspelled(name, names[0])
    ]
    for sentence in faults:
        reader.fault(("phases",), f"`phases`: {sentence}")
    return graph


def _is_misspelled(name: str, other: str) -> bool:
    """Whether two names are probably one; numbered (`step_1`, `part_b`) and short ones (`read`, `ready`) are not."""
    one = name.lower().replace("-", "_")
    two = other.lower().replace("-", "_")
    if one == two:
        return True
    if min(len(one), len(two)) < 6 or abs(len(one) - len(two)) > 1 or re.search(r"\d|_.\b", f"{one} {two}"):
        return False
    return SequenceMatcher(None, one, two).ratio() > 0.85


def _condition(text: str | None, front: FrontMatter, reader: FrontMatterReader, at: Location) -> Expression | None:
    if text is None:
        return None
    if not text:
        reader.fault(at, "a condition must be an expression, such as `data|length >= 3`.")
        return None
    try:
        _ENVIRONMENT.compile_expression(text)
        unknown = meta.find_undeclared_variables(_ENVIRONMENT.parse(f"{{{{ {text} }}}}"))
    except TemplateSyntaxError as error:
        reader.fault(at, f"the condition {text!r} is not an expression: {error.message}.")
        return None
    known = {*front.state, "state", "phase", "conversation"}
    for name in sorted(unknown - known):
        reader.fault(at, f"the condition {text!r} names {name!r}. {choices(name, known)}")
    return Expression(text)


# ---- text as templates ----


def is_template(program: Program | None) -> bool:
    """Whether the text of an agent with that program is a template."""
    return program is not None and (program.graph is not None or bool(program.defaults))


def shows_state(texts: Iterable[str]) -> bool:
    """Whether valid templates use more of an agent's state than its phase."""
    named = set().union(*(meta.find_undeclared_variables(_ENVIRONMENT.parse(text)) for text in texts))
    return not named <= {"phase", "conversation"}


def rendered(text: str, position: AgentPhaseState, conversation: Phase, **more: Any) -> str:
    """The text, rendered; as it was written if that fails with this state."""
    try:
        return _compiled(text).render({**values(position, conversation), **more}).strip()
    except MISTAKES as error:  # its state is not like the samples of `template_faults`
        log.warning("prompt.not_rendered", reason=str(error), phase=position.phase)
        return text


@lru_cache(maxsize=256)
def _compiled(text: str) -> Template:
    return _ENVIRONMENT.from_string(text)


def template_faults(program: Program, source: str, texts: Mapping[str, tuple[str, int]]) -> Iterator[str]:
    """Errors of templates, each given with its first line: they are rendered in every phase with the defaults.

    Only the text named `input` sees `message`.
    """
    nodes = program.graph.nodes if program.graph is not None else ("",)
    samples = [values(AgentPhaseState(phase=node, values=program.defaults), phase) for node in nodes for phase in Phase]
    templates = Templates({name: Source("\n" * (line - 1) + text, source) for name, (text, line) in texts.items()})
    for name in texts:
        more = {"message": "A message."} if name == "input" else {}
        yield from templates.faults(name, [{**sample, **more} for sample in samples])
