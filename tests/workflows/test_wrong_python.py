"""Python that hands over something wrong gets a sentence: what is wrong, where, and what to do.

Types are ignored here on purpose: users' code need not be checked.
"""

# mypy: disable-error-code="arg-type, dict-item, list-item, type-var"

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tenex import (
    AgentLink,
    AgentState,
    AgentStateMachine,
    AgentTarget,
    AllOf,
    Always,
    BaseAgent,
    BaseNode,
    ContextEquals,
    ContextIn,
    End,
    FencedFreeformStateMachine,
    FromSpeaker,
    Graph,
    GraphRunContext,
    Limits,
    Link,
    OutputModel,
    Python,
    State,
    StateMachine,
    Thinking,
    Transition,
    TransitionGraph,
    durable,
    get_model,
    mission_folder,
    register_condition,
    tool,
)
from tenex.core.errors import TenexError
from tenex.core.messages import ModelRequest, ModelStep

Wrong = Callable[[], Any]
"""Does something wrong; may return a coroutine that does."""


def sentence_of(wrong: Wrong) -> str:
    """The text of the error, which may be raised by the call or by the coroutine that it returns."""

    async def call() -> None:
        made = wrong()
        if asyncio.iscoroutine(made):
            await asyncio.wait_for(made, 10)

    with pytest.raises(TenexError) as raised:
        asyncio.run(call())
    return str(raised.value)


class Says:
    """A model that says one thing."""

    def __init__(self, said: Any = None) -> None:
        self._said = ModelStep(text="hello") if said is None else said

    async def step(self, request: ModelRequest, on_text: Any = None) -> Any:
        return self._said


# ---- missions --------------------------------------------------------------------------------------------------------


@dataclass
class Count:
    number: int = 0


@dataclass
class Only(BaseNode[Count, None, str]):
    async def run(self, ctx: GraphRunContext[Count, None]) -> End[str]:
        return End("done")


def mission(**given: Any) -> Any:
    return Graph(**{"nodes": (Only,), "state_type": Count, **given})


def node(**arguments: Any) -> Any:
    """The graph of one node whose class has these arguments."""

    @dataclass
    class Made(BaseNode[Count, None, str], **arguments):
        async def run(self, ctx: GraphRunContext[Count, None]) -> End[str]:
            return End("")

    return mission(nodes=[Made])


def named(name: Any) -> Any:
    @dataclass
    class Made(BaseNode[Count, None, str]):
        async def run(self, ctx: GraphRunContext[Count, None]) -> End[str]:
            return End("")

        @classmethod
        def get_node_id(cls) -> Any:
            return name

    return mission(nodes=[Made])


