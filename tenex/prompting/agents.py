"""Reads an agent from Markdown: front matter says what it is, the body says how it works.

    ---
    name: Reviewer
    role: reads code as its next maintainer
    kind: expert
    use_when: a change deserves a second pair of eyes
    in_phases: [verification]
    tools: [read_file]
    ---
    You review ...

    ## In verification

    Only an agent that works in verification is told this.

Phases, state and colleagues of its own: `programs`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tenex.core.config import Agent, Kind, ToolRule
from tenex.core.ids import PublicKey, Slug
from tenex.core.phases import Phase
from tenex.core.state.agent import Program

from .agent_phases import read_own
from .agent_templates import faults_of_words, is_template, shows_state
from .frontmatter import NESTED, Front, choices
from .markdown import sections
from .states import PYTHON, OutputDefinition, read_output

GIVEN: Final = frozenset({"complete", "ask", "learn"})
"""Tools that every agent gets from code where the phase permits them; naming them is needless, and no fault."""

_REQUIRED = ("name", "role", "kind", "use_when")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDefinition:
    """An agent as its file describes it; it has no key yet."""

    slug: Slug
    name: str
    role: str
    kind: Kind
    use_when: str = ""
    phases: tuple[Phase, ...] = ()
    """Where it usually works; empty means anywhere."""
    tools: tuple[str, ...] = ()
    program: Program | None = None
    """Its own phases and state, and its colleagues; with phases or state its words are templates."""
    is_templated: bool = False
    """Whether its words are templates without phases and state too: of one written in Python."""
    input: str = ""
    """The template of what it is told as its part; empty to tell it as it is."""
    methods: Mapping[str, ToolRule] = field(default_factory=dict)
    """Tools that only it has: the methods of one written in Python."""
    is_called_only: bool = False
    """Whether only other agents call it: a class that another agent's Python file links."""
    link_lines: Mapping[str, int] = field(default_factory=dict)
    """Where its file names its colleagues, by the tools that call them."""
    model: str = ""
    output: OutputDefinition | None = None
    """The states its answers are made of; None where it answers as its model does."""
    body: str
    """Identity and instructions, without the sections for single phases."""
    in_phase: Mapping[Phase, str] = field(default_factory=dict)
    """What it is told in that phase only."""
    source: str = ""
    """The file it was read from."""

    def agent(self, pubkey: PublicKey, model: str = "") -> Agent:
        """The member of the roster this makes; `model` outranks the one in the file."""
        runs = {PYTHON} if self.output is not None and PYTHON in self.output.act else set()
        return Agent(
            slug=self.slug,
            name=self.name,
            pubkey=pubkey,
            kind=self.kind,
            role=self.role,
            use_when=self.use_when,
            phases=self.phases,
            tools=frozenset({*self.tools, *runs}),
            model=model or self.model,
            program=self.program,
            methods=self.methods,
            is_called_only=self.is_called_only,
        )


