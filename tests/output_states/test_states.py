"""States have the names of Proxy Base Agent; users write their own."""

from collections.abc import Callable
from typing import Any

import pytest

from tenex.core.errors import ConfigurationError
from tenex.core.messages import ToolSpec
from tenex.output_states import (
    AgentState,
    AgentStateMachine,
    EncapsulatedStateMachine,
    FencedFreeformStateMachine,
    InnerMonologue,
    JsonStateMachine,
    Python,
    Scratchpad,
    StateMachine,
    Thinking,
    ToolCallState,
)
from tenex.output_states.requests import structural_tag

from .kit import READ, STOP, Freeform, Json, messages_of, read

STOPS = '```tool\n{"name":"stop","arguments":{}}\n```'


class Critique(AgentState):
    """A state as users of Proxy Base Agent write one: the base class is called with five names, and two properties."""

    def __init__(self) -> None:
        super().__init__(
            identifier="critique",
            readable_name="self critique",
            delimiters=("<critique>", "</critique>"),
            color="dim red",
            emoji="🔍",
        )

    @property
    def state_machine(self) -> StateMachine:
        sm = FencedFreeformStateMachine(delimiters=self.delimiters, char_min=10, char_max=200)
        sm.identifier = self.identifier
        return sm

    @property
    def state_prompt(self) -> str:
        return f"Write what is wrong with your plan, between {self.delimiters[0]} and {self.delimiters[1]}."


def test_a_state_of_ones_own_works_like_the_built_in_ones() -> None:
    state = Critique()
    machine = AgentStateMachine([Thinking(), state], [ToolCallState((STOP,))])
    assert str(state) == "Self Critique: Write what is wrong with your plan, between <critique> and </critique>."
    assert str(state) in machine.system_prompt()
    parser = read(machine, state.format("this is far too simple") + STOPS)
    assert messages_of(parser.faults) == ""
    assert [segment.state for segment in parser.segments] == ["critique", "tool_call"]
    assert parser.segments[0].text == "this is far too simple"


@pytest.mark.parametrize(
    ("state", "identifier", "opening", "limits", "color", "emoji"),
    [
        (Thinking(), "thinking", "```thinking\n", (50, 1000), "dim cyan", "🧠"),
        (Scratchpad(), "scratchpad", "```scratchpad\n", (50, 1000), "dim white", "📝"),
        (InnerMonologue(), "inner_monologue", "```inner_monologue\n", (50, 1500), "dim magenta", "💬"),
        (Thinking(character_max=30), "thinking", "```thinking\n", (15, 30), "dim cyan", "🧠"),
        (ToolCallState((STOP,)), "tool_call", "```tool\n", None, "dim yellow", "🔧"),
        (Python(), "python", "```python\n", None, "yellow", "🐍"),
    ],
)
def test_the_built_in_states_are_those_of_the_original(
    state: AgentState, identifier: str, opening: str, limits: tuple[int, int] | None, color: str, emoji: str
) -> None:
    machine = state.state_machine
    assert (state.identifier, state.delimiters) == (identifier, (opening, "\n```"))
    assert (state.color, state.emoji) == (color, emoji)
    assert (machine.identifier, machine.delimiters) == (identifier, state.delimiters)
    assert limits is None or (machine.char_min, machine.char_max) == limits
    assert state.format("x") == f"{opening}x\n```"
    assert str(state).startswith(state.readable_name.title() + ": ")
    assert opening in state.state_prompt


@pytest.mark.parametrize(
    ("state", "content", "shown"),
    [
        (Thinking(), "so", "```markdown\nso\n```"),
        (Thinking(), "```py\nx\n```", "````markdown\n```py\nx\n```\n````"),
        (Python(), "print(1)", "```python\nprint(1)\n```"),
        (ToolCallState(), '{"a":1}', '```json\n{\n  "a": 1\n}\n```'),
        (ToolCallState(), "{", "```json\n{\n```"),
    ],
)
def test_users_are_shown_markdown(state: AgentState, content: str, shown: str) -> None:
    assert state.readable_format(content) == shown


def test_the_prompt_of_a_tool_call_names_the_tools_there_are() -> None:
    live = [READ]
    state = ToolCallState(live)
    assert "- read: Does read." in state.state_prompt
    live.append(STOP)
    assert "- stop: Does stop." in state.state_prompt
    assert '"minLength": 1' in state.state_prompt


RISKS = {"type": "object", "properties": {"risk": {"type": "string"}}, "required": ["risk"]}
NUMBER = JsonStateMachine({"type": "object", "properties": {"n": {"type": "integer"}}}, delimiters=("<", ">"))
TEXT = StateMachine({0: [(StateMachine(char_max=40), 0), ("!", 1)]}, 0, [1], char_max=5_000)


