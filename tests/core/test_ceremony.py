"""Chores and reflection where there is something to do, and a rule that passes them where there is nothing."""

import dataclasses
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import ConversationRules, GateRules, Limits, Policy
from tenex.core.conversation import Conversation, new_conversation
from tenex.core.cycle.checks import ChangedFile, CheckResult, Inspection
from tenex.core.cycle.state import Cycle
from tenex.core.effects import Effect, ModelCall, ToolCall, Work
from tenex.core.ids import Millis, Slug
from tenex.core.messages import ModelStep, Usage
from tenex.core.phases import Phase
from tenex.core.port_values import ToolResult
from tenex.core.signals import DayLimitReached, ModelFailed, Signal, ToolReturned
from tenex.core.values import replace
from tenex.core.work.turn import Completion, OrchestratorTurn
from tenex.workflows.phases import gates
from tenex.workflows.phases.ceremony import needs_chores, needs_reflection, reflecting
from tenex.workflows.phases.state import NAME, Phases, phases_of
from tests.core.kit import message, turn
from tests.fakes.scenario import (
    ENDS,
    ID,
    VERIFIES,
    Router,
    Scenario,
    check_invariants,
    model_by_phase,
    reply,
    route,
    scenario_at,
    thanked,
)
from tests.kits.team import BUILDS, FINDS, TIDIES, team

NOTHING_TO_TIDY = "nothing to tidy: no file was made and no document names what was changed"
NOTHING_LEARNT = "nothing to reflect on: no call failed, no fault was found and nobody was corrected"
DEPLOYS = [
    reply("", ("deploy", {"path": "x"})),
    reply("", ("complete", {"response": "deployed", "summary": "it is up"})),
]
BY_ROUTER = ConversationRules(route_by_rule=False)
WORK = {"execute": DEPLOYS, "verification": [VERIFIES], "chores": [TIDIES]}


def by_need(*, has_lessons: bool = True, limits: Limits | None = None, **rules: Any) -> Policy:
    """The team that is shipped, whose project has lessons, with the gates of the default unless `rules` say else."""
    known = team(gates=GateRules(**rules), limits=limits)
    tools = {**known.tools, "deploy": dataclasses.replace(known.tools["send"], name="deploy")}
    roster = {slug: replace(agent, tools=agent.tools | {"deploy"}) for slug, agent in known.roster.items()}
    return replace(known, tools=tools, roster=roster, has_lessons=lambda: has_lessons)


class Outside(Scenario):
    """A conversation whose tool `deploy` changes something outside and no file, and whose reads of `missing` fail."""

    def perform(self, effect: Effect) -> Signal:
        """Let these calls end so."""
        if isinstance(effect, ToolCall) and effect.request.tool == "deploy":
            return ToolReturned(key=effect.key, result=ToolResult(ok=True, content="up", has_outside_effect=True))
        if isinstance(effect, ToolCall) and effect.request.arguments.get("path") == "missing":
            return ToolReturned(key=effect.key, result=ToolResult(ok=False, content="there is no such file"))
        if isinstance(effect, ToolCall) and effect.request.arguments.get("path") == "fails":
            return ToolReturned(key=effect.key, result=ToolResult(ok=False, content="1 failed", exit_status=1))
        return super().perform(effect)


def deployed(config: Policy | None = None, **steps: Any) -> Scenario:
    scenario = Outside(
        Router(route("execute", "executor")), model_by_phase(**{**WORK, **steps}), config=config or by_need()
    )
    scenario.converse("deploy it")
    check_invariants(scenario)
    return scenario


def worked(scenario: Scenario) -> list[tuple[str, tuple[str, ...]]]:
    """The turns: the phase of each, and its agents."""
    return [(str(one.phase), one.agents) for one in scenario.records(r.TurnOpened)]


