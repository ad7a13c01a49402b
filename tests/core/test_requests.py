"""A request that arrives where no agent may carry it out: it begins a cycle, and nothing passes it by."""

from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import Role
from tenex.core.conversation import fold
from tenex.core.ids import PublicKey
from tenex.core.messages import ModelStep
from tenex.core.phases import QUALITY_PHASES, Phase
from tenex.core.snapshot import StateSnapshot
from tenex.store.format import CONVERSATION
from tenex.workflows.phases import records as p
from tenex.workflows.phases.state import phases_of
from tests.fakes.scenario import (
    ENDS,
    ID,
    VERIFIES,
    WAITS,
    Router,
    Scenario,
    model_by_phase,
    policy,
    refusals,
    reply,
    route,
    routed_by_rule,
    step_until,
    thanked,
    wish,
)
from tests.kits.interruptions import BUILDS, LEARNS, REQUEST, TIDIES, Interrupted, interrupted, onward
from tests.kits.team import FINDS

BOB = PublicKey("b" * 64)

ANSWERS = model_by_phase(execute=[TIDIES], chat=[reply("you are welcome")])


def wants_more(scenario: Scenario) -> None:
    scenario.user_writes(REQUEST)


def requests_of_last_cycle(scenario: Scenario) -> list[str]:
    return [message.text for message in scenario.conversation.cycle.messages]


def works_again(scenario: Scenario, *texts: str) -> bool:
    """Whether a second cycle began with these requests, and an agent had a turn in chat for them."""
    begun = scenario.records(r.CycleStarted)
    turns = [turn.phase for turn in scenario.records(r.TurnOpened) if turn.seq > begun[-1].seq]
    is_theirs = requests_of_last_cycle(scenario) == list(texts)
    return len(begun) == 2 and is_theirs and turns == [Phase.CHAT] and scenario.conversation.cycle.status == "waiting"


@pytest.mark.parametrize("by_rule", [True, False], ids=["routed by rule", "routed by the model"])
@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize("phase", QUALITY_PHASES)
def test_a_request_that_arrives_in_a_gate_begins_a_cycle_at_the_end(phase: Phase, step: int, *, by_rule: bool) -> None:
    if phase is not Phase.REFLECTION and step:  # they work in one step
        worker = reply("", ("read_file", {"path": "a"}))
        scenario = two_steps(phase, worker, by_rule=by_rule)
    else:
        scenario = interrupted(phase, wants_more, step=step, by_rule=by_rule)
    assert works_again(scenario, REQUEST)


def two_steps(phase: Phase, first: ModelStep, *, by_rule: bool) -> Scenario:
    """The request arrives before the first of two steps, so the second is shown it."""
    worker = Interrupted(phase, 0, wants_more)
    done = {Phase.VERIFICATION: VERIFIES, Phase.CHORES: TIDIES}[phase]
    steps = {"execute": [BUILDS], "verification": [VERIFIES], "chores": [TIDIES], "reflection": list(LEARNS)}
    worker.usual = model_by_phase(**{**steps, str(phase): [first, done]})
    scenario = worker.scenario = Scenario(onward, worker, config=routed_by_rule(policy()) if by_rule else policy())
    return scenario.converse("build it")


def test_a_verifier_who_was_shown_a_request_and_says_verified_leaves_the_choice_to_the_router() -> None:
    asked: list[str] = []

    def to_execute(question: dict[str, Any]) -> dict[str, Any]:
        asked.append(question["phase"])
        if question["phase"] == "verification" and asked.count("verification") == 1:
            return route("execute", "executor")
        return onward(question)

    scenario = two_steps_routed(to_execute)
    assert asked.count("verification") == 1, "the rule may not pass the request by, and is enough once it is worked on"
    assert [str(turn.phase) for turn in scenario.records(r.TurnOpened)][:3] == ["execute", "verification", "execute"]
    assert (scenario.conversation.cycle.status, scenario.conversation.cycle.number) == ("ended", 1), (
        "it was worked on, once"
    )


def two_steps_routed(router: Any) -> Scenario:
    worker = Interrupted(Phase.VERIFICATION, 0, wants_more)
    steps = {"execute": [BUILDS], "chores": [TIDIES], "reflection": list(LEARNS)}
    worker.usual = model_by_phase(**steps, verification=[reply("", ("read_file", {"path": "a"})), VERIFIES])
    scenario = worker.scenario = Scenario(router, worker, config=routed_by_rule(policy()))
    return scenario.converse("build it")


