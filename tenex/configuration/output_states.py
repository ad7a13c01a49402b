"""The agents that answer by output states: their states found, made once, and checked before a model is asked.

A state is one of the built-in ones, `file.py:Class` beside the agents' files, or `package.module:Class`. Such a class
is called without arguments. Python of an operator is code that the daemon runs.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tenex.core.errors import ConfigurationError
from tenex.core.graph import TransitionGraph
from tenex.core.ids import Slug
from tenex.core.messages import ToolSpec
from tenex.output_states import (
    AgentOutput,
    AgentState,
    InnerMonologue,
    Python,
    Scratchpad,
    StateKind,
    Thinking,
    ToolCallState,
    runs_python,
)
from tenex.prompting import PromptLibrary
from tenex.settings import ProjectPaths
from tenex.workflows.kit.loading import load_object, load_script

BUILT_IN: Final[Mapping[str, StateKind]] = MappingProxyType(
    {
        "thinking": Thinking,
        "scratchpad": Scratchpad,
        "inner_monologue": InnerMonologue,
        "tool_call": ToolCallState,
        "python": Python,
    }
)
PLANNING: Final = ("thinking", "scratchpad", "inner_monologue")

_SAMPLES: Final = tuple(
    ToolSpec(name=name, description="", parameters={"type": "object"}) for name in ("complete", "python")
)
"""Tools with which every state can be reached."""
_TAKEN: Final = "<think>"
"""Servers and libraries take out of an answer text in these tags, as the model's own reasoning."""


def outputs_of(library: PromptLibrary, where: ProjectPaths) -> dict[Slug, AgentOutput]:
    """How each agent speaks that speaks by states.

    Raises:
        ConfigurationError: a state cannot be found or made, or states are ambiguous; with every fault.
    """
    found, faults = checked_outputs(library, where)
    if faults:
        raise ConfigurationError([sentence for sentences in faults.values() for sentence in sentences])
    return found


def checked_outputs(
    library: PromptLibrary, where: ProjectPaths
) -> tuple[dict[Slug, AgentOutput], dict[Slug, list[str]]]:
    """The same, with the faults of each agent whose states cannot be used."""
    faults: dict[Slug, list[str]] = {}
    found: dict[Slug, AgentOutput] = {}
    for slug, definition in library.definitions.items():
        if (given := definition.output) is None:
            continue
        wrong: list[str] = []
        planning = [_kind(name, where, wrong) for name in given.plan]
        acting = [_kind(name, where, wrong) for name in given.act]
        wrong += [
            f"`{name}` takes an action and is not allowed in `plan`. Move it to `act`."
            for name in given.plan
            if name in BUILT_IN and name not in PLANNING
        ]
        wrong += [
            f"`{name}` is private and takes no action. Move it from `act` to `plan`."
            for name in given.act
            if name in PLANNING
        ]
        if not wrong:
            found[slug] = AgentOutput([k for k in planning if k], [k for k in acting if k], given.least, given.most)
            wrong = _faults(found[slug])
        if wrong:
            faults[slug] = [f"{definition.source}:{given.line}: {sentence}" for sentence in wrong]
    return found, faults


def graph_of(output: AgentOutput) -> TransitionGraph:
    """The graph of an agent's answer where every state can be reached."""
    form = output.format_for(_SAMPLES)
    assert form is not None, "`outputs_of` has refused an agent that can take no action"
    return form.machine.graph


def _kind(name: str | type, where: ProjectPaths, faults: list[str]) -> StateKind | None:
    """The class of a state that can be made; None and more faults where there is none."""
    if isinstance(name, str) and name in BUILT_IN:
        return BUILT_IN[name]
    try:
        kind = _class_of(name, where) if isinstance(name, str) else _checked(name, name.__name__)
    except ConfigurationError as error:
        faults += error.faults
        return None
    try:
        kind()
    except Exception as error:  # noqa: BLE001  an operator's class may fail in any way
        shown = name if isinstance(name, str) else name.__name__
        faults.append(f"`{shown}` could not be made without arguments: {type(error).__name__}: {error}")
        return None
    return kind


def _class_of(name: str, where: ProjectPaths) -> Callable[[], AgentState]:
    file, colon, word = name.rpartition(":")
    if not colon:
        raise ConfigurationError(
            [f"there is no state `{name}`. There are {', '.join(BUILT_IN)}; one of your own is `file.py:Class`."]
        )
    if where.code_refusal:
        raise ConfigurationError([f"`{name}`: {where.code_refusal}"])
    if not file.endswith(".py"):
        value = load_object(name, _is_state, "state")
    elif Path(file).name != file:
        raise ConfigurationError(
            [f"`{name}`: a file of states lies beside the agents, in {where.agents}; give its name."]
        )
    else:
        value = getattr(load_script(where.agents / file, "tenex_agents"), word, None)
    return _checked(value, name)


def _checked(value: object, name: str) -> Callable[[], AgentState]:
    if not _is_state(value):
        raise ConfigurationError([f"`{name}` is no subclass of AgentState. Import that from tenex.output_states."])
    return value  # type: ignore[return-value]  # a concrete class of states makes one


def _is_state(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, AgentState) and value is not AgentState


def _faults(output: AgentOutput) -> list[str]:
    try:
        form = output.format_for(_SAMPLES)
    except ConfigurationError as error:
        return list(error.faults)
    except Exception as error:  # noqa: BLE001  likewise
        return [f"its states failed when they were asked what they are: {type(error).__name__}: {error}"]
    if form is None:
        return ["there is no action state, so that nothing could ever be done. Name one in `act`."]
    faults = [
        f"{name} opens with {state.delimiters[0]!r}, which is taken for a model's own reasoning. Change it."
        for name, state in form.states.items()
        if state.delimiters[0].lower().startswith(_TAKEN)
    ]
    plans = [state for state in form.machine.planning_states if isinstance(state, ToolCallState) or runs_python(state)]
    return faults + [f"{state.identifier} calls or runs, and is not allowed in `plan`." for state in plans]
