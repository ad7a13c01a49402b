"""What becomes of each message of a person: nothing that asks for something is taken for thanks, a waiver, or done."""

import json
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.conversation import Conversation
from tenex.core.effects import ModelCall
from tenex.core.phases import Phase
from tenex.core.projection import Fates
from tenex.operations.transcript import TranscriptRenderer
from tenex.store.view import render
from tenex.workflows.phases import records as p
from tests.fakes.scenario import (
    ENDS,
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
    thanked,
    wish,
)
from tests.kits.interruptions import BUILDS, LEARNS, REQUEST, TIDIES, Interrupted, interrupted, onward

RENAME = "now rename a.py to b.py and change every import"
SORRY = "sorry, no. without the Oxford comma after all, put it back"
ADD = "also add a docs line"
LONG = "次は a.py を b.py に改名し、" * 4
"""Few words for who counts spaces."""
ANSWERS = reply("", ("complete", {"response": "it is in a.py"}))


def fates(scenario: Scenario) -> list[str]:
    """The fates of all messages that are remembered."""
    known = Fates(scenario.conversation)
    found = [known.of(message) for message in scenario.conversation.memory.recent if message.role is not None]
    return [" ".join(filter(None, [fate.kind, fate.turn])) if fate is not None else "none" for fate in found]


# ---- a request that a router takes for something else ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "lazy"),
    [
        (RENAME, {**ENDS, "acknowledged": True}),
        (RENAME, ENDS),
        (RENAME, thanked(ENDS, RENAME)),
        (RENAME, thanked(ENDS, "rename a.py")),
        (RENAME, thanked(ENDS, "thanks")),
        ("thanks! now rename it", thanked(ENDS, "thanks!")),
        ("ok. undo", thanked(ENDS, "ok.")),
        ("👍 undo", thanked(ENDS, "👍")),
        (LONG, thanked(ENDS, LONG)),
    ],
)
def test_a_request_that_begins_a_cycle_is_not_taken_for_thanks(text: str, lazy: dict[str, Any]) -> None:
    router = Router(route("execute", "executor"), lazy, route("execute", "executor"))
    scenario = Scenario(router, model_by_phase(execute=[ANSWERS]), config=routed_by_rule(policy()))
    scenario.converse("where is it?").converse(text)
    assert len(refusals(scenario)) == 1
    assert len(scenario.records(r.TurnOpened)) == 2
    assert fates(scenario) == ["answered turn-1", "answered turn-2"]


def late(text: str, decide: Any, **more: Any) -> Scenario:
    """A message that comes while chores are done, and a router that then decides this, until it has been refused."""

    def router(question: dict[str, Any]) -> dict[str, Any]:
        is_late = question["phase"] == "chores" and question["messages"][-1]["text"] == text
        return decide if is_late and not question["rejections"] else onward(question)

    return interrupted(Phase.CHORES, lambda it: it.user_writes(text), router=router, **more)


@pytest.mark.parametrize(
    "lazy",
    [
        {**ENDS, "acknowledged": True, "waive": ["reflection"]},
        {**ENDS, "waive": ["reflection"]},
        wish(ENDS, "reflection", words="no checks please"),
        {**ENDS, "settles": [{"words": SORRY, "as": "waiver"}]},
        thanked(ENDS, "sorry, no."),
        {**ENDS, "settles": [{"words": SORRY, "as": "carried_out", "turn": "turn-3"}]},
        {**ENDS, "settles": [{"words": SORRY, "as": "carried_out"}]},
    ],
)
def test_a_request_in_a_gate_is_not_taken_for_a_waiver_or_done(lazy: dict[str, Any]) -> None:
    scenario = late(SORRY, lazy)
    assert len(refusals(scenario)) == 1
    assert scenario.records(p.Waived) == []
    assert scenario.conversation.cycle.number == 2
    assert fates(scenario) == ["carried_out turn-1", "answered turn-5"]


@pytest.mark.parametrize("words", ["put it back", SORRY])
def test_a_wish_that_is_a_part_of_a_message_or_a_long_one_is_asked_about(words: str) -> None:
    """Words that are no wish are in the question, and what they ask for begins the next cycle."""
    scenario = late(SORRY, wish(ENDS, "reflection", words=words))
    assert f"because of “{words}”? Then" in scenario.sent_texts()[-1]
    scenario.router = onward
    scenario.converse("no")
    assert scenario.conversation.cycle.number == 2
    assert fates(scenario) == ["carried_out turn-1", "answered turn-5", "answer"]


def test_thanks_in_a_gate_are_quoted_in_the_last_word_and_a_request_beside_them_begins_a_cycle() -> None:
    def both(scenario: Scenario) -> None:
        scenario.user_writes("ok, thanks!")
        scenario.user_writes(REQUEST)

    def router(question: dict[str, Any]) -> dict[str, Any]:
        is_late = question["phase"] == "chores" and question["cycle"] == 1
        return thanked(onward(question), "ok thanks") if is_late else onward(question)

    scenario = interrupted(Phase.CHORES, both, router=router)
    (last,) = [text for text in scenario.sent_texts() if "What you wrote meanwhile is next." in text]
    assert "- Taken as thanks: “ok, thanks!”." in last.splitlines()
    assert [message.text for message in scenario.conversation.cycle.messages] == [REQUEST]
    assert fates(scenario) == ["carried_out turn-1", "thanks", "answered turn-5"]


