"""`/undo`: what was changed is listed first, and put back only as it was listed."""

import dataclasses
import json

import pytest

from tenex.core import records as r
from tenex.core.effects import Undo, Work
from tenex.core.messages import Note
from tenex.core.phases import QUALITY_PHASES, Phase
from tenex.core.port_values import UndoOutcome
from tenex.core.undo.sentences import UNCLEAR
from tenex.workflows.phases.router_prompt import question_for
from tests.fakes.scenario import (
    ENDS,
    VERIFIES,
    WAITS,
    Router,
    Scenario,
    model_by_phase,
    reply,
    route,
    scenario_at,
    step_until,
)
from tests.kits.team import WORK, team
from tests.kits.verdicts import Workplace, builds, run, work

BUILT = ("complete", {"response": "built", "summary": "it is new"})

LIST = UndoOutcome(
    to=9, since="turn-1 (execute)", files=("a.py", "b.py"), left={"c.py": "changed by somebody else too"}
)
DONE = UndoOutcome(
    to=9,
    since="turn-1 (execute)",
    files=("a.py", "b.py"),
    restored_tree="t",
    previous_tree="p",
    is_as_before=True,
)


def without_open_work(*outcomes: UndoOutcome) -> tuple[Scenario, list[tuple[str, int]]]:
    """A conversation after a turn, and what its workspace is asked: scope and record."""
    scenario, effects = asking(*outcomes)
    asked: list[tuple[str, int]] = []
    undo = scenario.undo

    def noted(effect: Undo) -> UndoOutcome:
        asked.append((effect.scope, effect.to))
        return undo(effect)

    scenario.undo = noted
    assert not effects
    return scenario, asked


def asking(*outcomes: UndoOutcome) -> tuple[Scenario, list[Undo]]:
    """A conversation after a turn, and what its workspace is asked."""
    scenario = scenario_at(Phase.EXECUTE, Router(route(None, "executor"), WAITS)).settle()
    asked: list[Undo] = []
    answers = iter(outcomes)

    def undo(effect: Undo) -> UndoOutcome:
        asked.append(effect)
        return next(answers)

    scenario.undo = undo
    return scenario, asked


def test_what_was_listed_is_put_back_after_a_yes() -> None:
    scenario, asked = without_open_work(LIST, DONE, UndoOutcome())
    scenario.converse("/undo yes")
    assert scenario.sent_texts()[-1] == (
        "Nothing is put back yet: there was no list of this. 2 files changed since before turn-1 (execute): a.py, "
        "b.py. Left as they are: c.py (changed by somebody else too). `/undo yes` puts them back."
    )
    scenario.converse("/undo Yes.")
    assert scenario.sent_texts()[-1] == (
        "Files are as before turn-1 (execute): a.py, b.py. What they held is kept in the checkpoints."
    )
    scenario.converse("/undo")
    assert scenario.sent_texts()[-1] == "There is nothing to undo."
    decision = "a person had `/undo` put files back to what they were before turn-1 (execute): a.py, b.py"
    assert {"decision": decision} in json.loads(question_for(scenario.conversation, scenario.policy).text)["history"]
    scenario.router = Router(route(None, "executor"), WAITS)
    scenario.converse("now do it otherwise")
    (run,) = scenario.records(r.RunStarted)[-1:]
    assert decision in [entry.text for entry in run.entries if isinstance(entry, Note)]
    assert asked == [("turn", 0), ("turn", 9), ("turn", 0)]
    assert scenario.conversation.cycle.status == "waiting"


def test_a_list_that_is_old_or_of_another_scope_is_not_agreed_to() -> None:
    scenario, asked = without_open_work(LIST, LIST, LIST, UndoOutcome(fault="git failed."))
    scenario.converse("/undo").converse("/undo cycle yes")
    scenario.router = Router(route(None, "executor"), WAITS)
    scenario.converse("go on").converse("/undo yes")
    assert asked == [("turn", 0), ("cycle", 0), ("turn", 0)]
    scenario.converse("/undo yes")
    assert asked[-1] == ("turn", 9)
    assert scenario.sent_texts()[-1] == "Nothing was undone: git failed."


