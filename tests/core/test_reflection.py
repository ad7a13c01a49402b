"""What an agent is shown when it reflects: the turns of the cycle, and its own calls that went wrong."""

from typing import Any

from tenex.core import records as r
from tenex.core.conversation import fold
from tenex.core.effects import Effect, ToolCall
from tenex.core.ids import TurnId
from tenex.core.messages import Note
from tenex.core.phases import Phase
from tenex.core.port_values import ToolResult
from tenex.core.signals import Signal, ToolReturned
from tenex.workflows.phases.state import phases_of
from tests.fakes.scenario import ID, Router, Scenario, model_by_phase, reply, route
from tests.kits.team import TIDIES, team


class Failing(Scenario):
    """A conversation in which calls on `missing` fail, and programs named `fails` end with status 1."""

    def perform(self, effect: Effect) -> Signal:
        """Let such a call go wrong."""
        path = effect.request.arguments.get("path") if isinstance(effect, ToolCall) else None
        if path == "missing":
            return ToolReturned(key=effect.key, result=ToolResult(ok=False, content="no file is named missing"))
        if path == "fails":
            return ToolReturned(key=effect.key, result=ToolResult(ok=True, content="1 failed", exit_status=1))
        return super().perform(effect)


def failing(**more: Any) -> Scenario:
    builds = [
        reply("", ("read_file", {"path": "missing"}), ("learn", {"title": "too early"})),
        reply("", ("read_file", {"path": "missing"})),
        reply("", ("write_file", {"path": "a"}), ("check", {"path": "fails"})),
        reply("", ("complete", {"response": "built", "summary": "a is new"})),
    ]
    verifies = [
        reply("", ("write_file", {"path": "b"})),
        reply("", ("check", {"path": "a"}), ("complete", {"response": "it works", "verdict": "verified"})),
    ]
    model = model_by_phase(execute=builds, verification=verifies, chores=[TIDIES], **more)
    return Failing(Router(route("execute", "executor")), model, config=team()).converse("create a")


def notes(scenario: Scenario) -> list[tuple[str, Phase, str]]:
    """The notes on a cycle that agents were shown: to whom, in which phase, the text."""
    phases = {turn.turn_id: turn.phase for turn in scenario.records(r.TurnOpened)}
    return [
        (started.agent, phases[TurnId(started.run.partition(".")[0])], entry.text)
        for started in scenario.records(r.RunStarted)
        for entry in started.entries
        if isinstance(entry, Note) and entry.title == "What happened"
    ]


def happened(scenario: Scenario, agent: str) -> str:
    """The newest note on the cycle that an agent was shown."""
    return [text for name, _, text in notes(scenario) if name == agent][-1]


def test_an_agent_that_reflects_is_shown_its_own_calls_that_went_wrong() -> None:
    """It reflected on what it had written only, and learned nothing of what it had to do twice."""
    scenario = failing()
    own = happened(scenario, "executor").split("\n\n")[1].splitlines()
    assert own[0] == "Your own calls that failed, were refused, or ended with an error:"
    assert own[1].startswith("- learn(title=too early): refused: ")
    assert own[2] == "- read_file(path=missing): failed: no file is named missing (2 times)"
    assert own[3:] == ["- check(path=fails): exit status 1: 1 failed"]
    others = happened(scenario, "project-manager")
    assert "- write_file(path=b): refused: " in others
    assert "missing" not in others
    assert "too early" not in others


def test_an_agent_that_reflects_is_shown_the_turns_of_the_cycle() -> None:
    scenario = failing()
    for agent in ("executor", "project-manager"):
        turns = happened(scenario, agent).split("\n\n")[0].splitlines()
        assert turns == [
            "turn-1, execute: executor finished, 5 calls, 4 of them went wrong",
            "turn-2, verification: project-manager verified, 2 calls, 1 of them went wrong",
            "turn-3, chores: executor finished",
        ]