# ---- what a gate's own turn has carried out --------------------------------------------------------------------------


def tidied(*steps: Any, turn: str = "turn-3", step: int = 0) -> Scenario:
    """Chores in which a message comes before their first step, and a router that says which turn carried it out."""
    worker = Interrupted(Phase.CHORES, step, lambda it: it.user_writes(ADD))
    work = {"execute": [BUILDS], "verification": [VERIFIES], "reflection": list(LEARNS)}
    worker.usual = model_by_phase(**work, chores=[*steps, TIDIES])

    def router(question: dict[str, Any]) -> dict[str, Any]:
        done = {"words": ADD, "as": "carried_out", "turn": turn}
        is_late = question["phase"] == "chores" and not question["rejections"]
        return {**onward(question), "settles": [done]} if is_late else onward(question)

    scenario = worker.scenario = Scenario(router, worker, config=routed_by_rule(policy()))
    return scenario.converse("build it")


READS = reply("", ("read_file", {"path": "a"}))
NOTES = reply("", ("write_file", {"path": "docs.md"}))


def test_what_a_gate_has_carried_out_is_not_done_again() -> None:
    scenario = tidied(READS, NOTES)
    assert refusals(scenario) == []
    assert (scenario.conversation.cycle.status, scenario.conversation.cycle.number) == ("ended", 1)
    (last,) = [text for text in scenario.sent_texts() if f"Done in chores already: “{ADD}”." in text]
    assert "What you wrote meanwhile is next" not in last
    assert fates(scenario) == ["carried_out turn-1", "carried_out turn-3"]


@pytest.mark.parametrize(
    ("steps", "turn"),
    [
        ((READS, READS), "turn-3"),  # it changed nothing
        ((NOTES,), "turn-3"),  # the change was asked for before it was shown the message
        ((READS, NOTES), "turn-1"),  # another turn
        ((READS, NOTES), "turn-9"),
    ],
)
def test_what_no_turn_has_carried_out_begins_the_next_cycle(steps: tuple[Any, ...], turn: str) -> None:
    scenario = tidied(*steps, turn=turn)
    assert len(refusals(scenario)) == 1
    assert fates(scenario) == ["carried_out turn-1", "answered turn-5"]


# ---- the fates -------------------------------------------------------------------------------------------------------


def test_a_message_waits_is_answered_and_carried_on_to_the_next_cycle() -> None:
    scenario = Scenario(onward, Interrupted(Phase.CHAT, 0), config=routed_by_rule(policy()))
    scenario.user_writes("build it")
    assert fates(scenario) == ["open"]
    while scenario.conversation.cycle.phase is not Phase.CHORES:
        scenario.step()
    scenario.user_writes(REQUEST)
    assert fates(scenario) == ["carried_out turn-1", "next_cycle"]
    scenario.settle()
    (_, carried) = (message for message in scenario.conversation.memory.recent if message.role is not None)
    assert (carried.cycle, carried.carried_from) == (2, 1)
    assert fates(scenario) == ["carried_out turn-1", "answered turn-5"]


@pytest.mark.parametrize(("command", "kind"), [("/stop", "unfinished turn-1"), ("/new", "unfinished turn-1")])
def test_a_message_whose_work_was_stopped_is_unfinished(command: str, kind: str) -> None:
    scenario = Scenario(onward, Interrupted(Phase.CHAT, 0), config=policy())
    scenario.user_writes("build it")
    scenario.step()
    scenario.converse(command)
    assert fates(scenario) == [kind]


def test_a_message_that_no_agent_was_shown_before_a_stop_is_stopped_and_a_deleted_one_deleted() -> None:
    scenario = Scenario(Router("hm"), Interrupted(Phase.CHAT, 0), config=policy())
    scenario.user_writes("build it")
    scenario.user_writes("/stop")
    assert fates(scenario) == ["stopped"]
    scenario.user_writes("/new")
    scenario.router = onward
    scenario.converse("thanks")
    assert fates(scenario)[0] == "stopped"


def test_an_answer_to_an_agent_is_one() -> None:
    asks = reply("", ("ask", {"question": "Which file?"}))
    steps = model_by_phase(execute=[asks, BUILDS], verification=[VERIFIES], chores=[TIDIES], reflection=list(LEARNS))
    scenario = Scenario(onward, steps, config=routed_by_rule(policy()))
    scenario.converse("build it").converse("a.py")
    assert fates(scenario) == ["carried_out turn-1", "answer"]
    scenario.converse("and now?")
    assert fates(scenario)[:2] == ["carried_out turn-1", "answer"], "it is still known in the next cycle"