def test_a_request_in_the_first_of_two_reflection_turns_begins_a_cycle() -> None:
    reflecting: list[str] = []

    def one_by_one(question: dict[str, Any]) -> dict[str, Any]:
        if question["phase"] == "chat" and question["cycle"] == 1:
            return route("execute", "executor", "helper")
        if question["phase"] in ("chores", "reflection") and question["still_to_reflect"]:
            reflecting.append(question["still_to_reflect"][0])
            return route("reflection", question["still_to_reflect"][0])
        return onward(question)

    scenario = interrupted(Phase.REFLECTION, wants_more, by_rule=False, router=one_by_one)
    assert reflecting == ["executor", "helper"]
    assert works_again(scenario, REQUEST)


def test_requests_of_two_people_begin_one_cycle_with_both() -> None:
    def both(scenario: Scenario) -> None:
        scenario.user_writes(REQUEST)
        scenario.user_writes("and blue", author=BOB, name="bob", role=Role.GUEST)

    assert works_again(interrupted(Phase.CHORES, both), REQUEST, "and blue")


def test_a_command_in_a_gate_begins_no_cycle() -> None:
    scenario = interrupted(Phase.CHORES, lambda it: it.user_writes("/status"), lambda it: it.user_writes("/help"))
    assert (scenario.conversation.cycle.status, scenario.conversation.cycle.number) == ("ended", 1)


def test_a_request_that_was_shown_while_the_work_was_done_is_not_done_again() -> None:
    worker = Interrupted(Phase.EXECUTE, 0, wants_more)
    steps = {"verification": [VERIFIES], "chores": [TIDIES], "reflection": list(LEARNS)}
    done = reply("", ("complete", {"response": "built", "summary": "a is new"}))
    worker.usual = model_by_phase(**steps, execute=[reply("", ("write_file", {"path": "a"})), done])
    scenario = worker.scenario = Scenario(onward, worker, config=routed_by_rule(policy()))
    scenario.converse("build it")
    assert (scenario.conversation.cycle.status, scenario.conversation.cycle.number) == ("ended", 1)


def test_a_request_in_the_last_step_of_the_work_is_read_by_the_router_and_lost_by_no_gate() -> None:
    scenario = interrupted(Phase.EXECUTE, wants_more)
    assert works_again(scenario, REQUEST)


@pytest.mark.parametrize("phase", [Phase.VERIFICATION, Phase.CHORES])
def test_an_answer_to_what_an_agent_asked_in_a_gate_begins_no_cycle(phase: Phase) -> None:
    steps = {"execute": [BUILDS], "verification": [VERIFIES], "chores": [TIDIES], "reflection": list(LEARNS)}
    asks = reply("", ("ask", {"question": "Which file?"}))
    scripted = {**steps, str(phase): [asks, *steps[str(phase)]]}
    scenario = Scenario(onward, model_by_phase(**scripted), config=routed_by_rule(policy()))
    scenario.converse("build it").converse("readme.md")
    assert (scenario.conversation.cycle.status, scenario.conversation.cycle.number) == ("ended", 1)


def wishes_to_stop(gates: list[str], then: dict[str, Any], asked: list[list[str]], words: str = "") -> Any:
    """A router that takes these words in verification for a wish to waive these gates, and then decides this."""

    def decide(question: dict[str, Any]) -> dict[str, Any]:
        if question["phase"] != "verification" or question["cycle"] > 1:
            return onward(question)
        asked.append(question["waived"])
        return then if question["waived"] else wish(then, *gates, words=words or NO_MORE)

    return decide


def test_work_that_is_wanted_beside_a_waiver_is_done_after_the_yes() -> None:
    """A rule went on to the next gate, and the work began only in the next cycle."""
    asked: list[list[str]] = []
    router = wishes_to_stop(["verification", "chores"], route("execute", "executor"), asked, "no checks")
    scenario = stopped_at(FINDS, router, f"{REQUEST}, no checks").converse("yes")
    assert asked[:2] == [[], ["chores", "verification"]], "it is asked again, as its prompt says"
    turns = [str(turn.phase) for turn in scenario.records(r.TurnOpened)]
    assert turns[:3] == ["execute", "verification", "execute"]
    assert scenario.conversation.cycle.number == 1


def test_a_wish_to_stop_checking_that_was_granted_begins_no_cycle() -> None:
    gates = ["verification", "chores", "reflection"]
    scenario = stopped_at(FINDS, wishes_to_stop(gates, ENDS, []))
    assert scenario.conversation.cycle.waiting_for == "waiver"
    scenario.converse("yes")
    assert (scenario.conversation.cycle.status, scenario.conversation.cycle.number) == ("ended", 1)


