"""Reads an agent from Markdown: the front matter describes it, the body is its instructions.

    ---
    name: Reviewer
    role: reads code as its next maintainer
    kind: expert
    use_when: a change needs a second opinion
    in_phases: [verification]
    tools: [read_file]
    ---
    You review ...

    ## In verification

    Only in verification is this part of the prompt.

All keys: `frontmatter`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tenex.core.agent_phases.program import Program
from tenex.core.config import Agent, AgentKind, ToolRule
from tenex.core.ids import PublicKey, Slug
from tenex.core.phases import Phase
from tenex.core.text.foreign import trimmed
from tenex.core.work.tool_names import PROGRAM_CALL

from .agent_phases import is_template, read_program, shows_state, template_faults
from .frontmatter import NOT_OF_PROGRAMS, WORKER_KEYS, FrontMatterReader, OutputTable, choices
from .markdown import sections

ALWAYS_OFFERED: Final = frozenset({"complete", "ask", "learn", "search_conversation"})
"""Tools that every agent has where the phase permits them; naming them is allowed and changes nothing."""
ACP_TOOLS: Final = frozenset({PROGRAM_CALL, "acp_permission"})
"""The tools as which the calls of an agent that is a program of others, and its requests, are recorded."""
PYTHON: Final = "python"
"""The output state whose programs the tool of the same name runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputDefinition:
    """The output states of an agent: names of built-in ones, `file.py:Class`, `package.module:Class`, or classes."""

    plan: tuple[str | type, ...]
    act: tuple[str | type, ...]
    least: int | None
    """Planning states in one answer at least; None is one, if there are any."""
    most: int
    line: int = 1
    """Of the file, for errors that are found later."""

    @classmethod
    def of(cls, table: OutputTable, line: int = 1) -> "OutputDefinition":
        """Without planning states, or with none permitted, there are neither."""
        most = table.most if table.plan else 0
        return cls(plan=table.plan if most else (), act=table.act, least=table.least, most=most, line=line)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcpProgram:
    """The program that an agent is; the fields as in `frontmatter.AcpTable`."""

    command: tuple[str, ...]
    version: str = ""
    mode: str = ""
    model: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    pass_env: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDefinition:
    """An agent as its file describes it; it has no key yet."""

    slug: Slug
    name: str
    role: str
    kind: AgentKind
    use_when: str = ""
    phases: tuple[Phase, ...] = ()
    """Where it usually works; empty means anywhere."""
    tools: tuple[str, ...] = ()
    program: Program | None = None
    """Its own phases, state and sub-agents; with phases or state its text is a template."""
    is_templated: bool = False
    """Whether its text is a template even without phases and state: for an agent written in Python."""
    input: str = ""
    """The template of its task; empty to pass the task on as it is."""
    methods: Mapping[str, ToolRule] = field(default_factory=dict)
    """Tools that only it has: the methods of an agent written in Python."""
    is_called_only: bool = False
    """Whether only other agents call it: a class linked from another agent's Python file."""
    link_lines: Mapping[str, int] = field(default_factory=dict)
    """The line of the file that names each sub-agent, by the tool that calls it."""
    model: str = ""
    output: OutputDefinition | None = None
    """The states its answers are made of; None for plain answers of the model."""
    body: str
    """Identity and instructions, without the sections for single phases."""
    in_phase: Mapping[Phase, str] = field(default_factory=dict)
    """Instructions for single phases."""
    source: str = ""
    """The file it was read from."""
    acp: AcpProgram | None = None
    """The program that it is, where it is one of others; None for an agent that a model answers for."""
    origin: Mapping[str, str] = field(default_factory=dict)
    """Of one that others have published: `author`, `event` and `name` of the definition."""

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
            has_output_states=self.output is not None,
            is_program=self.acp is not None,
            is_called_only=self.is_called_only,
        )


