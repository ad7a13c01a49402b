"""What users write, the turns that follow, and the limits: each hit is a record, and `/continue` goes on."""

import dataclasses
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import Limits, Role
from tenex.core.effects import ModelCall, Work
from tenex.core.identity.state import TITLE_CHARACTERS, title_of
from tenex.core.ids import PublicKey
from tenex.core.messages import Usage, UserText
from tenex.core.phases import QUALITY_PHASES, Phase
from tenex.workflows.phases.state import phases_of
from tests.fakes.scenario import (
    ALICE,
    ENDS,
    WAITS,
    Router,
    Scenario,
    check_idle,
    diligent,
    in_flight,
    longest_way,
    model_by_phase,
    plain_model,
    policy,
    refusals,
    remove_agent,
    reply,
    route,
    scenario_at,
    step_until,
    wish,
)


def endless(question: dict[str, Any]) -> Any:
    """A router that sends two agents in turn, for ever."""
    return route(None, ("project-manager", "planner")[len(question["turns"]) % 2])


def building(question: dict[str, Any]) -> Any:
    """A router that sends two agents in turn, for ever, in execute."""
    decision = endless(question)
    return decision if question["phase"] == "execute" else {**decision, "phase": "execute"}


def stubborn(question: dict[str, Any]) -> Any:
    """A router that sends the same agent for ever."""
    return route(None, "executor") if question["phase"] == "execute" else route("execute", "executor")


def limited(scenario: Scenario) -> str:
    """The limit that was hit last, with everything a hit means."""
    hit = scenario.records(r.LimitReached)[-1]
    assert (scenario.conversation.cycle.status, scenario.conversation.cycle.waiting_for) == ("waiting", "limit")
    assert scenario.sent_texts()[-1] == f"{hit.sentence} Write `/continue` to go on."
    check_idle(scenario)
    return str(hit.limit)


def play_of(router: Any, worker: Any = plain_model, **limits: Any) -> Scenario:
    """A scenario under these limits, come to rest."""
    return Scenario(router, worker, config=policy(limits=Limits(**limits))).converse("build it")


def test_turns_since_a_user_spoke_are_bounded() -> None:
    scenario = play_of(endless, turns_per_message=5)
    assert limited(scenario) == "turns_per_message"
    assert scenario.conversation.totals.turn_count == 5
    scenario.converse("go on")
    assert scenario.conversation.totals.turn_count == 10, "a message begins the count again"
    scenario.converse("/continue")
    assert scenario.conversation.totals.turn_count == 15, "and so does /continue"
    assert len(scenario.records(r.LimitReached)) == 3


def priced(conversation: Any, call: Any) -> Any:
    """An agent that reads for ever; each step costs 40 cents."""
    usage = Usage(input_tokens=10, output_tokens=5, cost_usd=0.4)
    return dataclasses.replace(reply("", ("read_file", {"path": f"{conversation.next_seq}"})), usage=usage)


def test_the_same_route_is_bounded_only_without_progress() -> None:
    scenario = play_of(stubborn, model_by_phase(execute=[reply("nothing to do")]), same_route=3)
    assert limited(scenario) == "same_route"
    assert scenario.conversation.totals.turn_count == 3
    assert "executor worked 3 times in execute and nothing changed." in scenario.sent_texts()[-1]
    scenario.converse("/continue")
    assert scenario.conversation.totals.turn_count == 6

    def writes(conversation: Any, call: Any) -> Any:
        return reply("", ("write_file", {"path": "a"})) if not conversation.work.runs[call.run].steps else reply("more")

    scenario = play_of(stubborn, model_by_phase(execute=writes), same_route=3, turns_per_message=12)
    assert limited(scenario) == "turns_per_message"


def test_the_cost_of_a_cycle_is_bounded() -> None:
    def dear(conversation: Any, call: Any) -> Any:
        usage = Usage(input_tokens=1, output_tokens=1, cost_usd=0.4)
        return dataclasses.replace(plain_model(conversation, call), usage=usage)

    scenario = play_of(building, dear, cost_per_cycle_usd=1.0)
    assert limited(scenario) == "cost_per_cycle"
    assert "This work has cost $1.20 of $1.00." in scenario.sent_texts()[-1]
    scenario.user_writes("go on")
    assert limited(scenario) == "cost_per_cycle", "words do not make it cheaper"
    scenario.converse("/continue")
    assert scenario.conversation.totals.turn_count == 6
    assert scenario.conversation.totals.usage.cost_usd == pytest.approx(2.4)