def read_agent(
    slug: Slug, text: str, source: str, tools: Collection[str] | None, faults: list[str]
) -> AgentDefinition | None:
    """Read an agent's file; whatever is wrong with it is added to `faults`, and then there is no definition.

    Args:
        slug: The name of the file without `.md`.
        text: What the file holds; lines end in LF.
        source: The file's name, for faults.
        tools: Every tool there is, switched on or not; None leaves the names unchecked.
        faults: Grows by one sentence per fault.
    """
    known = len(faults)
    reading = Front(source, faults)
    lines = text.split("\n")
    end = next((index for index, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), None)
    if lines[0].rstrip() != "---" or end is None:
        reading.fault(1, "there is no front matter. Begin with `---`, one `key: value` a line, and `---` again.")
        return None
    _read_front(reading, "\n".join(lines[1:end]))
    kind = _kind(reading)
    phases = _phases(reading)
    own = read_own(reading, tools, GIVEN)
    output = read_output(reading.nodes["output"], reading.fault) if "output" in reading.nodes else None
    _check_kind(reading, kind)
    body, in_phase, begins = _read_body(reading, "\n".join(lines[end + 1 :]), end + 2)
    if len(faults) > known or kind is None:
        return None
    definition = AgentDefinition(
        slug=slug,
        kind=kind,
        phases=phases,
        tools=own.tools,
        program=own.program,
        input=own.input,
        link_lines=own.lines,
        body=body,
        in_phase=in_phase,
        source=source,
        name=reading.texts["name"],
        role=reading.texts["role"],
        use_when=reading.texts.get("use_when", ""),
        model=reading.texts.get("model", ""),
        output=output,
    )
    if own.program is not None and is_template(own.program):
        first = next((number for number, line in enumerate(lines[end + 1 :], end + 2) if line.strip()), end + 2)
        words = {"body": (body, first), **{f"in {phase}": (told, begins[phase]) for phase, told in in_phase.items()}}
        given = {"input": (own.input, reading.lines["input"])} if own.input else {}
        if found := tuple(faults_of_words(own.program, source, words | given)):
            faults.extend(found)
            return None
        program = replace(own.program, shows_state=shows_state((body, *in_phase.values())))
        return replace(definition, program=program)
    if own.input:
        reading.fault(reading.lines["input"], "`input` is a template for agents with `phases` or `state`. Add them.")
    return definition if len(faults) == known else None


def _read_front(reading: Front, text: str) -> None:
    if not reading.read(text, _REQUIRED):
        return
    routes = reading.texts.get("kind", "").lower() == Kind.ORCHESTRATOR  # nobody routes to the one that routes
    for name in _REQUIRED:
        if name not in reading.lines and not (name == "use_when" and routes):
            reading.fault(1, f"`{name}` is missing in the front matter. Add it.")


def _kind(reading: Front) -> Kind | None:
    word = reading.texts.get("kind")
    if word is None:
        return None
    try:
        return Kind(word.lower())
    except ValueError:
        reading.fault(reading.lines["kind"], f"{word!r} is no kind of agent. {choices(word, Kind)}")
        return None


def _phases(reading: Front) -> tuple[Phase, ...]:
    found: dict[Phase, None] = {}
    for word, line in reading.lists.get("in_phases", ()):
        phase = Phase.parse(word)
        if phase is None:
            reading.fault(line, f"{word!r} is no phase. {choices(word, Phase)}")
        else:
            found[phase] = None
    return tuple(found)


def _check_kind(reading: Front, kind: Kind | None) -> None:
    """An orchestrator has none of what workers have."""
    for key in NESTED if kind is Kind.ORCHESTRATOR else ():
        node = reading.nodes.get(key)
        if node is not None and node.value:
            reading.fault(reading.lines[key], f"an orchestrator has no {key}: it routes and never works. Remove them.")


def _read_body(reading: Front, body: str, first_line: int) -> tuple[str, dict[Phase, str], dict[Phase, int]]:
    """The words for all phases, those for single ones, and the lines in which the latter begin."""
    begins: dict[Phase, int] = {}
    general: list[str] = []
    in_phase: dict[Phase, str] = {}
    for section in sections(body, first_line):
        words = section.heading.split(maxsplit=1)
        if section.level != 2 or len(words) < 2 or words[0] != "In":
            general.append(section.source)
            continue
        phase = Phase.parse(words[1])
        if phase is None:
            reading.fault(
                section.line,
                f"`## {section.heading}` names no phase. {choices(words[1], Phase)} "
                "If it was not meant to, let the heading begin with another word than `In`.",
            )
        elif phase in in_phase:
            reading.fault(section.line, f"`## {section.heading}` stands there twice. Keep one.")
        elif not section.text:
            reading.fault(section.line, f"nothing stands under `## {section.heading}`. Say something, or remove it.")
        else:
            in_phase[phase] = section.text
            blank = section.source.split("\n", 1)[1]
            begins[phase] = section.line + 1 + len(blank) - len(blank.lstrip("\n"))
    text = "\n\n".join(part for part in general if part)
    if not text:
        reading.fault(first_line, "the agent has no instructions. Say after the front matter who it is.")
    return text, in_phase, begins