def passed(scenario: Scenario) -> list[tuple[str, str]]:
    """The gates that a rule has passed, with its reasons."""
    moves = scenario.records(r.PhaseTransition)
    assert all(move.gate is move.to and move.decided_by.kind == "rule" for move in moves if move.gate is not None)
    return [(str(move.gate), move.reason) for move in moves if move.gate is not None]


# ---- passing ---------------------------------------------------------------------------------------------------------


def test_a_rule_passes_both_gates_where_there_is_nothing_to_do_in_them() -> None:
    scenario = deployed()
    assert worked(scenario) == [("execute", ("executor",)), ("verification", ("project-manager",))]
    assert passed(scenario) == [("chores", NOTHING_TO_TIDY), ("reflection", NOTHING_LEARNT)]
    assert scenario.phases() == [Phase.EXECUTE, Phase.VERIFICATION, Phase.CHORES, Phase.REFLECTION]
    assert scenario.conversation.cycle.status == "ended"
    assert not scenario.conversation.unmet_gates
    assert len([one for one in scenario.records(r.MessageSent) if one.is_published]) == 2, "the work, and the end"


def test_a_gate_that_a_rule_has_passed_leads_to_the_next() -> None:
    scenario = deployed(by_need(has_lessons=False))
    assert worked(scenario)[2:] == [("reflection", ("executor",))]
    assert passed(scenario) == [("chores", NOTHING_TO_TIDY)]
    reflects = scenario.records(r.PhaseTransition)[-1]
    assert reflects.reason == "the work is done; no lesson is recorded in this project yet"
    assert scenario.conversation.cycle.status == "ended"


def test_chores_are_done_where_it_is_not_known_what_there_is_to_do() -> None:
    """No one has looked at the workspace."""
    scenario = Outside(
        Router(route("execute", "executor")), model_by_phase(**{**WORK, "execute": [BUILDS]}), config=by_need()
    )
    scenario.inspect = lambda effect: Inspection(fault="git failed")  # type: ignore[method-assign]
    scenario.converse("build it")
    assert worked(scenario)[2:] == [("chores", ("executor",))]
    reason = scenario.records(r.PhaseTransition)[2].reason
    assert reason == "the work is verified; changed: a (what differs is not known: git failed)"
    assert passed(scenario) == [("reflection", NOTHING_LEARNT)]


@pytest.mark.parametrize("setting", ["always", "never"])
def test_the_settings_decide_before_the_need(setting: str) -> None:
    scenario = deployed(by_need(chores=setting, reflection=setting), execute=[BUILDS])
    phases = [phase for phase, _ in worked(scenario)]
    assert phases == ["execute", "verification", *(["chores", "reflection"] if setting == "always" else [])]
    reasons = [f'left out: gates.{gate} is "never"' for gate in ("chores", "reflection")]
    assert [reason for _, reason in passed(scenario)] == (reasons if setting == "never" else [])


def test_the_router_may_end_past_gates_that_need_nobody_and_may_have_them_done_all_the_same() -> None:
    config = replace(by_need(), conversations=BY_ROUTER)
    ways = [route("execute", "executor"), route("verification", "project-manager")]
    router = Router(*ways, ENDS)
    scenario = Outside(router, model_by_phase(**WORK), config=config).converse("deploy it")
    assert (router.asked[-1]["can_end"], router.asked[-1]["open_gates"]) == (True, [])
    assert router.asked[-1]["permitted"] == ["chores", "execute", "chat", "reflection"]
    assert passed(scenario) == [("chores", NOTHING_TO_TIDY), ("reflection", NOTHING_LEARNT)]
    wished = Router(*ways, route("chores", "executor"), route("reflection", "executor"), ENDS)
    scenario = Outside(wished, model_by_phase(**WORK), config=config).converse("deploy it, tidy up, and reflect")
    assert [phase for phase, _ in worked(scenario)] == ["execute", "verification", "chores", "reflection"]
    assert passed(scenario) == []