def test_the_tokens_of_a_conversation_are_bounded_across_its_cycles() -> None:
    scenario = play_of(Router(route(None, "project-manager"), WAITS), tokens_per_conversation=100)
    for _ in range(2):  # 45 in each cycle
        scenario.user_writes("/new")
        scenario.router = Router(route(None, "project-manager"), WAITS)
        scenario.converse("something small")
    assert scenario.conversation.cycle.number == 3
    assert limited(scenario) == "tokens_per_conversation"
    scenario.router = endless
    scenario.converse("/continue")
    assert limited(scenario) == "tokens_per_conversation"
    used = scenario.conversation.totals.usage.tokens
    assert 200 <= used < 260, "`/continue` allows as much again, once"


def test_talk_does_not_count_against_the_limit_of_a_cycle_and_an_addressed_agent_works_although_it_is_reached() -> None:
    scenario = play_of(Router(route(None, "project-manager"), WAITS), tokens_per_cycle=100)
    for _ in range(9):  # 45 tokens each
        scenario.router = Router(route(None, "project-manager"), WAITS)
        scenario.converse("and what else?")
    assert scenario.conversation.totals.turn_count == 10
    assert not scenario.records(r.LimitReached)
    scenario.router = building
    scenario.converse("build it")
    assert limited(scenario) == "tokens_per_cycle"
    assert 100 <= (scenario.conversation.cycle.usage - scenario.conversation.cycle.talk_usage).tokens < 130
    scenario.user_writes("@executor please look", addressed=("executor",))
    assert scenario.records(r.TurnOpened)[-1].agents == ("executor",)
    scenario.settle()
    assert limited(scenario) == "tokens_per_cycle"


@pytest.mark.parametrize(
    ("limits", "used"),
    [({"tokens_per_run": 40}, "used 45 tokens of 40."), ({"cost_per_run_usd": 1.0}, "cost $1.20 of $1.00.")],
)
def test_what_a_run_uses_is_bounded_and_the_user_is_asked_once(limits: dict[str, Any], used: str) -> None:
    scenario = play_of(lambda question: route("execute", "executor", "helper"), priced, **limits)
    assert [run.outcome for run in scenario.records(r.RunEnded)] == ["over_limit", "over_limit"]
    assert (scenario.conversation.cycle.status, scenario.conversation.cycle.waiting_for) == ("waiting", "limit")
    assert [hit.limit for hit in scenario.records(r.LimitReached)] == [next(iter(limits)).removesuffix("_usd")] * 2
    (asked,) = [text for text in scenario.sent_texts() if "/continue" in text]
    assert asked == f"Executor's run has {used} Helper's run has {used} Write `/continue` to go on."
    assert not any("could not finish" in text for text in scenario.sent_texts()), "the same is not sent twice"
    check_idle(scenario)
    scenario.converse("/continue")
    assert len(scenario.records(r.RunEnded)) == 4, "another run has as much again"


def test_an_agent_that_is_no_more_is_not_waited_for() -> None:
    """Named, then taken out of the roster: the router's own choice must not be put off for ever."""
    scenario = scenario_at(Phase.CHAT, Router(route(None, "helper"), WAITS))
    scenario.user_writes("@planner, @executor: thoughts?", addressed=("planner", "executor"))
    opened = scenario.records(r.TurnOpened)[-1]
    assert (opened.agents, opened.reason) == (("planner", "executor"), "addressed by the person")
    assert scenario.records(r.Routed)[-1].by == "alice"
    scenario.user_writes("@security is that safe?", addressed=("security",))
    scenario.user_writes("@planner boo", addressed=("planner",))
    assert len(scenario.records(r.TurnOpened)) == 2, "one turn at a time"
    remove_agent(scenario, "planner")
    scenario.settle(most=200)
    assert [record.agents for record in scenario.records(r.TurnOpened)][2:] == [("security",), ("helper",)]
    assert scenario.conversation.cycle.waiting_for == "user"


