"""Commands: every one, by every role, in every status; names and commands that there are not."""

import itertools
import re
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import Role
from tenex.core.conversation import new_conversation
from tenex.core.effects import ToolCall
from tenex.core.ids import Millis, PublicKey
from tenex.core.inbox import commands
from tenex.core.inbox.command import Command, SlashCommand
from tenex.core.inbox.commands import parse, slash_commands
from tenex.core.memory.reducers import as_entry
from tenex.core.phases import QUALITY_PHASES, Phase
from tenex.core.ports import ToolResult
from tenex.core.signals import MessageReceived, ToolReturned
from tenex.core.transaction import Transaction
from tenex.workflows.phases import records as p
from tenex.workflows.phases.state import phases_of
from tests.fakes.scenario import (
    ALICE,
    ENDS,
    ID,
    WAITS,
    Router,
    Scenario,
    diligent,
    in_flight,
    longest_way,
    model_by_phase,
    one_turn,
    plain_model,
    remove_agent,
    reply,
    route,
    scenario_at,
    step_until,
)
from tests.kits.command_table import permitted_for


def new() -> Scenario:
    return Scenario(Router(route(None, "project-manager"), WAITS), plain_model)


def deciding() -> Scenario:
    return scenario_at(Phase.EXECUTE)


def working() -> Scenario:
    scenario = scenario_at(Phase.CHAT, Router(route("execute", "executor", "helper"), WAITS))
    step_until(scenario, lambda it: it.conversation.work.turn is not None)
    return scenario


def parked() -> Scenario:
    ask = model_by_phase(execute=[reply("", ("ask", {"question": "?"})), reply("ok")])
    scenario = scenario_at(Phase.CHAT, Router(route("execute", "executor"), WAITS), ask)
    step_until(scenario, lambda it: it.conversation.work.is_parked)
    return scenario


def waiting() -> Scenario:
    return scenario_at(Phase.EXECUTE).settle()


def fallen_back() -> Scenario:
    scenario = scenario_at(Phase.EXECUTE, Router("hm")).settle()
    scenario.router = Router(WAITS)
    return scenario


def ended() -> Scenario:
    scenario = scenario_at(Phase.CHAT, Router(ENDS)).settle()
    scenario.router = Router(route(None, "project-manager"), WAITS)
    return scenario


STATUSES: dict[str, Callable[[], Scenario]] = {
    stage.__name__: stage for stage in (new, deciding, working, parked, waiting, fallen_back, ended)
}
PERMITTED = permitted_for()
FOR_ALL = {name for name, who in PERMITTED.items() if who == "all permitted users"}
GATES = {name for name, who in PERMITTED.items() if "members_may_waive" in who}
FOR_OWNERS = {name for name, who in PERMITTED.items() if "a member in a conversation they began" in who}

FOR_MEMBERS = {name for name, who in PERMITTED.items() if who == "owners and members"}


def test_the_documents_say_of_every_command_for_whom_it_is() -> None:
    assert sorted([*FOR_ALL, *GATES, *FOR_OWNERS, *FOR_MEMBERS]) == sorted(slash_commands())
    assert {"help", "status", "quiet", "verbose"} == FOR_ALL, "every other command changes what others see"
    assert {"quick", "skip"} == GATES, "only these waive gates"
    assert {"show"} == FOR_MEMBERS, "it reads the workspace"


