"""Whom messages notify: what is under way, what others are answered, and what comes in quiet hours."""

import dataclasses

import pytest

from tenex.core import records as r
from tenex.core.config import NotificationRules, QuietHours, Role, Verbosity
from tenex.core.effects import Timer
from tenex.core.ids import EventId, Millis, PublicKey
from tenex.core.pending import pending
from tenex.core.phases import Phase
from tenex.core.signals import ClockJumped, InboundMessage, MessageReceived, Signal
from tests.fakes.scenario import (
    ALICE,
    ENDS,
    ID,
    WAITS,
    AgentModel,
    Router,
    Scenario,
    model_by_phase,
    plain_model,
    policy,
    reply,
    route,
    scenario_at,
    step_until,
)
from tests.kits.team import WORK, team

BOB = PublicKey("b" * 64)
HOUR = 3_600_000
DAY = 24 * HOUR
EVENING = Millis(100 * DAY + 20 * HOUR)
NIGHT = Millis(EVENING + 3 * HOUR)
NIGHT_RULES = NotificationRules(quiet_hours=QuietHours(begin=22 * 60, end=7 * 60, offset=lambda _: 0))
ASKS = [reply("", ("ask", {"question": "Which colour?"})), reply("done")]


def at_night(worker: AgentModel = plain_model) -> Scenario:
    """A request of the evening that no one has begun to work on, and it is night now."""
    scenario = Scenario(
        Router(route("execute", "executor"), WAITS),
        worker,
        config=dataclasses.replace(policy(), notifications=NIGHT_RULES),
    )
    scenario.now = EVENING
    scenario.user_writes("build it")
    scenario.now = NIGHT
    return scenario


def sent(scenario: Scenario, purpose: str = "") -> r.MessageSent:
    """The newest message, or the newest of a purpose."""
    messages: list[r.MessageSent] = scenario.records(r.MessageSent)
    return next(message for message in reversed(messages) if purpose in ("", message.purpose))


@pytest.mark.parametrize(
    ("begin", "end", "now", "until"),
    [
        ("22:00", "07:00", "21:59", ""),
        ("22:00", "07:00", "22:00", "31:00"),
        ("22:00", "07:00", "06:59", "07:00"),
        ("22:00", "07:00", "07:00", ""),
        ("13:00", "14:30", "14:29", "14:30"),
        ("13:00", "14:30", "12:59", ""),
    ],
)
def test_quiet_hours_go_over_midnight(begin: str, end: str, now: str, until: str) -> None:
    def minutes(time: str) -> int:
        hours, left = time.split(":")
        return 60 * int(hours) + int(left)

    hours = QuietHours(begin=minutes(begin), end=minutes(end), offset=lambda _: 120)
    utc = Millis(100 * DAY + (minutes(now) - 120) * 60_000)
    assert hours.until(utc) == (100 * DAY + (minutes(until) - 120) * 60_000 if until else 0)


def test_they_end_by_the_clock_of_the_morning_where_it_changes_in_the_night() -> None:
    def offset(at: Millis) -> int:
        return 60 if at < 101 * DAY + 1 * HOUR else 120  # as in Berlin in March

    hours = QuietHours(begin=22 * 60, end=7 * 60, offset=offset)
    assert hours.until(Millis(100 * DAY + 22 * HOUR)) == 101 * DAY + 5 * HOUR


@pytest.mark.parametrize(
    ("said", "setting", "is_published", "notifies"),
    [
        ("", Verbosity.NORMAL, True, ()),
        ("", Verbosity.QUIET, False, None),
        ("", Verbosity.VERBOSE, True, None),
        ("/quiet", Verbosity.NORMAL, False, None),
        ("/verbose", Verbosity.QUIET, True, (ALICE,)),
    ],
)
def test_what_takes_long_notifies_only_who_wants_it(
    said: str, setting: Verbosity, is_published: bool, notifies: tuple[PublicKey, ...] | None
) -> None:
    config = dataclasses.replace(policy(), notifications=NotificationRules(verbosity=setting))
    scenario = Scenario(Router(route("execute", "executor"), WAITS), plain_model, config=config)
    scenario.user_writes("build it")
    scenario.step()
    if said:
        scenario.user_writes(said)
    scenario.fire("warn")
    message = sent(scenario, "progress")
    assert "still working" in message.text
    assert (message.is_published, message.notifies) == (is_published, notifies)


