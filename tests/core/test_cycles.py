"""Cycles: what ends one, what begins the next, what is cleared between them; and what is handed on within one."""

from typing import Any

from tenex.core import records as r
from tenex.core.config import Limits
from tenex.core.phases import Phase
from tests.fakes.play import Play, RouterMind, rules, says

from .kit import ENDS, WAITS, Script, go, mind, plain, standing, until


def refusals(play: Play) -> list[str]:
    """The sentences of all refusals, in order."""
    return [record.sentence for record in play.all(r.RouteRejected)]


# ---- cycles -------------------------------------------------------------------------------------------------------


def whole_cycle(router: RouterMind | None = None) -> Play:
    """A cycle that went the whole way and is over, with a file read and one changed."""
    reads = [says("", ("read_file", {"path": "a"}), ("write_file", {"path": "a"})), says("built")]
    play = Play(
        Script(
            go("execute", "executor"),
            go("verification", "executor"),
            go("chores", "executor"),
            go("reflection", "executor"),
            ENDS,
        ),
        mind(execute=reads),
    )
    play.person("build it")
    play.settle()
    assert play.conversation.status == "ended"
    play.router = router or Script(go(None, "project-manager"), WAITS)
    return play


def test_a_message_after_the_end_begins_a_clean_cycle_in_chat() -> None:
    play = whole_cycle()
    assert play.conversation.touched == {"a"}
    play.person("/quick")  # no waiver of a cycle that is over may leak into the next
    play.person("and now a poem")
    conversation = play.conversation
    assert (conversation.cycle, conversation.phase, conversation.status) == (2, Phase.CHAT, "active")
    assert (conversation.read_files, conversation.touched) == ({}, frozenset())
    assert (conversation.waivers, conversation.participants, conversation.gates_met) == ((), (), frozenset())
    assert not conversation.executed
    assert [message.text for message in conversation.messages] == ["and now a poem"]
    assert play.phases()[-1] is Phase.CHAT, "reflection -> chat is an edge of the table, so it is a transition"
    play.settle()
    assert play.conversation.waiting_for == "user"


def test_the_next_cycle_has_all_its_gates_again() -> None:
    play = whole_cycle(Script(go("execute", "executor"), ENDS, WAITS))
    play.person("again")
    play.settle()
    assert refusals(play)[-1].startswith("END is refused")
    assert "verification, chores, reflection" in refusals(play)[-1]


def test_a_message_while_end_is_decided_gives_the_end_and_a_new_cycle_in_one_append() -> None:
    play = whole_cycle()
    play = standing(Phase.REFLECTION)

    def ending(question: dict[str, Any]) -> Any:
        play.router = Script(go(None, "project-manager"), WAITS)
        play.person("one more thing: make it green")
        return ENDS

    play.router = ending
    play.settle()
    append = next(decision for decision in play.journal if any(isinstance(rec, r.Ended) for rec in decision))
    kinds = [type(record).__name__ for record in append]
    assert kinds == ["Routed", "Ended", "PhaseTransition", "CycleStarted", "RouteRequested"]
    assert [message.text for message in play.conversation.messages] == ["one more thing: make it green"]
    assert play.conversation.cycle == 2
    assert play.all(r.TurnOpened)[-1].phase is Phase.CHAT
    assert play.conversation.waiting_for == "user"


def test_chat_entered_from_reflection_begins_a_cycle() -> None:
    play = standing(Phase.REFLECTION, Script(go("chat", "project-manager"), WAITS))
    play.settle()
    assert play.conversation.cycle == 2
    assert play.phases()[-1] is Phase.CHAT
    assert not play.conversation.executed


def test_chat_entered_from_execute_is_the_same_cycle_and_keeps_its_gates() -> None:
    play = standing(Phase.EXECUTE, Script(go("chat", "project-manager"), ENDS, WAITS))
    play.settle()
    assert play.conversation.cycle == 1
    assert refusals(play)[-1].startswith("END is refused")


def test_a_router_that_goes_round_in_cycles_meets_the_limit_of_turns() -> None:
    """Chat entered from reflection begins a cycle, but the person still has not spoken."""
    ring = {
        "chat": "execute",
        "execute": "verification",
        "verification": "chores",
        "chores": "reflection",
        "reflection": "chat",
    }

    def round_and_round(question: dict[str, Any]) -> Any:
        target = ring[question["phase"]]
        return go(target, *(question["still_to_reflect"] if target == "reflection" else ["executor"]))

    play = Play(round_and_round, plain)
    play.person("build it")
    play.settle()
    assert play.conversation.turn_count == play.rules.limits.turns_per_message
    assert play.conversation.waiting_for == "limit"


def test_a_cycle_that_ends_in_plan_begins_anew_without_a_forged_transition() -> None:
    play = standing(Phase.PLAN, Script(ENDS))
    play.settle()
    play.router = Script(go(None, "project-manager"), WAITS)
    play.person("something else")
    play.settle()
    assert play.phases() == [Phase.PLAN], "plan -> chat is not in the table"
    assert play.conversation.phase is Phase.CHAT
    assert play.conversation.previous_phase is Phase.PLAN
    assert play.all(r.TurnOpened)[-1].handoff is None, "what the last cycle planned is not handed to the new one"


def test_an_answer_to_a_question_is_no_new_request_at_the_end() -> None:
    """An agent asked, the person answered, the agent finished: END ends, and no second cycle answers it again."""
    asks = [says("", ("ask", {"question": "Which colour?"})), says("blue it is")]
    play = Play(Script(go(None, "project-manager"), ENDS), mind(chat=asks))
    play.person("which colours can I have?")
    play.settle()
    play.person("blue")
    play.settle()
    assert play.conversation.status == "ended"
    assert play.conversation.cycle == 1


def test_what_was_written_before_a_new_is_not_carried_into_the_next_cycle() -> None:
    play = Play(Script("hm"), plain)
    play.person("make it red")
    play.settle()
    assert play.conversation.waiting_for == "fallback"
    play.person("/new")
    play.person("make it blue")
    assert [message.text for message in play.conversation.messages] == ["make it blue"]


# ---- hand-offs ----------------------------------------------------------------------------------------------------


def test_a_transition_carries_its_reason_the_request_and_what_was_done() -> None:
    play = Play(Script(go(None, "project-manager"), go("execute", "executor"), WAITS), plain)
    play.person("build it")
    play.settle()
    moved = play.all(r.PhaseTransition)[0]
    assert moved.reason == "on to execute"
    assert moved.message == "on to execute\n\nRequest: build it"
    assert moved.summary == "project-manager: project-manager has done its part of chat"
    assert (moved.agent_name, moved.agent_pubkey) == (play.rules.project.name, play.rules.project.pubkey)
    handed = play.all(r.TurnOpened)[-1].handoff
    assert handed is not None
    assert (handed.from_, handed.to, handed.summary) == (Phase.CHAT, Phase.EXECUTE, moved.summary)


def test_an_old_transition_is_not_handed_on() -> None:
    play = standing(Phase.EXECUTE, Script(go(None, "helper"), WAITS), config=rules(limits=Limits(handoff_window=5)))
    until(play, lambda it: it.conversation.turn is not None)
    assert play.all(r.TurnOpened)[-1].handoff is not None, "a hand-off within the phase is fresh"
    play.settle()
    play.now = type(play.now)(play.now + 60_000)
    play.person("@planner what do you think?", addressed=("planner",))
    assert play.all(r.TurnOpened)[-1].handoff is None
