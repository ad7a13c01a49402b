"""Agents written in Python, run by themselves: the pages of pyagentic, rewritten, on a scripted model."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.errors import (
    AppendFailed,
    ConfigurationError,
    InternalError,
    ModelUnavailable,
    SerializationError,
    UsageError,
    WorkflowError,
)
from tenex.core.messages import AgentText, ModelRequest, ModelStep
from tenex.core.ports import OnText, ignore_text
from tenex.core.records import Record
from tenex.workflows.agents import AgentLink, BaseAgent, Link, State, tool
from tenex.workflows.agents.definition import ask_now, program
from tests.fakes.python_agents import ScriptedModel, calls, manages, researches, results, script
from tests.workflows.pages.research_agent import ResearchAgent

from .mission_kit import Journals, Mute
from .pages import project_agent


def ran(agent: BaseAgent, text: str | None = "Go") -> str:
    return asyncio.run(agent.run(text)).final_output


def kept(journal: Journals, kind: type[Record]) -> list[Any]:
    return [record for record in journal.records() if isinstance(record, kind)]


# ---- the page -------------------------------------------------------------------------------------------------------


def test_the_first_example_goes_from_phase_to_phase() -> None:
    model = ScriptedModel(researches)
    agent = ResearchAgent(model=model)
    result = asyncio.run(agent.run("Research tea"))
    assert result.final_output == "Done: Analysis of 3 data points"
    assert (agent.phase, agent.state.phase, result.phase) == ("analysis",) * 3
    assert model.tools == [["create_plan"], *[["gather_data"]] * 3, *[["analyze"]] * 2]
    assert "Focus on creating a research plan." in model.asked[0].system
    assert "Execute the research plan" in model.asked[1].system
    assert agent.data == ["Data for: q1", "Data for: q2", "Data for: q3"]
    assert [move.trigger for move in agent.state.history] == ["planning_to_research", "research_to_analysis"]


def test_the_second_example_calls_each_subagent_in_its_phase() -> None:
    model = ScriptedModel(manages)
    agent = project_agent.ProjectAgent(model=model)
    assert (ran(agent, "Build a shed"), agent.phase, agent.plan) == ("All done.", "review", "p")
    late = [result.content for result in results(model.asked[-1]) if result.tool == "planner"]
    assert [late[0], "it belongs to planning" in late[1]] == ["planner-agent did what was asked", True]


# ---- state ----------------------------------------------------------------------------------------------------------


class Keeper(BaseAgent):
    __system_message__ = "You keep {{ count }} things."
    __input_template__ = "In {{ phase or 'no phase' }}: {{ user_message }}"
    count: State[int] = State(default=0)
    is_open: State[bool] = State(default=False)
    label: State[str] = State(default="")
    things: State[dict[str, list[int]]] = State(default_factory=dict)

    @tool("Adds")
    def add(self, name: str, number: int = 1) -> None:
        self.things.setdefault(name, []).append(number)
        self.state.count += number


def test_1_1_e_falsy_defaults_stay_what_they_are() -> None:
    agent = Keeper(model=ScriptedModel(script("Nothing yet.")))
    for _ in range(2):
        assert (agent.count, agent.state.is_open, agent.label) == (0, False, "")
        assert agent.dump()["values"] == {"count": 0, "is_open": False, "label": "", "things": {}}
        ran(agent)


def test_state_changed_in_place_is_seen_and_stays_from_run_to_run() -> None:
    model = ScriptedModel(script(calls("add", name="a", number=2), calls("add", name="a"), "Added."))
    journal = Journals()
    agent = Keeper(model=model, journal=journal)
    assert ran(agent, "Add") == "Added."
    assert (agent.things, agent.count) == ({"a": [2, 1]}, 3)
    agent.label = "mine"
    model.answer = script("Still there.")
    ran(agent, "And now?")
    assert (agent.things, agent.label) == ({"a": [2, 1]}, "mine")
    assert model.asked[-1].system == "You keep 3 things."
    shown = [getattr(entry, "text", "") for entry in model.asked[-1].entries]
    assert shown == ["Add", "Added.", "In no phase: And now?"]
    later = Keeper(model=model, journal=journal, label="theirs")
    ran(later, "And after a restart?")
    assert (later.things, later.count, later.label) == ({"a": [2, 1]}, 3, "theirs")


@pytest.mark.parametrize("text", ["/stop", "@somebody look at this"])
def test_a_programs_text_is_text_whatever_it_looks_like(text: str) -> None:
    assert ran(Keeper(model=ScriptedModel(script("Read."))), text) == "Read."


def test_state_and_model_are_of_their_type() -> None:
    agent = Keeper()
    with pytest.raises(SerializationError, match="the state's count must be int, and this str is none"):
        agent.count = "three"  # type: ignore[assignment]
    with pytest.raises(UsageError, match="Keeper has no state colour; it has: count, is_open, label, things"):
        Keeper(colour="red")
    with pytest.raises(AttributeError, match="no field 'colour'"):
        agent.state.colour = "red"
    with pytest.raises(UsageError, match="`model` is a str, which has no `async def step"):
        Keeper(model="openai:gpt-5.2")  # type: ignore[arg-type]


def test_a_type_that_is_no_json_is_a_fault_where_the_class_is_made() -> None:
    with pytest.raises(ConfigurationError, match="Held: the state's lock cannot be journaled"):

        class Held(BaseAgent):
            __system_message__ = "You hold."
            lock: State[Callable[[], int]] = State(default=int)


def test_a_class_that_derives_from_an_agent_has_what_that_has() -> None:
    class Careful(ResearchAgent):
        doubts: State[int] = State(default=0)
        phases = [*ResearchAgent.phases, ("analysis", "planning", lambda self: self.doubts > 0)]

        @tool("Doubt", phases=["analysis"])
        def analyze(self) -> str:
            self.research_plan, self.doubts = "", 1
            return "I doubt it."

    plan, gather = calls("create_plan", topic="tea", approach="books"), calls("gather_data", query="q")
    model = ScriptedModel(script(plan, gather, calls("analyze"), "I start again."))
    agent = Careful(model=model, data=["one", "two"])
    ran(agent, "Research")
    assert model.tools == [["create_plan"], ["gather_data"], ["analyze"], ["create_plan"]]
    assert [move.target for move in agent.state.history] == ["research", "analysis", "planning"]


# ---- phases ---------------------------------------------------------------------------------------------------------


def test_1_1_d_conditions_are_called_with_the_agent_and_only_those_of_its_phase() -> None:
    """`self.x`, `self.state.x` and methods work; one that raises is not true, and ends nothing."""

    class Asking(BaseAgent):
        __system_message__ = "{{ phase }}"
        plan: State[str] = State(default="")
        phases = [
            ("planning", "broken", lambda self: self.nobody_wrote_this),
            ("planning", "research", lambda self: self._is_planned() and bool(self.state.plan)),
            ("research", "done", lambda self: 1 / 0),
            ("broken", "done", lambda self: True),
        ]

        def _is_planned(self) -> bool:
            return len(self.plan) > 2

        @tool("Save")
        def save(self, text: str) -> str:
            self.plan = text
            return "Saved."

    journal = Journals()
    model = ScriptedModel(script(calls("save", text="x"), calls("save", text="long"), "Done."))
    agent = Asking(model=model, journal=journal)
    assert ran(agent) == "Done."
    assert (agent.phase, agent.plan) == ("research", "long")
    failed = [(one.source, one.target, one.error.partition(":")[0]) for one in kept(journal, r.ConditionFailed)]
    assert failed == [("planning", "broken", "AttributeError"), ("research", "done", "ZeroDivisionError")]


def test_a_pair_is_a_trigger_that_asks_its_condition() -> None:
    agent: Any = ResearchAgent(model=ScriptedModel(script("Done.")))
    assert agent.planning_to_research() is False
    agent.research_plan = "a plan"
    assert agent.planning_to_research() is True
    with pytest.raises(WorkflowError, match="planning_to_research: the agent is in the phase research"):
        agent.planning_to_research()
    with pytest.raises(AttributeError):
        agent.research_to_planning()
    assert [move.trigger for move in agent.state.history] == ["planning_to_research"]
    ran(agent)
    assert agent.phase == "research", "what was done between runs counts in the next"


@pytest.mark.parametrize(
    ("words", "reported", "renewed"),
    [
        ("{{ done|length }} done", ["0 done", "2 done", "2 done"], 1),
        ("{{ state.done|length }} done", ["0 done", "2 done", "2 done"], 1),
        ("Work. {{ phase }}", ["Work."] * 3, 0),
    ],
)
def test_words_that_show_state_are_reported_as_it_is_when_the_model_is_asked(
    words: str, reported: list[str], renewed: int
) -> None:
    class Counting(BaseAgent):
        __system_message__ = words
        done: State[list[str]] = State(default_factory=list)

        @tool("Keep")
        def keep(self, *, what: str = "") -> None:
            self.done += [what] if what else []

    both = ModelStep(calls=(*calls("keep", what="a").calls, *calls("keep", what="b").calls), model="script")
    model, journal = ScriptedModel(script(both, "", calls("keep"), "Done.")), Journals()
    ran(Counting(model=model, journal=journal))
    assert [request.system for request in model.asked] == reported
    assert len(kept(journal, r.PromptRerendered)) == renewed


def test_1_1_b_one_evaluation_is_one_change_and_the_tools_of_each_phase_are_offered() -> None:
    class Hasty(BaseAgent):
        __system_message__ = "You work."
        ready: State[bool] = State(default=False)
        phases = [("a", "b", lambda self: self.ready), ("b", "c", lambda self: self.ready)]

        @tool("Go", phases=["a"])
        def go(self) -> None:
            self.ready = True

        @tool("Look", phases=["b"])
        def look(self) -> None:
            """Do nothing."""

    model, journal = ScriptedModel(script(calls("go"), "Done.")), Journals()
    ran(Hasty(model=model, journal=journal))
    assert model.tools == [["go"], ["look"]]
    assert [(one.source, one.target) for one in kept(journal, r.AgentPhaseChanged)] == [("a", "b"), ("b", "c")]


def test_a_trigger_within_a_call_is_the_move_of_that_call() -> None:
    class Driver(BaseAgent):
        __system_message__ = "{{ phase }}"
        ready: State[bool] = State(default=False)
        phases = [("a", "b", lambda self: self.ready), ("b", "c", lambda self: self.ready)]

        @tool("Go")
        def go(self) -> str:
            self.ready = True
            return str(self.a_to_b())

    model, journal = ScriptedModel(script(calls("go"), "Done.")), Journals()
    ran(Driver(model=model, journal=journal))
    assert [(one.source, one.target) for one in kept(journal, r.AgentPhaseChanged)] == [("a", "b"), ("b", "c")]
    assert [request.system for request in model.asked] == ["a", "b"]


def test_1_1_c_a_call_out_of_phase_or_against_a_condition_is_refused_when_it_is_made() -> None:
    class Guarded(BaseAgent):
        __system_message__ = "{{ phase }}"
        keys: State[int] = State(default=0)
        phases = [("shut", "open", lambda self: self.keys > 1)]

        @tool("Get a key", phases=["shut", "open"])
        def get(self) -> str:
            self.keys += 1
            return "One more."

        @tool("Enter", phases=["open"], condition=lambda self: self.keys > 2)
        def enter(self) -> str:
            raise AssertionError("it is shut")

    model = ScriptedModel(script(calls("enter"), calls("get"), calls("get"), calls("enter"), "Outside."))
    ran(Guarded(model=model))
    refused = [result.content for result in results(model.asked[-1]) if result.tool == "enter"]
    assert "You are in your phase shut. You may use: get." in refused[0]
    assert "its condition does not hold" in refused[1]
    assert model.tools == [["get"]] * 5


# ---- tools ----------------------------------------------------------------------------------------------------------


class Worker(BaseAgent):
    __system_message__ = "You work."
    done: State[list[str]] = State(default_factory=list)

    @tool("Fails after it has changed something")
    def fail(self) -> None:
        self.done.append("half")
        raise ValueError("the paper is out")

    @tool("Cannot state why it failed")
    def mute(self) -> None:
        self.done.append("half")
        raise Mute

    @tool("Never ends", timeout=0.05)
    def hang(self) -> None:
        self.done.append("late")
        time.sleep(0.2)

    @tool("Waits", timeout=0.05)
    async def wait(self) -> None:
        await asyncio.Event().wait()

    @tool("Leaves what is no text")
    def spoil(self) -> None:
        self.done.append(3)  # type: ignore[arg-type]

    @tool("Says it reads", replay="read")
    def peek(self) -> None:
        self.done.append("peeked")

    @tool("Works", replay="idempotent")
    async def work(self, times: int, names: list[str] | None = None, *, idempotency_key: str) -> dict[str, int]:
        self.done.extend(names or ["x"] * times)
        return {"times": times, "key": len(idempotency_key.split(":"))}


@pytest.mark.parametrize(
    ("call", "reported"),
    [
        (calls("fail"), "fail failed: ValueError: the paper is out"),
        (calls("mute"), "mute failed: Mute"),
        (calls("hang"), "hang did not end within 0.05 s"),
        (calls("wait"), "wait did not end within 0.05 s"),
        (calls("spoil"), "spoil left the state invalid"),
        (calls("peek"), "peek is declared as `read` and has changed done"),
        (calls("work", times="many"), "work was not called, because its arguments do not fit: `times`"),
        (calls("work", count=2), "`times`: Field required; `count`: Extra inputs are not permitted"),
    ],
)
def test_a_call_that_goes_wrong_is_a_failed_result_and_changes_nothing(call: ModelStep, reported: str) -> None:
    model = ScriptedModel(script(call, "I saw it fail."))
    agent = Worker(model=model)
    assert ran(agent) == "I saw it fail."
    (result,) = results(model.asked[-1])
    assert not result.ok
    assert reported in result.content
    assert agent.done == []


def test_a_call_no_one_offered_does_not_end_an_agent_that_is_by_itself() -> None:
    """A model may name `finish`, which it knows from elsewhere; the talk with the caller has no such end."""
    for call in (calls("finish", summary="bye"), calls("handoff", target="person"), calls("delete_context", key="a")):
        journal, name = Journals(), call.calls[0].tool
        agent = Worker(model=ScriptedModel(script(call, "Done.")), journal=journal)
        assert [asyncio.run(agent.run(words)).final_output for words in ("One", "Two")] == ["Done.", "Done."]
        refused = [one.sentence for one in journal.records() if isinstance(one, r.ToolCallRejected)]
        assert [sentence.startswith(f"There is no tool {name}.") for sentence in refused] == [True, True]


def test_work_that_dies_ends_the_run_and_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*_: Any, **__: Any) -> Any:
        raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "no such character")

    monkeypatch.setattr("tenex.workflows.agents.invoke.log.error", dies)
    monkeypatch.setattr("tenex.runtime.executors.log.exception", dies)
    agent = Worker(model=ScriptedModel(script(calls("fail"), "It failed.")))
    with pytest.raises(InternalError, match="UnicodeEncodeError"):
        asyncio.run(asyncio.wait_for(agent.run("Try"), 20))


def test_a_tool_is_offered_with_the_schema_of_its_annotations() -> None:
    model = ScriptedModel(script(calls("work", times=2), "Done."))
    agent = Worker(model=model)
    ran(agent)
    (work,) = [known for known in model.asked[0].tools if known.name == "work"]
    assert (work.description, work.parameters["required"]) == ("Works", ["times"])
    assert work.parameters["properties"]["times"] == {"type": "integer"}
    assert "idempotency_key" not in work.parameters["properties"]
    assert results(model.asked[-1])[0].content == '{"times":2,"key":2}'
    assert agent.done == ["x", "x"]


def test_everything_wrong_with_a_class_is_reported_at_once() -> None:
    class Wrong(BaseAgent):
        __system_message__ = "{{ nobody }}"
        run: State[int] = State(default=0)  # type: ignore[assignment]
        bare: State[int] = State()
        phases = [
            *[("a", "b", lambda self: True), ("a", "b", lambda self: False), ("b", "c", "yes"), ("x", "y", bool)],
            *[("a", "x_to_y", bool), ("a_to_x", "y", bool)],
        ]
        friend: Link[int] = AgentLink(phases=["nowhere"])

        @tool("Plans", phases=["planning"])
        def plan(self, text) -> None:  # type: ignore[no-untyped-def]
            """Take what has no annotation."""

        @tool("Ends", replay="twice", access="all")  # type: ignore[arg-type]
        def finish(self) -> None:
            """Have the name of another tool."""

    with pytest.raises(ConfigurationError) as caught:
        Wrong()
    reported = "\n".join(caught.value.faults)
    for word in (
        "a -> b is listed twice",
        "a -> x_to_y and a_to_x -> y would both be the trigger a_to_x_to_y",
        "b -> c: its condition is 'yes' and cannot be called",
        "node x cannot be reached",
        "cannot be called run",
        "the state's bare has no default",
        "the link friend has no agent",
        "the link friend names nowhere, which is no phase of it",
        "the tool plan: `text` has no annotation",
        "the tool finish cannot be called so",
        "`replay` is 'twice'",
        "`access` is 'all'",
        "`__system_message__`: there is no variable nobody",
    ):
        assert word in reported
    assert all(sentence.startswith("Wrong: ") for sentence in caught.value.faults)


# ---- crashes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["before", "after"])
def test_1_1_f_what_was_cut_off_goes_on_at_every_step_with_phase_history_and_each_effect_once(when: str) -> None:
    """The process dies at each append, before or after it was kept; the same call again ends as one that never died."""
    whole = Journals()
    ran(ResearchAgent(model=ScriptedModel(researches), journal=whole), "Research tea")
    for at in range(1, whole.appends + 1):
        journal = Journals()
        journal.at = (at, when)
        with pytest.raises(AppendFailed):
            ran(ResearchAgent(model=ScriptedModel(researches), journal=journal), "Research tea")
        journal.at = None
        agent = ResearchAgent(model=ScriptedModel(researches), journal=journal)
        assert ran(agent, "Research tea").startswith("Done: Analysis of"), at
        assert agent.phase == "analysis"
        gathered = [one for one in kept(journal, r.ToolCallCompleted) if one.tool == "gather_data" and one.ok]
        assert agent.data == [one.content for one in gathered], at
        assert len(agent.data) == 3
        assert [move.target for move in agent.state.history] == ["research", "analysis"]


def test_a_dump_is_where_an_agent_is() -> None:
    agent = ResearchAgent(model=ScriptedModel(researches))
    ran(agent)
    other = ResearchAgent(model=ScriptedModel(script("Here.")))
    other.load(agent.dump())
    assert (other.phase, other.data, other.state.history) == ("analysis", agent.data, agent.state.history)
    ran(other)
    assert other.dump() == agent.dump()
    with pytest.raises(UsageError, match="of another agent than Keeper"):
        Keeper().load(agent.dump())


def test_a_model_that_cannot_be_reached_is_reported_and_what_was_done_is_kept() -> None:
    class Gone:
        async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
            raise ModelUnavailable("no answer.", retry_after=3600)

    journal = Journals()

    def again(model: Any) -> str:
        return ran(ResearchAgent(model=model, journal=journal), None)

    with pytest.raises(ModelUnavailable, match="What was done is kept"):
        ran(ResearchAgent(model=Gone(), journal=journal), "Research tea")
    assert again(ScriptedModel(researches)) == "Done: Analysis of 3 data points"
    with pytest.raises(WorkflowError, match="nothing is open"):
        again(ScriptedModel(researches))
    with pytest.raises(UsageError, match="ResearchAgent has no model"):
        again(None)


# ---- what begins, and templates -------------------------------------------------------------------------------------


def test_a_field_may_be_called_as_what_python_gives_every_mapping() -> None:
    class Shop(BaseAgent):
        __system_message__ = "{{ state.items|length }} of {{ state.values }}"
        items: State[list[str]] = State(default_factory=list)
        values: State[str] = State(default="many")

    model = ScriptedModel(script("Done."))
    ran(Shop(model=model))
    assert model.asked[0].system == "0 of many"


def test_a_called_one_s_request_is_put_by_its_own_template() -> None:
    class Searcher(BaseAgent):
        __system_message__ = "You search."
        __input_template__ = "Search for: {{ user_message }}"

    class Boss(BaseAgent):
        __system_message__ = "You lead."
        searcher: Link[Searcher] = AgentLink()

    leads, searches = script(calls("searcher", message="tea"), "Done."), script("Found.")
    model = ScriptedModel(lambda request: (leads if request.agent == "boss" else searches)(request))
    ran(Boss(model=model))
    called = next(request for request in model.asked if request.agent == "searcher")
    assert AgentText(author="Boss", text="Search for: tea") in called.entries


def test_a_factory_makes_each_beginning_again() -> None:
    made: list[int] = []

    def draw() -> int:
        if len(made) > 5:
            raise OSError("no more")
        made.append(len(made))
        return made[-1]

    class Numbered(BaseAgent):
        __system_message__ = "You are {{ number }}."
        number: State[int] = State(default_factory=draw)
        phases = [("a", "b", lambda self: self.number < 0)]

    one, two = Numbered(model=ScriptedModel(script("Done."))), Numbered()
    assert one.number != two.number
    first = one.number
    ran(one)
    ran(one, "Again")
    assert (one.number, len(made)) == (first, 3), "made once for this one, and once when the class was read"
    agent_states = [program(one, {}).begin(ask_now).values["number"] for _ in range(3)]
    assert len(set(agent_states)) == 3, "each conversation has one of its own"
    assert program(one, {}).begin(ask_now).values == {"number": 0}, "one that fails leaves what the class was read with"


def test_a_field_whose_type_has_changed_begins_again_and_others_stay() -> None:
    class Before(BaseAgent):
        __system_message__ = "You count."
        found: State[list[str]] = State(default_factory=list)
        name: State[str] = State(default="")

    class After(BaseAgent):
        __system_message__ = "You count."
        found: State[list[int]] = State(default_factory=list)
        name: State[str] = State(default="")

    recorded = program(Before(), {}).begin(ask_now).changed({"found": ["tea"], "name": "mine"})
    assert program(Before(), {}).fitted(recorded, ask_now) is recorded
    assert program(After(), {}).fitted(recorded, ask_now).values == {"found": [], "name": "mine"}
