"""Reads an agent from Markdown: front matter says what it is, the body says how it works.

    ---
    name: Reviewer
    role: reads code as its next maintainer
    kind: expert
    use_when: a change deserves a second pair of eyes
    phases: [verification]
    tools: [read_file]
    ---
    You review ...

    ## In verification

    Only an agent that works in verification is told this.

Never: treat an agent's text as a template; `{{ }}` in it is what it looks like.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final

import yaml

from tenex.core.ids import PublicKey, Slug
from tenex.core.phases import Phase
from tenex.core.roster import Agent, Kind

from .markdown import sections
from .states import PYTHON, OutputDefinition, read_output

GIVEN: Final = frozenset({"complete", "ask", "learn"})
"""Tools that every agent gets from code where the phase permits them; naming them is needless, and no fault."""

_REQUIRED = ("name", "role", "kind", "use_when")
_TEXTS = (*_REQUIRED, "model")
_LISTS = ("phases", "tools")
_OUTPUT = "output"
_NULL = "tag:yaml.org,2002:null"


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
            slug=self.slug, name=self.name, pubkey=pubkey, kind=self.kind, role=self.role, use_when=self.use_when,
            phases=self.phases, tools=frozenset({*self.tools, *runs}), model=model or self.model,
        )  # fmt: skip


@dataclass(slots=True)
class _Reading:
    """One file being read: where it is, what was found, what is wrong with it."""

    source: str
    faults: list[str]
    texts: dict[str, str] = field(default_factory=dict)
    lists: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    output: OutputDefinition | None = None

    def fault(self, line: int, sentence: str) -> None:
        self.faults.append(f"{self.source}:{line}: {sentence}")


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
    reading = _Reading(source, faults)
    lines = text.split("\n")
    end = next((index for index, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), None)
    if lines[0].rstrip() != "---" or end is None:
        reading.fault(1, "there is no front matter. Begin with `---`, one `key: value` a line, and `---` again.")
        return None
    _read_front(reading, "\n".join(lines[1:end]))
    kind = _kind(reading)
    phases = _phases(reading)
    named = _tools(reading, kind, tools)
    if kind is Kind.ORCHESTRATOR and reading.output is not None:
        reading.fault(reading.lines[_OUTPUT], "an orchestrator decides and has no states of output. Remove them.")
    body, in_phase = _read_body(reading, "\n".join(lines[end + 1 :]), end + 2)
    if len(faults) > known or kind is None:
        return None
    return AgentDefinition(
        slug=slug, kind=kind, phases=phases, tools=named, body=body, in_phase=in_phase, source=source,
        name=reading.texts["name"], role=reading.texts["role"], use_when=reading.texts.get("use_when", ""),
        model=reading.texts.get("model", ""), output=reading.output,
    )  # fmt: skip


def _read_front(reading: _Reading, front: str) -> None:
    """Read the keys off YAML's node tree: it knows the lines, keeps doubled keys, and runs no constructor."""
    try:
        tree = yaml.compose(front, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or "a character that YAML does not permit"
        reading.fault(
            mark.line + 2 if mark else 1, f"the front matter is no YAML: {what}. Put values that hold `: ` in quotes."
        )
        tree = yaml.MappingNode("", [])
        reading.lines = dict.fromkeys(_REQUIRED, 1)  # what could not be read is not missing as well
    if not isinstance(tree, yaml.MappingNode):
        reading.fault(1, "the front matter must be lines of `key: value`.")
        return
    for key, value in tree.value:
        _read_pair(reading, key, value)
    routes = reading.texts.get("kind", "").lower() == Kind.ORCHESTRATOR  # nobody routes to the one that routes
    for name in _REQUIRED:
        if name not in reading.lines and not (name == "use_when" and routes):
            reading.fault(1, f"`{name}` is missing in the front matter. Add it.")


def _read_pair(reading: _Reading, key: yaml.Node, value: yaml.Node) -> None:
    line = key.start_mark.line + 2  # after the `---`, counted from 1
    name = key.value if isinstance(key, yaml.ScalarNode) else ""
    if name in reading.lines:
        reading.fault(line, f"`{name}` stands there twice, first in line {reading.lines[name]}. Keep one.")
    elif name in _TEXTS:
        reading.lines[name] = line
        if not isinstance(value, yaml.ScalarNode):
            reading.fault(line, f"`{name}` must be a text.")
        elif value.tag != _NULL and value.value.strip():
            reading.texts[name] = " ".join(value.value.split())
        elif name != "model":
            reading.fault(line, f"`{name}` is empty. Say what it is.")
    elif name in _LISTS:
        reading.lines[name] = line
        items = value.value if isinstance(value, yaml.SequenceNode) else None
        if items is None or not all(isinstance(item, yaml.ScalarNode) for item in items):
            reading.fault(line, f"`{name}` must be a list of words, such as `{name}: [a, b]`.")
        else:
            reading.lists[name] = [(item.value.strip(), item.start_mark.line + 2) for item in items]
    elif name == _OUTPUT:
        reading.lines[name] = line
        reading.output = read_output(value, reading.fault)
    else:
        reading.fault(line, f"`{name}` is no key of an agent. {_choices(name, (*_TEXTS, *_LISTS, _OUTPUT))}")


def _choices(word: str, known: Iterable[str]) -> str:
    names = sorted(known)
    near = get_close_matches(word.lower(), names, n=1)
    meant = f"Did you mean `{near[0]}`? " if near else ""
    return f"{meant}There are: {', '.join(names) or 'none'}."


def _kind(reading: _Reading) -> Kind | None:
    word = reading.texts.get("kind")
    if word is None:
        return None
    try:
        return Kind(word.lower())
    except ValueError:
        reading.fault(reading.lines["kind"], f"{word!r} is no kind of agent. {_choices(word, Kind)}")
        return None


def _phases(reading: _Reading) -> tuple[Phase, ...]:
    found: dict[Phase, None] = {}
    for word, line in reading.lists.get("phases", ()):
        phase = Phase.parse(word)
        if phase is None:
            reading.fault(line, f"{word!r} is no phase. {_choices(word, Phase)}")
        else:
            found[phase] = None
    return tuple(found)


def _tools(reading: _Reading, kind: Kind | None, tools: Collection[str] | None) -> tuple[str, ...]:
    named = reading.lists.get("tools", [])
    if kind is Kind.ORCHESTRATOR and named:
        reading.fault(reading.lines["tools"], "an orchestrator has no tools: it routes and never works. Remove them.")
    for word, line in named:
        if tools is not None and word not in tools and word not in GIVEN:
            reading.fault(line, f"there is no tool {word!r}. {_choices(word, set(tools) - GIVEN)}")
    return tuple(dict.fromkeys(word for word, _ in named))


def _read_body(reading: _Reading, body: str, first_line: int) -> tuple[str, dict[Phase, str]]:
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
                f"`## {section.heading}` names no phase. {_choices(words[1], Phase)} "
                "If it was not meant to, let the heading begin with another word than `In`.",
            )
        elif phase in in_phase:
            reading.fault(section.line, f"`## {section.heading}` stands there twice. Keep one.")
        elif not section.text:
            reading.fault(section.line, f"nothing stands under `## {section.heading}`. Say something, or remove it.")
        else:
            in_phase[phase] = section.text
    text = "\n\n".join(part for part in general if part)
    if not text:
        reading.fault(first_line, "the agent has no instructions. Say after the front matter who it is.")
    return text, in_phase