UNSURE = UndoOutcome(
    to=9,
    since="turn-1 (execute)",
    files=("a.py",),
    left={"all": UNCLEAR, "b c": UNCLEAR, "e": "new; may hold what was .env", "x.csv": "was 12 MB"},
    unclear=("all", "b c"),
    by_name=("e",),
)


def test_what_stays_is_named_with_its_reason_and_how_it_goes_back_all_the_same() -> None:
    partly = dataclasses.replace(UNSURE, restored_tree="t", previous_tree="p")
    scenario, asked = asking(UNSURE, partly, UNSURE, DONE)
    scenario.converse("/undo")
    left = f"Left as they are: all, b c ({UNCLEAR}); e (new; may hold what was .env); x.csv (was 12 MB)."
    by_name = '`/undo "all"` undoes that one too, `/undo all` all of its kind. `/undo e` undoes that one too.'
    assert scenario.sent_texts()[-1] == (
        f"1 file changed since before turn-1 (execute): a.py. {left} `/undo yes` puts it back. {by_name}"
    )
    scenario.converse("/undo yes")
    assert scenario.sent_texts()[-1] == (
        f"Put back: a.py. {left} What they held is kept in the checkpoints. "
        '`/undo "all"` undoes that one too. `/undo e` undoes that one too.'
    )
    scenario.converse("/undo all").converse("/undo All.")
    assert [(effect.to, effect.is_all) for effect in asked] == [(0, False), (9, False), (0, False), (9, True)]
    assert scenario.sent_texts()[-1].startswith("Files are as before turn-1 (execute): ")
    assert scenario.refold() == scenario.conversation


@pytest.mark.parametrize(
    ("words", "scope", "paths"),
    [
        ("a.py", "turn", ("a.py",)),
        ("cycle `b c` 'it''s' it's", "cycle", ("b c", "it", "s", "it's")),
        ('"yes" “all” yes a.py a.py', "turn", ("yes", "all", "a.py")),
    ],
)
def test_named_paths_go_back_without_a_list(words: str, scope: str, paths: tuple[str, ...]) -> None:
    scenario, asked = asking(DONE)
    scenario.converse(f"/undo {words}")
    assert [(effect.scope, effect.to, effect.paths) for effect in asked] == [(scope, 0, paths)]


def test_a_name_that_changed_nothing_keeps_the_list() -> None:
    scenario, asked = asking(LIST, UndoOutcome(to=9, fault="no work here changed x."), DONE)
    scenario.converse("/undo").converse("/undo x")
    assert scenario.sent_texts()[-1] == "Nothing was undone: no work here changed x."
    scenario.converse("/undo yes")
    assert [(effect.to, effect.paths) for effect in asked] == [(0, ()), (9, ("x",)), (9, ())]


def test_where_nothing_goes_back_by_itself_what_stays_is_still_named() -> None:
    none = dataclasses.replace(UNSURE, files=(), left={"x.csv": "was 12 MB"}, unclear=(), by_name=())
    scenario, asked = asking(none, none)
    scenario.converse("/undo").converse("/undo yes")
    sentence = "Nothing of what changed since before turn-1 (execute) goes back by itself. Left as they are: x.csv"
    assert scenario.sent_texts()[-1] == f"{sentence} (was 12 MB)."
    assert [effect.to for effect in asked] == [0, 0]


def test_nothing_is_undone_while_agents_work() -> None:
    scenario, asked = without_open_work()
    scenario.router = Router(route(None, "executor"), WAITS)
    scenario.worker = model_by_phase(execute=[reply("", ("ask", {"question": "?"})), reply("ok")])
    scenario.user_writes("go on")
    step_until(scenario, lambda it: it.conversation.work.turn is not None)
    scenario.user_writes("/undo")
    assert scenario.sent_texts()[-1] == "Work is under way. Write `/stop`, then `/undo`."
    assert (asked, scenario.records(r.UndoRequested)) == ([], [])


