"""Ten questions that a reader of `conversation.json` has, answered from its text alone.

Who decided this transition, and on whose words? What was refused, and why? What did this turn cost, and by which model?
Which call changed this file? Why did it end? What did each check say on the final files, and before? Which message led
to which turn? What was left out, and by whom? What was a person asked, and what did they answer? What was lost when the
process was killed?
"""

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import GateRules
from tenex.core.conversation import Conversation, fold
from tenex.core.effects import Effect, ModelCall, ToolCall
from tenex.core.history.state import BLOCK, RESULT_CHARACTERS
from tenex.core.messages import ModelStep
from tenex.core.phases import Phase
from tenex.core.ports import ToolResult
from tenex.core.signals import Signal, ToolReturned
from tenex.core.snapshot import StateSnapshot
from tenex.store.format import CONVERSATION
from tenex.store.view_json import LISTS, everything, render
from tests.fakes.scenario import (
    ALICE,
    ENDS,
    ID,
    WAITS,
    Router,
    Scenario,
    diligent,
    policy,
    reply,
    route,
    routed_by_rule,
    step_until,
)
from tests.kits.verdicts import SAYS, at_check, checking, ends, failed, repairs_with, run, with_shell, work, writes

PROJECT = policy().project


class WithFailures(Scenario):
    """A scenario whose `check` is a program that fails, with more output than a reader wants."""

    def perform(self, effect: Effect) -> Signal:
        if isinstance(effect, ToolCall) and effect.request.tool == "check":
            result = ToolResult(ok=False, content="exit status 3. " + "x" * 5_000, exit_status=3)
            return ToolReturned(key=effect.key, result=result)
        return super().perform(effect)


def shown(scenario: Scenario) -> dict[str, Any]:
    """The file, which is the same from the journal, from a snapshot and from the state that has lived on."""
    text = render(scenario.conversation)
    assert text == render(scenario.refold())
    (line,) = CONVERSATION.decode_lines(CONVERSATION.encode_decisions([[StateSnapshot.of(scenario.refold())]]))[0]
    assert text == render(fold(ID, [line]))
    view: dict[str, Any] = json.loads(text)
    return view


def worker(conversation: Conversation, call: ModelCall) -> ModelStep:
    """Writes a long file, has it checked, which fails, and is refused a tool that it does not have."""
    run = conversation.work.runs[call.run]
    if run.phase is Phase.EXECUTE and run.steps == 0:
        return reply(
            "",
            ("write_file", {"path": "hello.py", "content": "print('hi')\n" * 500}),
            ("check", {"path": "hello.py"}),
            ("launch", {"rocket": 1}),
        )
    return diligent(conversation, call)


def test_who_decided_a_transition(scenario: Scenario) -> None:
    view = shown(scenario)
    assert [one["decidedBy"] for one in view["phaseTransitions"]] == [
        {"kind": "router", "name": PROJECT.name, "pubkey": PROJECT.pubkey, "model": "router"}
    ] * 6
    assert {one["cycle"] for one in view["phaseTransitions"]} == {1}
    assert all(turn["decidedBy"]["kind"] == "router" and turn["cycle"] == 1 for turn in view["orchestratorTurns"])