def test_thanks_in_a_gate_end_a_cycle_that_needs_nothing_more() -> None:
    """What came is read by the router, which may end at once."""
    router = Router(route("execute", "executor"), thanked(ENDS, "ok thanks"))
    scenario = Outside(router, model_by_phase(**WORK), config=by_need())
    scenario.user_writes("deploy it")
    while not any(run.phase is Phase.VERIFICATION for run in scenario.conversation.work.runs.values()):
        assert scenario.step()
    scenario.converse("ok thanks")
    assert [phase for phase, _ in worked(scenario)] == ["execute", "verification"]
    assert scenario.conversation.cycle.number == 1
    assert scenario.conversation.cycle.status == "ended"


def test_a_question_in_a_gate_that_is_answered_in_execute_does_not_have_the_work_verified_again() -> None:
    """It came when the work was verified, and nothing was changed for it: what was met is passed through."""
    router = Router(route("execute", "executor"), route("execute", "planner"))
    scenario = Outside(router, model_by_phase(**WORK), config=by_need())
    scenario.user_writes("deploy it")
    while not any(run.phase is Phase.VERIFICATION for run in scenario.conversation.work.runs.values()):
        assert scenario.step()
    scenario.user_writes("what is it?")
    answers = [reply("", ("complete", {"response": "a tool", "summary": "answered"}))]
    scenario.worker = model_by_phase(**{**WORK, "execute": answers})
    scenario.settle()
    assert [phase for phase, _ in worked(scenario)] == ["execute", "verification", "execute", "reflection"]
    again, chores, _ = scenario.records(r.PhaseTransition)[-3:]
    assert (again.to, again.reason) == (Phase.VERIFICATION, "it was passed before, and nothing was changed since")
    assert (chores.to, chores.gate, chores.reason) == (Phase.CHORES, Phase.CHORES, NOTHING_TO_TIDY)
    assert worked(scenario)[-1][1] == ("project-manager",), "who was at work when the word came"
    assert scenario.conversation.cycle.status == "ended"
    assert not scenario.conversation.unmet_gates
    check_invariants(scenario)


def test_a_change_after_a_gate_was_met_is_looked_at_again() -> None:
    scenario = deployed()
    state = scenario.conversation
    assert phases_of(state).gates_met == {Phase.VERIFICATION, Phase.CHORES, Phase.REFLECTION}
    assert phases_of(state).with_open_gates().gates_met == frozenset()


# ---- chores ----------------------------------------------------------------------------------------------------------


def seen(*changed: ChangedFile, named_in: tuple[str, ...] = (), fault: str = "") -> Inspection:
    return Inspection(tree="t", base="b", changed=changed, named_in=named_in, fault=fault)


@pytest.mark.parametrize(
    ("touched", "inspection", "reason"),
    [
        ((), None, ""),
        (("a", "b"), None, "changed: a, b"),
        (("a",), seen(fault="git is missing"), "changed: a (what differs is not known: git is missing)"),
        (("a",), seen(ChangedFile(path="a")), ""),
        (("a",), seen(ChangedFile(path="a", kind="deleted")), ""),
        (("a", "b"), seen(ChangedFile(path="b", kind="new"), ChangedFile(path="a")), "made: b"),
        (("a",), seen(ChangedFile(path="mine", kind="new"), ChangedFile(path="a")), ""),
        (("a", "core/Cargo.lock"), seen(ChangedFile(path="core/Cargo.lock", kind="new"), ChangedFile(path="a")), ""),
        (("a",), seen(ChangedFile(path="a"), named_in=("README.md",)), "named in: README.md"),
        (
            tuple("abcdefg"),
            seen(*(ChangedFile(path=name, kind="new") for name in "abcdefg"), named_in=("d.md",)),
            "made: a, b, c, d, e and 2 others; named in: d.md",
        ),
    ],
    ids=["nothing", "unknown", "fault", "changed", "deleted", "made", "by a person", "lock file", "named", "many"],
)
def test_chores_are_for_files_that_were_made_and_documents_that_name_what_was_changed(
    touched: tuple[str, ...], inspection: Inspection | None, reason: str
) -> None:
    state = state_with(Phases(executed=True, inspection=inspection), touched=frozenset(touched))
    assert needs_chores(state) == reason


