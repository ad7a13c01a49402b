"""A verdict needs a trial, gates follow what was changed, and what no one can try is accepted by a person or not."""

import dataclasses
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import Agent, Policy, Replay, Role, ToolRule
from tenex.core.conversation import Conversation, fold
from tenex.core.effects import Effect, ToolCall
from tenex.core.ids import PublicKey, Slug
from tenex.core.phases import QUALITY_PHASES, Access, Phase
from tenex.core.port_values import ToolResult
from tenex.core.signals import Signal, ToolReturned
from tenex.core.snapshot import StateSnapshot
from tenex.store.format import CONVERSATION
from tenex.store.view_json import render
from tenex.workflows.phases import records as p
from tenex.workflows.phases.state import phases_of
from tests.fakes.scenario import (
    ENDS,
    ID,
    TOOLS,
    VERIFIES,
    WAITS,
    Router,
    Scenario,
    model_by_phase,
    policy,
    refusals,
    reply,
    route,
    step_until,
)

from .test_only_choice import TIDIES, team

SHELL = ToolRule(name="shell", access=Access.RUN, replay=Replay.ONCE)
SAYS = ("complete", {"response": "it works", "verdict": "verified"})
UNTRIED = ("complete", {"response": "not run", "verdict": "untried", "issues": "there is no browser here"})


class Workplace(Scenario):
    """A scenario whose programs end with these exit statuses by their command line, else with 0."""

    has_network = False

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.statuses: dict[str, int] = {}

    def perform(self, effect: Effect) -> Signal:
        if not isinstance(effect, ToolCall) or effect.request.tool != "shell":
            return super().perform(effect)
        status = self.statuses.get(str(effect.request.arguments["command"]), 0)
        result = ToolResult(ok=not status, content="ran", exit_status=status, has_outside_effect=self.has_network)
        return ToolReturned(key=effect.key, result=result)


def with_shell(known: Policy, *, without: tuple[str, ...] = ()) -> Policy:
    """The policy with the tool `shell` for everyone but these, who can run nothing."""
    roster: dict[Slug, Agent] = {}
    for slug, one in known.roster.items():
        tools = one.tools - {"check"} if slug in without else one.tools | {"shell"}
        roster[slug] = dataclasses.replace(one, tools=tools)
    return dataclasses.replace(known, roster=roster, tools={**TOOLS, "shell": SHELL})


def run(*lines: str) -> tuple[tuple[str, dict[str, Any]], ...]:
    return tuple(("shell", {"command": line}) for line in lines)


def builds(*paths: str) -> Any:
    writes = (("write_file", {"path": path}) for path in paths)
    return reply("", *writes, ("complete", {"response": "built", "summary": "it is new"}))


def work(*verifies: Any, paths: tuple[str, ...] = ("a.py",), config: Policy | None = None, **more: Any) -> Workplace:
    """A request that is carried out by rule, and verified by these steps."""
    steps = {"execute": [builds(*paths)], "verification": list(verifies), "chores": [TIDIES], **more}
    router = Router(route("execute", "executor"), WAITS)
    return Workplace(router, model_by_phase(**steps), config=config or with_shell(team()))


def verdicts(scenario: Scenario) -> list[str]:
    return [record.verdict for record in scenario.records(r.RunEnded) if record.verdict]


def refused(scenario: Scenario) -> list[str]:
    return [record.sentence for record in scenario.records(r.ToolCallRejected)]


@pytest.mark.parametrize(
    "lines",
    [(), ("cat a.py",), ("git diff", "ls"), ("echo ok",), ("pytest | tail",), ("pytest; echo $?",)],
    ids=" ".join,
)
def test_a_verdict_without_a_trial_is_refused_and_one_after_a_trial_counts(lines: tuple[str, ...]) -> None:
    scenario = work(reply("", *run(*lines), SAYS), reply("", *run("pytest -q"), SAYS))
    scenario.converse("build it")
    (sentence,) = refused(scenario)
    assert "does not count yet" in sentence
    assert "`untried`" in sentence
    assert (verdicts(scenario), scenario.conversation.cycle.status) == (["verified"], "ended")