def test_a_transition_by_a_rule_by_a_hand_over_and_by_a_person_names_them() -> None:
    def talks(conversation: Conversation, call: ModelCall) -> ModelStep:
        run = conversation.work.runs[call.run]
        if run.phase is Phase.CHAT:
            return reply("", ("hand_over", {"phase": "execute", "reason": "it is clear", "agent": "executor"}))
        if run.phase is Phase.EXECUTE:
            if run.steps == 0:
                return reply("", ("write_file", {"path": "a"}))
            return reply("", ("complete", {"response": "done", "summary": "done"}))
        return diligent(conversation, call)

    config = routed_by_rule(policy())
    scenario = Scenario(Router(route(None, "project-manager"), ENDS), talks, config=config).converse("build it")
    scenario.converse("/quick")
    scenario.converse("and now something else")
    view = shown(scenario)
    by = {(one["from"], one["to"]): one["decidedBy"] for one in view["phaseTransitions"]}
    agent = config.roster[next(slug for slug in config.roster if slug == "project-manager")]
    assert by["chat", "execute"] == {"kind": "hand-over", "name": agent.name, "pubkey": agent.pubkey}
    handed_over = next(one for one in view["phaseTransitions"] if one["to"] == "execute")
    assert (handed_over["agentName"], handed_over["agentPubkey"]) == (agent.name, agent.pubkey)
    assert by["execute", "verification"] == {"kind": "rule", "name": PROJECT.name, "pubkey": PROJECT.pubkey}
    assert by["reflection", "chat"] == {"kind": "person", "name": "alice", "pubkey": ALICE}


def test_what_was_refused_and_why() -> None:
    refused = route("execute", "absent-agent")
    scenario = WithFailures(Router(refused, route("execute", "executor"), WAITS), worker).converse("build it")
    view = shown(scenario)
    (decision,) = [one for one in view["decisions"] if one["kind"] == "refused"]
    assert "absent-agent" in decision["reason"]
    assert "absent-agent" in decision["refusedAnswer"]
    assert decision["by"] == {"kind": "router", "model": "router"}
    (call,) = [one for one in view["toolCalls"] if one["outcome"] == "refused"]
    assert (call["tool"], call["agent"], call["turn"], call["arguments"]) == (
        "launch", "executor", "turn-1", {"rocket": 1},
    )  # fmt: skip
    assert "launch" in call["result"]
    assert "workingMs" not in call, "it never began"


def test_which_call_changed_a_file_and_how_one_failed() -> None:
    scenario = WithFailures(Router(route("execute", "executor"), WAITS), worker).converse("build it")
    view = shown(scenario)
    (call,) = [one for one in view["toolCalls"] if "hello.py" in one.get("changedFiles", ())]
    assert (call["tool"], call["agent"], call["run"], call["cycle"]) == ("write_file", "executor", "turn-1.executor", 1)
    assert call["arguments"]["path"] == "hello.py"
    assert len(call["arguments"]["content"]) < 200, "cut"
    assert view["orchestratorTurns"][0]["changedFiles"] == ["hello.py"]
    assert view["openCycle"]["changedFiles"] == ["hello.py"]
    (failed,) = [one for one in view["toolCalls"] if one["outcome"] == "failed"]
    assert (failed["tool"], failed["exitStatus"]) == ("check", 3)
    assert failed["result"].startswith("exit status 3.")
    assert len(failed["result"]) < 2 * RESULT_CHARACTERS
    assert failed["time"] >= call["time"]


def test_what_a_turn_cost_and_by_which_model(scenario: Scenario) -> None:
    view = shown(scenario)
    for turn in view["orchestratorTurns"]:
        runs = [run for run in view["runs"] if run["turn"] == turn["turnId"]]
        assert {run["agent"] for run in runs} == set(turn["agents"])
        assert set(turn["models"]) == {"router", "script"}
        by_agents = sum(run["models"]["script"]["inputTokens"] for run in runs)
        assert turn["models"]["script"]["inputTokens"] == by_agents
        assert turn["usage"]["inputTokens"] == by_agents + turn["models"]["router"]["inputTokens"]
    end = next(decision for decision in reversed(view["decisions"]) if decision["kind"] == "route")
    total = sum(turn["usage"]["calls"] for turn in view["orchestratorTurns"]) + end["usage"]["calls"]
    assert total == view["usage"]["calls"], "only the decision to end belongs to no turn"
    assert view["cycles"][0]["usage"] == view["usage"]


