"""What the daemon saw decides: checks where there are some, else a look; a person is asked where neither helps."""

import dataclasses
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import ConversationRules, Role
from tenex.core.conversation import Conversation, fold
from tenex.core.cycle.checks import CheckResult, Inspection
from tenex.core.effects import Check, Effect, Route, ToolCall
from tenex.core.ids import ConversationId, Millis, PublicKey, Slug
from tenex.core.messages import Note
from tenex.core.pending import pending
from tenex.core.phases import QUALITY_PHASES, Phase
from tenex.core.port_values import ToolResult, UndoOutcome
from tenex.core.rollback.decide import state_at
from tenex.core.rollback.whole import ConversationForked, of_fork
from tenex.core.signals import Checked, RollBack, Signal, ToolReturned
from tenex.core.snapshot import StateSnapshot
from tenex.store.format import CONVERSATION
from tenex.store.view_json import render
from tenex.workflows.phases import records as p
from tenex.workflows.phases.state import phases_of
from tests.fakes.scenario import (
    ENDS,
    ID,
    VERIFIES,
    WAITS,
    Router,
    Scenario,
    in_flight,
    model_by_phase,
    passed,
    policy,
    refusals,
    reply,
    route,
    step_until,
    wish,
)
from tests.kits.team import FINDS, TIDIES, team
from tests.kits.verdicts import (
    DONE,
    SAYS,
    Workplace,
    at_check,
    builds,
    checking,
    ends,
    failed,
    repairs_with,
    run,
    running_check,
    tree_of,
    with_shell,
    work,
    writes,
)

UNTRIED = ("complete", {"response": "not run", "verdict": "untried", "issues": "there is no browser here"})
ASKED_ONCE = "You have called no tool"
NOTHING_DONE = "No file was changed and nothing was run."


def verdicts(scenario: Scenario) -> list[str]:
    return [record.verdict for record in scenario.records(r.RunEnded) if record.verdict]


def refused(scenario: Scenario) -> list[str]:
    return [record.sentence for record in scenario.records(r.ToolCallRejected)]


def turns(scenario: Scenario) -> list[Phase]:
    return [record.phase for record in scenario.records(r.TurnOpened)]


def notes(scenario: Scenario) -> list[str]:
    """The texts of the messages that users get."""
    return [record.text for record in scenario.records(r.MessageSent) if record.is_published]


def is_met(scenario: Scenario) -> bool:
    return any(record.gate is Phase.VERIFICATION for record in scenario.records(r.TurnClosed))


def restarted(scenario: Scenario) -> None:
    """The process dies, and its successor begins with a snapshot."""
    scenario.crash()
    data = CONVERSATION.encode_decisions([[StateSnapshot.of(scenario.conversation)]])
    scenario.conversation = fold(ID, CONVERSATION.decode_lines(data)[0])
    scenario.reconcile()


# ---- where no check is known: the verifier's own look ----


def test_a_verdict_without_a_look_is_refused_and_one_after_it_counts() -> None:
    scenario = work(reply("", SAYS), reply("", *run("pytest -q"), SAYS)).converse("build it")
    (sentence,) = refused(scenario)
    assert "does not count yet" in sentence
    assert "a.py" in sentence, "what there is to read"
    assert "`shell`" in sentence, "what there is to run it with"
    assert "`untried`" in sentence
    assert (verdicts(scenario), scenario.conversation.cycle.status) == (["verified"], "ended")


@pytest.mark.parametrize(
    "line", ["pytest -q", "pytest -q | tail", "! ./tool --bad", "python -m pytest --version", "ls"]
)
@pytest.mark.parametrize("status", [0, 1, 127, -9])
def test_nothing_is_read_from_a_command_line(line: str, status: int) -> None:
    """Some lines were trials and others not, by their words; one that failed was settled by another."""
    scenario = work(reply("", *run(line)), reply("", SAYS))
    scenario.statuses = {line: status}
    scenario.converse("build it")
    assert (refused(scenario), is_met(scenario)) == ([], True)
    ended = f"exit status {status}" if status >= 0 else "ended by signal 9"
    assert f"- project-manager ran `{line}`: {ended}." in notes(scenario)[-1]
    assert notes(scenario)[-1].startswith("Done, as project-manager says.\n" if status else "Done.\n")


def test_a_command_that_failed_and_then_succeeded_is_said_once_with_its_last_status() -> None:
    scenario = work(reply("", *run("pytest -q")), reply("", *run("ls")), reply("", *run("pytest -q"), SAYS))
    scenario.statuses = {"pytest -q": 1}
    scenario.user_writes("build it")
    step_until(scenario, lambda it: any(record.exit_status for record in it.records(r.ToolCallCompleted)))
    scenario.statuses = {}
    scenario.settle()
    assert "ran `ls`: exit status 0; `pytest -q`: exit status 0." in notes(scenario)[-1]
    assert notes(scenario)[-1].startswith("Done.\n")


def test_a_verifier_who_never_looks_ends_with_untried_and_a_person_is_asked_once() -> None:
    scenario = work(reply("", SAYS)).converse("build it")
    assert len(refused(scenario)) == 2
    assert verdicts(scenario) == ["untried"]
    assert scenario.conversation.cycle.waiting_for == "waiver"
    assert "It is not verified: Project-Manager ran nothing and did not read a.py. Accept" in scenario.sent_texts()[-1]
    (question,) = scenario.records(p.WaiverRequested)
    assert question.phases == (Phase.VERIFICATION,)


@pytest.mark.parametrize(
    ("paths", "looks", "left"),
    [
        (("a.md", "b.py"), [("read_file", {"path": "a.md"}), ("read_file", {"path": "b.py"})], ""),
        (("a.md", "b.py"), [("git_diff", {})], ""),
        (("a.md", "b.py"), [("read_file", {"path": "b.py"})], "read a.md"),
        (("a.md",), [("read_file", {"path": "other.md"})], "read a.md"),
        (tuple("abcdefg"), [], "read a, b, c, d, e and others"),
    ],
    ids=str,
)
def test_work_that_is_not_run_is_verified_by_reading_all_of_it(
    paths: tuple[str, ...], looks: list[tuple[str, dict[str, Any]]], left: str
) -> None:
    scenario = work(reply("", *looks, SAYS), paths=paths).converse("write it")
    assert (scenario.conversation.cycle.status == "ended") is (not left)
    assert bool(refused(scenario)) is bool(left)
    if left:
        assert left in refused(scenario)[0]
    else:
        assert "project-manager read what was changed, and ran nothing." in notes(scenario)[-1]


def test_work_that_only_deletes_is_verified_by_its_diff() -> None:
    deletes = reply("", writes("old.py", content=None), DONE)
    scenario = work(reply("", ("git_diff", {}), SAYS), execute=[deletes])
    scenario.files = {"old.py": "x", "a.py": "y"}
    scenario.converse("delete old.py")
    assert (refused(scenario), is_met(scenario)) == ([], True)
    assert "Changed: old.py" in notes(scenario)[-1]


