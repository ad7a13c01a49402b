"""Agents written in Python, as the daemon has them: how they are described, and their methods as tools."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from tenex.core.config import AgentKind
from tenex.core.errors import ConfigurationError
from tenex.core.ids import Slug
from tenex.core.phases import Phase
from tenex.core.ports import ExecutionContext, ToolResult
from tenex.core.work.tool_names import server_of
from tenex.plugins.packages import AgentSource
from tenex.prompting.agents import AgentDefinition, OutputDefinition
from tenex.prompting.frontmatter import OutputTable
from tenex.prompting.loader import DisabledAgent
from tenex.tools.tool import Tool
from tenex.workflows.agents.definition import ask_now, blueprint, program
from tenex.workflows.agents.fields import State
from tenex.workflows.agents.invoke import call_method
from tenex.workflows.agents.loading import PythonAgent, agent_files, agents_of, slug_of
from tenex.workflows.agents.tools import Method

GRACE: Final = 5.0
"""Seconds above a method's own bound after which the registry's would end it: the method's own error names it."""
_KINDS: Final = tuple(kind for kind in AgentKind if kind is not AgentKind.ORCHESTRATOR)


def read_folder(
    folder: Path,
    *,
    tools: Collection[str] | None,
    methods: dict[Slug, tuple[Tool, ...]] | None,
    code_refusal: str,
    packaged: Sequence[AgentSource] = (),
) -> tuple[list[AgentDefinition], list[DisabledAgent]]:
    """The agents of a folder's Python files and of packages, and what has faults, which gives none.

    Args:
        folder: the operator's, which also holds the Markdown agents.
        tools: every tool of the daemon's, which no method or link may be called after; None leaves names unchecked.
        methods: takes the methods of each agent, as tools that only it has.
        code_refusal: why no Python of the folder may be run; empty where it may.
        packaged: agents of installed packages.

    Raises:
        ConfigurationError: there is Python that may not be run: somebody else may have written all of the folder.
    """
    files = agent_files(folder)
    if code_refusal and files:
        raise ConfigurationError([f"{path}: {code_refusal}" for path in files])
    known: dict[Slug, PythonAgent] = {}
    found: dict[Slug, AgentDefinition] = {}
    disabled: list[DisabledAgent] = []
    of_files: list[AgentSource] = [
        (slug_of(path), str(path), partial(agents_of, path, code_refusal=code_refusal)) for path in files
    ]
    for slug, place, read in (*of_files, *packaged):
        faults: list[str] = []
        for one in read(faults):
            other = known.get(one.slug)
            if other is not None and type(other.agent) is not type(one.agent):  # of a package, several may call one
                faults.append(f"{one.source}: {one.slug} is an agent of {other.source} too. Rename one of them.")
            if (folder / f"{one.slug}.md").exists():
                faults.append(f"{one.source}: there is {one.slug}.md too, which is the same agent. Keep one.")
            try:
                found[one.slug] = definition_of(one, faults)
            except ConfigurationError as error:
                faults.extend(error.faults)
                continue
            known[one.slug] = one
            if tools is not None:
                faults += _faults_of_names(one, found[one.slug].tools, tools)
            if methods is not None:
                methods[one.slug] = tuple(_tool(one, method) for method in blueprint(type(one.agent)).methods.values())
        if faults:
            disabled.append(DisabledAgent(slug, place, tuple(faults)))
    sources = {one.source for one in disabled}
    return [one for one in found.values() if one.source not in sources], disabled


def _faults_of_names(one: PythonAgent, named: Collection[str], tools: Collection[str]) -> Iterator[str]:
    shape = blueprint(type(one.agent))
    for what, names in (("method", shape.methods), ("link", shape.links)):
        for name in names:
            if name in tools:
                yield f"{one.source}: {name} is a tool of the daemon's. Call the {what} by another name."
    for name in named:
        if name not in tools and not server_of(name):
            yield f"{one.source}: `tools` names {name!r}. There are: {', '.join(sorted(tools))}."