@pytest.mark.parametrize(
    ("machine", "content", "faults"),
    [
        (Python().state_machine, "x = 1", ()),
        (Python().state_machine, "x = = 1", ("This is no Python: invalid syntax, line 1.",)),
        (Python().state_machine, "'\\d'", ()),
        (NUMBER, '{"n":1}', ()),
        (NUMBER, '{"n":1.0}', ("The JSON does not fit: `n` must be a whole number without a point.",)),
        (NUMBER, '{"n":1', ("This is no JSON: Expecting ',' delimiter, line 1, column 7.",)),
        (TEXT, "a" * 3_000 + "!", ()),
        (TEXT, "a" * 3_000, ("The content does not follow the steps of its state machine.",)),
    ],
)
def test_contents_are_checked_by_their_machine(machine: StateMachine, content: str, faults: tuple[str, ...]) -> None:
    """A warning of Python is no fault, and free text in a graph is tried at each place once."""
    assert machine.check(content) == faults


def test_a_graph_must_reach_an_end() -> None:
    with pytest.raises(ConfigurationError, match="no path from 0 to one of its end states"):
        StateMachine({0: [(StateMachine(), 1)]}, 0, [2])


# ---- the machine ----------------------------------------------------------------------------------------------------


def test_the_graph_plans_in_a_loop_and_then_acts() -> None:
    graph = AgentStateMachine([Thinking(), Scratchpad()], [ToolCallState((STOP,)), Python()]).graph
    assert graph.faults() == ()
    assert graph.initial == "plan"
    for loops, permitted in (
        (0, ("thinking", "scratchpad")),
        (1, ("thinking", "scratchpad", "take_action")),
        (3, ("take_action",)),
    ):
        assert graph.permitted("plan", {"loops": loops}) == permitted
    assert graph.permitted("take_action") == ("tool_call", "python")
    assert graph.permitted("tool_call") == ("done",)
    assert graph.permits("done", "END")
    assert "plan --> thinking : fewer than 3 plans" in graph.mermaid()


def test_planning_need_not_be_forced_and_there_is_none_without_loops() -> None:
    machine = AgentStateMachine([Thinking()], [ToolCallState((STOP,))], min_planning_loops=0)
    assert "take_action" in machine.graph.permitted("plan", {"loops": 0})
    assert read(machine, STOPS).is_valid
    assert "0 to 3 of thinking" in machine.system_prompt()
    machine = AgentStateMachine([Thinking()], [ToolCallState((STOP,))], 0, 0)
    assert ([*machine.states], machine.graph.faults()) == (["tool_call"], ())
    assert "thinking" not in machine.system_prompt()


def test_the_prompt_lists_every_state_that_can_be_reached() -> None:
    machine = AgentStateMachine([Thinking(), Scratchpad()], [ToolCallState(()), Python()])
    assert [*machine.states] == ["thinking", "scratchpad", "python"]  # no tool, no tool call
    assert all(str(state) in machine.system_prompt() for state in machine.states.values())
    assert "take exactly one action: python" in machine.system_prompt()


def test_every_fault_of_a_machine_is_named_at_once() -> None:
    class Stray(Freeform):
        @property
        def state_machine(self) -> StateMachine:
            return FencedFreeformStateMachine("other", ("<", ">"), 5, 2)

    with pytest.raises(ConfigurationError) as raised:
        AgentStateMachine(
            [Thinking(), Thinking(), Freeform("plan", ("\n<", " "), 1, 2), Stray("stray", ("```think", "x"), 1, 2)],
            [Json("json", ("{", "}"), {"type": "string"}), Json("more", ("(", ")"), {"type": "object", "required": 1})],
            min_planning_loops=4,
            max_planning_loops=3,
        )
    events = str(raised.value)
    for sentence in (
        "min_planning_loops is 4 and max_planning_loops 3",
        "Two states are called thinking",
        "cannot be called 'plan'",
        "the opening delimiter '\\n<' must begin with something to be seen",
        "the closing delimiter ' ' must hold something",
        "its state_machine has the identifier other",
        "its state_machine has the delimiters ('<', '>')",
        "char_min is 5 and char_max 2",
        "thinking opens with '```thinking\\n', which begins like stray",
        "json: the schema of the value must be of type object or array",
        "more: the schema of the value is no JSON Schema",
    ):
        assert sentence in events


def go(**parameters: Any) -> ToolSpec:
    return ToolSpec(name="go", description="", parameters=parameters)