def test_an_undo_goes_on_after_a_restart_and_is_answered_once() -> None:
    scenario, asked = without_open_work(LIST, LIST)
    scenario.user_writes("/undo")
    key = next(key for key in scenario.running if key.work is Work.UNDO)
    scenario.user_writes("/undo cycle")
    assert scenario.sent_texts()[-1] == "I am still at the last `/undo`."
    scenario.crash()
    assert key in scenario.running
    scenario.settle()
    assert len(scenario.records(r.FilesUndone)) == len(asked) == 1


def stopped_in_a_gate(scenario: Workplace) -> Workplace:
    """Work that was stopped while it was verified, and whose last turn in execute is undone."""
    scenario.user_writes("build it")
    step_until(
        scenario, lambda it: it.conversation.cycle.phase is Phase.VERIFICATION and bool(it.conversation.work.runs)
    )
    scenario.converse("/stop")
    to = [one.seq for one in scenario.records(r.TurnOpened) if one.phase is Phase.EXECUTE][-1] - 1
    there = UndoOutcome(to=to, since="turn-1 (execute)", files=("a.py",))
    scenario.undo = lambda effect: (
        dataclasses.replace(there, restored_tree="t", previous_tree="p") if effect.to else there
    )
    return scenario


@pytest.mark.parametrize("command", ["/undo", "/undo cycle"])
def test_a_cycle_of_which_no_change_is_left_has_no_gates_and_no_word_on_changes(command: str) -> None:
    scenario = stopped_in_a_gate(work(VERIFIES)).converse(command)
    assert scenario.conversation.unmet_gates == QUALITY_PHASES, "it is only listed"
    scenario.converse("/undo yes")
    again = scenario.refold()
    assert (len(again.unmet_gates), len(again.cycle.touched)) == (0, 0)
    scenario.router = Router(ENDS)
    scenario.converse("/continue")
    assert scenario.conversation.cycle.status == "ended"
    assert "Changed: " not in "".join(scenario.sent_texts())


def test_gates_stay_open_where_something_outside_may_have_changed() -> None:
    sends = reply("", *run("deploy"), ("write_file", {"path": "a.py"}), BUILT)
    scenario = work(VERIFIES, execute=[sends])
    scenario.has_network = True
    stopped_in_a_gate(scenario).converse("/undo").converse("/undo yes")
    assert scenario.conversation.unmet_gates == QUALITY_PHASES
    assert scenario.conversation.cycle.touched == frozenset()


def test_gates_stay_open_for_what_an_earlier_turn_changed() -> None:
    half = reply("", ("write_file", {"path": "b.py"}), ("complete", {"response": "half"}))
    scenario = work(VERIFIES, execute=lambda state, _: builds("a.py") if state.cycle.turns else half)
    scenario.router = Router(route("execute", "executor"), route(None, "executor"), WAITS)
    stopped_in_a_gate(scenario).converse("/undo").converse("/undo yes")
    assert scenario.conversation.unmet_gates == QUALITY_PHASES
    assert scenario.conversation.cycle.touched == {"a.py", "b.py"}


def test_the_router_knows_what_was_put_back_after_the_end() -> None:
    """It read that all was done and verified, and nothing of what a person had undone since."""
    router = Router(route("execute", "executor"), route(None, "executor"), WAITS)
    scenario = Scenario(router, model_by_phase(**WORK), config=team()).converse("build it")
    answers = iter((LIST, DONE))
    scenario.undo = lambda _: next(answers)
    scenario.converse("/undo").converse("/undo yes").converse("what happened to my files?")
    assert scenario.conversation.cycle.number == 2
    (earlier,) = router.asked[1]["earlier"]
    assert earlier["done"][-1].startswith("a person had `/undo` put files back to what they were before turn-1")