def definition_of(one: PythonAgent, faults: list[str]) -> AgentDefinition:
    """An agent as a Markdown file would describe it, by the attributes of its class; what is wrong goes to `faults`.

    Raises:
        ConfigurationError: its output states cannot be read.
    """
    cls = type(one.agent)
    shape = blueprint(cls)
    given = _Attributes(cls, one.source, faults)
    role = given.text("role") or shape.description or "an agent written in Python"
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", cls.__name__)
    return AgentDefinition(
        slug=one.slug,
        name=given.text("name") or " ".join(words),
        role=role,
        kind=given.kind(),
        use_when=given.text("use_when") or role,
        phases=given.phases(),
        tools=given.words("tools"),
        program=program(one.agent, one.slugs),
        input=shape.input,
        is_templated=True,
        model=given.text("model"),
        output=_output_of(given.attribute("output"), one.source),
        body=shape.system,
        is_called_only=not one.is_main,
        methods={name: method.rule for name, method in shape.methods.items()},
        source=one.source,
    )


class _Attributes:
    """The attributes of an agent's class that only a daemon reads; a field of state by their name is none."""

    def __init__(self, cls: type, source: str, faults: list[str]) -> None:
        self._cls = cls
        self._source = source
        self._faults = faults

    def attribute(self, name: str) -> Any:
        value = getattr(self._cls, name, None)
        return None if isinstance(value, State) else value

    def text(self, name: str) -> str:
        value = self.attribute(name)
        if value is None or isinstance(value, str):
            return " ".join((value or "").split())
        self._complain(f"`{name}` must be a text.")
        return ""

    def words(self, name: str) -> tuple[str, ...]:
        value = self.attribute(name)
        if isinstance(value, list | tuple | set | frozenset) and all(isinstance(word, str) for word in value):
            return tuple(value)
        if value is not None:
            self._complain(f"`{name}` must be a list of words.")
        return ()

    def kind(self) -> AgentKind:
        word = self.text("kind") or str(AgentKind.WORKER)
        if word.lower() in _KINDS:
            return AgentKind(word.lower())
        self._complain(f"`kind` is {word!r}; it must be one of {', '.join(_KINDS)}.")
        return AgentKind.WORKER

    def phases(self) -> tuple[Phase, ...]:
        words = self.words("in_phases")
        for word in words:
            if Phase.parse(word) is None:
                self._complain(f"`in_phases` names {word!r}; the phases are {', '.join(Phase)}.")
        return tuple(phase for word in words if (phase := Phase.parse(word)) is not None)

    def _complain(self, sentence: str) -> None:
        self._faults.append(f"{self._source}: {self._cls.__name__}: {sentence}")


def _output_of(value: Any, source: str) -> OutputDefinition | None:
    """The states an agent answers by; None where it answers as its model does.

    Raises:
        ConfigurationError: the class gives what front matter does not allow.
    """
    if value is None or value is False:
        return None
    try:
        given = OutputTable.model_validate({} if value is True else value)
    except ValidationError as error:
        where = sorted({f"`output.{fault['loc'][0]}`" if fault["loc"] else "`output`" for fault in error.errors()})
        fault = (
            f"{source}: {', '.join(where)} cannot be read; write `output = True` or a dict with lists of states "
            "`plan` and `act`, and whole numbers `min` and `max`, each of which may be left out"
        )
        raise ConfigurationError([fault]) from error
    from .output_states import BUILT_IN  # a quarter of a second that most agents do not need

    names: Mapping[Any, str] = {kind: name for name, kind in BUILT_IN.items()}
    plan, act = (tuple(names.get(state, state) for state in states) for states in (given.plan, given.act))
    return OutputDefinition.of(given.model_copy(update={"plan": plan, "act": act}))


def _tool(one: PythonAgent, method: Method) -> Tool:
    return Tool(
        name=method.name,
        description=method.description,
        parameters=method.parameters.schema,
        access=method.access,
        replay=method.replay,
        time_cap=method.timeout + GRACE,
        body=partial(_call, one, method.name),
    )


async def _call(one: PythonAgent, name: str, given: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
    agent_state = program(one.agent, one.slugs).fitted(context.agent_state, ask_now)
    return await call_method(
        one.agent, name, given, agent_state=agent_state, conversation=context.phase, key=context.idempotency_key
    )