def of_run(*parameters: str) -> Any:
    """The graph of a node whose `run` takes these parameters."""
    taken: dict[str, Any] = {}
    exec(f"async def run({', '.join(('self', *parameters))}): ...", taken)
    taken["run"].__annotations__["return"] = End[str]
    return mission(nodes=[dataclass(type("Made", (BaseNode,), {"run": taken["run"]}))])


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: mission(nodes=(dict,)), "nodes[0] is the class dict; it must be a class that derives from BaseNode."),
        (lambda: mission(nodes=(Only()), name="m"), "workflow m: `nodes` is an Only; it must be a list of classes"),
        (lambda: mission(nodes=[Only()]), "nodes[0] is an instance; give the class Only itself."),
        (lambda: mission(nodes=[Only, "Only", None, 3]), "nodes[1] is a str; it must be a class"),
        (lambda: mission(nodes=[Only, "Only", None, 3]), "nodes[2] is None; it must be a class"),
        (lambda: mission(nodes=[BaseNode]), "nodes[0] is the class BaseNode; it must be a class that derives from"),
        (lambda: mission(nodes=Only), "`nodes` is the class Only; it must be a list of classes"),
        (lambda: mission(nodes=None), "`nodes` is None; it must be a list of classes"),
        (lambda: mission(nodes={Only}), "`nodes` is a set; it must be a list of classes"),
        (lambda: mission(nodes=[]), "it has no nodes."),
        (lambda: mission(nodes=[Only, Only]), "2 nodes are called Only"),
        (lambda: mission(name=None), "`name` must be a text that is not empty."),
        (lambda: mission(state_type=Count()), "must be a pydantic model, a dataclass or None, not a Count."),
        (lambda: mission(state_type="Count"), "must be a pydantic model, a dataclass or None, not a str."),
        (lambda: mission(state_type=list[int]), "must be a pydantic model, a dataclass or None, not list[int]."),
        (lambda: mission(deps_type=Count()), "`deps_type` is a Count; it must be a class."),
        (lambda: node(timeout=True), "timeout is True; it must be above 0 seconds"),
        (lambda: node(retries=1.5), "retries is 1.5; it must be a whole number, 0 or more."),
        (lambda: node(retries="2"), "retries is '2'; it must be a whole number"),
        (lambda: node(retries=-1), "retries is -1; it must be a whole number, 0 or more."),
        (lambda: node(on_error=3), "on_error is an int; it must be the class of a node, or its name."),
        (lambda: node(on_error=Only()), "on_error is an Only; it must be the class of a node"),
        (lambda: node(phase=3), "phase is 3; it must be a text, or left out."),
        (lambda: node(on_eror="Only"), "takes timeout, retries, on_error and phase, not on_eror."),
        (lambda: named(3), "get_node_id returns 3; it must return a text."),
        (lambda: of_run(), "run must take the context and nothing else: `async def run(self, ctx)`."),
        (lambda: of_run("ctx", "more"), "run must take the context and nothing else"),
        (lambda: mission().run(Only, state=Count()), "the class Only is no node; give an instance of one, such as"),
        (lambda: mission().run(None, state=Count()), "None is no node; give an instance of one, such as Only(...)"),
        (lambda: mission().run(End("x"), state=Count()), "an End is no node"),
        (lambda: mission().run(Only(), state=Count), "the state is the class Count; give an instance of it"),
        (lambda: mission().run(Only(), state={}), "the state is no Count that can be journaled"),
        (lambda: mission().run(Only(), state=Count(), mission=3), "`mission` is 3; give a text that is not empty"),
        (lambda: mission().run(Only(), state=Count(), journal=Path()), "open a folder as one: `async with tenex.mis"),
        (lambda: mission().run(Only(), state=Count(), clock=3), "`clock` is an int, which is no clock; leave it out."),
        (lambda: mission().run(Only(), state=Count(), limits={}), "`limits` is a dict; give tenex.Limits(...)."),
        (
            lambda: mission().run(Only(), state=Count(), limits=Limits(steps_per_run=1.5)),
            "`limits.steps_per_run` is 1.5; it must be a whole number, 0 or more.",
        ),
        (
            lambda: mission().run(Only(), state=Count(), limits=Limits(cost_per_run_usd=-1)),
            "`limits.cost_per_run_usd` is -1; it must be a number, 0 or more.",
        ),
    ],
)
def test_a_wrong_mission_is_refused_with_a_sentence(wrong: Wrong, says: str) -> None:
    assert says in sentence_of(wrong)


@pytest.mark.parametrize(
    ("step", "says"),
    [
        (lambda ctx: ctx.step(3, print), "A step's name is an int; it must be a text."),
        (lambda ctx: ctx.step("a", None), "The step a was given None; give a function, and its arguments after it."),
        (lambda ctx: ctx.step("a", asyncio.sleep(0)), "The step a was given a coroutine; give the function"),
        (lambda ctx: ctx.step("a", print, replay="twice"), "must be one of read, idempotent, once."),
        (lambda ctx: ctx.ask(3, "x"), "`name` of what is asked is an int; give a text."),
    ],
)
def test_a_wrong_step_fails_its_node_with_a_sentence(step: Callable[[Any], Any], says: str) -> None:
    @dataclass
    class Made(BaseNode[Count, None, str], retries=0):
        async def run(self, ctx: GraphRunContext[Count, None]) -> End[str]:
            await step(ctx)
            return End("")

    ended = asyncio.run(mission(nodes=[Made]).run(Made(), state=Count()))
    assert (ended.outcome, ended.kind) == ("failed", "WorkflowError")
    assert says in ended.error


# ---- speakers --------------------------------------------------------------------------------------------------------