def test_a_call_that_a_kill_broke_off_is_no_failure_of_its_agent() -> None:
    builds = [
        reply("", ("send", {"path": "a"})),
        reply("", ("write_file", {"path": "a"}), ("complete", {"response": "built", "summary": "a is new"})),
    ]
    works = reply("", ("check", {"path": "a"}), ("complete", {"response": "it works", "verdict": "verified"}))
    model = model_by_phase(execute=builds, verification=[works], chores=[TIDIES])
    scenario = Scenario(Router(route("execute", "executor")), model, config=team())
    scenario.user_writes("create a")
    while not any(isinstance(effect, ToolCall) for effect in scenario.running.values()):
        scenario.step()
    scenario.crash()
    scenario.settle()
    (broken,) = [record for record in scenario.records(r.ToolCallCompleted) if record.is_broken_off]
    assert broken.content.startswith("unknown: the process stopped while this ran")
    assert phases_of(scenario.conversation).failed_calls == {}
    assert notes(scenario) == []
    assert fold(ID, [record for decision in scenario.journal for record in decision]) == scenario.conversation


def test_the_note_is_in_reflection_only_and_the_same_on_replay() -> None:
    scenario = failing()
    assert {phase for _, phase, _ in notes(scenario)} == {Phase.REFLECTION}
    assert fold(ID, [record for decision in scenario.journal for record in decision]) == scenario.conversation


def test_a_fault_that_verification_found_is_shown_to_all_who_reflect() -> None:
    finds = reply("", ("complete", {"response": "it fails", "verdict": "issues", "issues": "it prints nothing"}))
    works = reply("", ("check", {"path": "a"}), ("complete", {"response": "it works", "verdict": "verified"}))

    def verify(conversation: Any, call: Any) -> Any:
        return works if any(turn.phase is Phase.VERIFICATION for turn in conversation.cycle.turns) else finds

    builds = reply("", ("write_file", {"path": "a"}), ("complete", {"response": "built", "summary": "a"}))
    model = model_by_phase(execute=[builds], verification=verify, chores=[TIDIES])
    scenario = Scenario(Router(route("execute", "executor")), model, config=team()).converse("create a")
    lines = happened(scenario, "executor").splitlines()
    assert "turn-2, verification: project-manager issues" in lines
    assert len(lines) == 5, "no call went wrong"


def test_a_later_cycle_does_not_show_what_went_wrong_before() -> None:
    scenario = failing()
    scenario.worker = model_by_phase(
        execute=[reply("", ("write_file", {"path": "c"}), ("complete", {"response": "c", "summary": "c"}))],
        verification=[reply("", ("check", {"path": "c"}), ("complete", {"response": "fine", "verdict": "verified"}))],
        chores=[TIDIES],
    )
    scenario.router = Router(route("execute", "executor"))
    scenario.converse("now c")
    reflected = [one.run for one in scenario.records(r.RunStarted) if one.run in ("turn-4.executor", "turn-8.executor")]
    assert len(reflected) == 2
    assert [name for name, _, _ in notes(scenario)] == ["executor", "project-manager"], (
        "nothing went wrong in the second"
    )


def test_the_note_is_bounded() -> None:
    """A model that fails at everything does not fill the prompt of its reflection."""
    tries = [reply("", ("read_file", {"path": "missing", "n": n, "why": "x" * 500})) for n in range(40)]
    builds = [*tries, reply("", ("write_file", {"path": "a"}), ("complete", {"response": "built", "summary": "a"}))]
    verifies = [reply("", ("check", {"path": "a"}), ("complete", {"response": "it works", "verdict": "verified"}))]
    model = model_by_phase(execute=builds, verification=verifies, chores=[TIDIES])
    scenario = Failing(Router(route("execute", "executor")), model, config=team()).converse("create a")
    note = happened(scenario, "executor")
    assert note.count("read_file(") == 20
    assert "n=39" in note
    assert len(note) < 8_000