def test_a_verifier_who_never_runs_anything_ends_with_untried_and_a_person_is_asked_once() -> None:
    scenario = work(reply("", SAYS)).converse("build it")
    assert len(refused(scenario)) == 2
    assert verdicts(scenario) == ["untried"]
    assert scenario.conversation.cycle.waiting_for == "waiver"
    assert scenario.sent_texts()[-1] == (
        "No one could try it, because Project-Manager ran nothing that shows whether it works: accept it untried? "
        "Only “yes” accepts it."
    )
    (question,) = scenario.records(p.WaiverRequested)
    assert question.phases == (Phase.VERIFICATION,)


@pytest.mark.parametrize(
    ("paths", "reads", "is_met"),
    [
        (("a.md", "b.txt"), ("a.md", "b.txt"), True),
        (("a.md", "b.txt"), ("a.md",), False),
        (("a.md", "a.py"), ("a.md", "a.py"), False),
    ],
)
def test_text_that_nothing_runs_is_verified_by_reading_all_of_it(
    paths: tuple[str, ...], reads: tuple[str, ...], is_met: bool
) -> None:
    looks = [("read_file", {"path": path}) for path in reads]
    scenario = work(reply("", *looks, SAYS), paths=paths).converse("write it")
    assert (scenario.conversation.cycle.status == "ended") is is_met
    assert bool(refused(scenario)) is not is_met
    if not is_met and "a.py" not in paths:
        assert "b.txt was changed and not read" in refused(scenario)[0]


@pytest.mark.parametrize("ok", [True, False])
def test_a_call_that_only_names_a_file_has_not_read_it(ok: bool) -> None:
    scenario = work(reply("", ("read_file", {"path": "a.md"})), reply("", SAYS), paths=("a.md",))
    perform = scenario.perform

    def showing_nothing(effect: Effect) -> Signal:
        if isinstance(effect, ToolCall) and effect.request.tool == "read_file":
            return ToolReturned(key=effect.key, result=ToolResult(ok=ok, content="a.md: 3 lines"))
        return perform(effect)

    scenario.perform = showing_nothing  # type: ignore[method-assign]
    scenario.converse("write it")
    assert scenario.conversation.cycle.status != "ended"
    assert "a.md was changed and not read" in refused(scenario)[0]


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        (("pytest -q", "python one.py"), "`pytest -q` ended with exit status 1"),
        (("python one.py", "pytest -q"), "`pytest -q` ended with exit status 1"),
        (("pytest -q", "pytest tests/one.py"), "`pytest -q` ended with exit status 1"),
        (("pytest -q", "pytest -q | tail"), "`pytest -q` ended with exit status 1"),
        (("python one.py", "hangs"), "`hangs` was ended by signal 9"),
        (("python one.py", "fails", "pytest -q"), "`fails` ended with exit status 2; `pytest -q` ended with"),
    ],
    ids=str,
)
def test_a_failed_trial_beside_a_successful_one_keeps_the_verdict_from_counting(
    lines: tuple[str, ...], named: str
) -> None:
    """Exit status 0 counted, whatever it had tried; the failure was only named in the last word."""
    scenario = work(*(reply("", *run(line)) for line in lines), reply("", SAYS))
    scenario.statuses = {"pytest -q": 1, "fails": 2, "hangs": -9}
    scenario.converse("build it")
    assert len(refused(scenario)) == 2
    assert named in refused(scenario)[0]
    assert (verdicts(scenario), scenario.conversation.cycle.waiting_for) == (["untried"], "waiver")
    assert f"No one could try it, because {named}" in scenario.sent_texts()[-1]


@pytest.mark.parametrize(
    ("failed", "later"),
    [
        ("pytest tests/one.py", ("pytest -q",)),
        ("./tool --bad", ("! ./tool --bad",)),
        ("python -c 'import aa'", ("python -c 'import a'",)),
        ("ruff check . && pytest", ("pytest", "ruff check .")),
    ],
    ids=str,
)
def test_a_failed_trial_is_settled_by_the_same_or_a_wider_one(failed: str, later: tuple[str, ...]) -> None:
    scenario = work(*(reply("", *run(line)) for line in (failed, *later)), reply("", SAYS))
    scenario.statuses = {failed: 1}
    scenario.converse("build it")
    assert (verdicts(scenario), refused(scenario)) == (["verified"], [])


