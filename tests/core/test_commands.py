"""Commands: every one, by every role, in every status; names and commands that there are not."""

import dataclasses
import itertools
from collections.abc import Callable

import pytest

from tenex.core import records as r
from tenex.core.commands import HELP, NAMES, Command, parse
from tenex.core.config import Role
from tenex.core.phases import Phase
from tests.fakes.play import ALICE, Play, diligent, says, seven_phases

from .kit import ENDS, WAITS, Script, go, mind, plain, standing, until, work


def new() -> Play:
    return Play(Script(go(None, "project-manager"), WAITS), plain)


def deciding() -> Play:
    return standing(Phase.EXECUTE)


def working() -> Play:
    play = standing(Phase.CHAT, Script(go("execute", "executor", "helper"), WAITS))
    until(play, lambda it: it.conversation.turn is not None)
    return play


def parked() -> Play:
    ask = mind(
        execute=lambda c, call: says("", ("ask", {"question": "?"})) if c.runs[call.run].steps == 0 else says("ok")
    )
    play = standing(Phase.CHAT, Script(go("execute", "executor"), WAITS), ask)
    until(play, lambda it: it.conversation.is_parked)
    return play


def waiting() -> Play:
    play = standing(Phase.EXECUTE)
    play.settle()
    return play


def fallen_back() -> Play:
    play = standing(Phase.EXECUTE, Script("hm"))
    play.settle()
    play.router = Script(WAITS)
    return play


def ended() -> Play:
    play = standing(Phase.CHAT, Script(ENDS))
    play.settle()
    play.router = Script(go(None, "project-manager"), WAITS)
    return play


STATUSES: dict[str, Callable[[], Play]] = {
    stage.__name__: stage for stage in (new, deciding, working, parked, waiting, fallen_back, ended)
}
FOR_OWNERS = {"stop", "new", "continue", "retry", "set"}
GATES = {"quick", "skip"}


@pytest.mark.parametrize(("name", "role", "stage"), list(itertools.product(NAMES, Role, STATUSES)))
def test_every_command_by_every_role_in_every_status(name: str, role: Role, stage: str) -> None:
    """It is answered at once, the agents and the router do not see it, and it is carried out only for whom it is."""
    play = STATUSES[stage]()
    messages, transitions = play.conversation.messages, play.phases()
    running = {effect.key for effect in work(play)}
    if play.conversation.status != "new":
        play.conversation.starter = ALICE if role is not Role.GUEST else play.conversation.starter
    text = "/skip verification" if name == "skip" else f"/{name}"
    records = play.person(text, role=role)
    given = play.all(r.CommandGiven)[-1]
    assert (given.command, given.role) == (name, role)
    assert play.conversation.messages == messages, "a command is no message"
    assert play.phases() == transitions, "a command makes no transition"
    said = [record.text for record in records if isinstance(record, r.MessageSent)]
    # `/continue` and `/retry` may answer by going on
    assert said or {effect.key for effect in work(play)} != running or name in ("continue", "retry")
    if role is Role.GUEST and name in FOR_OWNERS | GATES:
        assert len(said) == 1
        assert "owner" in said[0]
        assert {effect.key for effect in work(play)} == running, "nothing was carried out"
        assert play.all(r.Stopped) == play.all(r.Waived) == play.all(r.Continued) == []
    play.settle()


@pytest.mark.parametrize("name", sorted(FOR_OWNERS))
def test_a_member_commands_their_own_conversations_only(name: str) -> None:
    own = Play(Script(go(None, "project-manager"), WAITS), plain)
    own.person("hello", role=Role.MEMBER)
    own.settle()
    own.person(f"/{name}", role=Role.MEMBER)
    assert not any("is for an owner" in text for text in own.said())
    theirs = standing(Phase.CHAT)
    theirs.conversation.starter = type(ALICE)("b" * 64)
    records = theirs.person(f"/{name}", role=Role.MEMBER)
    assert [type(record).__name__ for record in records] == ["CommandGiven", "MessageSent"]
    assert theirs.said()[-1] == f"/{name} is for an owner, or the member who began this conversation."
    theirs.conversation.starter = ALICE


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/stop", Command("stop", "")),
        ("  /stop  ", Command("stop", "")),
        ("/STOP", Command("stop", "")),
        ("/stop please", Command("stop", "please")),
        ("/skip  Verification ", Command("skip", "Verification")),
        ("/stop\nplease", Command("stop", "please")),
        ("/stopp", Command("unknown", "/stopp")),
        ("/etc", Command("unknown", "/etc")),
        ("/tmp is full", Command("unknown", "/tmp is full")),
        ("/etc/hosts is broken", None),
        ("/ is full", None),
        ("/v2 is out", None),
        ("/", None),
        ("//stop", None),
        ("/ stop", None),
        ("stop", None),
        ("please /stop", None),
        ("/usr/bin/env is missing", None),
        ("", None),
        ("/\ud800", None),
        ("／stop", None),
    ],
)
def test_what_is_a_command_and_what_is_talk(text: str, command: Command | None) -> None:
    assert parse(text) == command