NO_MORE = "that's enough, no more checks"


def stopped_at(verdict: ModelStep, router: Any, text: str = NO_MORE, **writes: Any) -> Scenario:
    """Someone writes while the verifier works, which then gives this verdict."""
    worker = Interrupted(Phase.VERIFICATION, 0, lambda it: it.user_writes(text, **writes))
    worker.usual = model_by_phase(
        execute=[BUILDS], verification=[verdict], chores=[TIDIES], reflection=list(LEARNS), chat=[reply("I see")]
    )
    scenario = worker.scenario = Scenario(router, worker, config=routed_by_rule(policy()))
    return scenario.converse("build it")


@pytest.mark.parametrize("by_rule", [True, False], ids=["routed by rule", "routed by the model"])
@pytest.mark.parametrize(
    ("decision", "phase", "left_out"),
    [
        (ENDS, Phase.VERIFICATION, "chores and reflection"),
        (WAITS, Phase.VERIFICATION, "chores and reflection"),
        (route("chores", "executor"), Phase.VERIFICATION, "chores and reflection"),
        (ENDS, Phase.CHORES, "reflection"),
    ],
)
def test_a_wish_to_stop_after_the_verdict_ends_without_a_question(
    decision: dict[str, Any], phase: Phase, left_out: str, *, by_rule: bool
) -> None:
    """It led to the question whether chores may be skipped."""

    def wishes(question: dict[str, Any]) -> dict[str, Any]:
        is_late = question["phase"] == phase and len(question["messages"]) > 1
        return wish(decision, "chores", "reflection", words=NO_MORE) if is_late else onward(question)

    scenario = interrupted(phase, lambda it: it.user_writes(NO_MORE), router=wishes, by_rule=by_rule)
    assert (scenario.conversation.cycle.status, scenario.conversation.cycle.number) == ("ended", 1)
    assert not scenario.records(p.WaiverRequested)
    assert refusals(scenario) == []
    said = [text for text in scenario.sent_texts() if "reflection" in text]
    assert len(said) == 1, "it is said once, in the last word"
    assert f"- Left out, because alice wrote “{NO_MORE}”: {left_out}." in said[0].splitlines()
    again = fold(ID, [record for decided in scenario.journal for record in decided])
    assert (again.requests, phases_of(again).waivers) == ((), phases_of(scenario.conversation).waivers)


def test_a_wish_to_stop_beside_other_work_is_put_to_them_and_the_work_is_done() -> None:
    router = wishes_to_stop(["chores", "reflection"], route("execute", "executor"), [], "then no more checks")
    scenario = stopped_at(VERIFIES, router, f"{REQUEST}, then no more checks")
    assert "because of “then no more checks”? Then" in scenario.sent_texts()[-1]
    scenario.converse("yes")
    turns = [turn.phase for turn in scenario.records(r.TurnOpened)]
    assert turns == [Phase.EXECUTE, Phase.VERIFICATION] * 2, "what was changed is verified"
    assert (scenario.conversation.cycle.status, scenario.conversation.cycle.number) == ("ended", 1)


@pytest.mark.parametrize(
    "writes",
    [
        {"author": BOB, "name": "bob", "role": Role.GUEST},
        {"author": BOB, "name": "bob", "role": Role.MEMBER},
        {"by_program": True},
        {"by_machine": True},
    ],
    ids=["a guest", "a member", "a program", "a machine"],
)
def test_the_wish_of_who_may_not_waive_is_put_to_who_may(writes: dict[str, Any]) -> None:
    router = wishes_to_stop(["chores", "reflection"], ENDS, [])
    assert stopped_at(VERIFIES, router, **writes).conversation.cycle.waiting_for == "waiver"


def test_a_wish_in_words_of_two_people_is_put_to_one_of_them() -> None:
    def both(scenario: Scenario) -> None:
        scenario.user_writes(NO_MORE, author=BOB, name="bob", role=Role.GUEST)
        scenario.user_writes("thanks")

    router = wishes_to_stop(["chores", "reflection"], ENDS, [])
    assert interrupted(Phase.VERIFICATION, both, router=router).conversation.cycle.waiting_for == "waiver"


def test_a_wish_to_stop_after_issues_is_put_to_them() -> None:
    scenario = stopped_at(FINDS, wishes_to_stop(["chores", "reflection"], ENDS, []))
    assert scenario.conversation.cycle.waiting_for == "waiver"