def test_off_ends_what_was_said_and_nothing_else_is_taken_for_it() -> None:
    scenario = scenario_at(Phase.CHAT).settle()
    for words, answer in [
        ("/quiet off", "`/quiet` was not on for you here."),
        ("/quiet please", "`/quiet` takes nothing or `off`, not please. Nothing has changed."),
        ("/quiet", "Quiet for you in this conversation: "),
        ("/verbose off", "`/verbose` was not on for you here."),
        ("/quiet Off.", "Done: as before, for you in this conversation."),
    ]:
        scenario.user_writes(words)
        assert scenario.sent_texts()[-1].startswith(answer)
    assert [record.verbosity for record in scenario.records(r.VerbositySet)] == [Verbosity.QUIET, None]
    assert not scenario.conversation.delivery.verbosity
    assert scenario.refold() == scenario.conversation


@pytest.mark.parametrize("said", ["", "/verbose"])
def test_who_wants_everything_is_sent_what_is_otherwise_in_the_file_only(said: str) -> None:
    answers = [route("verification", "executor"), route("chores", "executor"), WAITS]
    scenario = scenario_at(Phase.EXECUTE, Router(*answers))
    if said:
        scenario.user_writes(said)
    scenario.settle()
    texts = {record.text: record.is_published for record in scenario.records(r.MessageSent)}
    assert texts["it works"] is bool(said)


class InRoom(Scenario):
    """A conversation that only its people can read, where it has a room."""

    room = ""

    def handle(self, signal: Signal) -> list[r.Record]:
        if isinstance(signal, MessageReceived) and self.room:
            address = {**signal.message.address, "room": self.room, "people": [ALICE]}
            signal = dataclasses.replace(signal, message=dataclasses.replace(signal.message, address=address))
        return super().handle(signal)


@pytest.mark.parametrize(
    ("said", "room", "is_published", "notifies"),
    [
        ("", "", True, ()),
        ("/quiet", "", True, ()),
        ("/verbose", "", True, None),
        ("", "a room", False, None),
        ("/verbose", "a room", True, None),
    ],
)
def test_the_last_word_after_the_answer_notifies_only_who_wants_everything(
    said: str, room: str, is_published: bool, notifies: tuple[PublicKey, ...] | None
) -> None:
    """In private it would notify in any case, and the answer has the result."""
    scenario = InRoom(Router(route("execute", "executor")), model_by_phase(**WORK), config=team())
    scenario.room = room
    scenario.user_writes("create hello.py")
    if said:
        scenario.user_writes(said)
    scenario.settle()
    last = next(record for record in reversed(scenario.records(r.MessageSent)) if record.text.startswith("Done."))
    assert (last.is_published, last.notifies) == (is_published, notifies)


def test_who_is_quiet_is_not_notified_of_what_others_are_answered() -> None:
    scenario = scenario_at(Phase.CHAT).settle()
    scenario.user_writes("/quiet", author=BOB, name="bob", role=Role.MEMBER)
    assert sent(scenario).silent == (), "the answer is for who asked"
    scenario.user_writes("/status")
    assert sent(scenario).silent == (BOB,)
    scenario.user_writes("/status", author=BOB, name="bob", role=Role.MEMBER)
    assert sent(scenario).silent == ()