@pytest.mark.parametrize("ok", [True, False])
def test_a_call_that_only_names_a_file_has_not_read_it(ok: bool) -> None:
    scenario = work(reply("", ("read_file", {"path": "a.md"})), reply("", SAYS), paths=("a.md",))
    perform = scenario.perform

    def showing_nothing(effect: Effect) -> Signal:
        if isinstance(effect, ToolCall) and effect.request.tool == "read_file":
            return ToolReturned(key=effect.key, result=ToolResult(ok=ok, content="--- a/a.md\n+++ b/a.md"))
        return perform(effect)

    scenario.perform = showing_nothing  # type: ignore[method-assign]
    scenario.converse("write it")
    assert scenario.conversation.cycle.status != "ended"
    assert "read a.md" in refused(scenario)[0]


def test_what_was_run_in_execute_is_no_look_of_the_verification() -> None:
    built = reply("", *run("pytest"), writes("a.py"), DONE)
    scenario = work(reply("", SAYS), execute=[built]).converse("build it")
    assert verdicts(scenario) == ["untried"]


def test_one_who_can_run_nothing_is_told_to_read() -> None:
    known = with_shell(team(), without=("project-manager", "executor", "planner"))
    scenario = work(reply("", SAYS), reply("", UNTRIED), config=known).converse("build it")
    assert "First read a.py." in refused(scenario)[0]
    assert "there is no browser here" in scenario.sent_texts()[-1]
    assert scenario.conversation.cycle.waiting_for == "waiver"


def test_an_expert_beside_one_who_runs_judges_and_alone_meets_no_gate() -> None:
    def verifies(conversation: Conversation, call: Any) -> Any:
        return reply("", SAYS) if conversation.work.runs[call.run].agent == "security" else VERIFIES

    for agents, gate in ((("security", "executor"), Phase.VERIFICATION), (("security",), None)):
        router = Router(route("execute", "executor"), route("verification", *agents), WAITS)
        scenario = Scenario(router, model_by_phase(execute=[builds("a.py")], verification=verifies), config=policy())
        scenario.converse("build it")
        assert scenario.records(r.TurnClosed)[-1].gate is gate
        assert bool(refused(scenario)) is (gate is None)


def test_what_a_verifier_has_done_survives_a_restart_and_a_snapshot_in_the_middle_of_its_turn() -> None:
    scenario = work(reply("", *run("pytest")), reply("", SAYS))
    scenario.user_writes("build it")
    step_until(scenario, lambda it: it.conversation.work.turn is not None and bool(it.conversation.work.turn.ran))
    turn = scenario.conversation.work.turn
    restarted(scenario)
    again = scenario.conversation.work.turn
    assert again is not None
    assert turn is not None
    assert (again.ran, again.looked_at, again.has_effect) == (turn.ran, turn.looked_at, turn.has_effect)
    scenario.settle()
    assert (verdicts(scenario), refused(scenario)) == (["verified"], [])


def test_the_view_shows_what_was_run_and_how_it_ended() -> None:
    scenario = work(reply("", *run("pytest -q", "fails")), reply("", SAYS))
    scenario.statuses = {"fails": 3}
    view = render(scenario.converse("build it").conversation)
    assert '"command": "pytest -q",\n          "exitStatus": 0' in view
    assert '"command": "fails",\n          "exitStatus": 3' in view


# ---- where the project has checks ----


def test_a_check_that_passed_needs_no_look_of_the_verifier() -> None:
    scenario = checking(ends({"tests": 920, "seconds": 14.0})).converse("build it")
    assert scenario.checked == [("test", False)]
    assert (refused(scenario), verdicts(scenario), is_met(scenario)) == ([], ["verified"], True)
    assert turns(scenario) == [Phase.EXECUTE, *QUALITY_PHASES]
    last = notes(scenario)[-1]
    assert last.startswith("Done.\n")
    assert "- Test: 920 tests passed (`test`, 14 s)." in last
    assert "- project-manager says: “it works”" in last


def test_checks_run_one_after_the_other_in_their_order() -> None:
    scenario = checking(ends({}), names=("types", "test", "lint"))
    assert at_check(scenario).name == "types"
    scenario.settle()
    assert scenario.checked == [("types", False), ("test", False), ("lint", False)]
    named = [line.partition(":")[0] for line in notes(scenario)[-1].splitlines() if "passed" in line]
    assert named == ["- Types", "- Test", "- Lint"]


def test_a_failure_that_is_new_goes_back_to_execute_by_rule_with_the_facts() -> None:
    """A verifier ran `! pytest`, which gave it the verdict that all tests pass."""

    def end(effect: Check) -> CheckResult:
        is_repaired = len([phase for phase in turns(scenario) if phase is Phase.EXECUTE]) > 1
        return passed(effect) if is_repaired or effect.is_earlier else dataclasses.replace(passed(effect), **bad)

    bad = failed("test_a", "test_b", last_lines="E   assert 1 == 2")
    scenario = checking(end, reply("", *run("! pytest -q"), SAYS))
    scenario.converse("build it")
    assert scenario.checked == [("test", False), ("test", True), ("test", False)]
    assert turns(scenario) == [Phase.EXECUTE, Phase.VERIFICATION, Phase.EXECUTE, *QUALITY_PHASES]
    (back,) = [one for one in scenario.records(r.Routed) if one.phase is Phase.EXECUTE and one.by == "rule"]
    assert "test: 1 passed, 2 failed; before this work 0 failed; new: test_a, test_b" in back.reason
    assert "it has to be repaired" in back.reason
    assert len(scenario.records(r.RouteRequested)) == 1
    assert notes(scenario)[-1].startswith("Done.\n")
    assert "Test: 3 tests passed" in notes(scenario)[-1]


def test_who_repairs_and_who_verifies_are_shown_the_results_with_the_end_of_what_was_printed() -> None:
    shown: dict[Phase, str] = {}

    def sees(conversation: Conversation, call: Any) -> Any:
        one = conversation.work.runs[call.run]
        shown[one.phase] = "\n".join(entry.text for entry in call.entries if isinstance(entry, Note))
        return builds("a.py") if one.phase is Phase.EXECUTE else reply("", SAYS)

    scenario = checking(ends(failed("test_a", last_lines="E   assert 1 == 2")), verification=sees, execute=sees)
    scenario.converse("build it")
    for phase in (Phase.EXECUTE, Phase.VERIFICATION):
        assert "test: 2 passed, 1 failed; before this work 0 failed; new: test_a" in shown[phase]
        assert "E   assert 1 == 2" in shown[phase]


def test_after_the_repairs_a_person_is_asked_with_the_facts() -> None:
    scenario = checking(ends(failed("test_a"))).converse("build it")
    assert turns(scenario) == [Phase.EXECUTE, Phase.VERIFICATION] * 3
    assert not is_met(scenario)
    assert scenario.conversation.cycle.waiting_for == "waiver"
    question = scenario.sent_texts()[-1]
    assert "test: 2 passed, 1 failed; before this work 0 failed; new: test_a" in question
    assert len(scenario.records(r.RouteRequested)) == 1
    scenario.converse("yes")
    assert scenario.conversation.cycle.status == "ended"
    last = notes(scenario)[-1]
    assert last.startswith("Partly done.\n")
    assert "- Test: 2 passed, 1 failed" in last
    assert "alice accepted it so" in last