def test_an_agent_named_in_reflection_that_has_reflected_does_not_block_the_others() -> None:
    scenario = scenario_at(Phase.CHORES, agents=("executor", "helper"))
    scenario.router = Router(route("reflection", "executor"), WAITS)
    scenario.settle()
    scenario.router = Router(route(None, "helper"), WAITS)
    scenario.user_writes("@executor anything else?", addressed=("executor",))
    scenario.settle(most=200)
    reflecting = [record.agents for record in scenario.records(r.TurnOpened) if record.phase is Phase.REFLECTION]
    assert reflecting == [("executor",), ("helper",)]
    scenario.router = Router(route("chat", "project-manager"), WAITS)
    scenario.converse("go on")
    begun = scenario.records(r.CycleStarted)[-1].seq
    assert ("executor",) in [record.agents for record in scenario.records(r.TurnOpened) if record.seq > begun]


@pytest.mark.parametrize(("phase", "cycle"), [(Phase.REFLECTION, 2), (Phase.EXECUTE, 1)])
def test_chat_entered_from_reflection_begins_a_cycle_and_from_execute_none(phase: Phase, cycle: int) -> None:
    scenario = scenario_at(phase, Router(route("chat", "project-manager"), ENDS, WAITS)).settle()
    assert scenario.phases()[-1] is Phase.CHAT
    assert (scenario.conversation.cycle.number, phases_of(scenario.conversation).executed) == (cycle, cycle == 1)
    assert len(refusals(scenario)) == (cycle == 1), "its gates are kept"


def test_b03_a_message_after_the_end_begins_a_clean_cycle_in_chat() -> None:
    """END was a turn that no one completed, so every later message found the orchestrator busy."""
    steps = [reply("", ("write_file", {"path": "a"})), reply("built")]
    scenario = scenario_at(Phase.CHAT, longest_way, model_by_phase(execute=steps)).settle()
    scenario.converse("think").converse("plan")
    assert (scenario.conversation.cycle.status, scenario.conversation.cycle.touched) == ("ended", frozenset({"a"}))
    assert scenario.conversation.work.turn is None
    scenario.router = Router(route(None, "project-manager"), WAITS)
    scenario.user_writes("/quick")  # no waiver of a cycle that is over may leak into the next
    scenario.user_writes("and now a poem")
    state = scenario.conversation
    assert (state.cycle.number, state.cycle.phase, state.cycle.status) == (2, Phase.CHAT, "active")
    assert (state.cycle.read_files, state.cycle.touched, phases_of(state).executed) == ({}, frozenset(), False)
    assert (phases_of(state).waivers, state.cycle.participants, phases_of(state).gates_met) == ((), (), frozenset())
    assert [message.text for message in state.cycle.messages] == ["and now a poem"]
    assert scenario.phases()[-1] is Phase.CHAT, "reflection -> chat is an edge of the table, so it is a transition"
    scenario.settle()
    assert scenario.conversation.cycle.waiting_for == "user"


def test_a_message_while_end_is_decided_gives_the_end_and_a_new_cycle_in_one_append() -> None:
    scenario = scenario_at(Phase.REFLECTION)

    def ending(question: dict[str, Any]) -> Any:
        scenario.router = Router(route(None, "project-manager"), WAITS)
        scenario.user_writes("one more thing: make it green")
        return ENDS

    scenario.router = ending
    scenario.settle()
    append = next(decision for decision in scenario.journal if any(isinstance(rec, r.Ended) for rec in decision))
    kinds = [type(record).__name__ for record in append]
    assert kinds == ["Routed", "MessageSent", "Ended", "PhaseTransition", "CycleStarted", "RouteRequested"]
    assert [message.text for message in scenario.conversation.cycle.messages] == ["one more thing: make it green"]
    assert scenario.conversation.cycle.number == 2
    assert scenario.records(r.TurnOpened)[-1].phase is Phase.CHAT
    assert scenario.conversation.cycle.waiting_for == "user"


def test_a_router_that_goes_round_in_cycles_meets_the_limit_of_turns() -> None:
    """Chat entered from reflection begins a cycle, but the user still has not spoken."""
    ring = [Phase.CHAT, Phase.EXECUTE, *QUALITY_PHASES, Phase.CHAT]
    following = dict(pairwise(map(str, ring)))

    def round_and_round(question: dict[str, Any]) -> Any:
        target = following[question["phase"]]
        return route(target, *(question["still_to_reflect"] if target == "reflection" else ["executor"]))

    scenario = Scenario(round_and_round, plain_model).converse("build it")
    assert scenario.conversation.totals.turn_count == scenario.policy.limits.turns_per_message
    assert scenario.conversation.cycle.waiting_for == "limit"