def read_agent(
    slug: Slug, text: str, source: str, tools: Collection[str] | None, faults: list[str]
) -> AgentDefinition | None:
    """Read an agent's file; None if there was an error.

    Args:
        slug: The name of the file without `.md`.
        text: The file's text; lines end in LF.
        source: The file's name, for errors.
        tools: Every tool there is, switched on or not; None leaves the names unchecked.
        faults: Grows by one sentence per error.
    """
    known = len(faults)
    reader = FrontMatterReader(source, faults)
    lines = text.split("\n")
    end = next((index for index, line in enumerate(lines[1:], 1) if trimmed(line) == "---"), None)
    if trimmed(lines[0]) != "---" or end is None:
        reader.fault(1, "there is no front matter. Begin with `---`, one `key: value` a line, and `---` again.")
        return None
    front = reader.read("\n".join(lines[1:end]))
    texts = _read_body(reader, "\n".join(lines[end + 1 :]), end + 2)
    if front is None:
        return None
    program = read_program(front, reader, tools, ALWAYS_OFFERED)
    for key in WORKER_KEYS if front.kind is AgentKind.ORCHESTRATOR else ():
        if getattr(front, key):
            reader.fault((key,), f"an orchestrator has no {key}: it routes and never works. Remove them.")
    for key in NOT_OF_PROGRAMS if front.acp is not None else ():
        if getattr(front, key):
            reader.fault((key,), f"an agent with `acp` has no {key}: the program decides that. Remove one of them.")
    if len(faults) > known:
        return None
    if is_template(program):
        assert program is not None
        more = {"input": (front.input, reader.line(("input",)))} if front.input else {}
        faults.extend(template_faults(program, source, {str(name): text for name, text in texts.items()} | more))
        if len(faults) > known:
            return None
        program = replace(program, shows_state=shows_state(text for text, _ in texts.values()))
    elif front.input:
        reader.fault(("input",), "`input` is a template for agents with `phases` or `state`. Add one of them.")
        return None
    of_program = sorted(ACP_TOOLS) if front.acp is not None else ()
    return AgentDefinition(
        slug=slug,
        name=front.name,
        role=front.role,
        kind=front.kind,
        use_when=front.use_when,
        phases=tuple(dict.fromkeys(front.in_phases)),
        tools=tuple(dict.fromkeys([*(name for item in front.tools for name in item), *of_program])),
        program=program,
        input=front.input,
        link_lines={
            f"ask_{name.replace('-', '_')}": reader.line(("agents", index, name))
            for index, item in enumerate(front.agents)
            for name in item
        },
        model=front.model,
        output=None if front.output is None else OutputDefinition.of(front.output, reader.line(("output",))),
        body=texts[""][0],
        in_phase={phase: text for phase, (text, _) in texts.items() if isinstance(phase, Phase)},
        source=source,
        acp=None if front.acp is None else AcpProgram(**front.acp.model_dump()),
        origin=front.origin.model_dump() if front.origin is not None else {},
    )


def _read_body(reader: FrontMatterReader, body: str, first_line: int) -> dict[Phase | str, tuple[str, int]]:
    """The text for single phases, and under "" the rest; each with the line in which it begins."""
    general: list[str] = []
    texts: dict[Phase | str, tuple[str, int]] = {}
    for section in sections(body, first_line):
        words = section.heading.split(maxsplit=1)
        if section.level != 2 or len(words) < 2 or words[0] != "In":
            general.append(section.source)
            continue
        phase = Phase.parse(words[1])
        if phase is None:
            reader.fault(
                section.line,
                f"`## {section.heading}` names no phase. {choices(words[1], Phase)} "
                "If no phase is meant, begin the heading with another word than `In`.",
            )
        elif phase in texts:
            reader.fault(section.line, f"`## {section.heading}` appears twice. Keep one.")
        elif not section.text:
            reader.fault(section.line, f"`## {section.heading}` is empty. Write something under it, or remove it.")
        else:
            blank = section.source.split("\n", 1)[1]
            texts[phase] = (section.text, section.line + 1 + len(blank) - len(blank.lstrip("\n")))
    text = "\n\n".join(part for part in general if part)
    if not text:
        reader.fault(first_line, "the agent has no instructions. Write after the front matter who it is.")
    above = body[: len(body) - len(body.lstrip())]
    texts[""] = (text, first_line + above.count("\n"))
    return texts