def rules(**given: Any) -> TransitionGraph:
    usual: dict[str, Any] = {"transitions": [Transition(FromSpeaker("a"), AgentTarget("b"))], "max_turns": 3}
    return TransitionGraph("a", **{**usual, **given})


def rule(when: Any = None, then: Any = None, priority: Any = 0) -> TransitionGraph:
    return rules(transitions=[Transition(when or Always(), then or AgentTarget("b"), priority)])


def talk(**given: Any) -> Any:
    usual: dict[str, Any] = {"message": "Begin", "agents": {"a": "You are a.", "b": "You are b."}, "model": Says()}
    return rules().run(**{**usual, **given})


@dataclass
class Slow:
    name: ClassVar[str] = "slow"

    async def evaluate(self, state: Any, envelope: Any) -> bool:
        return True


class Bare:
    name: ClassVar[str] = "bare"

    def evaluate(self) -> bool:
        return True


class Twice:
    name: ClassVar[str] = "always"

    def evaluate(self, state: Any, envelope: Any) -> bool:
        return False


class Undeclared:
    name: ClassVar[str] = "undeclared"

    def __init__(self, least: int) -> None:
        self.least = least

    def evaluate(self, state: Any, envelope: Any) -> bool:
        return True


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: ContextEquals("route"), "ContextEquals of 'route' has no value; give one: None (null) is a variable"),
        (lambda: ContextIn("k", 3), "ContextIn needs a list of values, not an int."),
        (lambda: ContextIn("k", None), "ContextIn needs a list of values, not None."),
        (lambda: AllOf(Always()), "AllOf needs a list of conditions, not an Always: write AllOf([...])."),
        (lambda: rule(priority=1.5).compile(), "transitions[0].priority is 1.5; it must be a whole number, lower ones"),
        (lambda: rule(priority="1").mermaid(), "transitions[0].priority is '1'; it must be a whole number"),
        (lambda: rule(priority=None).begin(["a", "b"]), "transitions[0].priority is None; it must be a whole number"),
        (
            lambda: rule(when=Always).compile(),
            "transitions[0].when is the class Always; give an instance of it: Always(...)",
        ),
        (lambda: rule(when="always").mermaid(), "transitions[0].when is no condition but str."),
        (lambda: rule(then=Always()).compile(), "transitions[0].then is no target but Always."),
        (lambda: rule(when=FromSpeaker(3)).mermaid(), "transitions[0].when.agent_id is 3; it must be str."),
        (lambda: rule(when=FromSpeaker("")).compile(), "transitions[0].when.agent_id is an empty text"),
        (lambda: rules(transitions=None).compile(), "transitions is None; it must be a list of Transition."),
        (lambda: rules(transitions=Transition(Always(), AgentTarget("b"))).compile(), "transitions is a Transition;"),
        (lambda: rules(transitions=[{"when": 1}]).mermaid(), "transitions[0] is a dict; it must be a Transition."),
        (lambda: rules(participants=None).compile(), "participants must be a list of names."),
        (lambda: rules(participants="ab").compile(), "participants must be a list of names."),
        (lambda: rules(max_turns=1.5).compile(), "max_turns is 1.5; it must be 1 or more, or left out."),
        (lambda: TransitionGraph.sequence(3), "sequence needs its steps as a list of names, not an int."),
        (lambda: TransitionGraph.sequence({"a": 1}), "sequence needs its steps as a list of names, not a dict."),
        (lambda: TransitionGraph.sequence(["a", BaseAgent]), "steps[1] is the class BaseAgent; it must be a name."),
        (lambda: TransitionGraph.round_robin(["a", ""]), "participants[1] is an empty text; it must be a name."),
        (lambda: TransitionGraph.star("a", [3]), "star: spokes[0] is an int; it must be a name."),
        (lambda: TransitionGraph.triage("a", ["b"]), "triage needs its routes, each value of 'route' with a name"),
        (lambda: TransitionGraph.from_dict({"triage": {"key": "k"}}), "triage takes triage, routes, key, otherwise"),
        (lambda: TransitionGraph.from_dict({"star": ["a"]}), "star takes center, spokes, max_turns, and has a list."),
        (lambda: register_condition(Slow), "Slow.evaluate is async; it must answer at once."),
        (lambda: register_condition(Bare), "Bare.evaluate must take (self, state, envelope)."),
        (lambda: register_condition(Twice), "'always' is a condition that is built in; give yours another name."),
        (lambda: talk(agents=None), "`agents` is None; give a dict of names with agents, or their instructions."),
        (lambda: talk(agents=["a", "b"]), "`agents` is a list; give a dict of names"),
        (lambda: talk(agents={"a": BaseAgent, "b": "B"}), "agents['a'] is the class BaseAgent; give an agent"),
        (lambda: talk(agents={"a": "A", "b": "B", 3: "C"}), "`agents` has the name 3; a name is a text"),
        (lambda: talk(message=3), "The message is an int; give a text, or None to go on."),
        (lambda: talk(message=" "), "The message is empty; give a text, or None to go on."),
        (lambda: talk(model="openai:gpt-5"), "`model` is a str, which has no `async def step(request, on_text)`"),
        (lambda: talk(model=Says), "`model` is the class Says, which has no `async def step"),
        (lambda: talk(journal="folder"), "`journal` is a str, which is no journal; open a folder as one"),
        (lambda: talk(thread=3), "`thread` is 3; give a text that is not empty, or leave it out."),
    ],
)
def test_a_wrong_graph_of_speakers_is_refused_with_a_sentence(wrong: Wrong, says: str) -> None:
    assert says in sentence_of(wrong)