def test_an_answer_to_a_question_is_no_new_request_at_the_end() -> None:
    """An agent asked, the user answered, the agent finished: END ends, and no second cycle answers it again."""
    asks = [reply("", ("ask", {"question": "Which colour?"})), reply("blue it is")]
    scenario = Scenario(Router(route(None, "project-manager"), ENDS), model_by_phase(chat=asks)).converse(
        "which colours can I have?"
    )
    scenario.converse("blue")
    assert scenario.conversation.cycle.status == "ended"
    assert scenario.conversation.cycle.number == 1


def test_b09_a_transition_carries_its_reason_the_request_and_what_was_done_unless_it_is_old() -> None:
    """What was done needed a summary from the router, whose answer has no such field."""
    router = Router(route(None, "project-manager"), route("execute", "executor"), WAITS)
    scenario = Scenario(router, plain_model).converse("build it")
    moved = scenario.records(r.PhaseTransition)[0]
    assert (moved.reason, moved.message) == ("on to execute", "on to execute\n\nRequest: build it")
    assert moved.summary == "project-manager: project-manager has done its part of chat"
    assert (moved.agent_name, moved.agent_pubkey) == (scenario.policy.project.name, scenario.policy.project.pubkey)
    handed = scenario.records(r.TurnOpened)[-1].handoff
    assert handed is not None
    assert (handed.from_, handed.to, handed.summary) == (Phase.CHAT, Phase.EXECUTE, moved.summary)
    scenario.now = type(scenario.now)(scenario.now + scenario.policy.limits.handoff_window + 1)
    scenario.user_writes("@planner what do you think?", addressed=("planner",))
    assert scenario.records(r.TurnOpened)[-1].handoff is None


def test_a_transition_names_the_request_that_began_the_cycle_not_an_answer() -> None:
    """It named "yes" as the request."""
    router = Router(route("brainstorm", "project-manager"), WAITS, route("plan", "planner"), WAITS)
    scenario = Scenario(router, plain_model).converse("build it").converse("yes")
    moved = scenario.records(r.PhaseTransition)
    assert [str(transition.to) for transition in moved] == ["brainstorm", "plan"]
    assert [transition.message.partition("Request: ")[2] for transition in moved] == ["build it", "build it"]


def test_a_transition_that_begins_a_cycle_names_no_request_of_the_last_one() -> None:
    router = Router(route("execute", "executor"), ENDS, WAITS)
    scenario = Scenario(router, model_by_phase(execute=[reply("there")])).converse("where is it?")
    scenario.converse("and now?")
    begins = next(record for record in scenario.records(r.PhaseTransition) if record.to is Phase.CHAT)
    assert (begins.reason, begins.message) == ("alice wrote again", "alice wrote again")


def test_b07_agents_of_a_turn_work_at_the_same_time_and_the_router_waits_for_the_last() -> None:
    """They ran one after the other, and the first one's completion started a second orchestrator."""
    router = Router(route("plan", "executor", "helper", "planner"), WAITS)
    scenario = scenario_at(Phase.CHAT, router, model_by_phase(plan=[reply("done")]))
    step_until(scenario, lambda it: it.conversation.work.turn is not None)
    calls = in_flight(scenario)
    for number, call in enumerate(calls):
        assert in_flight(scenario) == calls[number:], "never the router beside an agent"
        scenario.running.pop(call.key)
        scenario.handle(scenario.perform(call))
    assert [effect.key.work for effect in (*calls, *in_flight(scenario))] == [*[Work.MODEL] * 3, Work.ROUTE]


def asking(*agents: str, questions: int = 1) -> Scenario:
    """A scenario in which these agents have asked."""

    def ask(conversation: object, call: ModelCall) -> object:
        who = call.run.split(".")[1]
        run = conversation.work.runs[call.run]  # type: ignore[attr-defined]
        if run.steps:
            return reply(f"{who} is done")
        return reply("", *(("ask", {"question": f"{who} wants to know ({n})"}) for n in range(questions)))

    scenario = scenario_at(Phase.CHAT, Router(route("execute", *agents), WAITS), model_by_phase(execute=ask))
    step_until(scenario, lambda it: len(it.records(r.QuestionAsked)) == len(agents) * questions)
    return scenario