def test_a_no_keeps_the_gate_and_the_work_goes_on() -> None:
    scenario = checking(ends(failed("test_a"))).converse("build it")
    before = turns(scenario)
    scenario.converse("no")
    assert turns(scenario)[len(before) :][:2] == [Phase.EXECUTE, Phase.VERIFICATION]
    assert (scenario.records(p.Waived), is_met(scenario)) == ([], False)
    assert len(scenario.records(p.WaiverRequested)) == 2, "with what failed then"


NAMELESS: dict[str, Any] = {"failed": ()}


@pytest.mark.parametrize(
    ("now", "then", "said"),
    [
        (failed("test_old", tests=920), failed("test_old", tests=918), "the same one failed before this work"),
        (failed("test_old"), failed("test_old", "test_older"), "the same one failed before this work"),
        (failed("a", "b", **NAMELESS), failed("a", "c", **NAMELESS), "before this work"),
        (failed("a", **NAMELESS), failed("a", "b", "c", **NAMELESS), "before this work"),
        (
            {"outcome": "failed", "status": 2, "tests": None},
            {"outcome": "failed", "status": 2, "tests": None},
            "before",
        ),
    ],
    ids=["by names", "by names, fewer", "by numbers", "by numbers, fewer", "by status"],
)
def test_what_failed_before_the_work_is_no_fault_of_it(now: dict[str, Any], then: dict[str, Any], said: str) -> None:
    """A repository with one old red test could never be verified: "No one could try it"."""
    scenario = checking(ends(now, then)).converse("build it")
    assert scenario.checked == [("test", False), ("test", True)]
    assert (is_met(scenario), scenario.conversation.cycle.status) == (True, "ended")
    last = notes(scenario)[-1]
    assert last.startswith("Done.\n")
    (fact,) = [line for line in last.splitlines() if line.startswith("- Test: ")]
    assert "failed" in fact
    assert said in fact


@pytest.mark.parametrize(
    ("now", "then", "is_taken"),
    [
        ({"tests": None}, {"tests": 4}, False),
        ({"tests": None}, failed("test_a"), False),
        ({"tests": None}, {"tests": None}, True),
        ({"tests": None}, {"outcome": "nothing", "tests": 0}, True),
        ({"tests": None}, {"outcome": "missing", "tests": None}, True),
        ({"tests": None, "environment": "new"}, {"tests": 4, "environment": "old"}, True),
        ({"tests": None, "has_tests": False}, {"tests": 4}, True),
        ({"tests": 2}, {"tests": 4}, True),
    ],
)
def test_tests_that_pass_and_are_counted_no_more_are_worse(
    now: dict[str, Any], then: dict[str, Any], *, is_taken: bool
) -> None:
    """A script that does nothing ends well; that a runner's tests are not counted is no fault where they never were."""
    scenario = checking(ends({"has_tests": True, **now}, {"has_tests": True, **then})).converse("build it")
    is_compared = now.get("has_tests", True)
    assert scenario.checked[:2] == [("test", False), *([("test", True)] if is_compared else [])]
    assert is_met(scenario) is is_taken
    last = notes(scenario)[-1]
    assert last.startswith("Done.\n" if is_taken else "It is not verified: test: passed, and tells of no test; before")


@pytest.mark.parametrize(
    ("now", "then", "said", "rings"),
    [
        ({"tests": 12}, {"tests": 14}, "12 tests passed, 14 before this work (", True),
        ({"tests": 1}, {"outcome": "nothing", "tests": None}, "1 test passed, none before this work (", False),
        ({"tests": 12}, failed("a", tests=14), "12 tests passed, 14 before this work (", True),
        (
            failed("a", tests=12),
            failed("a", tests=14),
            "failed before this work; before this work 14 tests ran (",
            True,
        ),
        ({"tests": 15}, {"tests": 14}, "15 tests passed, 14 before this work (", False),
        ({"tests": 14}, {"tests": 14}, "14 tests passed (", False),
        ({"tests": 12}, {"outcome": "missing", "tests": None}, "12 tests passed (", False),
        ({"tests": 12, "seconds": 90.0}, {"tests": 14}, "12 tests passed (", False),
    ],
    ids=["fewer", "first", "fewer, red before", "fewer, red", "more", "as many", "not known", "too slow to be known"],
)
def test_the_end_says_how_many_tests_there_were(
    now: dict[str, Any], then: dict[str, Any], said: str, *, rings: bool
) -> None:
    """A test that the work breaks can be removed, and the check passes; the verifier reads it too."""
    scenario = checking(ends({"has_tests": True, **now}, {"has_tests": True, **then})).converse("build it")
    assert said in notes(scenario)[-1]
    last = [message for message in scenario.records(r.MessageSent) if message.is_published][-1]
    assert (last.purpose == "notice") is rings
    verifies = next(run for run in scenario.records(r.RunStarted) if run.agent == "project-manager")
    assert any(said in entry.text for entry in verifies.entries if isinstance(entry, Note))


def test_how_many_tests_there_were_is_known_from_the_cycle_before() -> None:
    """The same tree is not checked twice, also where the cycle before has checked it; a failure is looked at again."""
    scenario = checking(
        ends({"has_tests": True, "seconds": 90.0, "tests": 14}),
        execute=[builds("a.py"), builds("b.py"), builds("c.py")],
        verification=[reply("", SAYS)],
    )
    scenario.router = Router(route("execute", "executor"))
    scenario.converse("build it")
    scenario.check = ends({"has_tests": True, "seconds": 90.0, "tests": 12})
    scenario.converse("and b.py")
    assert "12 tests passed, 14 before this work" in notes(scenario)[-1]
    assert scenario.checked == [("test", False)] * 2
    scenario.check = ends(failed("test_a"))
    scenario.converse("and c.py")
    assert scenario.checked[2:4] == [("test", False), ("test", True)]


def test_where_no_names_are_known_it_is_not_said_that_the_same_tests_failed() -> None:
    """Two of three failed before, and two now: which ones, nobody saw."""
    for now, then in (
        (failed("a", "b", **NAMELESS), failed("c", "d", **NAMELESS)),
        ({"outcome": "failed", "status": 2, "tests": None}, {"outcome": "failed", "status": 2, "tests": None}),
    ):
        scenario = checking(ends(now, then)).converse("build it")
        assert "the same" not in notes(scenario)[-1]


@pytest.mark.parametrize(
    ("now", "then", "said"),
    [
        (failed("test_new"), failed("test_old"), "before this work 1 failed; new: test_new"),
        (failed("a", "b", **NAMELESS), failed("c", **NAMELESS), "before this work 1 failed"),
        ({"outcome": "failed", "status": 2}, {"outcome": "failed", "status": 1}, "before this work"),
        ({"outcome": "timeout", "status": None, "seconds": 90.0}, {}, "stopped after 1 min 30 s, before its end"),
        ({"outcome": "nothing"}, {}, "nothing was tested; before this work 0 failed"),
        (failed("a"), {"outcome": "missing", "reason": "no node_modules"}, "is not known (no node_modules)"),
        (failed("a"), {"outcome": "timeout", "seconds": 90.0}, "before this work stopped after 1 min 30 s"),
        (
            failed("a", environment="new"),
            failed("a", environment="old"),
            "not comparable with before, because a lock file was changed; failed: a",
        ),
    ],
    ids=["names", "numbers", "status", "timeout", "nothing", "before unknown", "before timeout", "another lock file"],
)
def test_what_is_worse_or_not_known_to_be_as_before_meets_no_gate(
    now: dict[str, Any], then: dict[str, Any], said: str
) -> None:
    scenario = checking(ends(now, then), reply("", *run("pytest -q"), SAYS)).converse("build it")
    assert not is_met(scenario)
    assert scenario.conversation.cycle.waiting_for == "waiver"
    assert said in scenario.records(p.WaiverRequested)[-1].untried


