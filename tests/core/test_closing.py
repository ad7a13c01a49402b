"""What users get as messages: one per answer, question and issue, and the last word on what was changed."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.conversation import fold
from tenex.core.cycle.checks import ChangedFile, Inspection
from tenex.core.effects import Effect, Inspect, ToolCall
from tenex.core.ids import PublicKey
from tenex.core.messages import ModelStep
from tenex.core.phases import Phase
from tenex.core.port_values import ToolResult, UndoOutcome
from tenex.core.signals import ModelFailed, Signal, ToolReturned
from tenex.workflows.phases import records as p
from tests.fakes.scenario import (
    ID,
    VERIFIES,
    Router,
    Scenario,
    agent,
    model_by_phase,
    reply,
    route,
    step_until,
    thanked,
)
from tests.kits.gates import BREAKS
from tests.kits.team import BUILDS, FINDS, TIDIES, WORK, hand_over, team
from tests.kits.verdicts import DONE


def notes(scenario: Scenario) -> list[str]:
    """The texts of the messages that users get."""
    return [record.text for record in scenario.records(r.MessageSent) if record.is_published]


def last_note(scenario: Scenario) -> r.MessageSent:
    """The newest message that users get."""
    published: list[r.MessageSent] = [record for record in scenario.records(r.MessageSent) if record.is_published]
    return published[-1]


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
    assert lines[:5] == [
        "Done.",
        "",
        "- Changed: a +1.",
        "- project-manager ran `python a`: exit status 0.",
        "- project-manager says: “it works”",
    ]
    assert lines[5].startswith("- It took ")
    assert "tokens" in lines[5]
    assert len(lines) == 6
    assert "tidy" in written(scenario)
    assert scenario.conversation.cycle.status == "ended"
    assert last_note(scenario).notifies == (), "a phone has rung for the answer"


def test_each_transition_is_in_the_tags_of_a_message_once_and_in_order() -> None:
    scenario = Scenario(Router(route("execute", "executor")), model_by_phase(**WORK), config=team())
    scenario.converse("create hello.py")
    published: list[r.MessageSent] = [record for record in scenario.records(r.MessageSent) if record.is_published]
    shown = [[tag for tag in message.tags if "phase" in tag[0]] for message in published]
    assert shown == [
        [("phase", "execute"), ("phase-from", "chat"), ("new-phase", "execute")],
        [
            ("phase", "reflection"),
            ("phase-transition", "execute", "verification"),
            ("phase-transition", "verification", "chores"),
            ("phase-from", "chores"),
            ("new-phase", "reflection"),
        ],
    ]


class Counting(Scenario):
    """A conversation whose calls say how many lines they have changed since the cycle began, and so do looks."""

    def inspect(self, effect: Inspect) -> Inspection:
        """What calls have changed, with the lines that they gave."""
        lines = self.conversation.cycle.lines
        changed = (ChangedFile(path=path, added=lines[path][0], removed=lines[path][1]) for path in effect.touched)
        return Inspection(tree=f"tree-{effect.key.seq}", base="tree-0", changed=tuple(changed))

    def perform(self, effect: Effect) -> Signal:
        """Give the lines that the call names."""
        signal = super().perform(effect)
        if isinstance(signal, ToolReturned) and isinstance(effect, ToolCall) and signal.result.touched:
            lines = dict.fromkeys(signal.result.touched, effect.request.arguments["lines"])
            return dataclasses.replace(signal, result=dataclasses.replace(signal.result, lines=lines))
        return signal


def test_the_last_word_names_changed_files_with_their_lines() -> None:
    """The newest count of a file is right: each is of the whole cycle."""
    changes = {"calc.py": (4, 0), "new.py": (1_200, 0), "gone.py": (0, 7), "logo.png": (0, 0)}
    calls = [("write_file", {"path": path, "lines": lines}) for path, lines in changes.items()]
    builds = [
        reply("", *calls),
        reply("", ("write_file", {"path": "calc.py", "lines": (12, 3)})),
        reply("", ("complete", {"response": "built", "summary": "built"})),
    ]
    scenario = Counting(Router(route("execute", "executor")), model_by_phase(**{**WORK, "execute": builds}))
    scenario.policy = team()
    scenario.converse("add a calculator")
    assert "- Changed: calc.py +12 −3, gone.py −7, logo.png, new.py +1,200." in notes(scenario)[-1].splitlines()
    assert (
        fold(ID, [record for decision in scenario.journal for record in decision]).cycle.lines
        == scenario.conversation.cycle.lines
    )


def test_lines_of_a_file_that_was_put_back_are_not_said_any_more() -> None:
    calls = [("write_file", {"path": path, "lines": (2, 1)}) for path in ("a.py", "b.py")]
    builds = [reply("", *calls), reply("", ("complete", {"response": "built", "summary": "built"}))]
    router = Router(route("execute", "executor"), route(None, "USER"))
    scenario = Counting(router, model_by_phase(execute=builds, verification=[FINDS]), config=team())
    scenario.undo = lambda undo: UndoOutcome(to=9, since="x", files=("a.py",), restored_tree="t" if undo.to else "")
    scenario.converse("build").converse("/undo")
    assert set(scenario.conversation.cycle.lines) == {"a.py", "b.py"}
    scenario.converse("/undo yes")
    assert set(scenario.conversation.cycle.lines) == {"b.py"}


def test_the_last_word_names_the_files_that_differ_as_they_were_seen() -> None:
    """A program wrote more, and a person took a part back: what calls gave is not what differs."""
    built = reply("", ("write_file", {"path": "a.py"}), ("write_file", {"path": "b.py"}), DONE)
    scenario = Scenario(Router(route("execute", "executor")), model_by_phase(**{**WORK, "execute": [built]}))
    scenario.policy = team()
    seen = (ChangedFile(path="a.py", added=12, removed=3), ChangedFile(path="unasked.log", added=9))
    inspection = Inspection(tree="now", base="then", changed=seen)
    scenario.inspect = lambda effect: inspection  # type: ignore[method-assign]
    scenario.converse("create a.py")
    assert "- Changed: a.py +12 −3." in notes(scenario)[-1].splitlines()


class Running(Scenario):
    """A conversation in which `check` runs programs that end with these exit statuses by their path, else with 0."""

    statuses: Mapping[str, int] = {}

    def perform(self, effect: Effect) -> Signal:
        """Run a program."""
        if not isinstance(effect, ToolCall) or effect.request.tool != "check":
            return super().perform(effect)
        status = self.statuses.get(effect.request.arguments["path"], 0)
        return ToolReturned(key=effect.key, result=ToolResult(ok=not status, content="ran", exit_status=status))


def commands_of(*paths: str, statuses: dict[str, int] | None = None) -> str:
    """What the last word says of the verifier's commands, each of which is `python` with a path."""
    tries = [reply("", *(("check", {"path": path}) for path in paths))]
    done = reply("", ("complete", {"response": "it works", "verdict": "verified"}))
    model = model_by_phase(**{**WORK, "verification": [*tries, done]})
    scenario = Running(Router(route("execute", "executor")), model, config=team())
    scenario.statuses = statuses or {}
    scenario.converse("create hello.py")
    return next(line for line in notes(scenario)[-1].splitlines() if " ran " in line)