def test_where_quiet_is_usual_only_who_is_answered_is_notified_and_who_wants_everything() -> None:
    rules = NotificationRules(verbosity=Verbosity.QUIET)
    scenario = scenario_at(Phase.CHAT, config=dataclasses.replace(policy(), notifications=rules)).settle()
    scenario.user_writes("/status")
    assert sent(scenario).notifies == (ALICE,)
    scenario.user_writes("/verbose", author=BOB, name="bob", role=Role.MEMBER)
    scenario.user_writes("/status")
    assert sent(scenario).notifies == (ALICE, BOB)


def test_what_comes_at_night_rings_once_in_the_morning() -> None:
    scenario = at_night().settle()
    answers = [record for record in scenario.records(r.MessageSent) if record.at >= NIGHT]
    assert {(record.notifies, record.missed_by) for record in answers} == {((), (ALICE,))}
    assert all(record.is_published for record in answers), "it can be read at once"
    scenario.fire("quiet")
    reminder = sent(scenario)
    assert scenario.now == EVENING + 11 * HOUR + 1
    assert (reminder.purpose, reminder.notifies, reminder.missed_by) == ("reminder", (ALICE,), ())
    assert reminder.text.startswith(f"In the quiet hours {len(answers)} message")
    assert "Executor: “executor has done its part of execute" in reminder.text
    assert not scenario.conversation.delivery.missed
    assert scenario.refold() == scenario.conversation


def test_a_reply_to_the_reminder_answers_the_question_of_the_night() -> None:
    scenario = at_night(model_by_phase(execute=ASKS))
    step_until(scenario, lambda it: it.conversation.work.is_parked)
    assert sent(scenario, "question").missed_by == (ALICE,)
    scenario.fire("quiet")
    scenario.user_writes("teal", reply_to=f"{sent(scenario, 'reminder').seq:064x}")
    assert [record.text for record in scenario.records(r.QuestionAnswered)] == ["teal"]


def test_who_writes_at_night_is_answered_as_by_day_and_reminded_of_nothing() -> None:
    scenario = at_night(model_by_phase(execute=ASKS))
    step_until(scenario, lambda it: it.conversation.work.is_parked)
    scenario.user_writes("/status")
    assert sent(scenario).notifies == (ALICE,)
    assert not timers(scenario, "quiet"), "what came was seen"
    scenario.user_writes("teal")
    scenario.settle()
    assert (sent(scenario).notifies, sent(scenario).missed_by) == ((ALICE,), ())
    later = sent(scenario)
    scenario.now = Millis(NIGHT + HOUR)
    scenario.router = Router(route(None, "executor"), ENDS)
    scenario.user_writes("and more", author=BOB, name="bob", role=Role.MEMBER)
    scenario.settle()
    assert later.seq < sent(scenario).seq
    assert sent(scenario).notifies == (BOB,), "half an hour after they wrote, they may sleep"


@pytest.mark.parametrize(("hours", "is_awake"), [(6, False), (0.25, True), (0, True), (-0.25, True), (-6, False)])
def test_a_message_of_the_evening_that_arrives_at_night_is_no_sign_of_somebody_awake(
    hours: float, *, is_awake: bool
) -> None:
    scenario = at_night().settle()
    scenario.router = Router(route(None, "executor"), WAITS)
    scenario.now = Millis(EVENING + 7 * HOUR)
    scenario.user_writes("and use tabs", late=int(hours * 3600))
    assert bool(scenario.records(r.QuietHoursInterrupted)) is is_awake
    assert bool(timers(scenario, "quiet")) is not is_awake
    scenario.settle()
    assert sent(scenario).notifies == ((ALICE,) if is_awake else ())