@pytest.mark.parametrize(
    "both",
    [
        {"outcome": "nothing", "tests": 0},
        {"outcome": "timeout", "status": None, "tests": None, "seconds": 1_800.0},
        {"outcome": "missing", "status": None, "tests": None, "reason": "pytest is not there"},
        {"outcome": "changed", "status": None, "tests": None},
        {"outcome": "uncontained", "status": None, "tests": None, "reason": "no sandbox"},
    ],
    ids=lambda both: both["outcome"],
)
def test_where_no_check_came_to_its_end_the_verifier_has_to_look_itself(both: dict[str, Any]) -> None:
    """It tells nothing of the work: that nothing was tested, or that it was stopped, before the work as now."""
    lazy = checking(ends(both, both)).converse("build it")
    assert "does not count yet" in refused(lazy)[0]
    question = lazy.sent_texts()[-1]
    assert question.startswith("It is not verified: Project-Manager ran nothing and did not read a.py. ")
    assert " Test: " in question, "with the facts"
    assert (is_met(lazy), lazy.conversation.cycle.waiting_for) == (False, "waiver")
    looks = checking(ends(both, both), reply("", *run("python a.py"), SAYS)).converse("build it")
    assert (refused(looks), is_met(looks), looks.conversation.cycle.status) == ([], True, "ended")
    (fact,) = [line for line in notes(looks)[-1].splitlines() if line.startswith("- Test: ")]
    words = {
        "nothing": "nothing was tested",
        "timeout": "stopped after 30 min",
        "missing": "not run: pytest is not there",
    }
    assert words.get(both["outcome"], "not ") in fact


def test_the_same_tree_is_not_checked_twice() -> None:
    """A repair that puts everything as it was, or writes the same bytes, has no other result."""
    contents = ["one", "two", "one", "two"]

    def build(conversation: Conversation, call: Any) -> Any:
        return reply("", writes("a.py", content=contents[turns(scenario).count(Phase.EXECUTE) - 1]), DONE)

    bad = failed("test_a")
    scenario = checking(ends(bad), execute=build)
    scenario.converse("build it")
    assert scenario.checked == [("test", False), ("test", True), ("test", False)]
    assert turns(scenario).count(Phase.EXECUTE) == 3
    assert len(scenario.records(p.WorkInspected)) == 3


def test_a_result_for_an_older_tree_counts_no_more() -> None:
    """It passed; then a repair broke it, and the verifier said that it works."""

    def end(effect: Check) -> CheckResult:
        is_first = not scenario.records(p.CheckEnded) or effect.is_earlier
        return passed(effect) if is_first else dataclasses.replace(passed(effect), **failed("test_a"))

    def verify(conversation: Conversation, call: Any) -> Any:
        return reply("", SAYS) if turns(scenario).count(Phase.VERIFICATION) > 1 else FINDS

    scenario = checking(end, verification=verify)
    scenario.converse("build it")
    assert scenario.checked == [("test", False), ("test", False), ("test", True), ("test", False)]
    assert turns(scenario) == [Phase.EXECUTE, Phase.VERIFICATION] * 3
    assert not is_met(scenario)
    assert scenario.conversation.cycle.waiting_for == "waiver"


def test_a_check_that_met_another_tree_leads_to_another_look() -> None:
    """A person writes a file while it runs: its result is of what it ran on, and it is not run for ever."""

    def end(effect: Check) -> CheckResult:
        scenario.files["by_hand.py"] = "print(1)"
        return dataclasses.replace(passed(effect), tree=tree_of(scenario.files))

    scenario = checking(end)
    scenario.looks_at_once = False
    scenario.user_writes("build it")
    for _ in range(60):
        scenario.step()
    assert scenario.checked == [("test", False)]
    assert len(scenario.records(p.WorkInspected)) == 2
    assert (is_met(scenario), scenario.conversation.cycle.status) == (True, "ended")


TIDIES_FILE = reply("", writes("README.md"), ("complete", {"response": "tidied", "summary": "README"}))


def broken_by_chores(tidied: int) -> Workplace:
    """Work that passes until it is tidied, and again once it was tidied so often."""

    def end(effect: Check) -> CheckResult:
        is_broken = 0 < turns(scenario).count(Phase.CHORES) < tidied and not effect.is_earlier
        return dataclasses.replace(passed(effect), **(failed("test_docs") if is_broken else {}))

    scenario = checking(end, chores=[TIDIES_FILE])
    scenario.converse("build it")
    return scenario


def test_a_check_that_chores_have_broken_goes_back_to_who_tidied() -> None:
    """The graph has no way from chores to execute, and who tidies may change all that chores have changed."""
    scenario = broken_by_chores(tidied=2)
    assert turns(scenario).count(Phase.CHORES) == 2
    second = [record for record in scenario.records(r.TurnOpened) if record.phase is Phase.CHORES][-1]
    assert "new: test_docs" in second.reason
    assert scenario.conversation.cycle.status == "ended"
    last = next(text for text in notes(scenario) if "- Changed: " in text)
    assert last.startswith("Done.")
    assert "Test: 3 tests passed" in last


@pytest.mark.parametrize("answer", ["yes", "no, restore the README"])
def test_what_chores_leave_broken_is_put_to_a_person(answer: str) -> None:
    """With the check's result; a yes ends it as partly done, and any other answer keeps the gate open."""
    scenario = broken_by_chores(tidied=99)
    assert turns(scenario).count(Phase.CHORES) == 3
    assert (scenario.conversation.cycle.status, scenario.conversation.cycle.waiting_for) == ("waiting", "waiver")
    question = notes(scenario)[-1]
    assert question.startswith("It is worse since it was tidied: test: 2 passed, 1 failed")
    scenario.router = Router(route("chores", "executor"), WAITS)
    scenario.check = passed
    scenario.converse(answer)
    assert Phase.CHORES not in scenario.conversation.unmet_gates
    if answer == "yes":
        last = next(text for text in notes(scenario) if "- Changed: " in text)
        assert last.startswith("Partly done.")
        assert "alice accepted it so." in last
    else:
        assert turns(scenario).count(Phase.CHORES) == 4


def test_chores_that_break_nothing_are_done_once_the_checks_have_ended() -> None:
    scenario = checking(passed, chores=[TIDIES_FILE])
    at_check(scenario, number=2)
    assert turns(scenario)[-1] is Phase.CHORES
    assert Phase.CHORES in scenario.conversation.unmet_gates
    scenario.looks_at_once = True
    scenario.settle()
    (counted,) = scenario.records(p.VerificationCounted)
    assert (counted.gate, scenario.conversation.cycle.status) == (Phase.CHORES, "ended")


