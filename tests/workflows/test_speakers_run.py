"""A graph of speakers runs in a Python process, without a daemon, with a model or a script."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tenex.core.errors import ConfigurationError, UsageError
from tenex.core.messages import ModelRequest, ModelStep
from tenex.operations.mission_folder import mission_folder
from tenex.workflows.agents import BaseAgent, State, tool
from tenex.workflows.kit.loading import load_script
from tenex.workflows.speakers import (
    AgentTarget,
    ContextEquals,
    FromSpeaker,
    Handoff,
    TerminateTarget,
    ToolCalled,
    Transition,
    TransitionGraph,
    register_condition,
    set_context,
)
from tenex.workflows.speakers.runner import WorkflowResult
from tests.fakes.scenario import reply

from .mission_kit import documented


class Lines:
    """A model that answers for each agent with its lines in turn, then with its name."""

    def __init__(self, **lines: list[Any]) -> None:
        self.lines, self.asked = lines, list[ModelRequest]()

    async def step(self, request: ModelRequest, on_text: Any = None) -> ModelStep:
        self.asked.append(request)
        mine = self.lines.get(request.agent, [])
        line = mine.pop(0) if mine else f"{request.agent} has spoken"
        if isinstance(line, Exception):
            raise line
        return reply(line) if isinstance(line, str) else line


class Triage(BaseAgent):
    __system_message__ = "You sort tickets."
    seen: State[int] = State(default=0)

    @tool("Say what it is about")
    def classify(self, domain: str) -> str:
        self.seen += 1
        set_context(domain=domain)
        return "Noted."

    @tool("Send it on")
    def dispatch(self, name: str) -> Handoff:
        return Handoff(name)


def ran(graph: TransitionGraph, message: str | None = "Begin", **given: Any) -> WorkflowResult:
    return asyncio.run(asyncio.wait_for(graph.run(message, **given), 20))


def spoken(result: WorkflowResult) -> list[str]:
    return [expected.speaker for expected in result.messages]


TRIO = {name: f"You are {name}." for name in ("alice", "bob", "carol")}


def test_a_round_robin_of_instructions_runs_to_its_limit() -> None:
    model = Lines()
    graph = TransitionGraph.round_robin(["alice", "bob", "carol"], max_turns=6)
    result = ran(graph, agents=TRIO, model=model)
    assert spoken(result) == ["person", *["alice", "bob", "carol"] * 2]
    assert (result.reason, result.turns, result.final_output) == ("max_turns", 6, "carol has spoken")
    assert [request.system for request in model.asked[:3]] == [f"You are {name}." for name in TRIO]
    shown = str(model.asked[1].entries)
    assert "Begin" in shown
    assert "alice has spoken" in shown


def test_tools_and_variables_of_agents_route() -> None:
    rules = [
        Transition(ContextEquals("domain", "law"), AgentTarget("bob"), 1),
        Transition(FromSpeaker("bob"), TerminateTarget("done")),
        Transition(FromSpeaker("carol"), TerminateTarget("handed")),
    ]
    graph = TransitionGraph("triage", rules, participants=["triage", "bob", "carol"], max_turns=5)
    given = {name: TRIO[name] for name in ("bob", "carol")}
    triage = Triage()
    lines = [reply("", ("classify", {"domain": "law"})), "it is law"]
    result = ran(graph, agents={"triage": triage, **given}, model=Lines(triage=lines))
    assert (spoken(result)[1:], result.reason, result.context) == (["triage", "bob"], "done", {"domain": "law"})
    assert triage.seen == 1
    lines = [reply("", ("dispatch", {"name": "carol"})), "yours"]
    result = ran(graph, agents={"triage": Triage(), **given}, model=Lines(triage=lines))
    assert (spoken(result)[1:], result.reason) == (["triage", "carol"], "handed")


def test_the_calls_of_a_workflow_work_too_and_variables_are_given() -> None:
    rules = [
        Transition(ToolCalled("route"), AgentTarget("carol")),
        Transition(ContextEquals("go", 1), AgentTarget("bob")),
    ]
    graph = TransitionGraph("alice", rules, max_turns=2)
    assert spoken(ran(graph, agents=TRIO, model=Lines(), context={"go": 1}))[1:] == ["alice", "bob"]
    result = ran(graph, agents=TRIO, model=Lines(alice=[reply("", ("route", {"reason": "x"})), "on"]))
    assert spoken(result)[1:] == ["alice", "carol"]
    result = ran(
        graph, agents=TRIO, model=Lines(alice=[reply("", ("finish", {"summary": "all", "reason": "ok"})), "on"])
    )
    assert result.reason == "ok"


def test_it_waits_for_the_user_and_goes_on_with_the_journal(tmp_path: Path) -> None:
    graph = TransitionGraph(
        "alice", [Transition(FromSpeaker("alice"), AgentTarget("person"))], AgentTarget("alice"), max_turns=4
    )

    async def main() -> list[WorkflowResult]:
        async with mission_folder(tmp_path) as journal:
            first = await graph.run("Hello", agents=TRIO, model=Lines(), journal=journal)
            more = [await graph.run("More", agents=TRIO, model=Lines(), journal=journal, thread=first.thread)]
            other = await graph.run("Hello", agents=TRIO, model=Lines(), journal=journal)
            return [first, *more, other]

    first, more, other = asyncio.run(main())
    assert (first.reason, spoken(first)) == ("", ["person", "alice"])
    assert (more.turns, spoken(more)) == (3, ["person", "alice", "person", "alice"])
    assert (other.turns, spoken(other)) == (1, ["person", "alice"]), "a run without a name is one of its own"


@pytest.mark.parametrize(
    ("agents", "more", "expected"),
    [
        ({"alice": "x"}, {}, "bob, carol takes part, and is not among `agents`: alice."),
        (TRIO, {"model": None}, "alice, bob, carol has no model"),
        ({**TRIO, "bob": 3}, {}, "agents\\['bob'\\] is an int; give an agent"),
        ({**TRIO, "bob": " "}, {}, "agents\\['bob'\\] is an empty text"),
    ],
)
def test_what_cannot_run_is_refused_with_a_sentence(agents: Any, more: dict[str, Any], expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        ran(TransitionGraph.sequence([*TRIO]), agents=agents, **{"model": Lines(), **more})


def test_a_graph_with_faults_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="needs two participants"):
        ran(TransitionGraph("alice"), agents=TRIO, model=Lines())


def test_the_example_of_the_documents_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "graph.py").write_text(documented("Runs a graph"))
    model = Lines(triage=[reply("", ("dispatch", {"name": "security"})), "Security, please."])
    asyncio.run(load_script(tmp_path / "graph.py", "documents").main(model))
    assert capsys.readouterr().out.splitlines() == [
        "person: The login page shows a stack trace",
        "triage: Security, please.",
        "security: security has spoken",
        "security_done after 2 turns, {'urgent': True}",
    ]


@dataclass(slots=True)
class Urgent:
    """A condition that reads what no envelope has."""

    name: ClassVar[str] = "urgent_word"

    def evaluate(self, state: Any, envelope: Any) -> bool:
        return "urgent" in envelope.event_data["subject"]


@pytest.mark.usefixtures("fresh_default")
def test_a_rule_that_raises_says_what() -> None:
    register_condition(Urgent)
    rule = Transition(when=Urgent(), then=TerminateTarget("done"))
    graph = TransitionGraph(initial_speaker="alice", transitions=[rule], default_target=AgentTarget("bob"))
    result = ran(graph, agents=TRIO, model=Lines())
    assert result.reason == "rule_failed"
    assert result.error == ("The condition Urgent failed with KeyError: 'subject'; fix its code.")


@pytest.mark.usefixtures("fresh_default")
@pytest.mark.parametrize(
    ("lines", "money", "turns"), [(["I offer 5", "Agreed."], 50, 3), (["I offer 5"], 9, 1), (["I offer 5"], "9", 8)]
)
def test_the_documents_conditions_read_what_was_said_and_variables(
    tmp_path: Path, lines: list[str], money: Any, turns: int
) -> None:
    (tmp_path / "talk.py").write_text(documented("Ends a talk"))
    graph = load_script(tmp_path / "talk.py", "documents_talk").graph
    agents = {"buyer": "You buy.", "seller": "You sell."}
    result = ran(graph, agents=agents, model=Lines(buyer=lines), context={"money": money})
    assert (result.reason, result.turns) == ("closed" if turns < 8 else "max_turns", turns)


def test_an_end_by_a_rule_has_no_error() -> None:
    result = ran(TransitionGraph.round_robin(["alice", "bob"], max_turns=2), agents=TRIO, model=Lines())
    assert (result.reason, result.error) == ("max_turns", "")


def test_the_documents_own_model_answers_with_a_call_and_its_text_so_far(tmp_path: Path) -> None:
    path = tmp_path / "own_model.py"
    path.write_text(documented("Answers without a provider"))
    own = load_script(path, "own_model")
    assert asyncio.run(own.main()) == "Filed under billing"


class TakesOne:
    async def step(self, request: ModelRequest) -> ModelStep:
        return ModelStep(text="hello")


def test_a_model_that_does_not_take_both_arguments_is_named() -> None:
    answer: Any = asyncio.run(Triage(model=TakesOne()).run("Sort it"))  # type: ignore[arg-type]
    assert (
        answer.error == "the model's `step` does not take two arguments; write `async def step(self, request, on_text)`"
    )