def test_a_wish_in_the_request_itself_is_put_to_them_and_a_no_keeps_what_was_asked_about() -> None:
    """The router may have misread the request, and then the answer."""

    def wishes(question: dict[str, Any]) -> dict[str, Any]:
        is_verified = question["phase"] == "verification" and not question["rejections"]
        words = "build a parser of chores"
        return wish(ENDS, "chores", "reflection", words=words) if is_verified else onward(question)

    scenario = Scenario(wishes, Interrupted(Phase.CHAT, 0), config=policy()).converse("build a parser of chores")
    assert scenario.conversation.cycle.waiting_for == "waiver"
    scenario.converse("no, go on as usual")
    assert "did not say yes" in refusals(scenario)[-1]
    assert not scenario.records(p.Waived)


def takes_as_thanks(text: str) -> Any:
    """A router that takes this message as thanks, once it is there, and goes on."""

    def decide(question: dict[str, Any]) -> dict[str, Any]:
        is_there = any(message["text"] == text for message in question["messages"])
        return thanked(onward(question), text) if is_there else onward(question)

    return decide


@pytest.mark.parametrize("by_rule", [True, False], ids=["routed by rule", "routed by the model"])
@pytest.mark.parametrize("text", ["enough", "danke, das reicht", "ok thanks", "fertig"])
@pytest.mark.parametrize("phase", QUALITY_PHASES)
def test_what_the_router_takes_for_thanks_in_a_gate_begins_no_cycle(phase: Phase, text: str, *, by_rule: bool) -> None:
    """It began a cycle whose request was "enough"."""
    scenario = interrupted(phase, lambda it: it.user_writes(text), router=takes_as_thanks(text), by_rule=by_rule)
    assert (scenario.conversation.cycle.status, scenario.conversation.cycle.number) == ("ended", 1)
    assert scenario.conversation.requests == ()


def test_only_what_the_router_has_named_is_taken_as_thanks() -> None:
    """A request that came beside the thanks begins a cycle."""
    written: list[str] = []

    def thanks(question: dict[str, Any]) -> dict[str, Any]:
        if question["phase"] == "reflection" and question["cycle"] == 1 and not written:
            written.append(question["messages"][-1]["text"])
            scenario.user_writes(REQUEST)
        return takes_as_thanks("enough")(question) if question["cycle"] == 1 else onward(question)

    worker = Interrupted(Phase.REFLECTION, 0, lambda it: it.user_writes("enough"))
    scenario = worker.scenario = Scenario(thanks, worker, config=routed_by_rule(policy()))
    scenario.converse("build it")
    assert written == ["enough"]
    assert works_again(scenario, REQUEST)


def test_bare_thanks_after_an_end_get_no_answer_and_no_turn() -> None:
    thanks = thanked(ENDS, "Thanks")
    scenario = Scenario(Router(route("execute", "executor"), ENDS, thanks), ANSWERS).converse("where is it?")
    before = len(scenario.records(r.TurnOpened))
    scenario.converse("thanks! 🙏")
    assert (scenario.conversation.cycle.status, scenario.conversation.requests) == ("ended", ())
    assert len(scenario.records(r.TurnOpened)) == before
    said = scenario.records(r.MessageSent)[-1]
    assert (said.text, said.notifies) == ("Taken as thanks: “thanks! 🙏”.", ()), "it rings nowhere"


def test_a_first_message_is_answered_whatever_the_router_takes_it_for() -> None:
    thanks = thanked(ENDS, "thanks!")
    scenario = Scenario(Router(thanks, route("chat", "executor"), WAITS), ANSWERS).converse("thanks!")
    assert scenario.records(r.RouteRejected)[0].sentence.startswith("END is refused")
    assert len(scenario.records(r.TurnOpened)) == 1


def test_what_was_taken_as_thanks_survives_a_restart() -> None:
    scenario = interrupted(Phase.CHORES, lambda it: it.user_writes("enough"), router=takes_as_thanks("enough"))
    again = fold(ID, [record for decision in scenario.journal for record in decision])
    assert (again.requests, again.cycle.number) == ((), 1)


@pytest.mark.parametrize("text", ["no", "Nein, danke", "👎"])
def test_a_clear_no_to_a_waiver_begins_no_cycle(text: str) -> None:
    def wishes(question: dict[str, Any]) -> dict[str, Any]:
        is_first = question["phase"] == "execute" and len(question["messages"]) == 1
        return wish(route("verification", "executor"), "verification") if is_first else onward(question)

    scenario = interrupted(Phase.EXECUTE, by_rule=False, router=wishes)
    assert scenario.conversation.cycle.waiting_for == "waiver"
    scenario.converse(text)
    assert (scenario.conversation.cycle.status, scenario.conversation.cycle.number) == ("ended", 1)