@pytest.mark.parametrize("content", ["as it was", None], ids=["the same bytes", "written and deleted"])
def test_what_differs_no_more_in_the_end_opens_no_gate(content: str | None) -> None:
    """Three turns verified a scratch file that was written and deleted."""
    built = reply("", writes("a.py", content="scratch"), writes("a.py", content=content), DONE)
    scenario = checking(ends({}), execute=[built])
    scenario.files = {} if content is None else {"a.py": content}
    scenario.is_compared_at_once = False
    scenario.converse("look into it")
    assert (turns(scenario), scenario.checked) == ([Phase.EXECUTE], [])
    assert (scenario.conversation.cycle.status, scenario.conversation.unmet_gates) == ("ended", ())
    last = notes(scenario)[-1]
    assert last.startswith("Nothing was changed in the end.")
    assert "Changed: " not in last
    assert next(record.text for record in scenario.records(r.MessageSent)) == "built"


@pytest.mark.parametrize("content", ["as it was", None], ids=["the same bytes", "written and deleted"])
def test_an_answer_that_changed_nothing_in_the_end_is_one_message(content: str | None) -> None:
    """A call's result says so at once, so the answer itself can."""
    built = reply("", writes("a.py", content="scratch"), writes("a.py", content=content), DONE)
    scenario = checking(ends({}), execute=[built])
    scenario.files = {} if content is None else {"a.py": content}
    scenario.converse("look into it")
    assert notes(scenario) == ["built\n\nNothing was changed in the end."]
    assert (scenario.conversation.cycle.status, scenario.conversation.cycle.touched) == ("ended", frozenset())


def test_a_write_of_the_same_bytes_is_no_change() -> None:
    """25 turns wrote what was there, with 25 equal messages."""
    built = reply("", writes("a.py", content="as it was"), DONE)
    scenario = checking(ends({}), execute=[built])
    scenario.policy = dataclasses.replace(scenario.policy, conversations=ConversationRules(route_by_rule=False))
    scenario.router = Router(route("execute", "executor"))
    scenario.files = {"a.py": "as it was"}
    scenario.converse("build it")
    assert len(turns(scenario)) == scenario.policy.limits.same_route
    assert set(notes(scenario)[:-1]) == {"built\n\nNo file was changed and nothing was run."}
    assert "nothing changed" in notes(scenario)[-1]
    assert not any(turn.changed for turn in scenario.conversation.cycle.turns)


def test_what_may_have_changed_something_outside_keeps_the_gates_open() -> None:
    built = reply("", *run("git push"), writes("a.py", content=None), DONE)
    scenario = checking(ends({}), reply("", *run("git log"), SAYS), execute=[built])
    scenario.has_network = True
    scenario.converse("push it")
    assert Phase.VERIFICATION in turns(scenario)
    assert is_met(scenario)


def test_where_it_is_not_known_what_differs_what_calls_changed_counts() -> None:
    scenario = work(reply("", ("read_file", {"path": "a.py"}), SAYS))
    scenario.inspect = lambda effect: Inspection(fault="there are no checkpoints")  # type: ignore[method-assign]
    scenario.converse("build it")
    assert (is_met(scenario), scenario.conversation.cycle.status) == (True, "ended")
    assert "Changed: a.py." in notes(scenario)[-1]


def test_a_new_cycle_knows_nothing_of_the_checks_of_the_last() -> None:
    def verify(conversation: Conversation, call: Any) -> Any:
        return reply("", SAYS)

    scenario = checking(ends({}), verification=verify).converse("build it")
    scenario.router = Router(route("execute", "executor"), WAITS)
    scenario.converse("and more")
    assert scenario.checked == [("test", False)] * 2
    assert scenario.conversation.cycle.number == 2
    assert len(phases_of(scenario.conversation).check_results) == 1


# ---- issues, and repairs that change nothing ----


def finds_once(conversation: Conversation, call: Any) -> Any:
    """A verifier that finds issues, and then none."""
    is_first = all(turn.phase is not Phase.VERIFICATION for turn in conversation.cycle.turns)
    return FINDS if is_first else reply("", *run("python a.py"), SAYS)


def test_a_repair_that_changes_nothing_is_not_verified_and_a_person_is_asked() -> None:
    """A verifier ran the same command again, which ended with 0 as before: "mended, it prints hello now"."""
    for calls in ([writes("a.py", content="v1")], run("python a.py"), []):
        scenario = work(execute=repairs_with(*calls), verification=finds_once)
        scenario.router = Router(route("execute", "executor"), route("verification", "project-manager"), WAITS)
        scenario.converse("build it")
        assert turns(scenario) == [Phase.EXECUTE, Phase.VERIFICATION] * 2
        assert len(scenario.records(r.RouteRequested)) == 2, "the router judges a repair that changed nothing"
        assert not is_met(scenario)
        assert scenario.conversation.cycle.waiting_for == "waiver"
        assert "nothing was changed since" in scenario.sent_texts()[-1]
        scenario.converse("yes")
        assert "Not verified: nothing was changed since" in notes(scenario)[-1]


def test_a_repair_that_changes_something_is_verified() -> None:
    scenario = work(execute=repairs_with(writes("a.py", content="v2")), verification=finds_once).converse("build it")
    assert (is_met(scenario), scenario.conversation.cycle.status) == (True, "ended")


def test_a_repair_that_puts_all_back_is_answered_in_its_own_words() -> None:
    """Nothing is left to verify; so what its agent says is published, and no last word follows."""
    scenario = checking(ends({}), execute=repairs_with(writes("a.py", content=None)), verification=finds_once)
    scenario.converse("build it")
    assert notes(scenario)[-1] == "it is right\n\nNothing was changed in the end."
    assert (verdicts(scenario), scenario.conversation.cycle.status) == (["issues"], "ended")


def test_a_file_that_a_repair_puts_back_was_changed_by_the_repair() -> None:
    def build(conversation: Conversation, call: Any) -> Any:
        is_first = all(turn.phase is not Phase.VERIFICATION for turn in conversation.cycle.turns)
        return builds("a.py", "b.py") if is_first else reply("", writes("b.py", content=None), DONE)

    scenario = checking(ends({}), execute=build, verification=finds_once).converse("build it")
    assert verdicts(scenario) == ["issues", "verified"]
    assert [turn.changed for turn in scenario.conversation.cycle.turns][:3] == [("a.py", "b.py"), (), ("b.py",)]
    assert "Changed: a.py +1." in notes(scenario)[-1]


def test_what_a_person_writes_may_settle_an_issue_without_a_change() -> None:
    scenario = work(execute=repairs_with(), verification=finds_once)
    scenario.converse("build it")
    assert scenario.conversation.cycle.status == "waiting"
    scenario.router = Router(route("verification", "project-manager"), WAITS)
    scenario.converse("it is meant to print nothing. look again")
    assert (is_met(scenario), scenario.conversation.cycle.status) == (True, "ended")


# ---- a person's word, stops and crashes while a check runs ----