def test_the_readable_file_and_the_transcript_show_fates() -> None:
    scenario = tidied(READS, NOTES)
    shown = json.loads(render(scenario.conversation))
    written = [message for message in shown["messages"] if message["role"] == "owner"]
    assert [message["fate"] for message in written] == [
        {"kind": "carried_out", "turn": "turn-1"},
        {"kind": "carried_out", "turn": "turn-3", "words": ADD},
    ]
    renderer = TranscriptRenderer()
    lines = [(line.head, line.text) for record in scenario.records() for line in renderer.render(record)]
    assert ("carried out in turn-3", f"“{ADD}”") in lines


# ---- what the router and the agents are shown ------------------------------------------------------------------------


def test_the_router_sees_of_each_turn_what_it_changed_and_ran_and_how_it_ended() -> None:
    router = Router(route("execute", "executor"), route("verification", "executor"), WAITS)
    scenario = Scenario(router, model_by_phase(execute=[BUILDS], verification=[VERIFIES]), config=policy())
    scenario.converse("build it")
    built, verified = router.asked[-1]["turns"]
    assert (built["changed"], "ran" in built) == (["a"], False)
    assert ("changed" in verified, verified["ran"]) == (False, ["python a -> exit status 0"])
    assert [done["outcome"] for done in built["completions"]] == ["finished"]


def test_after_a_repair_that_changed_nothing_the_person_reads_what_became_of_it() -> None:
    """They read last that a repair follows."""
    said = "2 cannot be done here."
    finds = reply("", ("read_file", {"path": "a"}), ("complete", {"response": "2 is missing", "verdict": "issues"}))

    def builds(conversation: Conversation, call: ModelCall) -> Any:
        is_repair = len(conversation.cycle.turns) > 1
        return reply("", ("complete", {"response": said, "summary": said})) if is_repair else BUILDS

    router = Router(route("execute", "executor"), {**WAITS, "reason": "2 needs a key"})
    steps = model_by_phase(execute=builds, verification=[finds])
    scenario = Scenario(router, steps, config=routed_by_rule(policy())).converse("build it")
    *_, answered, waits = [text for text in scenario.sent_texts() if text]
    assert answered == f"{said}\n\nNo file was changed and nothing was run."
    assert waits == "I wait for you: 2 needs a key"


@pytest.mark.parametrize(
    ("execute", "then", "ended"),
    [
        ([ANSWERS], "", "which changed nothing"),
        ([BUILDS], "", "which ended"),
        ([BUILDS], "/quick", "which ended without a check"),
        ([BUILDS], "/new", "which was stopped before its end"),
    ],
)
def test_a_new_request_says_how_the_work_before_it_ended(execute: list[Any], then: str, ended: str) -> None:
    steps = model_by_phase(execute=execute, verification=[VERIFIES], chores=[TIDIES], reflection=list(LEARNS))
    scenario = Scenario(onward, steps, config=routed_by_rule(policy()))
    scenario.user_writes("build it")
    if then:
        scenario.step()
        scenario.step()
        scenario.user_writes(then)
    scenario.settle()
    scenario.converse("and now?")
    notes = [entry for run in scenario.records(r.RunStarted) for entry in run.entries if hasattr(entry, "title")]
    (said,) = [note.text for note in notes if note.title == "A new request"]
    assert said == f"What is above is earlier work, {ended}."


# ---- what may be a request, for all that can be seen -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "is_clear"),
    [("thanks", True), ("ok, thanks!", True), ("👍", True), ("make it green", False), ("great work", False)],
)
@pytest.mark.parametrize("is_late", [True, False], ids=["in a gate", "after the end"])
def test_what_may_be_a_request_rings_when_it_is_taken_as_thanks(text: str, *, is_clear: bool, is_late: bool) -> None:
    """A lazy router quotes all of "make it green" as thanks; its author is told so, and how to have it done."""

    def lazy(question: dict[str, Any]) -> dict[str, Any]:
        return thanked(onward(question), text) if question["phase"] == "chores" else onward(question)

    if is_late:
        scenario = interrupted(Phase.CHORES, lambda it: it.user_writes(text), router=lazy)
    else:
        router = Router(route("execute", "executor"), thanked(ENDS, text))
        scenario = Scenario(router, model_by_phase(execute=[ANSWERS]), config=routed_by_rule(policy()))
        scenario.converse("where is it?").converse(text)
    last = [record for record in scenario.records(r.MessageSent) if record.is_published][-1]
    assert f"Taken as thanks: “{text}”." in last.text
    assert ("Write again if it is a request." in last.text) is not is_clear
    rings = is_late or not is_clear  # in a gate nothing was sent since they wrote
    assert last.purpose == ("notice" if rings else "confirmation")


@pytest.mark.parametrize("words", ["sorry, no.", "no", "ok", "thanks"])
def test_a_no_or_thanks_are_no_wish_to_leave_gates_out(words: str) -> None:
    """A person was asked whether chores may be skipped, because of “sorry, no.”."""
    text = f"{words} and put the comma back"
    scenario = late(text, wish(ENDS, "reflection", words=words))
    assert "is no wish to leave anything out" in refusals(scenario)[0]
    assert scenario.records(p.WaiverRequested) == []
    assert scenario.conversation.cycle.number == 2
