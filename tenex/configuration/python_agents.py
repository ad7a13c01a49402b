"""Agents written in Python, as the daemon has them: how they are described, and their methods as tools."""

from collections.abc import Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from tenex.core.errors import ConfigurationError
from tenex.core.ids import Slug
from tenex.core.ports import ExecutionContext, ToolResult
from tenex.prompting.agents import AgentDefinition, OutputDefinition
from tenex.prompting.frontmatter import OutputTable
from tenex.tools.tool import Tool
from tenex.workflows.agents.definition import ask_now, blueprint, program
from tenex.workflows.agents.invoke import call_method
from tenex.workflows.agents.loading import PythonAgent, find_agents
from tenex.workflows.agents.tools import Method

GRACE: Final = 5.0
"""Seconds above a method's own bound after which the registry's would end it: the method's own error names it."""


def read_folder(
    folder: Path, tools: Collection[str] | None, faults: list[str], *, code_refusal: str
) -> list[PythonAgent]:
    """The agents of a folder's Python files; what is wrong is added to `faults`.

    Args:
        folder: the operator's, which also holds the Markdown agents.
        tools: every tool of the daemon's, which no method or link may be called after; None leaves names unchecked.
        faults: grows by one sentence per fault.
        code_refusal: why no Python of the folder may be run; empty where it may.
    """
    found: dict[Slug, PythonAgent] = {}
    for one in find_agents(folder, faults, code_refusal=code_refusal):
        other = found.get(one.slug)
        if other is not None and type(other.agent) is not type(one.agent):  # of a package, several may call one class
            faults.append(f"{one.source}: {one.slug} is an agent of {other.source} too. Rename one of them.")
        if (folder / f"{one.slug}.md").exists():
            faults.append(f"{one.source}: there is {one.slug}.md too, which is the same agent. Keep one.")
        if tools is not None:
            faults += _faults_of_names(one, tools)
        found[one.slug] = one
    return list(found.values())


def _faults_of_names(one: PythonAgent, tools: Collection[str]) -> Iterator[str]:
    shape = blueprint(type(one.agent))
    for what, names in (("method", shape.methods), ("link", shape.links)):
        for name in names:
            if name in tools:
                yield f"{one.source}: {name} is a tool of the daemon's. Call the {what} by another name."
    for name in one.tools:
        if name not in tools:
            yield f"{one.source}: `tools` names {name!r}. There are: {', '.join(sorted(tools))}."


def _output_of(one: PythonAgent) -> OutputDefinition | None:
    """The states an agent answers by; None where it answers as its model does.

    Raises:
        ConfigurationError: the class gives what front matter does not allow.
    """
    if one.output is None or one.output is False:
        return None
    try:
        given = OutputTable.model_validate({} if one.output is True else one.output)
    except ValidationError as error:
        where = sorted({f"`output.{fault['loc'][0]}`" if fault["loc"] else "`output`" for fault in error.errors()})
        fault = (
            f"{one.source}: {', '.join(where)} cannot be read; write `output = True` or a dict with lists of states "
            "`plan` and `act`, and whole numbers `min` and `max`, each of which may be left out"
        )
        raise ConfigurationError([fault]) from error
    from .output_states import BUILT_IN  # a quarter of a second that most agents do not need

    names: Mapping[Any, str] = {kind: name for name, kind in BUILT_IN.items()}
    plan, act = (tuple(names.get(state, state) for state in states) for states in (given.plan, given.act))
    return OutputDefinition.of(given.model_copy(update={"plan": plan, "act": act}))


def definition_of(one: PythonAgent) -> AgentDefinition:
    """An agent as a Markdown file would describe it.

    Raises:
        ConfigurationError: its output states cannot be read.
    """
    shape = blueprint(type(one.agent))
    return AgentDefinition(
        slug=one.slug,
        name=one.name,
        role=one.role,
        kind=one.kind,
        use_when=one.use_when,
        phases=one.in_phases,
        tools=one.tools,
        program=program(one.agent, one.slugs),
        input=shape.input,
        is_templated=True,
        model=one.model,
        output=_output_of(one),
        body=shape.system,
        is_called_only=not one.is_main,
        methods={name: method.rule for name, method in shape.methods.items()},
        source=one.source,
    )


def tools_of(one: PythonAgent) -> tuple[Tool, ...]:
    """An agent's methods, each as a tool that only it has."""
    return tuple(_tool(one, method) for method in blueprint(type(one.agent)).methods.values())


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