def test_a_failed_trial_is_not_forgotten_over_many_others() -> None:
    others = (f"cat {number}" if number % 2 else f"python {number}.py" for number in range(50))
    scenario = work(reply("", *run("pytest", *others)), reply("", SAYS))
    scenario.statuses = {"pytest": 1}
    scenario.converse("build it")
    assert "`pytest` ended with exit status 1" in refused(scenario)[0]


def test_a_program_that_is_not_there_was_not_tried() -> None:
    scenario = work(*(reply("", *run(line)) for line in ("pytest -q", "python tests.py")), reply("", SAYS))
    scenario.statuses = {"pytest -q": 127}
    scenario.converse("build it")
    assert (verdicts(scenario), refused(scenario)) == (["verified"], [])


def test_a_pipe_that_hides_the_status_of_a_trial_is_named_with_a_remedy() -> None:
    scenario = work(reply("", *run("pytest -q | tail -3"), SAYS)).converse("build it")
    assert "how `pytest -q | tail -3` ended is not known" in refused(scenario)[0]
    assert "set -o pipefail" in refused(scenario)[0]
    assert '"command": "pytest -q | tail -3",\n          "exitStatus": null' in render(scenario.conversation)


def test_what_was_run_in_execute_is_no_trial_of_the_verification() -> None:
    built = reply("", *run("pytest"), ("write_file", {"path": "a.py"}), ("complete", {"response": "b", "summary": "s"}))
    scenario = work(reply("", SAYS), execute=[built]).converse("build it")
    assert verdicts(scenario) == ["untried"]


def test_untried_goes_to_a_worker_who_can_run_more_and_only_then_to_a_person() -> None:
    def verifies(conversation: Conversation, call: Any) -> Any:
        agent = conversation.work.runs[call.run].agent
        return reply("", UNTRIED) if agent == "project-manager" else VERIFIES

    known = with_shell(team(), without=("project-manager",))
    scenario = work(config=known)
    scenario.worker = model_by_phase(execute=[builds("a.py")], verification=verifies, chores=[TIDIES])
    scenario.converse("build it")
    verified = [one.agents for one in scenario.records(r.TurnOpened) if one.phase is Phase.VERIFICATION]
    assert verified == [("project-manager",), ("executor",)]
    assert (verdicts(scenario), scenario.conversation.cycle.status) == (["untried", "verified"], "ended")
    assert scenario.records(p.WaiverRequested) == []


def test_one_who_can_run_nothing_and_is_alone_is_told_to_say_so() -> None:
    known = with_shell(team(), without=("project-manager", "executor", "planner"))
    scenario = work(reply("", SAYS), reply("", UNTRIED), config=known).converse("build it")
    assert "you cannot run anything" in refused(scenario)[0]
    assert scenario.sent_texts()[-1].startswith(
        "No one could try it, because there is no browser here: accept it untried?"
    )


def untried(**more: Any) -> Workplace:
    """A scenario in which a person is asked whether they accept the work untried."""
    scenario = work(reply("", UNTRIED), **more).converse("build it")
    assert scenario.conversation.cycle.waiting_for == "waiver"
    return scenario


def test_a_yes_accepts_it_untried_and_the_other_gates_follow_without_the_router() -> None:
    scenario = untried()
    asked = len(scenario.records(r.RouteRequested))
    scenario.converse("yes")
    (waiver,) = scenario.records(p.Waived)
    assert (waiver.phases, waiver.untried) == ((Phase.VERIFICATION,), "there is no browser here")
    assert (scenario.conversation.cycle.status, scenario.conversation.cycle.number) == ("ended", 1)
    assert len(scenario.records(r.RouteRequested)) == asked
    turns = [one.phase for one in scenario.records(r.TurnOpened)]
    assert turns == [Phase.EXECUTE, *QUALITY_PHASES]
    view = render(scenario.conversation)
    assert '"untried": "there is no browser here"' in view


@pytest.mark.parametrize("text", ["no", "hm", "yes, but run it first"])
def test_anything_else_keeps_the_gate_and_the_question_is_not_put_again(text: str) -> None:
    scenario = untried()
    scenario.router = Router(ENDS, route(None, "project-manager"), WAITS)
    scenario.converse(text)
    assert "END is refused" in refusals(scenario)[0]
    assert len(scenario.records(p.WaiverRequested)) == 1
    assert (scenario.records(p.Waived), scenario.conversation.cycle.status) == ([], "waiting")