@pytest.mark.usefixtures("fresh_default")
def test_a_condition_that_would_lose_its_values_is_refused_with_a_sentence() -> None:
    register_condition(Undeclared)
    assert (
        "Undeclared is no dataclass, so its values would be lost; add @dataclass."
        in rule(when=Undeclared(3)).validate().faults[0]
    )


def test_a_condition_in_a_file_has_a_value() -> None:
    """One without it fired for everybody whose variable was not set."""
    when = {"name": "context_equals", "args": {"key": "route"}}
    data = {"initial_speaker": "a", "transitions": [{"when": when, "then": {"name": "stay"}}]}
    assert "transitions[0].when: context_equals" in sentence_of(lambda: TransitionGraph.from_dict(data))
    assert sentence_of(lambda: TransitionGraph.from_dict(data)).endswith("is a variable that is not set.")
    when["args"]["value"] = None  # type: ignore[index]
    assert TransitionGraph.from_dict(data).transitions[0].when == ContextEquals("route", None)


@pytest.mark.parametrize(
    ("graph", "turns", "reason"),
    [
        (TransitionGraph.sequence(["a", "b"]), 2, "sequence_complete"),
        (TransitionGraph.sequence(["a", "b"], max_turns=1), 1, "max_turns"),
        (TransitionGraph.sequence(["a", "b"], max_turns=9), 2, "sequence_complete"),
        (TransitionGraph.from_dict({"sequence": ["a", "b"], "max_turns": 1}), 1, "max_turns"),
        (TransitionGraph.from_dict({"triage": {"triage": "a", "routes": {"x": "b"}}, "max_turns": 5}), 1, "no_route"),
    ],
)
def test_a_sequence_takes_the_most_turns_like_the_other_shapes(graph: Any, turns: int, reason: str) -> None:
    ended = asyncio.run(graph.run("Begin", agents={"a": "You are a.", "b": "You are b."}, model=Says()))
    assert (ended.turns, ended.reason) == (turns, reason)


# ---- agents ----------------------------------------------------------------------------------------------------------


class Helper(BaseAgent):
    __system_message__ = "You help."


class Planner(BaseAgent):
    __system_message__ = "You plan."
    plan: State[str] = State(default="")
    helper: Link[Helper] = AgentLink()
    phases: ClassVar[Any] = [("begin", "finish", lambda self: bool(self.plan))]

    @tool("Write it down")
    def write(self, text: str) -> str:
        return text


def assigned(name: str, value: Any) -> Wrong:
    return lambda: setattr(Planner(), name, value)


def agent(annotations: Any = None, **members: Any) -> Wrong:
    """Makes an agent whose class has these members."""
    body = {"__system_message__": "You work.", "__annotations__": annotations or {}, "__module__": __name__, **members}
    return lambda: type("Made", (BaseAgent,), body)()