def test_why_it_ended_and_why_it_waits(scenario: Scenario) -> None:
    view = shown(scenario)
    (cycle,) = view["cycles"]
    assert (cycle["endedBecause"], view["statusReason"]) == ("everybody has reflected",) * 2
    assert cycle["endedBy"]["kind"] == "router"
    assert cycle["startedBy"] == {"kind": "person", "name": "alice", "pubkey": ALICE}
    assert cycle["turns"] == len(view["orchestratorTurns"])
    assert view["openCycle"] is None

    scenario.user_writes("more")
    scenario.step()
    view = shown(scenario)
    assert view["openCycle"]["cycle"] == 2
    scenario.user_writes("/stop")
    view = shown(scenario)
    assert (view["status"], view["statusReason"]) == ("waiting", "alice stopped the work")
    assert [run["outcome"] for run in view["runs"] if run["cycle"] == 2] == ["stopped"]
    scenario.user_writes("/new")
    view = shown(scenario)
    assert view["cycles"][1]["endedBy"] == {"kind": "person", "name": "alice", "pubkey": ALICE}
    assert view["statusReason"] == "alice asked to start over"


def test_a_question_to_a_person_is_shown_and_the_wait_for_it_is_no_work() -> None:
    scenario = Scenario(Router(route("execute", "helper"), WAITS), diligent).converse("build it")
    view = shown(scenario)
    assert view["statusReason"] == "Helper asks: Which colour?"
    scenario.now = type(scenario.now)(scenario.now + 3_600_000)
    view = shown(scenario.converse("blue"))
    (ask,) = [one for one in view["toolCalls"] if one["tool"] == "ask"]
    assert ask["result"] == "alice: blue"
    assert ask["waitedMs"] >= 3_600_000
    (run,) = view["runs"]
    assert 0 < run["workingMs"] < 1_000
    assert 0 < view["orchestratorTurns"][0]["workingMs"] < 1_000
    execute = view["phaseMetrics"]["execute"]
    assert execute["durationMs"] >= 3_600_000
    assert 0 < execute["workingMs"] < 1_000
    assert 0 < view["openCycle"]["workingMs"] <= view["workingMs"] < 1_000


def test_a_message_names_its_cycle_its_turn_and_its_event(scenario: Scenario) -> None:
    scenario.user_writes("and now that", event_id="e" * 64)
    scenario.step()
    view = shown(scenario)
    first, last = view["messages"][0], view["messages"][-1]
    assert (first["cycle"], first["turn"]) == (1, "turn-1")
    assert (last["text"], last["cycle"], last["turn"]) == ("and now that", 2, view["openTurn"]["turnId"])
    turns = {turn["turnId"]: turn for turn in view["orchestratorTurns"]}
    assert any("eventId" in message for message in view["messages"] if message["role"] == "agent")
    for message in view["messages"]:
        if message["role"] != "agent" or "eventId" in message:  # what is in the file only has no event
            assert len(message["eventId"]) == 64
        if message["role"] == "agent":
            assert message["from"].lower() in turns[message["turn"]]["agents"]


@pytest.mark.parametrize("arguments", [{"n": math.nan, "deep": [[[1]]]}, {f"k{i}": "y" * 9_000 for i in range(50)}])
def test_what_a_model_makes_up_neither_grows_nor_breaks_the_file(arguments: dict[str, Any]) -> None:
    def odd(_conversation: Conversation, call: ModelCall) -> ModelStep:
        del call
        return reply("", ("t\ud800" * 60, arguments), ("complete", {"response": "done"}))

    scenario = Scenario(Router(route(None, "project-manager"), WAITS), odd)
    scenario.user_writes("go")
    scenario.step()
    scenario.step()
    text = render(scenario.conversation)
    (call, *_) = json.loads(text)["toolCalls"]
    assert call["outcome"] == "refused"
    assert len(json.dumps(call)) < 3_000