@pytest.mark.parametrize(("name", "role", "stage"), list(itertools.product(slash_commands(), Role, STATUSES)))
def test_every_command_by_every_role_in_every_status(name: str, role: Role, stage: str) -> None:
    """It is answered at once, the agents and the router do not see it, and it is carried out only for whom it is."""
    scenario = STATUSES[stage]()
    messages, transitions = scenario.conversation.cycle.messages, scenario.phases()
    running = {effect.key for effect in in_flight(scenario)}
    if scenario.conversation.cycle.status != "new":
        scenario.conversation.identity = replace(
            scenario.conversation.identity,
            starter=ALICE if role is not Role.GUEST else scenario.conversation.identity.starter,
        )
    text = "/skip verification" if name == "skip" else f"/{name}"
    records = scenario.user_writes(text, role=role)
    given = scenario.records(r.CommandGiven)[-1]
    assert (given.command, given.role) == (name, role)
    assert scenario.user_writes(text, role=role, event_id=given.event_id) == [], "an event that comes twice is one"
    assert scenario.conversation.cycle.messages == messages, "a command is no message"
    assert scenario.phases() == transitions, "a command makes no transition"
    sent = [record.text for record in records if isinstance(record, r.MessageSent)]
    # `/continue` and `/retry` may answer by going on
    assert sent or {effect.key for effect in in_flight(scenario)} != running or name in ("continue", "retry")
    refused = [text for text in sent if "is for an owner" in text or "Only an owner" in text]
    if role is Role.GUEST and name not in FOR_ALL:
        assert sent == refused
        assert len(sent) == 1
        assert {effect.key for effect in in_flight(scenario)} == running, "nothing was carried out"
        assert scenario.records(r.Stopped) == scenario.records(p.Waived) == scenario.records(r.Continued) == []
    elif role is Role.OWNER or name in FOR_ALL:
        assert refused == []
    scenario.settle()


@pytest.mark.parametrize("name", sorted(FOR_OWNERS))
def test_a_member_commands_their_own_conversations_only(name: str) -> None:
    own = Scenario(Router(route(None, "project-manager"), WAITS), plain_model).converse("hello", role=Role.MEMBER)
    own.user_writes(f"/{name}", role=Role.MEMBER)
    assert not any("is for an owner" in text for text in own.sent_texts())
    theirs = scenario_at(Phase.CHAT)
    theirs.conversation.identity = replace(theirs.conversation.identity, starter=type(ALICE)("b" * 64))
    records = theirs.user_writes(f"/{name}", role=Role.MEMBER)
    assert [type(record).__name__ for record in records] == ["CommandGiven", "MessageSent"]
    assert theirs.sent_texts()[-1] == f"/{name} is for an owner, or the member who began this conversation."
    theirs.conversation.identity = replace(theirs.conversation.identity, starter=ALICE)


TALK = ["", "stop", "please /stop", "/", "//stop", "/ stop", "/etc/hosts is broken", "/v2 is out", "/\ud800"]


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("  /STOP  ", Command("stop", "")),
        ("/skip  Verification ", Command("skip", "Verification")),
        ("/stop\nplease", Command("stop", "please")),
        ("/tmp is full", Command("unknown", "/tmp is full")),
        *((text, None) for text in TALK),
    ],
)
def test_what_is_a_command_and_what_is_talk(text: str, command: Command | None) -> None:
    assert parse(text) == command


def test_help_names_every_command_but_those_of_other_kinds_of_conversation() -> None:
    scenario = Scenario(Router({}), diligent)
    scenario.user_writes("/help")
    shown = re.findall(r"^/(\w+)", scenario.sent_texts()[-1], re.MULTILINE)
    assert sorted(shown) == sorted(slash_commands().keys() - {"set", "pause"})