def test_the_last_word_names_the_last_command_of_the_verifier_and_those_that_failed() -> None:
    """Five lines of a shell are much on a phone."""
    well = commands_of("first", "second", "third", "b" * 200)
    assert well.startswith("- project-manager ran `python bbb")
    assert well.endswith("`: exit status 0; 3 other commands: exit status 0.")
    assert len(well) < 200

    failed = {str(number): 1 for number in range(4)}
    assert commands_of("0", "1", "2", "3", "well", "last", statuses=failed) == (
        "- project-manager ran `python 2`: exit status 1; `python 3`: exit status 1; `python last`: exit status 0; "
        "3 other commands."
    )
    assert commands_of("only") == "- project-manager ran `python only`: exit status 0."


def test_an_address_in_a_command_becomes_no_link() -> None:
    """A client on a phone showed a preview of 127.0.0.1, and of a page that was only loaded for a test."""
    asked = ("http://127.0.0.1:5173/a", "http://[::1]:9", "https://www.example/b")
    ran = commands_of(*asked, statuses=dict.fromkeys(asked, 1))
    assert "`python 127.0.0.1:5173/a`: exit status 1; `python [::1]:9`: exit status 1; `python www.example/b`" in ran
    assert "http" not in ran


def test_an_answer_without_a_change_is_the_only_message() -> None:
    answers = reply("", ("complete", {"response": "It is in a.py.", "summary": "answered"}))
    scenario = Scenario(Router(route("execute", "executor")), model_by_phase(execute=[answers]), config=team())
    scenario.converse("where is it?")
    assert notes(scenario) == ["It is in a.py.\n\nNo file was changed and nothing was run."]