@pytest.mark.parametrize(
    ("acting", "loops", "sentence"),
    [
        ([], 3, "no action state"),
        ([ToolCallState((STOP,))], 101, "100 is the most"),
        ([ToolCallState((go(type="array"),))], 3, "the schema of go must be of type object"),
        ([ToolCallState((go(type="object", properties={"x": {"type": "text"}}),))], 3, "is no JSON Schema"),
    ],
)
def test_a_machine_that_cannot_be_used_is_refused(acting: list[AgentState], loops: int, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        AgentStateMachine([Thinking()], acting, loops)


@pytest.mark.parametrize("later", [{"properties": {"x": {"$ref": "#/nowhere"}}}, {"required": 1}])
def test_a_schema_that_turns_out_to_be_wrong_is_a_fault_of_the_answer(later: dict[str, Any]) -> None:
    live = [go(type="object")]
    machine = AgentStateMachine([], [ToolCallState(live)], max_planning_loops=0)
    live[0] = go(type="object", **later)
    parser = read(machine, STOPS.replace("stop", "go").replace("{}", '{"x":1}'))
    assert "the arguments cannot be held to its schema (" in messages_of(parser.faults)


class Vanishing(ToolCallState):
    """A call whose tools are gone when it is asked again and again."""

    asked, last = 0, 0

    @property
    def state_machine(self) -> StateMachine:
        self.asked += 1
        self.tools = (STOP,) if self.asked <= self.last else ()
        return super().state_machine


@pytest.mark.parametrize("last", [2, 3])
def test_a_state_is_asked_once_for_one_output(last: int) -> None:
    """Tools that vanish between two questions must not leave a state that permits nothing."""
    state = Vanishing((STOP,))
    state.last = last
    machine = AgentStateMachine([Thinking()], [state])
    while (calls := machine.plan().contents.get("tool_call")) is not None:
        assert getattr(calls, "tools", None)


class Written(AgentState):
    """A state whose machine is given, as users of Proxy Base Agent write several."""

    def __init__(self, machine: StateMachine) -> None:
        super().__init__("written", "written", ("<written>", "</written>"), "cyan", "*")
        machine.identifier = self.identifier
        self.machine = machine

    @property
    def state_machine(self) -> StateMachine:
        return self.machine

    @property
    def state_prompt(self) -> str:
        return "Write."


FENCE = ("<written>", "</written>")


@pytest.mark.parametrize(
    "make",
    [
        lambda: JsonStateMachine(RISKS),
        lambda: EncapsulatedStateMachine(JsonStateMachine(RISKS), FENCE),
        lambda: StateMachine({0: [(JsonStateMachine(RISKS), 1)]}, 0, [1]),
        lambda: StateMachine({0: [(EncapsulatedStateMachine(JsonStateMachine(RISKS), FENCE), 1)]}, 0, [1]),
        lambda: StateMachine({"start": [(JsonStateMachine(RISKS), "end")]}, start_state="start", end_states=["end"]),
    ],
)
def test_a_machine_is_built_as_users_of_pse_core_build_it(make: Callable[[], StateMachine]) -> None:
    """One JSON value however it is wrapped: read, refused where it does not fit, and in the grammar."""
    machine = AgentStateMachine([], [Written(make())], max_planning_loops=0)
    assert not read(machine, '<written>{"risk": "none"}</written>').faults
    (fault,) = read(machine, '<written>{"risk": 1}</written>').faults
    assert "`risk` must be a text" in fault.message
    assert "risk" in str(structural_tag(machine.plan()))


@pytest.mark.parametrize(
    ("content", "fits"),
    [
        ('verdict: {"risk": "none"}', True),
        ('<note>one</note><note>two</note>verdict: {"risk": "none"}', True),
        ("verdict: ", False),
        ('<note>o</note>verdict: {"risk": "none"}', False),
        ('{"risk": "none"}', False),
        ('verdict: {"risk": 1}', False),
    ],
)
def test_a_graph_of_machines_is_followed_step_by_step(content: str, fits: bool) -> None:
    """A list of notes, each in a fence, and then a value: what leaves the graph is refused."""
    note = FencedFreeformStateMachine("note", ("<note>", "</note>"), 2, 20)
    steps = StateMachine({0: [(note, 0), ("verdict: ", 1)], 1: [(JsonStateMachine(RISKS), 2)]}, 0, [2])
    machine = AgentStateMachine([], [Written(steps)], max_planning_loops=0)
    faults = messages_of(read(machine, f"<written>{content}</written>").faults)
    assert ("does not follow the steps of its state machine" in faults) is not fits