def test_a_refusal_with_a_request_in_it_begins_a_cycle() -> None:
    def wishes(question: dict[str, Any]) -> dict[str, Any]:
        is_first = question["phase"] == "execute" and len(question["messages"]) == 1
        return wish(route("verification", "executor"), "verification") if is_first else onward(question)

    scenario = interrupted(Phase.EXECUTE, by_rule=False, router=wishes).converse("no, and make it green")
    assert works_again(scenario, "no, and make it green")


def test_a_request_is_not_carried_past_a_stop() -> None:
    def stops(scenario: Scenario) -> None:
        scenario.user_writes(REQUEST)
        scenario.user_writes("/stop")

    scenario = interrupted(Phase.CHORES, stops)
    assert scenario.conversation.cycle.waiting_for == "stopped"
    scenario.converse("/retry")
    assert (scenario.conversation.cycle.status, scenario.conversation.cycle.number) == ("ended", 1), (
        "the person ended it"
    )


def test_a_request_survives_a_restart_and_a_snapshot() -> None:
    scenario = interrupted(
        Phase.CHORES, wants_more, router=lambda question: "hm" if question["phase"] == "chores" else onward(question)
    )
    assert scenario.conversation.cycle.waiting_for == "fallback"
    data = CONVERSATION.encode_decisions([[StateSnapshot.of(scenario.conversation)]])
    again = fold(ID, CONVERSATION.decode_lines(data)[0])
    assert [message.text for message in again.requests] == [REQUEST]
    scenario.conversation = again
    scenario.router = onward
    scenario.crash()
    scenario.converse("/continue")
    assert works_again(scenario, REQUEST)


def test_a_request_after_all_gates_were_waived_begins_a_cycle() -> None:
    def waives(scenario: Scenario) -> None:
        scenario.user_writes("/quick")
        scenario.user_writes(REQUEST)

    scenario = interrupted(Phase.EXECUTE, waives, by_rule=False, router=lambda q: ENDS if q["waived"] else onward(q))
    assert works_again(scenario, REQUEST)


def test_a_mention_in_a_gate_gives_a_turn_there_and_the_request_a_cycle() -> None:
    scenario = interrupted(Phase.CHORES, lambda it: it.user_writes("@executor add a flag", addressed=("executor",)))
    chores = [turn.reason for turn in scenario.records(r.TurnOpened) if turn.phase is Phase.CHORES]
    assert chores[-1] == "addressed by the person"
    assert works_again(scenario, "@executor add a flag")


def test_the_router_may_not_wait_for_a_person_whose_request_only_a_gate_has_seen() -> None:
    def waits(question: dict[str, Any]) -> dict[str, Any]:
        is_new = question["phase"] == "chores" and len(question["messages"]) > 1 and not question["rejections"]
        return WAITS if is_new else onward(question)

    scenario = interrupted(Phase.CHORES, wants_more, router=waits)
    assert "has had no answer" in refusals(scenario)[0]
    assert works_again(scenario, REQUEST)


def test_a_request_that_a_router_did_not_see_when_it_chose_a_gate_is_read_after_that_gate() -> None:
    """The router is being asked while the request arrives, and its answer opens another turn of the gates."""
    asked: list[str] = []

    def chooses(question: dict[str, Any]) -> dict[str, Any]:
        asked.append(question["phase"])
        if question["phase"] == "chores" and asked.count("chores") == 1:
            scenario.user_writes(REQUEST)
        return onward(question)

    worker = Interrupted(Phase.CHAT, 0)
    scenario = Scenario(chooses, worker, config=policy())
    scenario.user_writes("build it")
    step_until(scenario, lambda it: it.conversation.cycle.phase is Phase.REFLECTION)
    scenario.policy = routed_by_rule(policy())
    scenario.settle()
    assert asked.count("reflection") == 1, "the rule does not pass by what the router has not seen"
    assert works_again(scenario, REQUEST)


def test_a_message_for_which_the_router_chose_to_verify_is_no_request_afterwards() -> None:
    """It came while nothing was under way, so the router could choose any work for it."""

    def router(question: dict[str, Any]) -> dict[str, Any]:
        is_built = question["phase"] == "execute" and len(question["messages"]) == 1
        return WAITS if is_built else onward(question)

    scenario = interrupted(Phase.EXECUTE, by_rule=False, router=router)
    assert scenario.conversation.cycle.waiting_for == "user"
    scenario.converse("please verify it")
    assert scenario.conversation.cycle.status == "ended"
    assert len(scenario.records(r.CycleStarted)) == 1