@pytest.mark.parametrize("stage", STATUSES)
@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("/stats", "There is no command /stats. Did you mean /status?"),
        ("/STPO everything", "There is no command /STPO. Did you mean /stop?"),
        ("@exekutor, build it", "There is no agent @exekutor. Did you mean @executor?"),
        ("@somebody build it", "There is no agent @somebody. There are: "),
    ],
)
def test_an_unknown_command_or_name_is_answered_and_starts_nothing(stage: str, text: str, answer: str) -> None:
    play = STATUSES[stage]()
    messages, running = play.conversation.messages, {effect.key for effect in work(play)}
    play.person(text)
    assert play.said()[-1].startswith(answer)
    assert play.said()[-1].endswith("Nothing was started. To send this as text, put a word before it.")
    assert play.conversation.messages == messages
    assert {effect.key for effect in work(play)} == running
    assert play.conversation.status != "new"


def test_an_unknown_command_without_a_near_one_is_answered() -> None:
    play = new()
    play.person("/frobnicate the page")
    (said,) = play.said()
    assert said.startswith("There is no command /frobnicate. `/help` lists them. Nothing was started.")
    assert work(play) == []


@pytest.mark.parametrize("text", ["@types/node is missing", "@ 5 pm", "@alice look at this", "@orchestrator hello"])
def test_what_only_looks_like_an_unknown_name_is_talk(text: str) -> None:
    play = new()
    play.person(text)
    assert play.all(r.MessageRecorded)[0].text == text


def test_an_answer_to_an_agents_question_may_look_like_a_command() -> None:
    play = parked()
    play.person("/srv")
    assert play.all(r.QuestionAnswered)[0].text == "/srv"
    again = parked()
    again.person("/stpo")
    assert again.all(r.QuestionAnswered) == []


KEY = "6578656375746f72" + "0" * 48
NPUB = "npub1v4ux2cm4w3hhyqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq23d6aj"


@pytest.mark.parametrize(
    "text",
    [
        "@executor build it",
        "@Executor, build it",
        "`@executor` build it",
        "**@EXECUTOR**: build it",
        f"@{KEY} build it",
        f"{KEY} build it",
        f"@{NPUB}: build it",
    ],
)
def test_a_message_that_begins_with_an_agent_goes_to_it(text: str) -> None:
    play = new()
    play.person(text)
    assert play.all(r.TurnOpened)[0].agents == ("executor",)
    assert play.all(r.MessageRecorded)[0].text == text


def test_a_shown_name_of_two_words_is_a_mention_too() -> None:
    play = new()
    play.person("@Project Manager what is next?")
    assert play.all(r.TurnOpened)[0].agents == ("project-manager",)


def test_help_names_every_command() -> None:
    assert all(f"/{name}" in HELP for name in NAMES)


# ---- stop ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["deciding", "working", "parked"])
def test_stop_ends_all_work_says_so_and_waits(stage: str) -> None:
    play = STATUSES[stage]()
    play.person("/stop")
    assert work(play) == []
    assert (play.conversation.status, play.conversation.waiting_for) == ("waiting", "stopped")
    who = {"deciding": "the orchestrator", "working": "Executor, Helper", "parked": "Executor"}[stage]
    assert play.said()[-1] == f"Stopped: {who}. Write to go on, or `/retry`."
    assert {record.outcome for record in play.all(r.RunEnded) if record.run.startswith("turn-2")} <= {
        "stopped",
        "finished",
    }


@pytest.mark.parametrize("stage", ["waiting", "fallen_back", "ended"])
def test_stop_where_nothing_runs_says_so_and_changes_nothing(stage: str) -> None:
    play = STATUSES[stage]()
    status, waiting_for = play.conversation.status, play.conversation.waiting_for
    play.person("/stop")
    assert play.said()[-1] == "Nothing is running."
    assert (play.conversation.status, play.conversation.waiting_for) == (status, waiting_for)


def test_after_a_stop_a_message_goes_on() -> None:
    play = working()
    play.person("/stop")
    play.router = Script(go(None, "helper"), WAITS)
    play.person("now without the executor")
    play.settle()
    assert play.all(r.TurnOpened)[-1].agents == ("helper",)


# ---- retry, continue, new -----------------------------------------------------------------------------------------


