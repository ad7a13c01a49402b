"""An agent's class without a way to run: it has a phase, state, triggers, and makes the `Program` the core goes by.

Conditions and calls get a copy of the agent in its journaled state, so changes count only in fields of state, and only
after the call has returned.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Self

from jsonschema import Draft202012Validator

from tenex.core.agent_phases.program import AgentPhaseState, Program
from tenex.core.agent_phases.program import Link as LinkRule
from tenex.core.errors import ConfigurationError, UsageError, WorkflowError
from tenex.core.functions.verdicts import FunctionQuestion, Verdict, call_now
from tenex.core.ids import Slug
from tenex.core.phases import Phase
from tenex.core.text.json_values import plain

from .blueprint import Blueprint, check_types, read_class
from .instance_state import ConversationView, InstanceState, StateView
from .templates import shows_state

_GIVEN: Final = {
    "phase": "it changes by a condition of `phases`, or by a trigger such as planning_to_research()",
    "state": "set a field of it by its name",
    "conversation": "the program gives it",
}
"""Properties of an agent, and what to do instead of setting them."""


class PhasedAgent:
    """What `BaseAgent` is, but for running."""

    _instance: InstanceState

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_types(cls, PhasedAgent)

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self:
        """Make an agent in its initial state; the arguments are those of its `__init__`.

        Raises:
            ConfigurationError: everything that is wrong with the class.
        """
        agent = super().__new__(cls)
        shape = blueprint(cls)
        agent._instance = InstanceState(shape.fields, begin(shape), None)
        return agent

    @property
    def phase(self) -> str:
        """The phase it is in; empty for an agent without phases."""
        return self._instance.phase

    @property
    def state(self) -> Any:
        """Its state by name, with `phase` and `history`."""
        return StateView(self._instance)

    @property
    def conversation(self) -> ConversationView:
        """The conversation it works in; its `phase` is None outside one."""
        return self._instance.talk

    def __getattr__(self, name: str) -> Callable[[], bool]:
        """The trigger of a pair of phases, by its name."""
        graph = None if name.startswith("_") else blueprint(type(self)).graph
        for edge in graph.edges if graph is not None else ():
            if f"{edge.source}_to_{edge.target}" == name:
                return lambda: self._trigger(str(edge.source), str(edge.target), edge.is_open)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: object) -> None:
        if name in _GIVEN:
            raise UsageError(f"{type(self).__name__}.{name} cannot be set; {_GIVEN[name]}.")
        if not name.startswith("_") and name in blueprint(type(self)).methods:
            raise UsageError(f"{name} is a tool of {type(self).__name__} and cannot be set; change the class.")
        super().__setattr__(name, value)

    def _trigger(self, source: str, target: str, is_open: Callable[[str, Any], bool]) -> bool:
        """Go from one phase to another if its condition is true; whether it did.

        Raises:
            WorkflowError: it is in another phase.
        """
        if self.phase != source:
            raise WorkflowError(f"{source}_to_{target}: the agent is in the phase {self.phase}, not in {source}.")
        if not is_open(source, self):
            return False
        self._instance.move(source, target)
        return True


def blueprint(cls: type[PhasedAgent]) -> Blueprint:
    """A class as it is read, once.

    Raises:
        ConfigurationError: everything that is wrong with it.
    """
    known = vars(cls).get("_tenex_blueprint")
    if isinstance(known, Blueprint):
        return known
    shape = read_class(cls, PhasedAgent)
    cls._tenex_blueprint = shape  # type: ignore[attr-defined]  # no field of its own, so that no class inherits it
    return shape


def begin(shape: Blueprint) -> AgentPhaseState:
    """Where an agent of this class begins.

    Raises:
        SerializationError: a factory made something that is not of its field's type; also what a factory raises.
    """
    phase = shape.graph.initial if shape.graph is not None else ""
    return AgentPhaseState(phase=phase, values={**shape.defaults, **shape.made()})


def agent_at(agent: PhasedAgent, agent_state: AgentPhaseState, conversation: Phase | None) -> PhasedAgent:
    """Return a copy of an agent in another state; it shares what is not state."""
    placed = object.__new__(type(agent))  # its own `__new__` would make the initial state
    kept: Any = object.__getstate__(agent)
    for part in kept if isinstance(kept, tuple) else (kept,):  # its dictionary, and its slots where it has some
        for name, value in (part or {}).items():
            object.__setattr__(placed, name, value)
    placed._instance = InstanceState(blueprint(type(agent)).fields, agent_state, conversation)
    return placed


def ask_now(function: str, given: str, code: Any, call: Callable[[], Any]) -> Verdict:
    """Call a function of an agent where it may run: in a task of its own, never in a decision."""
    return call_now(FunctionQuestion(function=function, given=given, code=code, call=call))


def program(agent: PhasedAgent, slugs: Mapping[type, Slug], *, is_itself: bool = False) -> Program:
    """What the core goes by.

    Args:
        agent: of whom copies are asked and called.
        slugs: of the classes that are linked.
        is_itself: whether it begins as this agent began; else each initial state is made again.
    """
    shape = blueprint(type(agent))
    links = {
        name: LinkRule(
            agent=slugs[one.target] if one.target is not None else Slug(one.link.agent),
            description=one.link.description or _description(one.target),
            scope=one.scope,
            is_shared=one.link.shared,
        )
        for name, one in shape.links.items()
    }
    return Program(
        graph=shape.graph,
        defaults=shape.defaults,
        schema=shape.schema,
        scopes=shape.scopes,
        links=links,
        look=lambda agent_state, conversation: agent_at(agent, agent_state, conversation),
        initial=agent._instance.recorded if is_itself else {},
        made=shape.made if shape.makes_values and not is_itself else None,
        takes=_by_schemas(shape.schema),
        shows_state=shows_state(shape.system),
    )


def _by_schemas(schemas: Mapping[str, Mapping[str, Any]]) -> Callable[[str, Any], bool]:
    """Whether a recorded value fits the field's JSON Schema: its type itself may run code of the class's author."""
    fits: dict[str, tuple[Any]] = {}
    """Of each field the newest value that was found to fit: it is the same object until it changes."""

    def takes(name: str, value: Any) -> bool:
        if name not in fits or fits[name][0] is not value:
            if not Draft202012Validator(schemas[name]).is_valid(plain(value)):
                return False
            fits[name] = (value,)
        return True

    return takes


def _description(cls: type | None) -> str:
    if cls is None or not issubclass(cls, PhasedAgent):
        return ""
    shape = blueprint(cls)
    return shape.description or f"Asks {shape.name}, another agent."


def slug_of(cls: type) -> Slug:
    """What an agent of a class is called: `ResearchAgent` is `research-agent`."""
    return Slug("-".join(part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", cls.__name__)))


def subagents_of(cls: type[PhasedAgent]) -> Iterator[type[PhasedAgent]]:
    """The classes an agent calls, those that they call, and so on; not itself."""
    found: dict[type[PhasedAgent], None] = {cls: None}
    for one in (queue := [cls]):
        for shape in blueprint(one).links.values():
            if shape.target is not None and issubclass(shape.target, PhasedAgent) and shape.target not in found:
                found[shape.target] = None
                queue.append(shape.target)
    yield from (one for one in found if one is not cls)


def with_subagents(agent: PhasedAgent, slug: Slug) -> Mapping[Slug, PhasedAgent]:
    """An agent by its slug, and those it calls by theirs.

    Raises:
        ConfigurationError: two of them have one name, or one cannot be made.
    """
    members: dict[Slug, PhasedAgent] = {slug: agent}
    faults: list[str] = []
    for cls in subagents_of(type(agent)):
        name = slug_of(cls)
        if name in members:
            faults.append(f"{cls.__name__}: {type(members[name]).__name__} is called {name} too; rename one of them.")
            continue
        try:
            members[name] = cls()
        except ConfigurationError as fault:
            faults.extend(fault.faults)
        except Exception as error:  # noqa: BLE001 - user code may fail in any way
            faults.append(f"{cls.__name__}: it cannot be made: {type(error).__name__}: {error}.")
    if faults:
        raise ConfigurationError(faults)
    return members