def test_a_reaction_at_night_is_a_sign_of_somebody_awake() -> None:
    scenario = at_night(model_by_phase(execute=[reply("", ("ask", {"question": "Shall I go on?"})), reply("done")]))
    step_until(scenario, lambda it: it.conversation.work.is_parked)
    question = sent(scenario, "question")
    message = InboundMessage(
        event_id=EventId("7" * 64),
        author=ALICE,
        text="👍",
        created_at=scenario.now // 1000,
        conversation=ID,
        starts=False,
        reply_to=EventId(f"{question.seq:064x}"),
        is_reaction=True,
        origin={"relays": ["ws://relay"]},
    )
    scenario.handle(MessageReceived(message=message, role=Role.OWNER, name="alice"))
    scenario.settle()
    assert sent(scenario, "completion").notifies == (ALICE,)
    assert not timers(scenario, "quiet")


@pytest.mark.parametrize("by", ["by_program", "by_machine"])
def test_a_program_that_writes_at_night_is_no_sign_of_somebody_awake(by: str) -> None:
    scenario = at_night()
    scenario.user_writes("a note of a program", **{by: True})  # type: ignore[arg-type]
    assert not scenario.records(r.QuietHoursInterrupted)


@pytest.mark.parametrize(("by", "hours", "is_notified"), [("by_program", 0, False), ("by_machine", 1, True)])
def test_the_answer_to_a_program_at_night_notifies_its_owner_by_day_and_an_agent_elsewhere_at_once(
    by: str, hours: int, *, is_notified: bool
) -> None:
    scenario = Scenario(
        Router(route(None, "executor"), WAITS),
        plain_model,
        config=dataclasses.replace(policy(), notifications=NIGHT_RULES),
    )
    scenario.now = NIGHT
    scenario.user_writes("the build is red", **{by: True})  # type: ignore[arg-type]
    scenario.now = Millis(scenario.now + hours * HOUR)
    scenario.settle()
    answer = sent(scenario, "completion")
    assert (answer.notifies, answer.missed_by) == (((ALICE,), ()) if is_notified else ((), (ALICE,)))
    assert bool(timers(scenario, "quiet")) is not is_notified


def test_a_clock_that_was_set_has_the_timer_of_the_morning_run_again() -> None:
    """A timer that runs keeps its time, so after a sleep of the machine it came hours late."""
    scenario = at_night().settle()
    (before,) = timers(scenario, "quiet")
    scenario.now = Millis(scenario.now + 5 * HOUR)
    scenario.handle(ClockJumped(by=5 * HOUR))
    (after,) = timers(scenario, "quiet")
    assert (after.due, after.key.seq) == (before.due, before.key.seq)
    assert after.key != before.key
    assert scenario.refold() == scenario.conversation
    scenario.fire("quiet")
    assert sent(scenario).purpose == "reminder"


def test_a_reminder_that_is_late_does_not_come_in_the_next_quiet_hours() -> None:
    scenario = at_night().settle()
    (first,) = timers(scenario, "quiet")
    scenario.now = Millis(NIGHT + DAY)
    scenario.fire("quiet")
    assert sent(scenario).purpose != "reminder"
    (second,) = timers(scenario, "quiet")
    assert second.due == first.due + DAY
    assert scenario.refold() == scenario.conversation
    scenario.fire("quiet")
    reminder = sent(scenario)
    assert (reminder.purpose, reminder.notifies) == ("reminder", (ALICE,))
    assert not timers(scenario, "quiet")


@pytest.mark.parametrize("hours", [NIGHT_RULES, NotificationRules()])
def test_who_writes_by_day_has_seen_what_came_at_night(hours: NotificationRules) -> None:
    scenario = at_night().settle()
    scenario.policy = dataclasses.replace(scenario.policy, notifications=hours)
    scenario.now = Millis(EVENING + 13 * HOUR)
    scenario.user_writes("good morning")
    assert not timers(scenario, "quiet")
    assert not scenario.conversation.delivery.missed


def timers(scenario: Scenario, part: str) -> list[Timer]:
    effects = pending(scenario.conversation).values()
    return [effect for effect in effects if isinstance(effect, Timer) and effect.key.part.partition(" ")[0] == part]