def test_a_row_is_all_that_a_command_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read, listed, suggested, and carried out for whom it is."""

    def frobnicate(transaction: Transaction, command: Command, _: MessageReceived) -> None:
        transaction.add(r.Waiting, reason=command.argument)

    row = SlashCommand(
        name="frobnicate",
        usage="NOUN",
        help="frobnicate something",
        takes_argument=True,
        carry_out=frobnicate,
    )
    monkeypatch.setattr(commands, "COMMANDS", (*commands.COMMANDS, row))
    scenario = waiting()
    scenario.user_writes("/frobnicate a thing")
    assert scenario.conversation.cycle.waiting_for == "a thing"
    scenario.user_writes("/frobnicate it", role=Role.GUEST)
    assert scenario.sent_texts()[-1] == "/frobnicate is for an owner, or the member who began this conversation."
    scenario.user_writes("/frobnicat it")
    assert "Did you mean /frobnicate?" in scenario.sent_texts()[-1]
    scenario.user_writes("/help")
    assert "\n/frobnicate NOUN  frobnicate something\n" in scenario.sent_texts()[-1]


STOP = Command("stop", "")
HIDDEN = "\u200b\u200c\u200d\u200e\u200f\u2060\ufeff\u00ad\u202a\u202e\u2066\u2069\ufe0f\U000e0041"
PERSON = "nostr:npub1v4ux2cm4w3hhyqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq23d6aj"


@pytest.mark.parametrize(
    "text",
    [
        *(
            "/stop.",
            "/stop!",
            "/stop!!",
            "/stop,",
            "/stop…",
            "/stop?",
            "/Stop.",
            "/stop。",
            "/stop！",
            "/stop !",
            "/stop 🙏",
        ),
        *(f"/stop{mark}" for mark in ("।", "۔", "؟", "։", "።", "👍", "👍🏽", "❤️", "—", "-", ")", "”")),
        *(f"{char}/st{char}op{char}" for char in HIDDEN),
        *(f"{space}/stop{space}" for space in "\xa0\u3000\u2009\u202f\t"),
        *(f"/stop{end}" for end in ("\r\n", "\r", "\x85", "\u2028", "\u2029")),
        *("／stop", "／ｓｔｏｐ．", "/𝐬𝐭𝐨𝐩", "\u2068/stop\u2069"),
        *(
            "**/stop**",
            "*/stop*",
            "_/stop_",
            "__/stop.__",
            "***/stop***",
            "`/stop`",
            "```\n/stop\n```",
            "“/stop”",
            '"/stop"',
        ),
        *("/stop @planner", f"/stop {PERSON}", f"{PERSON} /stop", "@planner, /stop.", f"{PERSON.upper()}\n/stop"),
        *("/stop\n\n-- sent from my phone", "/stop.\n-- \nAna\nBerlin"),
    ],
)
def test_a_command_is_read_as_phones_and_clients_write_it(text: str) -> None:
    assert parse(text) == STOP
    scenario = working()
    scenario.user_writes(text)
    assert scenario.records(r.Stopped)
    assert not scenario.sent_texts()[-1].startswith("/stop takes nothing"), "nothing was lost"


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/skip Chores.", Command("skip", "Chores.")),
        ("**/skip chores**", Command("skip", "chores")),
        ("/set text=a\n-- b", Command("set", "text=a\n-- b")),
        ("/reject It lacks\n--verbose\n-- a test", Command("reject", "It lacks\n--verbose\n-- a test")),
        ("/continue\n--verbose is missing", Command("continue", "--verbose is missing")),
        ("/set text=می‌خواهم 👩‍💻", Command("set", "text=می‌خواهم 👩‍💻")),
        ("/statsu.", Command("unknown", "/statsu")),
        ("**/statsu**", Command("unknown", "/statsu")),
        ("/stop please", Command("stop", "please")),
    ],
)
def test_what_follows_a_command_is_kept_as_it_was_written(text: str, command: Command) -> None:
    assert parse(text) == command


@pytest.mark.parametrize(
    "text",
    [
        *("> /stop", ">/stop", "＞ /stop", "see:\n> /stop", "`/stop` does nothing", '"/stop" is what I sent'),
        *("Build it.\n\n```\n/stop\n```", "```\n/stop\n/new\n```", "please /stop", "/stop/it", "*/stop is empty?"),
        *("~/stop", "@planner /etc is full", "https://x.example/stop", "</stop>"),
    ],
)
def test_a_command_in_a_quotation_or_in_code_within_a_message_is_talk(text: str) -> None:
    assert parse(text) is None
    scenario = new()
    scenario.user_writes(text)
    assert scenario.records(r.CommandGiven) == []
    assert scenario.records(r.MessageRecorded)[0].text == text


@pytest.mark.parametrize(
    "phase", ["chores.", "**Chores**", "`chores`", "ＣＨＯＲＥＳ", "cho\u200bres", "chores\n-- \nAna"]
)
def test_a_phase_is_read_as_phones_and_clients_write_it(phase: str) -> None:
    scenario = waiting()
    scenario.user_writes(f"/skip {phase}")
    assert scenario.records(p.Waived)[-1].phases == (Phase.CHORES,)


@pytest.mark.parametrize("text", ["`@executor` build it", ">@executor", "> @executor build it", "```\n@executor\n```"])
def test_a_name_in_code_or_a_quotation_at_the_beginning_addresses_nobody(text: str) -> None:
    scenario = new()
    scenario.user_writes(text)
    assert scenario.records(r.CommandGiven) == []
    assert scenario.records(r.RouteRequested), "the router decides"


@pytest.mark.parametrize("text", ["/stop " + "@a " * 80_000, "/stop @" + "a" * 250_000, "\u200b" * 250_000 + "/stop"])
def test_a_long_command_is_read_in_time_that_grows_with_it(text: str) -> None:
    began = time.process_time()
    assert parse(text) == STOP
    parse(text.replace("/stop", "/" + "stop" * 60_000))
    assert time.process_time() - began < 10


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
    scenario = STATUSES[stage]()
    messages, running = scenario.conversation.cycle.messages, {effect.key for effect in in_flight(scenario)}
    scenario.user_writes(text)
    assert scenario.sent_texts()[-1].startswith(answer)
    assert scenario.sent_texts()[-1].endswith("Nothing was started. To send this as text, put a word before it.")
    assert scenario.conversation.cycle.messages == messages
    assert {effect.key for effect in in_flight(scenario)} == running
    assert scenario.conversation.cycle.status != "new"


@pytest.mark.parametrize("text", ["@types/node is missing", "@ 5 pm", "@alice look at this", "@orchestrator hello"])
def test_what_only_looks_like_an_unknown_name_is_talk(text: str) -> None:
    scenario = new()
    scenario.user_writes(text)
    assert scenario.records(r.MessageRecorded)[0].text == text


def test_an_answer_to_an_agents_question_may_look_like_a_command() -> None:
    scenario = parked()
    scenario.user_writes("/srv")
    assert scenario.records(r.QuestionAnswered)[0].text == "/srv"
    again = parked()
    again.user_writes("/stpo")
    assert again.records(r.QuestionAnswered) == []


KEY = "6578656375746f72" + "0" * 48
NPUB = "npub1v4ux2cm4w3hhyqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq23d6aj"


@pytest.mark.parametrize(
    ("text", "agent"),
    [
        ("**@EXECUTOR**: build it", "executor"),
        (f"{KEY} build it", "executor"),
        (f"@{NPUB}: build it", "executor"),
        ("@Project Manager what is next?", "project-manager"),
        ("\u2068@executor\u2069 build it", "executor"),
        ("＠Exec\u200butor. Build it", "executor"),
        (f"@{NPUB.upper()}: build it", "executor"),
    ],
)
def test_a_message_that_begins_with_an_agent_goes_to_it(text: str, agent: str) -> None:
    scenario = new()
    scenario.user_writes(text)
    assert scenario.records(r.TurnOpened)[0].agents == (agent,)
    shown = re.sub(NPUB, agent, text, flags=re.IGNORECASE)
    assert scenario.records(r.MessageRecorded)[0].text == shown, "models are shown names, not keys"


def test_agents_that_a_message_mentions_are_shown_to_models_by_name() -> None:
    scenario = new()
    scenario.user_writes(f"Ask nostr:{NPUB} and @{NPUB}, not nostr:npub1{'q' * 58}.")
    assert scenario.records(r.MessageRecorded)[0].text == f"Ask @executor and @executor, not nostr:npub1{'q' * 58}."


def calling() -> Scenario:
    write = model_by_phase(execute=[reply("", ("write_file", {"path": "f"}))])
    scenario = scenario_at(Phase.CHAT, Router(route("execute", "executor"), WAITS), write)
    step_until(scenario, lambda it: bool(it.records(r.ToolCallStarted)))
    return scenario


def test_the_answer_to_a_stop_names_what_was_changed() -> None:
    """A person was left to find out what a half of the work had done to their files."""
    writes = reply("", *(("write_file", {"path": f"{name}.py"}) for name in "gfedcba"))
    scenario = Scenario(Router(route("execute", "executor")), model_by_phase(execute=[writes]))
    scenario.user_writes("build it")
    step_until(scenario, lambda it: len(it.conversation.cycle.touched) == 7)
    scenario.user_writes("/stop")
    assert scenario.sent_texts()[-1] == (
        "Stopped: Executor. Changed so far: a.py, b.py, c.py, d.py, e.py and 2 others; `/undo` lists what it can put "
        "back. Write to go on, or `/retry`."
    )


@pytest.mark.parametrize(
    ("stage", "who"),
    [
        (deciding, "the orchestrator. Changed so far: a; `/undo` lists what it can put back"),
        (working, "Executor, Helper"),
        (calling, "Executor"),
        (parked, "Executor"),
    ],
)
def test_b04_b19_stop_ends_all_work_whose_results_then_count_for_nothing(
    stage: Callable[[], Scenario], who: str
) -> None:
    """Only one kind of agent could be stopped, and the orchestrator never; completions were counted twice."""
    scenario = stage()
    late = [scenario.perform(effect) for effect in in_flight(scenario)]
    scenario.user_writes("/stop")
    assert in_flight(scenario) == []
    assert (scenario.conversation.cycle.status, scenario.conversation.cycle.waiting_for) == ("waiting", "stopped")
    assert scenario.sent_texts()[-1] == f"Stopped: {who}. Write to go on, or `/retry`."
    assert [scenario.handle(signal) for signal in late] == [[] for _ in late]
    assert scenario.conversation.memory.last_turn is not None
    outcomes = {done.outcome for done in scenario.conversation.memory.last_turn.completions}
    assert outcomes == ({"finished"} if stage is deciding else {"stopped"})


def test_retry_runs_the_last_turn_again_without_the_router_once_no_one_is_at_work() -> None:
    scenario = working()
    for command, answer in (("/retry", "I am at work; `/stop` first."), ("/continue", "I am at work.")):
        scenario.user_writes(command)
        assert scenario.sent_texts()[-1] == answer
    assert len(scenario.records(r.TurnOpened)) == 2
    scenario.user_writes("/stop")
    router = scenario.router = Router(WAITS)
    for agents in (("executor", "helper"), ("executor",)):
        scenario.user_writes("/retry")
        opened = scenario.records(r.TurnOpened)[-1]
        assert (opened.agents, opened.phase) == (agents, Phase.EXECUTE)
        assert opened.reason == "alice asked for another try"
        scenario.user_writes("/stop")
        remove_agent(scenario, "helper")
    assert router.asked == []


@pytest.mark.parametrize(
    ("stage", "command", "status", "answer"),
    [
        ("new", "/retry", "waiting", "There is nothing to go on with yet; write what you want."),
        ("new", "/continue", "waiting", "There is nothing to go on with yet; write what you want."),
        ("new", "/stop", "waiting", "Nothing is running here. To stop work, reply to it with `/stop`."),
        ("new", "/quick", "waiting", "As you wish"),
        ("new", "/frobnicate it", "waiting", "There is no command /frobnicate. `/help` lists them. Nothing was"),
        ("waiting", "/stop", "waiting", "Nothing is running."),
        ("ended", "/stop", "ended", "Nothing is running."),
        ("ended", "/retry", "ended", "This work is over; just write what is next."),
        ("ended", "/continue", "ended", "This work is over; just write what is next."),
    ],
)
def test_where_nothing_is_under_way_a_command_begins_nothing(
    stage: str, command: str, status: str, answer: str
) -> None:
    scenario = STATUSES[stage]()
    scenario.user_writes(command)
    assert scenario.sent_texts()[-1].startswith(answer)
    assert in_flight(scenario) == []
    assert scenario.conversation.cycle.status == status


@pytest.mark.parametrize("stage", STATUSES)
def test_new_ends_the_cycle_whatever_runs_and_the_next_message_begins_another(stage: str) -> None:
    scenario = STATUSES[stage]()
    scenario.user_writes("/new")
    assert scenario.conversation.cycle.status == "ended"
    assert in_flight(scenario) == []
    assert scenario.sent_texts()[-1] == "Done. Your next message begins something new."
    cycle = scenario.conversation.cycle.number
    scenario.router = Router(route(None, "project-manager"), WAITS)
    scenario.user_writes("something else")
    assert (scenario.conversation.cycle.number, scenario.conversation.cycle.phase) == (cycle + 1, Phase.CHAT)
    assert [message.text for message in scenario.conversation.cycle.messages] == ["something else"]
    scenario.settle()
    assert scenario.conversation.cycle.waiting_for == "user"


def status(scenario: Scenario) -> str:
    """What `/status` states."""
    scenario.user_writes("/status")
    return scenario.sent_texts()[-1]


def test_status_shows_the_phase_the_work_the_gates_and_what_was_used() -> None:
    assert "Phase: execute (cycle 1)" in status(deciding())
    assert "The orchestrator is deciding." in status(deciding())
    assert "Executor: at work for 0 s, 0 steps\nHelper: at work" in status(working())
    assert "Executor: waits for your answer" in status(parked())
    assert "I wait for you.\nOpen gates: verification, chores, reflection\nUsed so far: " in status(waiting())
    assert "This cycle has ended." in status(ended())


def test_status_lists_no_gate_that_only_agents_who_left_could_meet() -> None:
    scenario = waiting()
    scenario.policy = replace(scenario.policy, roster={})
    assert "Open gates: verification, chores\nUsed" in status(scenario)


def test_words_after_a_command_that_takes_none_are_not_lost_without_a_sign() -> None:
    scenario = Scenario(Router(WAITS), plain_model).converse("hello")
    scenario.user_writes("/continue Create q.py that prints q")
    assert any("send the rest as a message of its own" in text for text in scenario.sent_texts())


@pytest.mark.parametrize("stage", ["new", "ended", "in a phase"])
@pytest.mark.parametrize(
    ("text", "waived"),
    [
        ("/quick Create q.py", QUALITY_PHASES),
        ("/skip verification\nCreate q.py", QUALITY_PHASES[:1]),
        ("/skip chores, reflection: Create q.py", QUALITY_PHASES[1:]),
        ("/skip chores\n/skip reflection\nCreate q.py", QUALITY_PHASES[1:]),
    ],
)
def test_a_waiver_beside_a_request_is_for_the_cycle_that_the_request_begins(
    text: str, waived: tuple[Phase, ...], stage: str
) -> None:
    scenario = Scenario(longest_way, diligent)
    if stage == "ended":
        scenario.user_writes("hello")
        scenario.user_writes("/new")
    elif stage == "in a phase":
        scenario.user_writes("Create p.py")
    scenario.user_writes(text)
    assert scenario.records(r.MessageRecorded)[-1].text == "Create q.py"
    assert phases_of(scenario.conversation).waived == set(waived)
    assert in_flight(scenario), "the request is worked on"
    cycle = scenario.conversation.cycle
    assert (cycle.number, cycle.messages[-1].text) == (2 if stage == "ended" else 1, "Create q.py")
    title = {"new": "Create q.py", "ended": "hello", "in a phase": "Create p.py"}[stage]
    assert scenario.conversation.identity.title == title


def test_a_waiver_of_who_may_not_waive_leaves_the_request_beside_it() -> None:
    scenario = Scenario(longest_way, diligent)
    scenario.user_writes("/quick Create q.py", role=Role.MEMBER, author=PublicKey("b" * 64))
    assert scenario.sent_texts() == ["Only an owner may skip a quality gate."]
    assert not phases_of(scenario.conversation).waived
    assert in_flight(scenario)


def test_a_request_beside_a_waiver_in_the_last_line_is_a_part_of_the_message() -> None:
    scenario = Scenario(longest_way, diligent)
    scenario.user_writes("Create q.py\n/skip chores and print it")
    assert scenario.records(r.MessageRecorded)[-1].text == "Create q.py\nand print it"
    assert phases_of(scenario.conversation).waived == {Phase.CHORES}


def test_an_unknown_name_after_a_waiver_starts_nothing() -> None:
    scenario = Scenario(longest_way, diligent)
    scenario.user_writes("/quick @excutor build it")
    assert "Nothing was started" in scenario.sent_texts()[-1]
    assert not phases_of(scenario.conversation).waived
    assert not in_flight(scenario)


@pytest.mark.parametrize(
    "line",
    [
        "/skip chores",
        "/skip chores.",
        "  /Skip **chores**  \n\n",
        "/skip chores\n-- \nSent by phone",
        "**/skip chores**",
    ],
)
def test_a_gate_is_waived_by_the_last_line_of_a_request_which_is_no_part_of_it(line: str) -> None:
    scenario = Scenario(longest_way, diligent)
    scenario.user_writes(f"Build the tool.\n{line}")
    (message,) = scenario.records(r.MessageRecorded)
    (command,) = scenario.records(r.CommandGiven)
    assert (message.text, command.command, command.event_id) == ("Build the tool.", "skip", message.event_id)
    assert set(phases_of(scenario.conversation).waived) == {Phase.CHORES}
    assert in_flight(scenario), "the request goes on"


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("/quick", "I skip what follows"),
        ("/skip lunch", "/skip"),
        ("/status.", "Used so far"),
        ("/help", "I also understand these commands"),
        ("/stop", "Stopped: "),
        ("/pause", "Only a mission"),
        ("/new", "/new, as text"),
        ("/continue", "/continue, as text"),
        ("/retry", "/retry, as text"),
        ("/approve", "/approve, as text"),
        ("/reject it is too long", "/reject, as text"),
        ("/set x=1", "/set, as text"),
    ],
)
def test_every_command_as_a_last_line_counts_or_is_answered(line: str, answer: str) -> None:
    scenario = waiting()
    before = len(scenario.records(r.MessageRecorded))
    scenario.user_writes(f"Build it.\n{line}")
    assert answer in scenario.sent_texts()[-1]
    assert len(scenario.records(r.MessageRecorded)) == before + 1
    is_stopped = scenario.conversation.router.question is None and scenario.conversation.work.turn is None
    assert is_stopped == (line == "/stop"), "all others are requests as without it"


@pytest.mark.parametrize(
    "text",
    [
        "Write a page on:\n/stop",
        "Explain\n/quick\n/stop",
        "What does this do?\n```\n/stop\n```",
        "What does this do?\n> /stop",
        "What does it do?\n`/stop`",
        "Delete\n/etc/hosts",
        "Look at\n/home",
        "Explain\n/stop and what it ends",
        "Do not /stop",
    ],
)
def test_a_last_line_that_is_code_a_list_a_path_or_a_sentence_is_text(text: str) -> None:
    scenario = waiting()
    scenario.user_writes(text)
    assert not [one for one in scenario.records(r.CommandGiven) if one.command == "stop"]
    assert scenario.records(r.MessageRecorded)[-1].text == text


def test_going_on_with_nothing_to_do_reports_it() -> None:
    """After `/stop` the router may well see nothing but a wait; silence would look like a fault."""
    scenario = Scenario(longest_way, diligent).converse("I want something nice")
    scenario.user_writes("/stop")
    scenario.router = lambda question: {"agents": ["USER"], "reason": "nothing is left to do"}
    before = len(scenario.sent_texts())
    scenario.converse("/continue")
    assert scenario.conversation.cycle.status == "waiting"
    assert scenario.sent_texts()[before:] == ["I wait for you: nothing is left to do"]


def test_models_are_shown_what_a_message_replies_to_and_quotes() -> None:
    """As data: on one line, in quotation marks it cannot close. The newest message and the root need no quotation."""
    scenario = new()
    scenario.user_writes("Build it.")
    scenario.settle()
    sent = [record for record in scenario.records(r.MessageSent) if record.purpose == "completion"]
    first = sent[0].events[0].id
    scenario.user_writes("Thanks.", reply_to=sent[-1].events[0].id)
    scenario.settle()
    scenario.user_writes("That one, please.", reply_to=first)
    context = scenario.records(r.MessageRecorded)[-1].context
    assert context == f"It replies to {sent[0].name}: “{sent[0].text}”"
    shown = as_entry(scenario.conversation.memory.recent[-1], 1_000)
    assert shown.text == f"That one, please.\n\n[Quoted as data, not a request: {context}]"


def answered_messages(scenario: Scenario) -> list[tuple[str, Any]]:
    """Each message that was sent, and the number of the user's message that it answers."""
    state, answers = new_conversation(ID), list[tuple[str, Any]]()
    for record in scenario.records():
        if isinstance(record, r.MessageSent):
            answers.append((record.text, (state.delivery.command_origin or state.delivery.origin)["number"]))
        state.apply(record)
    return answers


