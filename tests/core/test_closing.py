"""What users get as messages: one per answer, question and issue, and the last word on what was changed."""

from typing import Any

from tenex.core import records as r
from tenex.core.messages import ModelStep
from tenex.core.phases import Phase
from tests.core.test_only_choice import BUILDS, FINDS, TIDIES, WORK, hand_over, team
from tests.fakes.scenario import VERIFIES, Router, Scenario, model_by_phase, reply, route, step_until


def notes(scenario: Scenario) -> list[str]:
    """The texts of the messages that users get."""
    return [record.text for record in scenario.records(r.MessageSent) if record.is_published]


def written(scenario: Scenario) -> list[str]:
    """The texts that only agents and the conversation's file have."""
    return [record.text for record in scenario.records(r.MessageSent) if not record.is_published]


def test_a_simple_request_gives_its_answer_and_the_last_word() -> None:
    """Were nine: "Now in …", the verification, chores without effect, "Learned", "No lesson."."""
    scenario = Scenario(Router(route("execute", "executor")), model_by_phase(**WORK), config=team())
    scenario.converse("create hello.py")
    answer, last = notes(scenario)
    assert answer == "built"
    lines = last.splitlines()
    assert lines[0] == "Done."
    assert lines[1:3] == ["Changed: a.", "Checked: it works (`python a` ended without an error)."]
    assert lines[3].startswith("It took ")
    assert "tokens" in lines[3]
    assert "tidy" in written(scenario)
    assert scenario.conversation.status == "ended"


def test_an_answer_without_a_change_is_the_only_message() -> None:
    answers = reply("", ("complete", {"response": "It is in a.py.", "summary": "answered"}))
    scenario = Scenario(Router(route("execute", "executor")), model_by_phase(execute=[answers]), config=team())
    scenario.converse("where is it?")
    assert notes(scenario) == ["It is in a.py."]


def test_after_a_repair_its_result_is_in_the_last_word_and_said_once() -> None:
    def verify(conversation: Any, call: Any) -> ModelStep:
        rounds = sum(turn.phase is Phase.VERIFICATION for turn in conversation.turns)
        tries = reply("", ("check", {"path": "a"}), ("complete", {"response": "it works now", "verdict": "verified"}))
        return tries if rounds else FINDS

    def build(conversation: Any, call: Any) -> ModelStep:
        is_repair = any(turn.phase is Phase.VERIFICATION for turn in conversation.turns)
        repairs = reply("", ("write_file", {"path": "b"}), ("complete", {"response": "repaired", "summary": "b"}))
        return repairs if is_repair else BUILDS

    model = model_by_phase(execute=build, verification=verify, chores=[TIDIES])
    scenario = Scenario(Router(route("execute", "executor")), model, config=team()).converse("create hello.py")
    answer, issue, last = notes(scenario)
    assert (answer, issue) == ("built", "it fails\n\nit prints nothing")
    assert last.startswith("repaired\n\nChanged: a, b.\nChecked: it works now")


def test_a_repairs_result_is_in_the_last_word_also_after_a_message_in_a_gate() -> None:
    """It was nowhere: not published as a repair, and no repair any more at the end."""

    def build(conversation: Any, call: Any) -> ModelStep:
        repairs = reply("", ("write_file", {"path": "b"}), ("complete", {"response": "repaired", "summary": "b"}))
        return repairs if conversation.turns else BUILDS

    def verify(conversation: Any, call: Any) -> ModelStep:
        return VERIFIES if len(conversation.turns) > 1 else FINDS

    router = Router(route("execute", "executor"), route("chores", "executor"))
    scenario = Scenario(router, model_by_phase(execute=build, verification=verify, chores=[TIDIES]), config=team())
    scenario.user_writes("create hello.py")
    step_until(scenario, lambda it: len(it.conversation.turns) == 3 and bool(it.conversation.runs))
    scenario.converse("how long does it take?")
    (last,) = [note for note in notes(scenario) if "Changed: " in note]
    assert last.startswith("repaired\n\nChanged: a, b.")


def test_hand_over_has_words_for_the_user_and_a_reason_for_agents() -> None:
    """Both were said to the user."""
    model = model_by_phase(chat=[hand_over(response="I let it be made.")], **WORK)
    scenario = Scenario(Router(route("chat", "project-manager")), model, config=team()).converse("create hello.py")
    assert notes(scenario)[:2] == ["I let it be made.", "built"]
    silent = Scenario(
        Router(route("chat", "project-manager")), model_by_phase(chat=[hand_over()], **WORK), config=team()
    ).converse("create hello.py")
    assert notes(silent)[0] == "built"
    assert "create hello.py" in written(silent), "agents and the file have the reason"


def test_where_work_stops_in_a_gate_the_last_message_says_so() -> None:
    """After two failed repairs the last message was a third list of issues."""
    router = Router(route("execute", "executor"), route(None, "USER"))
    scenario = Scenario(router, model_by_phase(execute=[BUILDS], verification=[FINDS]), config=team())
    scenario.converse("create hello.py")
    assert notes(scenario)[-1].startswith("Work has stopped: ")
    assert notes(scenario)[-1].endswith("Write how it is to go on, or `/continue`.")


def test_what_was_waived_is_not_called_checked() -> None:
    scenario = Scenario(Router(route("execute", "executor")), model_by_phase(**WORK), config=team())
    scenario.user_writes("create hello.py")
    scenario.user_writes("/quick")
    scenario.settle()
    last = notes(scenario)[-1]
    assert "Not checked: alice left the verification out." in last
    assert "Checked" not in last


def test_an_answer_to_what_was_written_in_a_gate_is_published() -> None:
    router = Router(route("execute", "executor"), route(None, "USER"))
    tidies = [reply("", ("read_file", {"path": "a"})), TIDIES]
    scenario = Scenario(router, model_by_phase(**{**WORK, "chores": tidies}), config=team())
    scenario.user_writes("create hello.py")
    step_until(scenario, lambda it: it.conversation.phase is Phase.CHORES and bool(it.conversation.runs))
    scenario.user_writes("is it tidy?")
    scenario.settle()
    assert "tidy" in notes(scenario)