def test_after_a_repair_its_result_is_in_the_last_word_and_said_once() -> None:
    def verify(conversation: Any, call: Any) -> ModelStep:
        rounds = sum(turn.phase is Phase.VERIFICATION for turn in conversation.cycle.turns)
        tries = reply("", ("check", {"path": "a"}), ("complete", {"response": "it works now", "verdict": "verified"}))
        return tries if rounds else FINDS

    def build(conversation: Any, call: Any) -> ModelStep:
        is_repair = any(turn.phase is Phase.VERIFICATION for turn in conversation.cycle.turns)
        repairs = reply("", ("write_file", {"path": "b"}), ("complete", {"response": "repaired", "summary": "b"}))
        return repairs if is_repair else BUILDS

    model = model_by_phase(execute=build, verification=verify, chores=[TIDIES])
    scenario = Scenario(Router(route("execute", "executor")), model, config=team()).converse("create hello.py")
    answer, issue, last = notes(scenario)
    assert (answer, issue) == ("built", "it fails\n\nit prints nothing\n\nA repair follows.")
    assert last.startswith("Done.\n\nexecutor says: repaired\n\n- Changed: a +1, b +1.\n- project-manager ran")
    sent = [record for record in scenario.records(r.MessageSent) if record.text == last]
    assert [record.notifies for record in sent] == [None], "the result is said here for the first time"


def test_a_repairs_result_is_in_the_last_word_also_after_a_message_in_a_gate() -> None:
    """It was nowhere: not published as a repair, and no repair any more at the end."""

    def build(conversation: Any, call: Any) -> ModelStep:
        repairs = reply("", ("write_file", {"path": "b"}), ("complete", {"response": "repaired", "summary": "b"}))
        return repairs if conversation.cycle.turns else BUILDS

    def verify(conversation: Any, call: Any) -> ModelStep:
        return VERIFIES if len(conversation.cycle.turns) > 1 else FINDS

    router = Router(route("execute", "executor"), route("chores", "executor"))
    scenario = Scenario(router, model_by_phase(execute=build, verification=verify, chores=[TIDIES]), config=team())
    scenario.user_writes("create hello.py")
    step_until(scenario, lambda it: len(it.conversation.cycle.turns) == 3 and bool(it.conversation.work.runs))
    scenario.converse("how long does it take?")
    (last,) = [note for note in notes(scenario) if "Changed: " in note]
    assert last.startswith("Done.\n\nexecutor says: repaired\n\n- Changed: a +1, b +1.")


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
    follows = [note.endswith("A repair follows.") for note in notes(scenario) if note.startswith("it fails")]
    assert follows == [True, True, False]
    assert notes(scenario)[-1].startswith("Work has stopped: ")
    assert notes(scenario)[-1].endswith("Write how it is to go on, or `/continue`.")


def test_what_was_waived_is_not_called_checked() -> None:
    scenario = Scenario(Router(route("execute", "executor")), model_by_phase(**WORK), config=team())
    scenario.user_writes("create hello.py")
    scenario.user_writes("/quick")
    scenario.settle()
    last = notes(scenario)[-1]
    assert last.startswith("Done, but not checked.\n")
    assert "Not checked: alice left the verification out." in last
    assert last_note(scenario).notifies is None, "that it was not checked is news"


@pytest.mark.parametrize(
    ("names", "who"),
    [
        (("person-aaaaaaaa", "person-aaaaaaaa"), "you left the verification out"),
        (("alice", "person-aaaaaaaa"), "alice left the verification out"),
    ],
)
def test_who_has_no_name_yet_is_not_called_by_their_key(names: tuple[str, str], who: str) -> None:
    scenario = Scenario(Router(route("execute", "executor")), model_by_phase(**WORK), config=team())
    scenario.user_writes("create hello.py", name=names[0])
    scenario.user_writes("/quick", name=names[1])
    scenario.settle()
    assert f"Not checked: {who}." in notes(scenario)[-1]
    assert "person-" not in "".join(notes(scenario))


def test_another_person_without_a_name_is_left_out_of_the_last_word() -> None:
    scenario = Scenario(Router(route("execute", "executor")), model_by_phase(**WORK), config=team())
    scenario.user_writes("create hello.py")
    scenario.user_writes("/quick", author=PublicKey("b" * 64), name="person-bbbbbbbb")
    scenario.settle()
    assert "Not checked: the verification was left out." in notes(scenario)[-1]


def at_chores() -> Scenario:
    """A verified change, whose chores are under way."""
    tidies = [reply("", ("read_file", {"path": "a"})), TIDIES]
    model = model_by_phase(**{**WORK, "chores": tidies})
    scenario = Scenario(Router(route("execute", "executor")), model, config=team())
    scenario.user_writes("create hello.py")
    step_until(scenario, lambda it: it.conversation.cycle.phase is Phase.CHORES and bool(it.conversation.work.runs))
    return scenario


def test_quick_after_a_passed_verification_warns_of_nothing() -> None:
    """It said that no one would have tried whether it works."""
    scenario = at_chores()
    scenario.user_writes("/quick")
    assert notes(scenario)[-2] == "As you wish, I skip chores and reflection. The work has been verified."
    (waived,) = scenario.records(p.Waived)
    assert waived.phases == (Phase.CHORES, Phase.REFLECTION)
    assert notes(scenario)[-1].startswith("Done.\n")
    assert "left the verification out" not in notes(scenario)[-1]


