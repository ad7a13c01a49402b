"""The format of one agent's answers: its machine for the tools it has now, the prompt, and the fields of the request.

A machine is made once for a set of tools. Lengths are left to the parser; a server ends an answer that never does at
`models.max_output_tokens`.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

from tenex.core.messages import ToolSpec

from .content import PythonStateMachine, core_of
from .machine import AgentStateMachine, OutputPlan
from .requests import for_openai, for_vllm
from .states import AgentState, ToolCallState

PYTHON: Final = "python"
"""The tool that runs a program of the state `Python`."""

KEPT: Final = 8
"""Sets of tools whose machines are kept: an agent has one for each phase."""

Enforced = Literal["none", "structural_tag", "json_schema"]
"""How a server holds its model to a machine; `none` leaves it to the parser."""

_BODIES: Final[Mapping[str, Callable[[OutputPlan], dict[str, Any]]]] = {
    "structural_tag": for_vllm,
    "json_schema": for_openai,
}

_AS_JSON: Final = (
    "Do not write the delimiters. Your answer is one JSON object instead, and nothing else:\n"
    '{"plan": [{"state": "...", "content": "..."}, ...], "action": {"state": "...", "content": ...}}\n'
    "`state` is the state's name, `content` what belongs between its delimiters: a text, or the JSON value itself."
    " `plan` is left out where there is nothing to plan. The names of the states: "
)

StateKind = Callable[[], AgentState]
"""Makes a state; a class of states does."""


class OutputFormat:
    """What one answer must follow: a machine with the tools of one moment."""

    def __init__(self, machine: AgentStateMachine) -> None:
        self.machine = machine
        self.plan = machine.plan()
        self.states: Mapping[str, AgentState] = machine.states
        self._prompt = machine.system_prompt()
        self._bodies: dict[str, Mapping[str, Any]] = {}

    def prompt(self, enforced: Enforced) -> str:
        """Return the part of the system prompt that lists every reachable state and how an answer is written."""
        return f"{self._prompt}\n\n{_AS_JSON}{', '.join(self.states)}." if enforced == "json_schema" else self._prompt

    def body(self, enforced: Enforced) -> Mapping[str, Any]:
        """Return the fields by which a server is asked to enforce it; none for `none`."""
        if enforced == "none":
            return {}
        if enforced not in self._bodies:
            self._bodies[enforced] = _BODIES[enforced](self.plan)
        return self._bodies[enforced]


class AgentOutput:
    """The states of an agent's answers.

    Args of the constructor: the kinds of its planning and of its action states, and the least and the most planning
    states of one answer.
    """

    def __init__(
        self, planning: Sequence[StateKind], acting: Sequence[StateKind], least: int | None, most: int
    ) -> None:
        self._planning = tuple(planning) if most else ()
        self._acting = tuple(acting)
        self._least = least
        self._most = most
        self._known: OrderedDict[tuple[str, ...], OutputFormat | None] = OrderedDict()

    def format_for(self, tools: Sequence[ToolSpec]) -> OutputFormat | None:
        """Return the format of an answer where these tools are offered; None where no action could be taken.

        A state that runs Python can be reached only where the tool `python` is offered.

        Raises:
            ConfigurationError: the states cannot be distinguished, or a tool's parameters are no JSON Schema.
        """
        key = tuple(map(repr, tools))
        if key not in self._known:
            self._known[key] = self._made(tools)
            if len(self._known) > KEPT:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return self._known[key]

    def _made(self, tools: Sequence[ToolSpec]) -> OutputFormat | None:
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
        return OutputFormat(
            AgentStateMachine(planning, possible, max_planning_loops=self._most, min_planning_loops=self._least)
        )


def runs_python(state: AgentState) -> bool:
    """Whether what the state holds is a program that is to be run."""
    return isinstance(core_of(state.state_machine), PythonStateMachine)