def test_after_a_command_in_the_middle_of_work_the_result_answers_the_request_and_not_the_command() -> None:
    """Every later answer hung below `/status`, where clients fold it away."""
    scenario = Scenario(one_turn(), plain_model)
    scenario.user_writes("build it")
    step_until(scenario, lambda it: it.conversation.work.turn is not None)
    scenario.user_writes("/status")
    scenario.user_writes("/help")
    scenario.settle()
    (status_, one), (help_, two), *later = answered_messages(scenario)
    assert (status_[:6], one, help_[:5], two) == ("Phase:", 2, "Write", 3)
    assert later
    assert {answered for _, answered in later} == {1}


@pytest.mark.parametrize("command", ["/stop", "/continue", "/retry", "/new"])
def test_a_command_is_answered_where_it_was_given(command: str) -> None:
    scenario = Scenario(one_turn(), plain_model).converse("build it")
    before = len(scenario.sent_texts())
    scenario.user_writes(command)
    scenario.settle()
    answers = answered_messages(scenario)[before:]
    assert command == "/retry" or answers[0][1] == 2
    assert command != "/retry" or {answered for _, answered in answers} == {1}, "the work is of the request"


def test_status_says_nothing_of_costs_without_a_price_and_counts_in_words() -> None:
    """Was: `at work for 0 min, 1 steps`, and `$0.0000` for a model without a price."""
    scenario = working()
    scenario.now = Millis(scenario.now + 61_000)
    text = status(scenario)
    assert "Executor: at work for 1 min 1 s, 0 steps" in text
    assert "$" not in text