def test_the_lists_are_bounded_and_their_files_hold_the_rest(scenario: Scenario) -> None:
    """As many calls and decisions as come in years: the state and the file keep the newest of each."""
    records = scenario.records()
    history = scenario.conversation.history
    assert history is not None
    call, run = history.calls[-1], history.runs[-1]
    decision, cycle = history.decisions[-1], history.cycles[-1]
    for _ in range(10 * BLOCK):
        history = history.called(call).run_ended(run).decided(decision).ended(cycle)
    state = scenario.conversation.fork()
    state.history = history
    view = json.loads(render(state))
    for name in ("toolCalls", "runs", "decisions", "cycles"):
        assert BLOCK <= len(view[name]) < 2 * BLOCK
        assert len(view[f"earlier{name[0].upper()}{name[1:]}"]) >= 8
    whole = everything(ID, records)
    assert {name: len(whole[name]) for name in LISTS} == {
        name: len(getattr(scenario.conversation.history, attribute)) for name, attribute in LISTS.items()
    }


@pytest.mark.altered
def test_an_end_that_no_router_decided_names_none() -> None:
    """The router's last decision was to wait; what came then was not its doing."""
    waits = Scenario(Router(route(None, "project-manager"), WAITS), diligent).converse("hello")
    state = waits.conversation
    state.apply(r.Ended(seq=state.next_seq, at=waits.now, reason="the mission x finished"))
    view = json.loads(render(state))
    assert (view["cycles"][0]["endedBy"], view["statusReason"]) == (None, "the mission x finished")


def test_a_journal_from_before_deciders_were_recorded_shows_whom_it_can(scenario: Scenario) -> None:
    old = [
        replace(record, decided_by=None) if hasattr(record, "decided_by") else record for record in scenario.records()
    ]
    view = json.loads(render(fold(ID, old)))
    assert {one["decidedBy"]["kind"] for one in view["phaseTransitions"]} == {"router"}
    assert view["cycles"][0]["endedBy"]["kind"] == "router"
    assert view["cycles"][0]["startedBy"] is None
    rule = [replace(one, by="rule", model="") if isinstance(one, r.Routed) else one for one in old]
    view = json.loads(render(fold(ID, rule)))
    assert {one["decidedBy"]["kind"] for one in view["phaseTransitions"]} == {"rule"}


# ---- the other five --------------------------------------------------------------------------------------------------


def test_on_whose_words_a_transition_was_made_and_which_message_led_to_which_turn() -> None:
    scenario = work(reply("", *run("ls"), SAYS))
    scenario.router = Router(route("execute", "executor"), route("execute", "executor"), WAITS)
    scenario.user_writes("build it", event_id="a" * 64)
    scenario.settle()
    scenario.user_writes("now that", event_id="b" * 64)
    scenario.settle()
    view = shown(scenario)
    requests = [one["request"] for one in view["phaseTransitions"] if one["to"] == "execute"]
    assert requests == ["a" * 64, "b" * 64]
    turns = {turn["turnId"]: turn for turn in view["orchestratorTurns"]}
    written = [message for message in view["messages"] if message["role"] == "owner"]
    assert [message["eventId"] for message in written] == requests
    for message in written:
        assert message["fate"]["kind"] == "carried_out"
        assert (turns[message["fate"]["turn"]]["phase"], turns[message["fate"]["turn"]]["cycle"]) == (
            "execute", message["cycle"],
        )  # fmt: skip


def test_why_it_ended_after_commands_that_came_later(scenario: Scenario) -> None:
    for command in ("/stop", "/continue", "/skip chores", "/quick", "/status"):
        scenario.converse(command)
        view = shown(scenario)
        assert (view["status"], view["statusReason"]) == ("ended", "everybody has reflected")
        assert view["cycles"][-1]["endedBecause"] == "everybody has reflected"


def test_what_each_check_said_on_the_final_files_and_before() -> None:
    scenario = checking(ends({"has_tests": True, "tests": 2}, failed("test_a")), names=("test", "lint"))
    view = shown(scenario.converse("build it"))
    by_tree = {
        (one["name"], one["isOfPresentFiles"], one["isOfBeginning"]): one["outcome"]
        for one in view["checks"]["results"]
    }
    assert by_tree == {
        ("test", True, False): "passed",
        ("test", False, True): "failed",
        ("lint", True, False): "passed",
        ("lint", False, True): "failed",
    }
    scenario.converse("and more")
    cycle = shown(scenario)["cycles"][0]
    assert cycle["checks"][0] == "test: 2 tests passed, 3 before this work (`test`, 0 s)"
    assert cycle["checks"][1].startswith("lint: ")


