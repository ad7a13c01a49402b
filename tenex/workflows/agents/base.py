"""An agent as a Python class: its state, its phases, the methods its model may call; and how it is run by itself.

class Researcher(BaseAgent):
    __system_message__ = "You research. You are in the {{ phase }} phase."
    plan: State[str] = State(default="")
    phases = [("planning", "research", lambda self: bool(self.plan))]

    @tool("Save the plan", phases=["planning"])
    def save_plan(self, text: str) -> str:
        self.plan = text
        return "Saved."

answer = await Researcher(model=model).run("Find out why the sky is blue")
"""

import asyncio
import hashlib
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tenex.core.agent_phases.program import AgentPhaseState
from tenex.core.config import Limits
from tenex.core.errors import UsageError, kind_of
from tenex.core.ids import ConversationId
from tenex.core.ports import Clock, Journals, Model
from tenex.runtime.clock import SystemClock
from tenex.workflows.kit.local_run import MemoryJournals, check_given, check_message

from .definition import PhasedAgent, blueprint, slug_of, with_subagents
from .instance_state import InstanceState
from .standalone import AgentResult, LocalAgent, MemberPorts, rules_of

_AGENT_STATE: TypeAdapter[AgentPhaseState] = TypeAdapter(AgentPhaseState)


class BaseAgent(PhasedAgent):
    """What agents written in Python derive from.

    A class may also set: `__description__` (what others read of it), `__input_template__` (how a request is put,
    with `{{ user_message }}`), and for the daemon `name`, `role`, `kind`, `use_when`, `in_phases`, `model` and `tools`
    (of the daemon's own).
    """

    def __init__(
        self,
        *,
        model: Model | None = None,
        journal: Journals | None = None,
        thread: str = "main",
        limits: Limits | None = None,
        clock: Clock | None = None,
        **state: Any,
    ) -> None:
        """Make an agent of its own.

        Args:
            model: asked by it and by the agents it calls.
            journal: where all it does is recorded, and where a later process goes on; else it lives with this object.
            thread: which of its conversations in that journal.
            limits: tries and bounds; the daemon's own by default.
            clock: time, for tests that own it.
            state: fields that begin with another value than their default.

        Raises:
            UsageError: there is no such field, or `model` is no model.
            SerializationError: a value is not of its field's type.
        """
        fields = blueprint(type(self)).fields
        if unknown := sorted(set(state) - set(fields)):
            raise UsageError(
                f"{type(self).__name__} has no state {', '.join(unknown)}; it has: {', '.join(fields) or 'none'}."
            )
        check_given(model=model, journal=journal, clock=clock, limits=limits, thread=thread)
        for name, value in state.items():
            setattr(self, name, value)
        self._model = model
        self._thread = thread
        self._journals = journal or MemoryJournals()
        self._limits, self._clock = limits or Limits(), clock or SystemClock()
        self._turn = asyncio.Lock()

    async def run(self, message: str | None = None) -> AgentResult:
        """Put a request to the agent and wait for its answer.

        State, phase and messages stay from one call to the next. Where a call before was cut off, the same message
        again, or none, continues it; another one is added to it.

        Args:
            message: the request; None only goes on.

        Raises:
            UsageError: it has no model.
            ModelUnavailable: the model cannot be reached; what was done is kept.
            WorkflowError: nothing is open to go on with, or a limit is reached.
            AppendFailed: the disk did not take a record; run it again to go on.
        """
        name = type(self).__name__
        if "_turn" not in vars(self):
            raise UsageError(f"{name}.__init__ does not call super().__init__(**kwargs); call it there.")
        check_message(message)
        if self._model is None:
            raise UsageError(f"{name} has no model; make it as {name}(model=tenex.get_model(...)).")
        if getattr(type(self), "output", None):
            raise UsageError(
                f"{name} has `output`, which a daemon reads. By itself, give its model as "
                "tenex.output_states.OutputModel(model, {slug: AgentOutput(...)}), and leave `output` out."
            )
        slug = slug_of(type(self))
        async with self._turn:
            members = with_subagents(self, slug)
            policy = rules_of(slug, members, self._limits)
            ports = MemberPorts(members, policy.roster)
            local = LocalAgent(
                ConversationId(hashlib.sha256(f"agent {slug}\n{self._thread}".encode()).hexdigest()),
                slug,
                policy,
                self._journals,
                self._clock,
                model=self._model,
                tools=ports,
                prompter=ports,
            )
            try:
                return await local.ask(message, self._instance)
            finally:
                if local.agent_state is not None:
                    self._instance = InstanceState(blueprint(type(self)).fields, local.agent_state, None)

    def dump(self) -> dict[str, Any]:
        """Return phase, state and history as JSON; the messages are in the journal.

        Raises:
            SerializationError: a value is not of its field's type.
        """
        written: dict[str, Any] = _AGENT_STATE.dump_python(self._instance.snapshot(), mode="json")
        return written

    def load(self, dumped: Mapping[str, Any]) -> None:
        """Restore what `dump` returned; the next `run` continues from there.

        Raises:
            UsageError: it is no dump of such an agent.
        """
        shape = blueprint(type(self))
        given: object = dumped  # user code may not check types
        if not isinstance(given, Mapping):
            raise UsageError(f"A dump of an agent is a dict, not {kind_of(given)}.")
        try:
            agent_state = _AGENT_STATE.validate_python(dict(dumped))
        except ValidationError as fault:
            raise UsageError(f"This is no dump of an agent: {fault.errors()[0]['msg']}.") from fault
        phases = shape.graph.nodes if shape.graph is not None else ("",)
        if agent_state.phase not in phases or set(agent_state.values) != set(shape.fields):
            raise UsageError(
                f"This dump is of another agent than {shape.name}: it is in the phase {agent_state.phase!r} and "
                f"has the state {', '.join(agent_state.values) or 'none'}."
            )
        for name, value in agent_state.values.items():
            shape.fields[name].load(value)
        self._instance = InstanceState(shape.fields, agent_state, None, is_given=True)