def event_of(scenario: Scenario, question: str) -> str:
    """The event id of a question that was put."""
    return str(next(sent.events[0].id for sent in scenario.records(r.MessageSent) if sent.text == question))


def answers(scenario: Scenario) -> list[tuple[str, str]]:
    """(agent, answer) of every question answered."""
    return [(record.run.split(".")[1], record.text) for record in scenario.records(r.QuestionAnswered)]


def test_with_several_questions_open_the_daemon_asks_which() -> None:
    scenario = asking("executor", "helper")
    scenario.user_writes("blue")
    assert answers(scenario) == []
    assert scenario.sent_texts()[-1] == (
        "Several of us wait for an answer (Executor, Helper). Please reply to the question you mean."
    )
    scenario.user_writes("blue", reply_to=event_of(scenario, "helper wants to know (0)"))
    assert answers(scenario) == [("helper", "blue")]
    scenario.settle()
    scenario.user_writes("red")
    assert answers(scenario) == [("helper", "blue"), ("executor", "red")], "only one is left, so no reply is needed"
    one = asking("executor", questions=2)
    one.user_writes("blue")
    assert one.sent_texts()[-1] == "Executor has asked several things. Please reply to the question you mean."
    one.user_writes("b", reply_to=event_of(one, "executor wants to know (1)"))
    assert in_flight(one) == [], "it goes on when it has both answers"
    one.converse("a")
    assert answers(one) == [("executor", "b"), ("executor", "a")]


def test_words_that_only_one_of_several_questions_has_as_a_choice_answer_that_one() -> None:
    choices = {"executor": ["red", "blue", "later"], "helper": ["large", "small", "later"]}

    def ask(conversation: object, call: ModelCall) -> object:
        who = call.run.split(".")[1]
        if conversation.work.runs[call.run].steps:  # type: ignore[attr-defined]
            return reply(f"{who} is done")
        return reply("", ("ask", {"question": f"{who} wants to know", "options": choices[who]}))

    scenario = scenario_at(Phase.CHAT, Router(route("execute", *choices), WAITS), model_by_phase(execute=ask))
    step_until(scenario, lambda it: len(it.records(r.QuestionAsked)) == 2)
    for unclear in ("1", "later", "large, I think"):
        scenario.user_writes(unclear)
        assert answers(scenario) == []
        assert scenario.sent_texts()[-1].endswith("Please reply to the question you mean.")
    scenario.user_writes("Small!")
    assert answers(scenario) == [("helper", "small")]
    scenario.settle()
    scenario.user_writes("1")
    assert answers(scenario) == [("helper", "small"), ("executor", "red")]


BOB = PublicKey("b" * 64)
CAROL = PublicKey("c" * 64)


@pytest.mark.parametrize("replies", [True, False])
@pytest.mark.parametrize("role", [Role.MEMBER, Role.GUEST])
def test_someone_else_does_not_answer_what_an_agent_asked_the_owner(role: Role, *, replies: bool) -> None:
    scenario = asking("executor")
    question = event_of(scenario, "executor wants to know (0)") if replies else None
    scenario.user_writes("red", role=role, author=BOB, name="bob", reply_to=question)
    scenario.user_writes("red", role=role, author=BOB, name="bob", addressed=("executor",))
    assert answers(scenario) == []
    assert scenario.sent_texts()[-1] == (
        "Executor asked alice or an owner, so your words are no answer. They read them when that answer is there."
    )
    scenario.user_writes("blue", reply_to=question)
    assert answers(scenario) == [("executor", "blue")]
    (run,) = scenario.conversation.work.runs.values()
    shown = [entry.text for entry in run.entries if isinstance(entry, UserText)]
    assert shown.count("red") == 2, "what they wrote is a message like any"


def test_a_word_of_a_guest_before_the_question_does_not_make_them_the_one_who_is_asked() -> None:
    """The agent is at work for the owner, in whose place the one who wrote last could answer."""
    scenario = scenario_at(Phase.CHAT, Router(route("execute", "executor"), WAITS))
    scenario.worker = model_by_phase(execute=[reply("", ("ask", {"question": "Which?"})), reply("done")])
    scenario.user_writes("hello", role=Role.GUEST, author=BOB, name="bob")
    scenario.settle()
    scenario.user_writes("red", role=Role.GUEST, author=BOB, name="bob")
    assert answers(scenario) == []
    scenario.user_writes("blue")
    assert answers(scenario) == [("executor", "blue")]