def state_with(phases: Phases, **cycle: Any) -> Conversation:
    state = new_conversation(ID)
    state.kinds = {NAME: phases}
    participants = tuple(map(Slug, ("executor", "project-manager")))
    state.cycle = Cycle(**{"number": 1, "status": "active", "participants": participants, **cycle})
    return state


# ---- reflection ------------------------------------------------------------------------------------------------------


def closed(seq: int, phase: Phase, verdict: Any = "", agent: str = "executor") -> OrchestratorTurn:
    done = Completion(
        agent=Slug(agent), outcome="finished", text="done", summary="", error="", verdict=verdict, at=Millis(seq)
    )
    return turn(seq, phase, agents=(Slug(agent),), completions=(done,))


RED = CheckResult(name="tests", command="pytest", tree="t", outcome="failed", failures=2)
BUILT = closed(2, Phase.EXECUTE)
SMALL = (BUILT, closed(4, Phase.VERIFICATION, "verified", "project-manager"))
FOUND = (BUILT, closed(4, Phase.VERIFICATION, "issues", "project-manager"), closed(6, Phase.EXECUTE))
BOTH = ("executor", "project-manager")


@pytest.mark.parametrize(
    ("phases", "cycle", "who", "reason"),
    [
        ({}, {}, (), ""),
        ({"failed_calls": {"executor": 1}}, {}, ("executor",), "1 call of executor failed or was refused"),
        ({"failed_calls": {"planner": 1}}, {}, (), ""),
        ({}, {"turns": FOUND}, BOTH, "executor repaired what was found; project-manager found issues"),
        ({"check_results": (RED,)}, {}, ("executor",), "a check failed"),
        ({"check_results": (RED, replace(RED, tree="b"))}, {}, (), ""),
        ({"check_results": (RED, replace(RED, tree="b", failures=1))}, {}, ("executor",), "a check failed"),
        ({"check_results": (replace(RED, tree="b"),)}, {}, (), ""),
        ({"corrected": frozenset({"executor"})}, {}, ("executor",), "a person corrected executor"),
        ({}, {"messages": (message(1), message(3, after_turn="turn-2"))}, ("executor",), "a person corrected executor"),
        ({}, {"messages": (message(1), message(3, after_turn="gone"))}, ("executor",), "a person corrected executor"),
        ({}, {"messages": (message(1), message(3, is_answer=True))}, (), ""),
        ({}, {"messages": (message(1), message(9))}, (), ""),
        ({}, {"turns": tuple(closed(n, Phase.EXECUTE) for n in range(2, 9))}, BOTH, "the cycle took 7 turns"),
        ({}, {"turns": tuple(closed(n, Phase.CHAT) for n in range(2, 9))}, (), ""),
        ({}, {"usage": Usage(calls=41)}, BOTH, "the cycle took 41 model calls"),
        ({}, {"usage": Usage(calls=41), "talk_usage": Usage(calls=5)}, (), ""),
    ],
    ids=[
        "nothing",
        "failed call",
        "of one who took no part",
        "issues",
        "red check",
        "red before",
        "redder than before",
        "red before only",
        "no with a reason",
        "word after the work",
        "of an old turn",
        "answer",
        "request for the next cycle",
        "many turns",
        "a long talk",
        "many calls",
        "calls of a talk",
    ],
)
def test_an_agent_reflects_on_its_own_faults_and_corrections_all_on_a_long_cycle(
    phases: dict[str, Any], cycle: dict[str, Any], who: tuple[str, ...], reason: str
) -> None:
    part = Phases(**{"executed": True, "inspection": seen(ChangedFile(path="a")), "worked_on": 5, **phases})
    state = state_with(part, **{"turns": SMALL, "messages": (message(1),), **cycle})
    assert reflecting(state, by_need()) == who
    assert needs_reflection(state, by_need()) == reason
    assert gates.open_gates(state, by_need()) == (Phase.VERIFICATION, *([Phase.REFLECTION] if who else []))