def test_a_message_while_a_check_runs_is_routed_at_once() -> None:
    scenario = checking(ends({}))
    check = at_check(scenario)
    assert not [effect for effect in in_flight(scenario) if isinstance(effect, Route)]
    scenario.router = Router(route(None, "executor"), WAITS)
    scenario.user_writes("and make it green")
    assert {type(effect) for effect in in_flight(scenario)} == {Check, Route}
    scenario.running.pop(check.key)
    step_until(scenario, lambda it: it.conversation.work.turn is not None)
    assert turns(scenario) == [Phase.EXECUTE, Phase.EXECUTE]
    scenario.settle()
    assert scenario.conversation.cycle.status == "ended"
    assert scenario.checked == [("test", False)], "the first tree is there no more"
    assert scenario.handle(Checked(key=check.key, result=passed(check))) == []


def test_an_answer_to_nothing_new_waits_for_the_check() -> None:
    """While a check runs there is no choice yet: the router is not asked what it could not know."""
    scenario = checking(ends({}))
    at_check(scenario)
    assert [type(effect) for effect in in_flight(scenario)] == [Check]
    scenario.settle()
    assert len(scenario.records(r.RouteRequested)) == 1


def test_a_verdict_that_was_given_while_a_check_ran_counts_once_it_has_passed() -> None:
    """A person's message had it verified at once, beside the check."""
    scenario = checking(ends({}))
    check = at_check(scenario)
    scenario.router = Router(route("verification", "project-manager"), WAITS)
    scenario.user_writes("go on, please")
    scenario.running.pop(check.key)
    step_until(scenario, lambda it: Phase.VERIFICATION in [turn.phase for turn in it.conversation.cycle.turns])
    assert not is_met(scenario), "it may still fail"
    scenario.reconcile()
    scenario.settle()
    assert turns(scenario).count(Phase.VERIFICATION) == 1
    assert (len(scenario.records(p.VerificationCounted)), len(scenario.records(r.Ended))) == (1, 1)


def test_stop_ends_a_check_and_continue_runs_it_again() -> None:
    scenario = checking(ends({}))
    check = at_check(scenario)
    scenario.user_writes("/stop")
    assert not [effect for effect in scenario.running.values() if isinstance(effect, Check)]
    assert "the check test" in scenario.sent_texts()[-1]
    assert scenario.handle(Checked(key=check.key, result=passed(check))) == [], "it comes too late"
    scenario.user_writes("/continue")
    assert running_check(scenario).key == check.key
    scenario.settle()
    assert (is_met(scenario), scenario.conversation.cycle.status) == (True, "ended")


def test_stop_in_execute_names_no_look_that_never_began() -> None:
    scenario = work(reply("", *run("ls"), SAYS), execute=[reply("", writes("a.py")), builds("b.py")])
    scenario.user_writes("build it")
    step_until(scenario, lambda it: bool(it.conversation.cycle.touched))
    scenario.user_writes("/stop")
    assert scenario.sent_texts()[-1].startswith("Stopped: Executor. Changed so far: a.py;")
    assert not in_flight(scenario)


def test_work_that_was_stopped_is_looked_at_when_it_goes_on() -> None:
    """What the stopped turn has written is there; the check sees it with the rest."""
    scenario = checking(ends({}), execute=[reply("", writes("a.py")), builds("b.py")])
    scenario.user_writes("build it")
    step_until(scenario, lambda it: bool(it.conversation.cycle.touched))
    scenario.user_writes("/stop")
    scenario.router = Router(route("verification", "project-manager"), WAITS)
    scenario.converse("verify what is there")
    assert scenario.checked == [("test", False)]
    assert scenario.conversation.cycle.status == "ended"
    assert "Changed: a.py +1." in notes(scenario)[-1]


@pytest.mark.parametrize("command", ["/quick", "/skip verification"])
def test_leaving_the_verification_out_while_a_check_runs_goes_on_at_once(command: str) -> None:
    scenario = checking(ends(failed("test_a")), chores=[TIDIES])
    at_check(scenario)
    scenario.user_writes(command)
    assert scenario.conversation.cycle.status != "waiting"
    scenario.settle()
    assert scenario.checked == []
    assert scenario.conversation.cycle.status == "ended"
    last = notes(scenario)[-1]
    assert last.startswith("Done, but not checked.\n")
    assert "Not checked: alice left the verification out." in last


def test_work_that_was_verified_without_a_check_is_not_called_checked() -> None:
    """Verification was left out, and the router had somebody verify all the same."""
    router = Router(route("execute", "executor"), route("verification", "project-manager"), ENDS)
    scenario = checking(ends(failed("test_a")), reply("", *run("python a.py"), SAYS), config=with_shell(policy()))
    scenario.router = router
    scenario.user_writes("build it")
    scenario.user_writes("/quick")
    scenario.settle()
    assert (is_met(scenario), scenario.checked) == (True, [])
    last = notes(scenario)[-1]
    assert last.startswith("Done, but not checked.\n")
    assert "\n- Test: not run on these files.\n" in last


def test_quick_after_a_check_has_failed_keeps_the_fact() -> None:
    scenario = checking(ends(failed("test_a")))
    scenario.user_writes("build it")
    step_until(scenario, lambda it: it.conversation.cycle.phase is Phase.VERIFICATION)
    scenario.user_writes("/quick")
    scenario.settle()
    assert scenario.conversation.cycle.status == "ended"
    last = notes(scenario)[-1]
    assert last.startswith("Partly done.\n")
    assert "- Test: 2 passed, 1 failed; before this work 0 failed; new: test_a" in last
    assert "Not verified: alice left the verification out." in last


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", [1, 2])
def test_a_crash_while_a_check_runs_wants_it_again_with_the_same_key(moment: str, number: int) -> None:
    """The process dies as its result comes, before it is on the disk or after."""
    old = failed("test_old")
    scenario = checking(ends(old, old))
    check = at_check(scenario, number)
    scenario.crash_at = (scenario.appends + 1, moment)
    scenario.step(lambda _: check)
    assert scenario.crashed == 1
    is_again = check.key in {effect.key for effect in scenario.running.values()}
    assert is_again is (moment == "before")
    scenario.settle()
    assert (is_met(scenario), scenario.conversation.cycle.status) == (True, "ended")
    assert len(scenario.records(p.CheckEnded)) == 2


def test_checks_survive_a_restart_and_a_snapshot() -> None:
    old = failed("test_old")
    scenario = checking(ends(old, old))
    check = at_check(scenario, 2)
    part = phases_of(scenario.conversation)
    restarted(scenario)
    assert phases_of(scenario.conversation) == part
    assert running_check(scenario) == check
    scenario.settle()
    assert scenario.checked == [("test", False), ("test", True)]
    assert "the same one failed before this work" in notes(scenario)[-1]