@pytest.mark.parametrize("role", [Role.MEMBER, Role.GUEST])
def test_only_who_may_waive_accepts_it(role: Role) -> None:
    scenario = untried()
    scenario.user_writes("yes", role=role, author=PublicKey("b" * 64), name="bob")
    assert scenario.records(p.Waived) == []


def test_a_yes_that_replies_to_another_message_accepts_nothing() -> None:
    scenario = untried()
    scenario.user_writes("yes", reply_to=scenario.records(r.MessageSent)[0].events[0].id)
    assert scenario.records(p.Waived) == []
    assert "Your “yes” accepts nothing" in scenario.sent_texts()[-1]


def test_a_change_after_it_was_accepted_or_asked_is_tried_or_asked_again() -> None:
    scenario = untried()
    scenario.router = Router(route("execute", "executor"), WAITS)
    scenario.converse("change the colour first")
    assert len(scenario.records(p.WaiverRequested)) == 2
    assert scenario.conversation.cycle.waiting_for == "waiver"


def test_the_question_survives_a_restart_and_a_snapshot() -> None:
    scenario = untried()
    scenario.crash()
    data = CONVERSATION.encode_decisions([[StateSnapshot.of(scenario.conversation)]])
    scenario.conversation = fold(ID, CONVERSATION.decode_lines(data)[0])
    scenario.user_writes("yes")
    assert scenario.records(p.Waived)[0].untried == "there is no browser here"


def test_evidence_survives_a_restart_and_a_snapshot_in_the_middle_of_a_turn() -> None:
    scenario = work(reply("", *run("pytest")), reply("", SAYS))
    scenario.user_writes("build it")
    step_until(scenario, lambda it: it.conversation.work.turn is not None and bool(it.conversation.work.turn.ran))
    turn = scenario.conversation.work.turn
    scenario.crash()
    data = CONVERSATION.encode_decisions([[StateSnapshot.of(scenario.conversation)]])
    scenario.conversation = fold(ID, CONVERSATION.decode_lines(data)[0])
    again = scenario.conversation.work.turn
    assert again is not None
    assert turn is not None
    assert (again.ran, again.looked_at, again.has_effect) == (turn.ran, turn.looked_at, turn.has_effect)
    scenario.settle()
    assert (verdicts(scenario), refused(scenario)) == (["verified"], [])


def test_an_expert_beside_one_who_runs_judges_and_alone_meets_no_gate() -> None:
    def verifies(conversation: Conversation, call: Any) -> Any:
        return reply("", SAYS) if conversation.work.runs[call.run].agent == "security" else VERIFIES

    for agents, gate in ((("security", "executor"), Phase.VERIFICATION), (("security",), None)):
        router = Router(route("execute", "executor"), route("verification", *agents), WAITS)
        scenario = Scenario(router, model_by_phase(execute=[builds("a.py")], verification=verifies), config=policy())
        scenario.converse("build it")
        assert scenario.records(r.TurnClosed)[-1].gate is gate
        assert bool(refused(scenario)) is (gate is None)


def test_a_repair_that_changed_nothing_is_not_verified_again_by_rule() -> None:
    finds = reply(
        "", *run("pytest"), ("complete", {"response": "bad", "verdict": "issues", "issues": "it prints nothing"})
    )

    def repairs(conversation: Conversation, call: Any) -> Any:
        is_first = all(turn.phase is not Phase.VERIFICATION for turn in conversation.cycle.turns)
        return (
            builds("a.py") if is_first else reply("", ("complete", {"response": "it is right", "summary": "as it was"}))
        )

    scenario = work(finds)
    scenario.worker = model_by_phase(execute=repairs, verification=[finds])
    scenario.converse("build it")
    assert [str(phase) for phase in scenario.phases()] == ["execute", "verification", "execute"]
    assert (len(scenario.records(r.RouteRequested)), scenario.conversation.cycle.status) == (2, "waiting")


# ---- gates follow effects ----