def test_who_has_worked_reflects_while_nothing_has_been_learnt_in_the_project() -> None:
    """Who only verified, and found nothing, has nothing to learn from."""
    state = state_with(Phases(executed=True), turns=SMALL)
    assert reflecting(state, by_need(has_lessons=False)) == BOTH[:1]
    assert reflecting(state, by_need(has_lessons=True)) == ()
    present = by_need(has_lessons=False)
    without = replace(present, roster={slug: one for slug, one in present.roster.items() if slug not in BOTH})
    assert needs_reflection(state, without) == "", "nobody is left who would"


def test_only_those_reflect_who_have_something_to_reflect_on() -> None:
    """The call of the verifier failed; a program that ended with an error is a finding."""
    looks = [
        reply("", ("read_file", {"path": "missing"})),
        reply("", ("check", {"path": "x"})),
        reply("", ("complete", {"response": "it is up", "verdict": "verified"})),
    ]
    fails = [reply("", ("check", {"path": "fails"})), *DEPLOYS]
    scenario = deployed(verification=looks, execute=fails)
    assert worked(scenario)[-1] == ("reflection", ("project-manager",))
    assert scenario.conversation.cycle.status == "ended"


@pytest.mark.parametrize(("answer", "reflects"), [("no: use the other server", True), ("no", False)])
def test_a_no_with_a_reason_corrects_who_asked(answer: str, reflects: bool) -> None:
    """A bare no does not say what was wrong."""
    config = by_need()
    asking = {**config.tools, "deploy": dataclasses.replace(config.tools["deploy"], asks=True)}
    scenario = Outside(
        Router(route("execute", "executor")), model_by_phase(**WORK), config=replace(config, tools=asking)
    )
    scenario.converse("deploy it")
    scenario.user_writes(answer)
    assert (phases_of(scenario.conversation).corrected == {"executor"}) is reflects


def test_issues_are_reflected_on_by_who_found_them_and_who_repaired() -> None:
    def verify(conversation: Conversation, call: ModelCall) -> ModelStep:
        del call
        seen_before = any(one.phase is Phase.VERIFICATION for one in conversation.cycle.turns)
        return VERIFIES if seen_before else FINDS

    scenario = deployed(verification=verify)
    assert worked(scenario)[-1] == ("reflection", ("executor", "project-manager"))


# ---- an agent that fails when it reflects ----------------------------------------------------------------------------


def failure(effect: ModelCall, **more: Any) -> ModelFailed:
    return ModelFailed(key=effect.key, message="no credit is left", **{"retryable": False, **more})


@pytest.mark.parametrize("more", [{}, {"retryable": True}, {"retryable": True, "needs_operator": True}])
@pytest.mark.parametrize("by_rule", [True, False], ids=["by rule", "by the router"])
def test_an_agent_that_fails_in_reflection_stops_no_verified_work(more: dict[str, Any], by_rule: bool) -> None:
    """It has failed in its turn before, for the same reason; the next cycle ends as well."""

    def fails(conversation: Conversation, effect: ModelCall) -> ModelFailed:
        del conversation
        return failure(effect, **more)

    config = by_need(reflection="always", chores="never")
    config = config if by_rule else replace(config, conversations=BY_ROUTER)
    scenario = Outside(persistent, model_by_phase(**{**WORK, "execute": failing_once(), "reflection": fails}))
    scenario.policy = config
    for number, text in ((1, "deploy it"), (2, "again")):
        scenario.converse(text)
        for _ in range(len(config.limits.retry_delays) * 2):  # both reflect, and each is tried again
            if any(effect.key.part == "retry" for effect in scenario.running.values()):
                scenario.fire("retry")
                scenario.settle()
        assert scenario.conversation.cycle.number == number
        assert scenario.conversation.cycle.status == "ended"
    assert {one.outcome for one in scenario.records(r.RunEnded) if one.run.startswith("turn-4")} == {"failed"}
    assert not scenario.records(r.LimitReached)
    said = [one for one in scenario.records(r.MessageSent) if one.is_published and one.phase is Phase.REFLECTION]
    assert all(one.purpose in ("notice", "confirmation") for one in said)
    assert said[-1].purpose == "confirmation", "the end of the second cycle says nothing new"
    check_invariants(scenario)