def test_files_that_are_put_back_are_looked_at_again() -> None:
    """A verdict of before says nothing about what is left."""
    scenario = checking(ends({}), execute=[builds("a.py", "b.py")], verification=[FINDS])
    scenario.router = Router(route("execute", "executor"), WAITS)
    scenario.converse("build it")

    def undo(effect: Any) -> UndoOutcome:
        if effect.to:
            scenario.files.pop("a.py", None)
        return UndoOutcome(to=9, since="x", files=("a.py",), restored_tree="t" if effect.to else "")

    scenario.undo = undo
    scenario.converse("/undo").converse("/undo yes")
    assert phases_of(scenario.conversation).inspection is None
    scenario.worker = model_by_phase(verification=[reply("", SAYS)], chores=[TIDIES])
    scenario.router = Router(route("verification", "project-manager"), WAITS)
    before = len(scenario.checked)
    scenario.converse("and now?")
    assert is_met(scenario)
    assert scenario.checked[before:] == [("test", False)]
    assert scenario.records(p.WorkInspected)[-1].inspection.tree == tree_of({"b.py": scenario.files["b.py"]})


def gone_back(scenario: Workplace, to: int) -> None:
    then = state_at(ID, scenario.records(), to)
    assert scenario.handle(RollBack(to=then.next_seq - 1, then=then, by="the operator"))


def test_after_going_back_the_workspace_is_looked_at_again() -> None:
    """Before or after the check, before or after the look, and in the verification: files may be others now."""
    done = checking(ends({})).converse("build it")
    closed = done.records(r.TurnClosed)[0].seq
    until = done.records(r.TurnClosed)[1].seq
    for to in range(closed, until):
        scenario = checking(ends({}))
        scenario.converse("build it")
        gone_back(scenario, to)
        assert not in_flight(scenario)
        assert phases_of(scenario.conversation).inspection is None
        scenario.router = Router(route("verification", "project-manager"), WAITS)
        looks = len(scenario.records(p.WorkInspected))
        scenario.converse("go on")
        assert len(scenario.records(p.WorkInspected)) == looks + 1, f"back to {to} of {closed} to {until}"
        assert [record.gate for record in scenario.records(r.TurnClosed)].count(Phase.VERIFICATION) == 2


FORK = ConversationId("f" * 64)


class Fork(Workplace):
    """The other conversation."""

    def refold(self) -> Conversation:
        return fold(FORK, self.records())


def test_a_fork_looks_at_its_workspace_itself() -> None:
    origin = checking(ends({})).converse("build it")
    closed = origin.records(r.TurnClosed)
    for to in range(closed[0].seq, closed[1].seq):
        then = state_at(ID, origin.records(), to)
        now = Millis(origin.now + 60_000)
        state = of_fork(then, now, id=FORK, address={"form": "notes"}, title="a fork")
        record = ConversationForked(seq=1, at=now, id=FORK, origin=ID, at_seq=to, title="a fork", state=state)
        scenario = Fork(
            Router(route("verification", "project-manager"), WAITS),
            model_by_phase(verification=[reply("", SAYS)], chores=[TIDIES]),
            config=origin.policy,
        )
        scenario.now, scenario.count = now, 50
        scenario.check_names, scenario.files = ("test",), dict(origin.files)
        scenario.begun = {1: {}}
        scenario.journal = [(record,)]
        scenario.conversation = scenario.refold()
        assert not pending(scenario.conversation)
        scenario.converse("go on")
        assert scenario.records(p.WorkInspected), f"a fork at {to}"
        assert any("- Test: 3 tests passed" in note for note in notes(scenario)), "on the same tree it is not run twice"
        assert (refused(scenario), is_met(scenario)) == ([], True)


# ---- what no one can try ----


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
    assert turns(scenario) == [Phase.EXECUTE, *QUALITY_PHASES]
    assert '"untried": "there is no browser here"' in render(scenario.conversation)
    last = notes(scenario)[-1]
    assert last.startswith("Done, but not checked.\n")
    assert "- Not verified: there is no browser here. alice accepted it so." in last


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


def test_a_change_after_it_was_asked_is_tried_or_asked_again() -> None:
    scenario = untried()
    scenario.router = Router(route("execute", "executor"), WAITS)
    scenario.converse("change the colour first")
    assert len(scenario.records(p.WaiverRequested)) == 2
    assert scenario.conversation.cycle.waiting_for == "waiver"


def test_the_question_survives_a_restart_and_a_snapshot() -> None:
    scenario = untried()
    restarted(scenario)
    scenario.user_writes("yes")
    assert scenario.records(p.Waived)[0].untried == "there is no browser here"


# ---- gates follow effects ----


@pytest.mark.parametrize(("has_network", "opens"), [(False, False), (True, True)])
def test_a_program_that_may_change_something_outside_opens_the_gates(has_network: bool, opens: bool) -> None:
    """Of which chores and reflection are passed by a rule where they need nobody."""
    answers = reply("", *run("git push"), ("complete", {"response": "there", "summary": "looked"}))
    scenario = work(reply("", *run("git log"), SAYS), execute=[answers])
    scenario.has_network = has_network
    scenario.converse("push it")
    assert turns(scenario) == ([Phase.EXECUTE, *QUALITY_PHASES] if opens else [Phase.EXECUTE])
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


# ---- claims beside facts ----


def test_who_only_claims_is_asked_once_and_the_claim_comes_with_the_facts() -> None:
    """The claim was the last word: "all 920 tests pass", after a call of `complete` alone."""
    claim = "clamp() has inclusive=False now, with a test; all 920 tests pass"
    asked: list[str] = []

    def claims(conversation: Conversation, call: Any) -> Any:
        asked.extend(entry.text for entry in call.entries if isinstance(entry, Note) and ASKED_ONCE in entry.text)
        return reply("", ("complete", {"response": claim, "summary": "clamp"}))

    scenario = checking(ends({}), execute=claims).converse("add inclusive to clamp()")
    assert len(scenario.records(r.ModelReprompted)) == 1
    assert ASKED_ONCE in scenario.records(r.ModelReprompted)[0].text
    assert notes(scenario) == [f"{claim}\n\n{NOTHING_DONE}"]
    assert (turns(scenario), scenario.checked) == ([Phase.EXECUTE], [])
    assert asked, "the model is shown what it is asked"


FAILS = "Test: 2 passed, 1 failed; before this work 0 failed; new: test_a (`make test`, 1 s)."


def test_a_claim_about_a_repair_that_changed_nothing_comes_with_what_fails() -> None:
    """The agent says: "It is right as it is, all fixed", and the checks that the daemon ran have failed."""
    end = ends(failed("test_a", command="make test", seconds=1.0))
    scenario = checking(end, execute=repairs_with(*run("python a.py")))
    scenario.router = Router(route("execute", "executor"), WAITS)
    scenario.converse("build it")
    assert notes(scenario)[-2:] == [f"it is right\n\n{FAILS}", "I wait for you: the person is next"]


def test_who_is_waited_for_after_work_that_fails_reads_what_fails() -> None:
    """The agent has given no summary, so the router was asked, and it waits: the claim was all that was read."""
    end = ends(failed("test_a", command="make test", seconds=1.0))
    claim = "it is built, and all tests pass"
    scenario = checking(end, execute=[reply("", writes("a.py")), reply(claim)])
    scenario.converse("build it")
    assert notes(scenario) == [claim, f"{FAILS}\n\nI wait for you: the person is next"]