def test_retry_runs_the_last_turn_again_without_the_router() -> None:
    play = working()
    play.person("/stop")
    router = play.router = Script(WAITS)
    play.person("/retry")
    opened = play.all(r.TurnOpened)[-1]
    assert (opened.agents, opened.phase, opened.reason) == (
        ("executor", "helper"),
        Phase.EXECUTE,
        "alice asked for another try",
    )
    assert router.asked == []
    play.settle()
    assert play.conversation.waiting_for == "user"


def test_retry_while_at_work_says_so() -> None:
    play = working()
    play.person("/retry")
    assert play.said()[-1] == "I am at work; `/stop` first."
    assert len(play.all(r.TurnOpened)) == 2


def test_retry_leaves_out_who_is_no_more_in_the_roster() -> None:
    play = working()
    play.person("/stop")
    roster = {slug: member for slug, member in play.rules.roster.items() if slug != "helper"}
    play.rules = dataclasses.replace(play.rules, roster=roster)
    play.person("/retry")
    assert play.all(r.TurnOpened)[-1].agents == ("executor",)


@pytest.mark.parametrize("command", ["/retry", "/continue"])
def test_continue_and_retry_after_a_fallback_before_any_turn_ask_the_router_again(command: str) -> None:
    play = Play(Script("hm"), plain)
    play.person("hello")
    play.settle()
    play.router = Script(go(None, "project-manager"), WAITS)
    play.person(command)
    play.settle()
    assert play.conversation.turn_count == 1
    assert play.conversation.waiting_for == "user"


def test_quick_before_anything_was_said_asks_nobody() -> None:
    play = new()
    for _ in range(2):
        play.person("/quick")
        assert work(play) == []
        assert play.conversation.status == "waiting"


@pytest.mark.parametrize("command", ["/retry", "/continue"])
def test_where_nobody_has_said_anything_there_is_nothing_to_go_on_with(command: str) -> None:
    play = new()
    play.person(command)
    assert play.said()[-1] == "There is nothing to go on with yet; write what you want."
    assert work(play) == []
    assert play.conversation.status == "waiting"


@pytest.mark.parametrize("command", ["/retry", "/continue"])
def test_after_the_end_there_is_nothing_to_go_on_with(command: str) -> None:
    play = ended()
    play.person(command)
    assert play.said()[-1] == "This cycle is over; just write what is next."
    assert play.conversation.status == "ended"


def test_continue_while_at_work_says_so() -> None:
    play = working()
    play.person("/continue")
    assert play.said()[-1] == "I am at work."


@pytest.mark.parametrize("stage", STATUSES)
def test_new_ends_the_cycle_whatever_runs_and_the_next_message_begins_another(stage: str) -> None:
    play = STATUSES[stage]()
    play.person("/new")
    assert play.conversation.status == "ended"
    assert work(play) == []
    assert play.said()[-1] == "Done. Your next message begins a new cycle."
    cycle = play.conversation.cycle
    play.router = Script(go(None, "project-manager"), WAITS)
    play.person("something else")
    assert (play.conversation.cycle, play.conversation.phase) == (cycle + 1, Phase.CHAT)
    assert [message.text for message in play.conversation.messages] == ["something else"]
    play.settle()
    assert play.conversation.waiting_for == "user"


# ---- status -------------------------------------------------------------------------------------------------------


def status(play: Play) -> str:
    """What `/status` says."""
    play.person("/status")
    return play.said()[-1]


def test_status_tells_the_phase_the_work_the_gates_and_what_was_used() -> None:
    assert "Phase: execute (cycle 1)" in status(deciding())
    assert "The orchestrator is deciding." in status(deciding())
    assert "Executor: at work for 0 min, 0 steps\nHelper: at work" in status(working())
    assert "Executor: waits for your answer" in status(parked())
    assert "I wait for you.\nOpen gates: verification, chores, reflection\nUsed so far: " in status(waiting())
    assert "This cycle has ended." in status(ended())


def test_status_changes_nothing_but_the_outbox() -> None:
    play = working()
    running = {effect.key for effect in work(play)}
    play.person("/status")
    assert {effect.key for effect in work(play)} == running


def test_words_after_a_command_that_takes_none_are_not_lost_without_a_sign() -> None:
    play = Play(Script(WAITS), plain)
    play.person("hello")
    play.settle()
    play.person("/quick Create q.py that prints q")
    assert "send the rest as a message of its own" in play.said()[-2]
    assert play.conversation.waived


def test_going_on_with_nothing_to_do_says_so() -> None:
    """After `/stop` the router may well see nothing but a wait; silence would look like a fault."""
    play = Play(seven_phases, diligent)
    play.person("I want something nice")
    play.settle()
    play.person("/stop")
    play.router = lambda question: {"agents": ["USER"], "reason": "nothing is left to do"}
    before = len(play.said())
    play.person("/continue")
    play.settle()
    assert play.conversation.status == "waiting"
    assert play.said()[before:] == ["I wait for you: nothing is left to do"]