def failing_once() -> Any:
    """An executor whose model fails in its first turn."""
    tries = 0

    def execute(conversation: Conversation, effect: ModelCall) -> Any:
        nonlocal tries
        tries += 1
        run = conversation.work.runs[effect.run]
        return failure(effect) if tries <= 3 else DEPLOYS[min(run.steps, 1)]

    return execute


def persistent(question: dict[str, Any]) -> Any:
    """A router that has the executor try once more where it failed."""
    turns = question["turns"]
    last = turns[-1]["completions"] if turns else []
    if not turns or (question["phase"] == "execute" and last[0]["outcome"] != "finished"):
        return route("execute", "executor")
    if question["can_end"]:
        return ENDS
    if question["phase"] == "execute":
        return route("verification", "project-manager")
    return route("reflection", *question["still_to_reflect"])


def test_a_daily_limit_in_reflection_ends_the_run_and_the_cycle() -> None:
    config = by_need(reflection="always", chores="never")
    scenario = scenario_at(Phase.VERIFICATION, config=replace(config, conversations=BY_ROUTER))
    scenario.policy = config
    scenario.router = Router(route("reflection", "executor"))
    while not (asked := [one for one in scenario.running.values() if isinstance(one, ModelCall)]):
        assert scenario.step()
    until = Millis(scenario.now + 1_000_000)
    key = asked[0].key
    assert key.work is Work.MODEL
    scenario.handle(
        DayLimitReached(key=key, limit="tokens_per_day", sentence="The day's tokens are used.", until=until)
    )
    scenario.settle()
    assert scenario.conversation.cycle.status == "ended"


def test_an_agent_that_uses_up_its_run_in_reflection_asks_nobody() -> None:
    learns = [reply("", ("learn", {"lesson": f"number {n}"})) for n in range(9)]
    config = by_need(reflection="always", chores="never", limits=Limits(tokens_per_run=40))
    quick = [reply("", ("deploy", {"path": "x"}), ("complete", {"response": "up", "summary": "up"}))]
    scenario = deployed(config, execute=quick, reflection=learns)
    ended = [one.outcome for one in scenario.records(r.RunEnded) if one.run.startswith("turn-3")]
    assert ended == ["over_limit", "over_limit"]
    assert scenario.conversation.cycle.status == "ended"
    assert not scenario.records(r.Waiting)


def test_an_end_is_not_held_up_by_a_limit_that_was_reached_in_reflection() -> None:
    """To end costs nothing, and the person need not say that it may go on."""
    scenario = deployed(by_need(reflection="always", chores="never", limits=Limits(tokens_per_cycle=70)))
    assert scenario.conversation.cycle.usage.tokens > 70
    assert worked(scenario)[-1][0] == "reflection"
    assert scenario.conversation.cycle.status == "ended"


# ---- replay ----------------------------------------------------------------------------------------------------------


def test_a_replay_does_not_ask_whether_there_are_lessons() -> None:
    scenario = deployed()
    scenario.policy = by_need(has_lessons=False)
    assert scenario.refold() == scenario.conversation
    assert phases_of(scenario.refold()).gates_met == phases_of(scenario.conversation).gates_met