def test_what_was_left_out_and_by_whom_is_known_in_the_next_cycle_too() -> None:
    scenario = work(reply("", *run("ls"), SAYS), config=with_shell(policy()))
    scenario.router = Router(route("execute", "executor"), WAITS)
    scenario.converse("build it").converse("/skip chores reflection")
    scenario.user_writes("/new")
    view = shown(scenario)
    (waiver,) = [one for one in view["decisions"] if one["kind"] == "waiver"]
    assert (waiver["by"]["name"], waiver["cycle"]) == ("alice", 1)
    assert waiver["reason"] == "chores, reflection skipped: “/skip chores reflection”"


def test_what_a_rule_left_out_says_why() -> None:
    config = replace(with_shell(routed_by_rule(policy())), gates=GateRules())
    view = shown(work(reply("", *run("ls"), SAYS), config=config).converse("build it"))
    reasons = {one["to"]: one["reason"] for one in view["phaseTransitions"] if one["decidedBy"]["kind"] == "rule"}
    assert "made: a.py" in reasons["chores"]
    assert "no lesson is recorded" in reasons["reflection"]


@pytest.mark.parametrize(("answer", "kind"), [("yes", "waiver"), ("no", "waiver declined")])
def test_what_a_person_was_asked_and_what_they_answered(answer: str, kind: str) -> None:
    scenario = checking(ends(failed("test_a"))).converse("build it")
    scenario.router = Router(WAITS)
    view = shown(scenario.converse(answer))
    asked, answered, *_ = [one for one in view["decisions"] if one["kind"].startswith("waiver")]
    assert (asked["kind"], answered["kind"]) == ("waiver asked", kind)
    assert "new: test_a" in asked["reason"]
    assert asked["by"]["kind"] == "rule"
    assert answered["by"]["name"] == "alice"
    (message,) = [message for message in view["messages"] if message["text"] == answer]
    assert message["fate"]["kind"] == "answer"


def test_what_was_lost_at_a_kill() -> None:
    """A call that may not run twice has an unknown result; all else was made again."""
    calls = (("send", {"path": "a"}), ("complete", {"response": "sent", "summary": "sent"}))
    scenario = Scenario(Router(route("execute", "executor"), WAITS), lambda *_: reply("", *calls))
    scenario.user_writes("send it")
    step_until(scenario, lambda it: any(isinstance(effect, ModelCall) for effect in it.running.values()))
    scenario.crash()
    step_until(scenario, lambda it: any(isinstance(effect, ToolCall) for effect in it.running.values()))
    scenario.crash()
    view = shown(scenario)
    first, second = [one["reason"] for one in view["decisions"] if one["kind"] == "restart"]
    assert first == "the process had ended; under way: a model call of executor"
    assert second == "the process had ended; under way: send of executor; its result is unknown"
    (lost,) = [one for one in view["toolCalls"] if one["tool"] == "send"]
    assert "unknown: the process stopped while this ran" in lost["result"]


def test_a_check_that_was_interrupted_is_named_and_run_again() -> None:
    scenario = checking(ends({}))
    at_check(scenario)
    scenario.crash()
    (restart,) = [one for one in shown(scenario)["decisions"] if one["kind"] == "restart"]
    assert restart["reason"].endswith("the check test")


def test_a_call_that_left_a_file_as_it_was_has_not_changed_it() -> None:
    scenario = work(execute=repairs_with(writes("a.py")))
    scenario.files = {"a.py": "v1"}
    view = shown(scenario.converse("build it"))
    assert not [one for one in view["toolCalls"] if one.get("changedFiles")]