@pytest.mark.parametrize(
    ("starter", "asked", "answerer", "role", "may"),
    [
        (BOB, ALICE, BOB, Role.MEMBER, True),
        (BOB, ALICE, BOB, Role.GUEST, False),
        (ALICE, BOB, BOB, Role.MEMBER, True),
        (ALICE, BOB, CAROL, Role.MEMBER, False),
        (ALICE, BOB, CAROL, Role.OWNER, True),
    ],
)
def test_an_owner_who_is_asked_and_the_member_who_began_answer(
    starter: PublicKey, asked: PublicKey, answerer: PublicKey, role: Role, *, may: bool
) -> None:
    asks = model_by_phase(chat=[reply("", ("ask", {"question": "Which?"})), reply("done")])
    scenario = Scenario(Router(route(None, "project-manager"), WAITS), asks)
    scenario.user_writes("/status", author=starter, role=Role.MEMBER)
    scenario.converse("do it", author=asked, role=Role.MEMBER)
    scenario.converse("blue", author=answerer, role=role)
    assert bool(answers(scenario)) is may


def test_a_guest_answers_what_an_agent_asks_in_the_work_they_began() -> None:
    asks = model_by_phase(chat=[reply("", ("ask", {"question": "Which?"})), reply("done")])
    scenario = Scenario(Router(route(None, "project-manager"), WAITS), asks)
    scenario.converse("do it", author=BOB, role=Role.GUEST).converse("red", author=CAROL, role=Role.GUEST)
    assert answers(scenario) == []
    scenario.converse("blue", author=BOB, role=Role.GUEST)
    assert answers(scenario) == [("project-manager", "blue")]


def test_a_question_of_an_older_journal_is_asked_of_who_began_the_cycle() -> None:
    scenario = asking("executor")
    (run,) = scenario.conversation.work.runs.values()
    older = replace(run, calls=tuple(replace(call, asked_of=PublicKey("")) for call in run.calls))
    scenario.conversation.work = replace(scenario.conversation.work, runs={run.id: older})
    scenario.user_writes("red", role=Role.GUEST, author=BOB)
    assert answers(scenario) == []
    scenario.user_writes("blue", role=Role.MEMBER)
    assert answers(scenario) == [("executor", "blue")]
    scenario.conversation = scenario.refold()


def test_a_message_no_one_was_shown_is_not_waited_away() -> None:
    scenario = scenario_at(Phase.CHAT, Router(route("execute", "executor"), WAITS, route(None, "helper"), WAITS))
    step_until(scenario, lambda it: it.conversation.work.turn is not None)
    scenario.user_writes("and one more thing")  # its only model call is already running
    scenario.settle()
    assert "newest message has had no answer" in scenario.records(r.RouteRejected)[0].sentence
    assert scenario.records(r.TurnOpened)[-1].agents == ("helper",)
    assert scenario.conversation.cycle.waiting_for == "user"


PROJECT_KEY = "3bf0c63fcb93463407af97a5e5ee64fa883d107ef9e558472c4eb9aaaefa459d"
PROJECT_NPUB = "npub180cvv07tjdrrgpa0j7j7tmnyl2yr6yr7l8j4s3evf6u64th6gkwsyjh6w6"
PROJECT_NPROFILE = (
    "nprofile1qqsrhuxx8l9ex335q7he0f09aej04zpazpl0ne2cgukyawd24mayt8gpp4mhxue69uhhytnc9e3k7mgpz4mhxue69uhkg6nzv9ejuumpv"
    "34kytnrdaksjlyr9p"
)
"""A key in the forms of NIP-19; the nprofile is the NIP's own example."""


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("\n\n   \n  Build a page\nwith a form\n", "Build a page"),
        (" \n\t ", "Untitled"),
        ("x" * 200, "x" * (TITLE_CHARACTERS - 1) + "…"),
        ("/help", ""),
    ],
)
def test_the_title_is_the_first_line_that_is_not_empty_and_no_command(text: str, title: str) -> None:
    scenario = Scenario(Router(route(None, "project-manager"), WAITS), plain_model)
    scenario.user_writes(text)
    assert scenario.conversation.identity.title == title
    scenario.user_writes("Build a shed\nwith a roof")
    assert scenario.conversation.identity.title == (title or "Build a shed")