@pytest.mark.parametrize(
    ("line", "has_network", "opens"),
    [("pytest", False, False), ("git push", True, True), ("grep -rn parser .", True, False), ("git log", True, False)],
)
def test_a_program_opens_the_gates_where_it_may_change_something_outside(
    line: str, has_network: bool, opens: bool
) -> None:
    answers = reply("", *run(line), ("complete", {"response": "there", "summary": "looked"}))
    scenario = work(VERIFIES, execute=[answers])
    scenario.has_network = has_network
    scenario.converse("where is the parser?")
    turns = [one.phase for one in scenario.records(r.TurnOpened)]
    assert turns == ([Phase.EXECUTE, *QUALITY_PHASES] if opens else [Phase.EXECUTE])
    assert scenario.conversation.cycle.status == "ended"


def test_a_call_whose_result_is_lost_opens_the_gates() -> None:
    scenario = work(VERIFIES, execute=[reply("", *run("make deploy")), reply("it is deployed")])
    scenario.user_writes("deploy it")
    step_until(scenario, lambda it: any(isinstance(effect, ToolCall) for effect in it.running.values()))
    scenario.crash()
    assert scenario.conversation.unmet_gates == QUALITY_PHASES


def test_a_later_change_opens_the_gates_again_and_an_answer_does_not() -> None:
    scenario = work(VERIFIES)
    scenario.user_writes("build it")
    step_until(scenario, lambda it: Phase.VERIFICATION in phases_of(it.conversation).gates_met)
    met = phases_of(scenario.conversation).gates_met
    opened = r.TurnOpened(
        seq=scenario.conversation.next_seq,
        at=scenario.now,
        turn_id=scenario.records(r.TurnOpened)[0].turn_id,
        phase=Phase.EXECUTE,
        agents=(Slug("executor"),),
        reason="r",
        gates_by_effect=True,
    )
    state = scenario.conversation.fork()
    state.apply(opened)
    assert phases_of(state).gates_met == met
    old = scenario.conversation.fork()
    old.apply(dataclasses.replace(opened, gates_by_effect=False))
    assert phases_of(old).gates_met == frozenset(), "as in journals that were written before"


def test_the_view_shows_what_was_run_and_how_it_ended() -> None:
    scenario = work(reply("", *run("pytest -q", "fails")), reply("", SAYS))
    scenario.statuses = {"fails": 3}
    view = render(scenario.converse("build it").conversation)
    assert '"command": "pytest -q",\n          "exitStatus": 0' in view
    assert '"command": "fails",\n          "exitStatus": 3' in view


# ---- a person's word ----


@pytest.mark.parametrize("phase", QUALITY_PHASES)
@pytest.mark.parametrize("is_shown", [True, False])
def test_enough_said_in_a_gate_is_judged_by_the_router_after_that_turn(phase: Phase, is_shown: bool) -> None:
    written: list[str] = []

    def said(conversation: Conversation, call: Any) -> Any:
        one = conversation.work.runs[call.run]
        if one.phase is phase and not written and (one.steps == 0 or not is_shown):
            written.append(phase)
            scenario.user_writes("that's enough, no more checks")
        looks = reply("", ("learn", {"lesson": "x"}) if one.phase is Phase.REFLECTION else ("read_file", {"path": "a"}))
        if one.phase is Phase.EXECUTE:
            return builds("a.py")
        if is_shown and one.phase is phase and one.steps == 0:
            return looks
        return (
            VERIFIES if one.phase is Phase.VERIFICATION else reply("", ("complete", {"response": "d", "summary": "s"}))
        )

    asked: list[str] = []

    def router(question: dict[str, Any]) -> Any:
        asked.append(question["phase"])
        if question["cycle"] > 1:
            return WAITS if question["turns"] else route(None, "project-manager")
        left = question["open_gates"]
        if question["phase"] == "chat":
            return route("execute", "executor")
        return {**ENDS, "waive": left} if left and not question["waived"] else ENDS

    scenario = work()
    scenario.router, scenario.worker = router, said
    scenario.converse("build it")
    assert str(phase) in asked, "the router reads it"
    turns = [one.phase for one in scenario.records(r.TurnOpened) if one.phase is not Phase.CHAT]
    assert turns[-1] is phase, "no check goes on without its decision"
    if phase is not Phase.REFLECTION:
        scenario.converse("yes")
    assert scenario.records(r.Ended)
    turns = [one.phase for one in scenario.records(r.TurnOpened) if one.phase is not Phase.CHAT]
    assert turns[-1] is phase