class NoSuper(BaseAgent):
    __system_message__ = "You work."

    def __init__(self) -> None:
        self.own = 1


def free() -> str:
    return ""


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (assigned("helper", Helper()), "Planner.helper is a link, which cannot be set: the program makes the linked"),
        (assigned("helper", Helper()), "Name its class instead: `helper: Link[Helper] = AgentLink()`."),
        (assigned("plan", 3), "the state's plan must be str, and this int is none"),
        (assigned("phase", "finish"), "Planner.phase cannot be set; it changes by a condition of `phases`"),
        (assigned("state", {}), "Planner.state cannot be set; set a field of it by its name."),
        (assigned("write", print), "write is a tool of Planner and cannot be set; change the class."),
        (lambda: Planner().helper("hi"), "helper is a link: the agent's model calls it."),
        (lambda: Planner(model=Says), "`model` is the class Says, which has no `async def step"),
        (lambda: Planner(model=Says(), journal="x"), "`journal` is a str, which is no journal"),
        (lambda: Planner(model=Says(), limits=3), "`limits` is an int; give tenex.Limits(...)."),
        (lambda: Planner(model=Says(), thread=""), "`thread` is ''; give a text that is not empty"),
        (lambda: Planner(model=Says()).run(3), "The message is an int; give a text, or None to go on."),
        (lambda: Planner(model=Says()).run(""), "The message is empty; give a text"),
        (lambda: Planner().load(None), "A dump of an agent is a dict, not None."),
        (lambda: NoSuper().run("x"), "NoSuper.__init__ does not call super().__init__(**kwargs); call it there."),
        (agent({"x": State[str]}), "x is annotated as State and has no value; write `x: State[...] = State(default"),
        (agent({"x": State[str]}, x=State), "x is annotated as State and is the class State; write"),
        (agent({"x": Link[Helper]}), "x is annotated as Link and has no value; write `x: Link[...] = AgentLink()`."),
        (agent({"x": Link[Helper]}, x=Helper()), "x is annotated as Link and is a Helper; write"),
        (agent({"x": Link}, x=Link(Helper)), "the link x is given the class Helper; write `Link[Helper] = AgentLink"),
        (agent({"x": Link}, x=Link(3)), "the link x is given an int; it must be the slug of an agent."),
        (agent({"x": Link[Helper]}, x=Link(shared=3)), "the link x: `shared` is 3; it must be True or False."),
        (agent({"x": Link[Helper]}, x=Link(phases=3)), "`phases` must be a list of names, such as phases=['planning']"),
        (agent({"x": State[str]}, x=State(default="", description=3)), "the state's x: `description` must be a text."),
        (agent(t=tool("Work", phases=3)(lambda self: "")), "the tool t: `phases` must be a list of names"),
        (agent(t=tool("Work", timeout=float("inf"))(lambda self: "")), "`timeout` is inf; it must be seconds"),
        (agent(t=tool("Work")(free)), "the tool t: it must take `self` first."),
        (agent(t=staticmethod(tool("Work")(free))), "the tool t is a staticmethod; it must be a method of the agent."),
        (lambda: tool("Work")(3), "@tool is before an int; it must be before a method of an agent."),
    ],
)
def test_a_wrong_agent_is_refused_with_a_sentence(wrong: Wrong, says: str) -> None:
    assert says in sentence_of(wrong)


class NotAsync:
    """A model whose `step` is not async."""

    def step(self, request: ModelRequest, on_text: Any = None) -> ModelStep:
        return ModelStep(text="hello")


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (Says("hello"), "the model's `step` returned a str; it must return a ModelStep"),
        (Says({}), "the model's `step` returned a dict; it must return a ModelStep"),
        (NotAsync(), "the model's `step` is not async; write `async def step(request, on_text)`"),
    ],
)
def test_a_model_of_ones_own_that_answers_wrongly_fails_the_run_with_a_sentence(model: Any, says: str) -> None:
    answer = asyncio.run(Planner(model=model).run("Plan it"))
    assert (answer.outcome, answer.error) == ("failed", says)