@pytest.mark.parametrize(
    ("written", "recorded"),
    [
        ("nostr:{npub}, build it", "build it"),
        ("build it\n@{npub} nostr:{nprofile}", "build it"),
        ("Hello {npub}, build it", "Hello Orchestrator, build it"),
        ("nostr:{nprofile} @executor build it", "@executor build it"),
        ("nostr:{npub}", "nostr:{npub}"),
        ("{other} wants this", "{other} wants this"),
    ],
)
def test_the_projects_own_mention_is_left_out_of_the_request(written: str, recorded: str) -> None:
    project = replace(policy().project, pubkey=PublicKey(PROJECT_KEY))
    scenario = Scenario(longest_way, diligent, config=replace(policy(), project=project))
    names = {"npub": PROJECT_NPUB, "nprofile": PROJECT_NPROFILE, "other": f"npub1{'q' * 58}"}
    scenario.user_writes(written.format(**names))
    (message,) = scenario.records(r.MessageRecorded)
    assert message.text == recorded.format(**names)
    assert scenario.conversation.identity.title == title_of(message.text)


def test_two_users_of_one_name_are_distinguished_by_role_and_key() -> None:
    router = Router(route("execute", "executor"), WAITS)
    scenario = Scenario(router, plain_model)
    scenario.user_writes("make it blue")
    scenario.user_writes("make it red", role=Role.MEMBER, author=PublicKey("b" * 64))
    scenario.step()
    asked = [(message["from"], message["role"], message["key"]) for message in router.asked[0]["messages"]]
    assert asked == [("alice", "owner", "npub14242424"), ("alice", "member", "npub1hwamhwa")]
    (call,) = in_flight(scenario)
    assert isinstance(call, ModelCall)
    shown = [(entry.role, entry.key[:1]) for entry in call.entries if isinstance(entry, UserText)]
    assert shown == [("owner", "a"), ("member", "b")]


@pytest.mark.parametrize("text", ["\ud800", "\x00", "/stop\x00", "a" * 300_000, "“" * 60_000, "'" * 60_000])
def test_no_text_breaks_a_decision(text: str) -> None:
    waiver = scenario_at(Phase.EXECUTE, text=f"so: {text}")
    waiver.router = Router(wish(route("chores", "executor"), "chores", words="so:"), WAITS)
    for scenario in (Scenario(Router(WAITS), plain_model), asking("executor"), waiver.settle()):
        scenario.converse(text)
        scenario.converse(text, addressed=("planner",), reply_to="\ud800")
        check_idle(scenario)


def test_while_all_is_parked_any_text_answers_the_only_question_and_a_later_reply_to_it_is_ordinary_talk() -> None:
    scenario = asking("executor")
    assert in_flight(scenario) == []
    scenario.user_writes("blue")
    assert answers(scenario) == [("executor", "blue")]
    (call,) = in_flight(scenario)
    assert isinstance(call, ModelCall)
    shown = [entry.text for entry in call.entries if isinstance(entry, UserText)]
    assert "blue" not in shown, "it is the call's result, and is shown once"
    scenario.user_writes("no, red", reply_to=event_of(scenario, "executor wants to know (0)"))
    assert answers(scenario) == [("executor", "blue")]
    check_idle(scenario.settle())
    assert [message.text for message in scenario.conversation.unanswered] == ["no, red"]


def test_a_mention_of_the_one_who_asked_is_an_answer_and_one_of_somebody_else_has_to_wait() -> None:
    scenario = asking("executor", "helper")
    scenario.user_writes("@executor blue", addressed=("executor",))
    assert answers(scenario) == [("executor", "@executor blue")]
    assert scenario.conversation.work.addressed == ()
    scenario.settle()
    scenario.user_writes("@planner and you?", addressed=("planner",))
    assert len(answers(scenario)) == 1
    assert scenario.sent_texts()[-1].startswith("Helper must have an answer first")
    scenario.converse("red")
    assert scenario.records(r.TurnOpened)[-1].agents == ("planner",)
    check_idle(scenario)