def test_a_gate_that_is_left_out_while_it_is_under_way_ends_at_once() -> None:
    """Its agent could still have changed files after the message that it is skipped."""
    scenario = at_chores()
    asked = len(scenario.records(r.RouteRequested))
    scenario.user_writes("/skip chores")
    (chores,) = [turn for turn in scenario.conversation.cycle.turns if turn.phase is Phase.CHORES]
    assert [(done.outcome, done.error) for done in chores.completions] == [("stopped", "alice left chores out")]
    assert scenario.conversation.cycle.phase is Phase.REFLECTION
    scenario.user_writes("/skip reflection")
    assert scenario.conversation.cycle.status == "ended"
    assert len(scenario.records(r.RouteRequested)) == asked, "what is left has one choice"


def test_a_gate_that_is_passed_or_skipped_already_is_not_skipped_again() -> None:
    scenario = at_chores()
    scenario.user_writes("/skip verification")
    assert notes(scenario)[-1] == "There is nothing to skip: verification is done."
    assert not scenario.records(p.Waived)
    scenario.user_writes("/skip chores")
    scenario.user_writes("/skip chores")
    assert notes(scenario)[-1] == "There is nothing to skip: chores will be skipped already."
    scenario.user_writes("/quick")
    scenario.user_writes("/quick")
    assert notes(scenario)[-1].startswith("This cycle has ended: there is nothing to skip.")
    assert [waived.phases for waived in scenario.records(p.Waived)] == [(Phase.CHORES,), (Phase.REFLECTION,)]


def test_an_answer_to_what_was_written_in_a_gate_is_published() -> None:
    router = Router(route("execute", "executor"), route(None, "USER"))
    tidies = [reply("", ("read_file", {"path": "a"})), TIDIES]
    scenario = Scenario(router, model_by_phase(**{**WORK, "chores": tidies}), config=team())
    scenario.user_writes("create hello.py")
    step_until(scenario, lambda it: it.conversation.cycle.phase is Phase.CHORES and bool(it.conversation.work.runs))
    scenario.user_writes("is it tidy?")
    scenario.settle()
    assert "tidy" in notes(scenario)


def test_the_last_word_notifies_where_an_agent_has_failed() -> None:
    """One answers, the other fails: that it was checked all the same is news."""
    works = model_by_phase(**WORK)

    def model(conversation: Any, call: Any) -> ModelStep | ModelFailed:
        is_second = conversation.work.runs[call.run].agent == "second"
        return BREAKS if is_second and conversation.cycle.phase is Phase.EXECUTE else works(conversation, call)

    gates = [route("verification", "executor"), route("chores", "executor"), route(None, "END")]
    router = Router(route("execute", "executor", "second"), *gates)
    scenario = Scenario(router, model, config=team(agent("second"))).converse("create hello.py")
    assert scenario.conversation.cycle.status == "ended"
    assert last_note(scenario).text.startswith("Done.")
    assert last_note(scenario).notifies is None


def test_a_verifiers_words_that_were_an_answer_are_not_said_again() -> None:
    """They came as a message, and in the last word a second later."""
    tries = [
        reply("", ("check", {"path": "a"})),
        reply("", ("complete", {"response": "I stop", "verdict": "verified"})),
    ]
    router = Router(route("execute", "executor"), thanked(route("chores", "executor"), "ok, thanks"))
    scenario = Scenario(router, model_by_phase(**{**WORK, "verification": tries}), config=team())
    scenario.user_writes("create hello.py")
    step_until(
        scenario, lambda it: it.conversation.cycle.phase is Phase.VERIFICATION and bool(it.conversation.work.runs)
    )
    scenario.user_writes("ok, thanks")
    scenario.settle()
    assert notes(scenario)[-2] == "I stop"
    lines = notes(scenario)[-1].splitlines()
    assert "- project-manager ran `python a`: exit status 0." in lines
    assert not any(" says: " in line for line in lines)
    assert last_note(scenario).notifies == (), "both messages were answered"


def test_the_last_word_says_that_a_newer_request_is_next() -> None:
    """It said that all was done while a second request was open."""
    router = Router(route("execute", "executor"))
    scenario = Scenario(router, model_by_phase(**WORK), config=team())
    scenario.user_writes("create hello.py")
    step_until(scenario, lambda it: it.conversation.cycle.phase is Phase.REFLECTION and bool(it.conversation.work.runs))
    scenario.user_writes("and bye.py")
    router.answers = [route(None, "END"), route("execute", "executor")]
    scenario.settle()
    assert notes(scenario)[1].splitlines()[-1] == "- What you wrote meanwhile is next."
    (told,) = [record for record in scenario.records(r.MessageSent) if record.text == notes(scenario)[1]]
    assert told.notifies is None, "it answers the newer message"
    assert "What you wrote" not in notes(scenario)[-1]