# ---- output states ---------------------------------------------------------------------------------------------------


class Note(AgentState):
    """A planning state with one attribute given by a test."""

    def __init__(self, machine: Any = None, prompt: Any = "Write.", **given: Any) -> None:
        usual = {"readable_name": "Note", "delimiters": ("<note>", "</note>"), "color": "red", "emoji": "!"}
        super().__init__(**{"identifier": "note", **usual, **given})
        self._machine, self._prompt = machine, prompt

    @property
    def state_machine(self) -> Any:
        return self._machine() if callable(self._machine) else self._machine or FencedFreeformStateMachine()

    @property
    def state_prompt(self) -> Any:
        return self._prompt


class Unfinished(AgentState):
    state_prompt = "Write."
    state_machine = FencedFreeformStateMachine()

    def __init__(self) -> None:
        pass


def states(*planning: Any, **given: Any) -> Any:
    return AgentStateMachine(list(planning), [Python()], **given)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: states(Thinking), "planning_states[0] is the class Thinking; give an instance of it: Thinking()."),
        (lambda: states("thinking"), "planning_states[0] is a str; it must be an AgentState."),
        (lambda: AgentStateMachine(Thinking(), [Python()]), "planning_states is a Thinking; it must be a list of sta"),
        (lambda: AgentStateMachine([], None), "action_states is None; it must be a list of states."),
        (lambda: states(Thinking(), max_planning_loops=1.5), "max_planning_loops is 1.5; it must be a whole number."),
        (lambda: states(Thinking(), min_planning_loops="1"), "min_planning_loops is '1'; it must be a whole number."),
        (lambda: states(Note(identifier=3)), "Note: `identifier` is 3; it must be a text."),
        (lambda: states(Note(emoji=None)), "Note: `emoji` is None; it must be a text."),
        (lambda: states(Note(delimiters="ab")), "Note: `delimiters` is 'ab'; it must be two texts, before and after"),
        (lambda: states(Note(delimiters=("a",))), "Note: `delimiters` is ('a',); it must be two texts"),
        (lambda: states(Note(machine="free")), "Note: its state_machine is a str; it must be a StateMachine."),
        (lambda: states(Note(machine=lambda: 1 / 0)), "Note: its state_machine failed: ZeroDivisionError"),
        (lambda: states(Note(prompt=3)), "Note: its state_prompt is an int; it must be a text."),
        (lambda: states(Unfinished()), "Unfinished.__init__ does not call super().__init__(...); call it there."),
        (lambda: Thinking(character_max="9"), "Thinking: character_max is '9'; it must be a whole number."),
        (lambda: StateMachine([1]), "The graph of a StateMachine is a list; it must be a dict of nodes"),
        (lambda: StateMachine({0: 3}), "has no steps at 0; it must be a dict of nodes"),
        (lambda: OutputModel(None, {}), "`model` is None, which has no `async def step(request, on_text)`."),
        (lambda: OutputModel(Says(), {"a": 3}), "`outputs` must be a dict of agents' slugs, each with an AgentOutput."),
    ],
)
def test_wrong_output_states_are_refused_with_a_sentence(wrong: Wrong, says: str) -> None:
    assert says in sentence_of(wrong)


async def opened(path: Any) -> None:
    async with mission_folder(path) as journal:
        assert journal is not None


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: opened(None), "the folder of missions is None; give a path."),
        (lambda: opened(""), "the folder of missions is an empty text; give a path."),
        (lambda: get_model("offline", data=3), "`data` of get_model is an int; give a path."),
        (lambda: durable(replay="twice"), "@durable: `replay` is 'twice'; it must be one of read, idempotent, once."),
        (lambda: durable(print), "@durable needs its parentheses: write @durable()."),
        (lambda: durable()(print), "@durable is before print, which is not async."),
    ],
)
def test_other_wrong_arguments_are_refused_with_a_sentence(wrong: Wrong, says: str) -> None:
    assert says in sentence_of(wrong)


def test_a_path_may_be_a_text(tmp_path: Path) -> None:
    asyncio.run(opened(str(tmp_path / "missions")))
    assert (tmp_path / "missions").is_dir()
    assert get_model("offline", data=str(tmp_path)) is not None