def test_who_is_asked_to_skip_the_verification_reads_what_fails() -> None:
    end = ends(failed("test_a", command="make test", seconds=1.0))
    scenario = checking(end, execute=[reply("", writes("a.py")), reply("built")])
    scenario.router = Router(route("execute", "executor"), WAITS, wish(ENDS, "verification", words="leave it so"))
    scenario.converse("build it").converse("leave it so")
    assert notes(scenario)[-1] == (
        f"May I skip verification in this cycle, because of “leave it so”? It stays as it is: {FAILS} "
        "Answer “yes” or 👍 to skip it; any other answer keeps it."
    )


def test_who_does_it_once_asked_is_believed_by_what_it_does() -> None:
    steps = [reply("I'll look at clamp() first."), builds("a.py")]

    def execute(conversation: Conversation, call: Any) -> Any:
        return steps.pop(0) if len(steps) > 1 else steps[0]

    scenario = checking(ends({}), execute=execute).converse("add inclusive to clamp()")
    assert len(scenario.records(r.ModelReprompted)) == 1
    assert notes(scenario)[0] == "built"
    assert is_met(scenario)


def test_who_has_read_is_not_asked_and_its_answer_says_that_nothing_was_changed() -> None:
    says = reply("", ("read_file", {"path": "a"}), ("complete", {"response": "it is in a", "summary": "read a"}))
    scenario = work(execute=[says]).converse("where is it?")
    assert scenario.records(r.ModelReprompted) == []
    assert notes(scenario) == [f"it is in a\n\n{NOTHING_DONE}"]


QUESTION = {**route("execute", "executor"), "asks": "answer"}


@pytest.mark.parametrize("looks", [(("read_file", {"path": "a"}),), ()], ids=["by reading", "from memory"])
def test_nothing_is_said_beside_the_answer_to_a_question(looks: Any) -> None:
    """The router says that an answer is all that is wanted; so it is no claim, and its agent is not asked to do it."""
    says = reply("", *looks, ("complete", {"response": "it is in a", "summary": "read a"}))
    scenario = work(execute=[says])
    scenario.router = Router(QUESTION, WAITS)
    scenario.converse("where is it?")
    assert (notes(scenario), scenario.records(r.ModelReprompted)) == (["it is in a"], [])


def test_what_is_written_into_the_answer_to_a_question_may_ask_for_work() -> None:
    def answer(conversation: Conversation, call: Any) -> Any:
        if conversation.work.runs[call.run].steps:
            return reply("", ("complete", {"response": "it is b now"}))
        return reply("", ("read_file", {"path": "a"}))

    scenario = work(execute=answer)
    scenario.router = Router(QUESTION, ENDS)
    scenario.user_writes("where is it?")
    step_until(scenario, lambda it: bool(it.records(r.ToolCallStarted)))
    scenario.user_writes("then rename it to b")
    scenario.settle()
    assert notes(scenario)[0] == f"it is b now\n\n{NOTHING_DONE}"


def test_the_word_of_the_router_holds_for_its_own_turn() -> None:
    """Work that follows a question is work."""
    scenario = work(execute=[reply("", ("read_file", {"path": "a"}), ("complete", {"response": "it is b now"}))])
    scenario.router = Router(QUESTION, route("execute", "executor"), WAITS)
    scenario.converse("where is it?").converse("rename it to b")
    assert notes(scenario) == ["it is b now", f"it is b now\n\n{NOTHING_DONE}"]


# ---- the scripted cases of what the last word said, and what was so ----


def test_case_2_a_verdict_after_a_reversed_failure_does_not_end_the_cycle() -> None:
    """t.py ends with 1: a verdict after it was refused, and one after `! python3 t.py` was taken."""
    bad: dict[str, Any] = {"outcome": "failed", "status": 1, "tests": None}
    for line in ("python3 t.py", "! python3 t.py", "python3 -m unittest --help"):
        scenario = checking(ends(bad, {"tests": None}), reply("", *run(line)), reply("", SAYS), paths=("t.py",))
        scenario.statuses = {"python3 t.py": 1}
        scenario.converse("repair the tests")
        assert not is_met(scenario)
        assert scenario.conversation.cycle.waiting_for == "waiver"
        assert "test: failed with exit status 1; before this work it passed" in scenario.sent_texts()[-1]
        assert not any(note.startswith("Done") for note in notes(scenario))


def test_case_4_without_a_check_what_was_run_is_said_as_it_was() -> None:
    scenario = work(reply("", *run("python3 -m unittest --help"), SAYS), paths=("u.py",)).converse("repair it")
    assert "- project-manager ran `python3 -m unittest --help`: exit status 0." in notes(scenario)[-1]


def test_case_8_what_cannot_be_done_ends_with_whose_turn_it_is() -> None:
    """The last thing on a phone was "A repair follows."."""

    def execute(conversation: Conversation, call: Any) -> Any:
        if Phase.VERIFICATION in turns(scenario):
            return reply("", ("complete", {"response": "It cannot be done here.", "summary": "no account"}))
        return reply(
            "", writes("v.txt"), ("complete", {"response": "1 is done. 2 cannot be done here.", "summary": "1"})
        )

    finds = reply(
        "",
        ("read_file", {"path": "v.txt"}),
        ("complete", {"response": "2 is not done", "verdict": "issues", "issues": "2"}),
    )
    scenario = work(finds, execute=execute)
    scenario.converse("1. write v.txt 2. upload it")
    said = notes(scenario)
    place = next(number for number, note in enumerate(said) if note.endswith("A repair follows."))
    after = "\n".join(said[place + 1 :])
    assert "It cannot be done here." in after
    assert NOTHING_DONE in after
    assert scenario.conversation.cycle.status == "waiting"


def test_case_8_what_cannot_be_met_here_is_in_the_last_word() -> None:
    asked = [
        {"what": "write v.txt", "result": "met", "how": "read it"},
        {"what": "upload it", "result": "cannot be met here", "how": "there is no account"},
    ]
    says = ("complete", {"response": "v.txt is there", "verdict": "verified", "asked": asked})
    scenario = work(reply("", ("read_file", {"path": "v.txt"}), says), paths=("v.txt",)).converse("write and upload")
    assert scenario.conversation.cycle.status == "ended"
    last = notes(scenario)[-1]
    assert last.startswith("Partly done.\n")
    assert "- Cannot be met here: upload it (there is no account)." in last


def test_verified_is_no_verdict_on_work_in_which_something_is_not_met() -> None:
    asked = [{"what": "upload it", "result": "not met"}]
    says = ("complete", {"response": "fine", "verdict": "verified", "asked": asked})
    scenario = work(reply("", *run("ls"), says), FINDS)
    scenario.converse("write and upload")
    assert "nothing is `not met`" in refused(scenario)[0]
    assert not is_met(scenario)


# ---- a person's word in a gate ----


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
        is_wished = left and not question["waived"]
        return wish(ENDS, *left, words="that's enough, no more checks") if is_wished else ENDS

    scenario = work()
    scenario.router, scenario.worker = router, said
    scenario.converse("build it")
    assert str(phase) in asked, "the router reads it"
    there = [one for one in turns(scenario) if one is not Phase.CHAT]
    assert there[-1] is phase, "no check goes on without its decision"
    if phase is not Phase.REFLECTION:
        scenario.converse("yes")
    assert scenario.records(r.Ended)
    there = [one for one in turns(scenario) if one is not Phase.CHAT]
    assert there[-1] is phase
