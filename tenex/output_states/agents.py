"""How one agent speaks by states: its machine for the tools it has now, what its model is told, what a server is sent.

A machine is made once for a set of tools, and so is its grammar: off the event loop, since schemas of strangers' tools
may be large, and kept. The grammar leaves lengths to the parser; a server ends an answer that never does at
`models.max_output_tokens`.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from tenex.core.messages import ToolSpec

from .content import PythonStateMachine, core_of
from .machine import AgentStateMachine, Plan
from .requests import for_llama_cpp, for_openai, for_vllm, for_vllm_as_structural_tag, for_vllm_before_0_12
from .states import AgentState, ToolCallState

PYTHON: Final = "python"
"""The tool that runs a program of the state `Python`."""

KEPT: Final = 8
"""Sets of tools whose machines are kept: an agent has one for each phase, of which there are seven."""

Enforced = Literal["none", "gbnf", "structured_outputs", "guided_grammar", "structural_tag", "json_schema"]
"""How a server holds its model to a machine; `none` leaves it to the parser."""

_BODIES: Final[Mapping[str, Callable[[Plan], dict[str, Any]]]] = {
    "gbnf": for_llama_cpp,
    "structured_outputs": for_vllm,
    "guided_grammar": for_vllm_before_0_12,
    "structural_tag": for_vllm_as_structural_tag,
    "json_schema": for_openai,
}

_AS_JSON: Final = (
    "Do not write the delimiters. Your answer is one JSON object instead, and nothing else:\n"
    '{"plan": [{"state": "...", "content": "..."}, ...], "action": {"state": "...", "content": ...}}\n'
    "`state` is the state's name, `content` what would stand between its delimiters: a text, or the JSON value itself."
    " `plan` is left out where there is nothing to plan. The names of the states: "
)

StateKind = Callable[[], AgentState]
"""Makes a state; a class of states does."""


@dataclass(slots=True)
class Held:
    """What one answer is held to: a machine with the tools of one moment."""

    machine: AgentStateMachine
    plan: Plan
    states: Mapping[str, AgentState]
    _prompt: str
    _bodies: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _building: asyncio.Lock = field(default_factory=asyncio.Lock)

    @classmethod
    def of(cls, machine: AgentStateMachine) -> "Held":
        """The machine as it is now."""
        return cls(machine, machine.plan(), machine.states, machine.system_prompt())

    def prompt(self, enforced: Enforced) -> str:
        """What stands in the system prompt: every state that can be reached, and how an answer is written."""
        return f"{self._prompt}\n\n{_AS_JSON}{', '.join(self.states)}." if enforced == "json_schema" else self._prompt

    async def body(self, enforced: Enforced) -> Mapping[str, Any]:
        """The fields by which a server is asked to enforce it; none for `none`."""
        if enforced == "none":
            return {}
        async with self._building:
            if enforced not in self._bodies:
                self._bodies[enforced] = await asyncio.to_thread(_BODIES[enforced], self.plan)
        return self._bodies[enforced]


class AgentOutput:
    """The states an agent speaks by.

    Args of the constructor: the kinds of its planning and of its action states, and the least and the most planning
    states of one answer.
    """

    def __init__(
        self, planning: Sequence[StateKind], acting: Sequence[StateKind], least: int | None, most: int
    ) -> None:
        self._planning = tuple(planning) if most else ()
        self._acting = tuple(acting)
        self._least, self._most = least, most
        self._known: OrderedDict[tuple[str, ...], Held | None] = OrderedDict()

    def at(self, tools: Sequence[ToolSpec]) -> Held | None:
        """What an answer is held to where these tools are offered; None where no action could be taken.

        A state that runs Python can be reached only where the tool `python` is offered.

        Raises:
            ConfigurationError: the states cannot be told apart, or a tool's parameters are no JSON Schema.
        """
        key = tuple(map(repr, tools))
        if key not in self._known:
            self._known[key] = self._made(tools)
            if len(self._known) > KEPT:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return self._known[key]

    def _made(self, tools: Sequence[ToolSpec]) -> Held | None:
        acting = [make() for make in self._acting]
        runs = [state for state in acting if runs_python(state)]
        is_offered = any(tool.name == PYTHON for tool in tools)
        left = [tool for tool in tools if not (runs and tool.name == PYTHON)]
        possible: list[AgentState] = []
        for state in acting:
            if isinstance(state, ToolCallState):
                state.tools = left
                if not left:
                    continue
            if state not in runs or is_offered:
                possible.append(state)
        if not possible:
            return None
        planning = [make() for make in self._planning]
        return Held.of(
            AgentStateMachine(planning, possible, max_planning_loops=self._most, min_planning_loops=self._least)
        )


def runs_python(state: AgentState) -> bool:
    """Whether what the state holds is a program that is to be run."""
    return isinstance(core_of(state.state_machine), PythonStateMachine)