def test_status_names_what_runs_in_the_background_until_a_restart() -> None:
    worker = model_by_phase(execute=[reply("", ("write_file", {"path": "f", "content": "f"})), reply("ok")])
    scenario = scenario_at(Phase.CHAT, Router(route("execute", "executor"), WAITS), worker)
    step_until(scenario, lambda it: any(isinstance(effect, ToolCall) for effect in it.running.values()))
    (call,) = (effect for effect in scenario.running.values() if isinstance(effect, ToolCall))
    scenario.running.pop(call.key)
    started = ToolResult(ok=True, content="it runs", background={"bg-7": "npm run \n dev"})
    scenario.handle(ToolReturned(key=call.key, result=started))
    assert "; in the background: bg-7 (npm run dev)" in status(scenario)
    scenario.crash()
    assert "in the background" not in status(scenario)


def test_help_names_whom_a_message_can_call() -> None:
    scenario = working()
    scenario.user_writes("/help")
    assert "\n@NAME  goes straight to that agent: executor, " in scenario.sent_texts()[-1]


def test_an_answer_to_an_agents_question_is_followed_by_no_word_that_we_wait() -> None:
    """Was: the agent's answer, and below it `I wait for you: the next word is yours`."""
    ask = model_by_phase(chat=[reply("", ("ask", {"question": "Which?"})), reply("The red one, then.")])
    scenario = Scenario(Router(route("chat", "project-manager"), WAITS), ask).converse("hello")
    scenario.converse("the red one")
    assert scenario.sent_texts()[-1] == "The red one, then."
    assert scenario.conversation.cycle.status == "waiting"
