"""What an agent is shown when its run begins: everything once, in order, within the budget, at a cost that stays."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenex.core.config import Limits, Role
from tenex.core.context.transcript import MESSAGE_CHARACTERS, START, WINDOW, entries_for
from tenex.core.context.window import BYTES_PER_TOKEN, PastCycle, entry_weight
from tenex.core.conversation import Conversation
from tenex.core.effects import ModelCall
from tenex.core.ids import ConversationId, EventId, Millis, PublicKey, RunId, Slug, TurnId
from tenex.core.messages import AgentText, Entry, Note, Shown, ShownBefore, UserText, cut
from tenex.core.phases import Phase
from tenex.core.ports import Handoff
from tenex.core.records import RunStarted
from tenex.core.reducers.memory import kept
from tenex.core.state.conversation import CYCLE_MESSAGES, of_cycle
from tenex.core.state.memory import Window
from tenex.core.state.run import Completion, Message, OrchestratorTurn, Run
from tests.fakes.scenario import (
    ENDS,
    WAITS,
    Router,
    Scenario,
    in_flight,
    model_by_phase,
    plain_model,
    reply,
    route,
    rules,
    scenario_at,
    step_until,
)

ALICE = PublicKey("a" * 64)


def shown(scenario: Scenario) -> tuple[Entry, ...]:
    """What the agent that has just been set to work is shown."""
    step_until(scenario, lambda it: it.conversation.turn is not None)
    call = next(effect for effect in in_flight(scenario) if isinstance(effect, ModelCall))
    return call.entries


def titles(entries: tuple[Any, ...]) -> list[str]:
    """Notes by their title, messages by their text."""
    return [entry.title if isinstance(entry, Note) else getattr(entry, "text", "") for entry in entries]


def note(entries: tuple[Any, ...], title: str) -> str:
    """The text of the note of that title."""
    return next(entry.text for entry in entries if isinstance(entry, Note) and entry.title == title)


def test_an_agent_is_shown_what_was_sent_once_and_in_order() -> None:
    scenario = scenario_at(
        Phase.CHAT, Router(route("execute", "executor", "helper"), WAITS), agents=("project-manager",)
    )
    entries = shown(scenario)
    assert [type(entry).__name__ for entry in entries] == ["UserText", "AgentText", "Note", "Note"]
    assert entries[0] == UserText(author="alice", text="build it", role="owner", key="a" * 64)
    assert entries[1] == AgentText(author="Project-Manager", text="project-manager has done its part of chat")
    hand, part = entries[2:]
    assert isinstance(hand, Note)
    assert isinstance(part, Note)
    assert hand.text == ("From chat to execute.")
    assert part.text == "on to execute. Beside you: helper."


def test_a_summary_written_to_be_handed_on_is_handed_on_with_its_verdict() -> None:
    done = ("complete", {"response": "It works. " * 9, "summary": "all green", "verdict": "verified"})
    scenario = scenario_at(
        Phase.EXECUTE,
        Router(route("verification", "executor"), route("chores", "helper"), WAITS),
        model_by_phase(verification=[reply("", done)]),
    )
    step_until(scenario, lambda it: it.conversation.phase is Phase.CHORES)
    assert note(shown(scenario), "Hand-off").endswith("\n\nexecutor [verified]: all green")


def test_a_failure_is_handed_on_in_its_own_words() -> None:
    scenario = scenario_at(
        Phase.CHAT,
        Router(route("execute", "executor"), route("verification", "helper"), WAITS),
        model_by_phase(execute=[reply("")]),
    )
    step_until(scenario, lambda it: it.conversation.phase is Phase.VERIFICATION)
    assert note(shown(scenario), "Hand-off").endswith("executor failed: its model gave empty answers")


def test_files_of_the_cycle_are_named_to_the_next_agent() -> None:
    scenario = scenario_at(
        Phase.CHAT,
        Router(route("execute", "executor"), route("verification", "helper"), WAITS),
        model_by_phase(
            execute=[reply("", ("write_file", {"path": "b"}), ("write_file", {"path": "a"})), reply("built")]
        ),
    )
    step_until(scenario, lambda it: it.conversation.phase is Phase.VERIFICATION)
    part = shown(scenario)[-1]
    assert isinstance(part, Note)
    assert part.text.endswith("Files of this cycle: a, b")


def test_what_belongs_to_an_earlier_cycle_is_marked_as_done() -> None:
    scenario = scenario_at(Phase.CHAT, Router(ENDS)).settle()
    scenario.router = Router(route(None, "project-manager"), WAITS)
    scenario.user_writes("and now a poem")
    assert titles(shown(scenario))[2:4] == ["A new request", "and now a poem"]


def test_a_message_too_long_to_show_is_cut_in_the_middle() -> None:
    scenario = Scenario(Router(route(None, "project-manager"), WAITS), plain_model)
    scenario.user_writes("begin" + "x" * 500_000 + "end")
    first = shown(scenario)[0]
    assert isinstance(first, UserText)
    assert first.text.startswith("begin")
    assert first.text.endswith("end")
    assert len(first.text) < MESSAGE_CHARACTERS + 100
    assert "characters left out" in first.text


def test_all_messages_together_are_bounded_and_the_request_is_always_there() -> None:
    scenario = Scenario(
        Router(route(None, "project-manager"), WAITS), plain_model, config=rules(limits=Limits(same_route=99))
    )
    scenario.user_writes("the request")
    for n in range(65):
        scenario.user_writes(f"message {n} " + "x" * 20_000)
    entries = shown(scenario)
    texts = [str(getattr(entry, "text", "")) for entry in entries]
    assert "the request" in texts
    assert sum(map(entry_weight, entries)) <= 100_000 * BYTES_PER_TOKEN * START
    assert any(text.startswith("message 64 ") for text in texts), "the newest is there"
    assert titles(entries)[0] == "Earlier"
    assert "A new request" not in titles(entries)


@pytest.mark.parametrize(("length", "limit"), [(10, 10), (11, 10), (1_000, 10), (0, 10), (7, 0)])
def test_cut_keeps_both_ends(length: int, limit: int) -> None:
    text = "".join(chr(65 + n % 26) for n in range(length))
    short = cut(text, limit)
    if length <= limit:
        assert short == text
    else:
        half = limit // 2
        assert short.startswith(text[:half])
        assert short.endswith(text[length - half :])
        assert f"{length - 2 * half} characters left out" in short


# ---- what is chosen where there is too much -----------------------------------------------------------------------


class Talk:
    """A conversation made up message by message, that is at the beginning of a run."""

    def __init__(self, phase: Phase = Phase.EXECUTE) -> None:
        self.state = Conversation(id=ConversationId("c" * 64), phase=phase, cycle=1, status="active")
        self.seq = 0

    def sent_texts(self, text: str, *, phase: Phase | None = None, by: str = "", turn: str | None = None) -> int:
        """Someone states something: alice, or an agent in a turn."""
        self.seq += 1
        message = Message(
            seq=self.seq,
            at=Millis(self.seq),
            event_id=EventId(f"{self.seq:064x}"),
            author=ALICE,
            name=by or "alice",
            text=text,
            phase=phase or self.state.phase,
            role=None if by else Role.OWNER,
            after_turn=TurnId(turn) if turn else None,
        )
        kept(self.state, message)
        if not by:
            self.state.messages = of_cycle(self.state.messages, message, first=1)
        return self.seq

    def turn(self, phase: Phase, *texts: str, summary: str = "", failed: str = "") -> OrchestratorTurn:
        """A turn opens, its agents speak, it closes."""
        self.seq += 1
        seq, name = self.seq, f"turn-{self.seq}"
        done = tuple(
            Completion(
                agent=Slug(f"agent-{n}"),
                outcome="failed" if failed else "finished",
                text=text,
                summary="",
                verdict="",
                error=failed,
                at=Millis(seq),
            )
            for n, text in enumerate(texts)
        )
        for text in texts if not failed else ():
            self.sent_texts(text, phase=phase, by="agent", turn=name)
        closed = OrchestratorTurn(
            turn_id=TurnId(name),
            seq=seq,
            timestamp=Millis(seq),
            phase=phase,
            agents=tuple(d.agent for d in done),
            reason="r",
            completions=done,
            is_completed=True,
            summary=summary or failed or " ".join(texts),
        )
        self.state.turns = of_cycle(self.state.turns, closed)
        self.state.last_turn = closed
        return closed

    def begins(
        self, reason: str = "do it", handoff: Handoff | None = None, touched: frozenset[str] = frozenset()
    ) -> Run:
        """A run begins."""
        self.seq += 1
        self.state.next_seq = self.seq + 1
        self.state.turn = OrchestratorTurn(
            turn_id=TurnId("now"),
            seq=self.seq,
            timestamp=Millis(self.seq),
            phase=self.state.phase,
            agents=(Slug("executor"),),
            reason=reason,
            handoff=handoff,
        )
        self.state.touched = touched
        return Run(
            id=RunId("r"),
            agent=Slug("executor"),
            name="Executor",
            pubkey=ALICE,
            phase=self.state.phase,
            system="",
            entries=(),
            warn_at=Millis(1),
            close_at=Millis(2),
            armed=self.seq,
        )

    def shown(self, budget: int, *, again: bool = False, **more: Any) -> tuple[Entry, ...]:
        """What the run is shown, with the words put in as the fold does it; as the first one, or after another."""
        if not again:
            self.state.window = Window()
        entries = entries_for(self.state, self.begins(**more), budget)
        self.state.apply(
            RunStarted(
                seq=self.seq + 1,
                at=Millis(1),
                run=RunId("r"),
                agent=Slug("executor"),
                agent_name="E",
                pubkey=ALICE,
                warn_at=Millis(1),
                close_at=Millis(2),
                entries=entries,
            )
        )
        named = [entry for entry in entries if not isinstance(entry, ShownBefore)]
        before = len(self.state.runs[RunId("r")].entries) - len(named)
        assert (before > 0) is (len(named) < len(entries)), "every message that is named is known"
        return self.state.runs[RunId("r")].entries


def spoken(entries: tuple[Entry, ...]) -> list[str]:
    """The first word of each message."""
    return [entry.text.split()[0] for entry in entries if isinstance(entry, (UserText, AgentText))]


def test_of_too_much_the_request_and_the_newest_stay() -> None:
    talk = Talk()
    talk.sent_texts("request " + "x" * 700, phase=Phase.CHAT)
    for n in range(20):
        talk.sent_texts(f"chat-{n} " + "x" * 700, phase=Phase.CHAT, by="agent")
    everything = ["request", *(f"chat-{n}" for n in range(20))]
    assert spoken(talk.shown(30_000)) == everything
    some = spoken(talk.shown(8_000))
    assert 5 <= len(some) < 20
    assert some == ["request", *everything[1 - len(some) :]]


def test_the_older_messages_are_shown_shorter_before_they_are_left_out() -> None:
    talk = Talk()
    talk.sent_texts("request", phase=Phase.CHAT)
    for n in range(40):
        talk.sent_texts(f"execute-{n} " + "x" * 20_000, by="agent")
    entries = talk.shown(50_000)
    names, sizes = spoken(entries), [len(entry.text) for entry in entries if isinstance(entry, AgentText)]
    assert names == ["request", *(f"execute-{n}" for n in range(41 - len(names), 40))]
    assert len(names) > 12
    assert sizes == sorted(sizes)
    assert sizes[0] < 1_000
    assert sizes[-1] > 8_000


def test_what_is_unanswered_is_always_shown() -> None:
    talk = Talk()
    talk.sent_texts("request " + "x" * 90_000)
    talk.state.answered = talk.seq
    for n in range(9):
        talk.sent_texts(f"agent-{n} " + "x" * 90_000, by="agent")
    talk.sent_texts("first " + "x" * 90_000, phase=Phase.CHAT)
    talk.sent_texts("second " + "x" * 90_000, phase=Phase.CHAT)
    for budget in (4_000, 20_000, 100_000):
        assert {"request", "first", "second"} <= set(spoken(talk.shown(budget)))


def test_turns_that_are_not_shown_are_named_in_a_line_and_those_that_are_shown_are_not() -> None:
    talk = Talk()
    talk.sent_texts("request", phase=Phase.CHAT)
    old = talk.turn(Phase.PLAN, "p" * 60_000, summary="agent-0: a plan\n in short")
    failed = talk.turn(Phase.PLAN, "", failed="agent-0 failed: no answer")
    for n in range(9):
        talk.sent_texts(f"{n} " + "x" * 9_000, by="agent")
    earlier = note(talk.shown(8_000), "Earlier")
    assert earlier.splitlines()[1:] == [
        f"{old.turn_id}, in plan: agent-0: a plan in short",
        f"{failed.turn_id}, in plan: agent-0 failed: no answer",
    ]
    entries = talk.shown(10**7)
    assert "Earlier" not in titles(entries), "nothing is shown twice"
    assert note(entries, "Not finished") == f"{failed.turn_id}, in plan: agent-0 failed: no answer"
    assert titles(entries)[2:4] == ["Not finished", "0 " + "x" * 9_000], "where it happened"


def test_the_request_is_there_whatever_came_after_it() -> None:
    talk = Talk()
    for n in range(12):
        talk.sent_texts(f"message-{n} " + "😀" * 30_000)
    talk.state.answered = talk.seq
    hand = Handoff(from_=Phase.PLAN, to=Phase.EXECUTE, message="m", reason="r" * 9_000, summary="s" * 90_000)
    assert {"message-0", "message-11"} <= set(spoken(talk.shown(4_000, reason="w" * 9_000, handoff=hand)))


def test_what_the_hand_off_shows_is_not_reported_as_earlier_too() -> None:
    talk = Talk(Phase.VERIFICATION)
    talk.sent_texts("request", phase=Phase.CHAT)
    failed = talk.turn(Phase.EXECUTE, "", failed="agent-0 timed out")
    hand = Handoff(from_=Phase.EXECUTE, to=Phase.VERIFICATION, message="m", reason="on", summary=failed.summary)
    entries = talk.shown(20_000, handoff=hand)
    assert "agent-0 timed out" in note(entries, "Hand-off")
    assert "Earlier" not in titles(entries)


def test_cycles_that_are_over_are_shown_unless_all_of_them_is_shown() -> None:
    talk = Talk()
    talk.state.phase, talk.state.cycle = Phase.CHAT, 2
    since = talk.sent_texts("old request " + "x" * 40_000)
    talk.sent_texts("old answer", by="agent")
    talk.state.messages = ()
    talk.sent_texts("new request")
    reported = PastCycle(cycle=1, since=since, request="old request", done=("execute: agent: built",))
    talk.state.past = (reported,)
    for n in range(9):
        talk.sent_texts(f"answer-{n} " + "x" * 4_000, by="agent")
    earlier = note(talk.shown(10_000), "Earlier")
    assert earlier.splitlines()[1:] == ["Cycle 1, asked for: old request", "- execute: agent: built"]
    assert spoken(talk.shown(10_000))[0] == "new"
    assert "A new request" not in titles(talk.shown(10_000)), "nothing of the old one is above"
    entries = talk.shown(1_000_000)
    assert "Earlier" not in titles(entries)
    assert titles(entries)[2] == "A new request"


def test_a_long_reason_and_many_files_keep_to_their_part() -> None:
    talk = Talk()
    talk.sent_texts("request")
    for n in range(38):
        talk.sent_texts(f"{n} " + "x" * 700, phase=Phase.CHAT, by="agent")
    many = frozenset(f"a/folder/of/files/{n:05}.py" for n in range(5_000))
    hand = Handoff(from_=Phase.PLAN, to=Phase.EXECUTE, message="m", reason="r" * 9_000, summary="s" * 90_000)
    entries = talk.shown(20_000, reason="w" * 9_000, touched=many, handoff=hand)
    part = note(entries, "Your part")
    assert "Files of this cycle: a/folder/of/files/00000.py, " in part
    assert part.endswith(" more)")
    assert sum(map(entry_weight, entries)) <= 20_000 * BYTES_PER_TOKEN * START
    assert "request" in spoken(entries)


texts = st.builds(
    lambda letter, n: letter * n, st.sampled_from(["x", "日", "😀", "a b\n"]), st.sampled_from([0, 9, 900, 30_000])
)
spoke = st.tuples(texts, st.sampled_from(list(Phase)), st.sampled_from(["person", "agent", "turn"]))


class Sent(list[Any]):
    """What was sent, with a short name: hypothesis writes every one down."""

    def __repr__(self) -> str:
        return f"sent {[(len(text), phase.value, who) for text, phase, who in self]}"


@given(
    st.lists(spoke, max_size=90).map(Sent),
    st.sampled_from(list(Phase)),
    st.integers(0, 90),
    st.sampled_from([4_000, 10_000, 40_000, 100_000, 1_000_000]),
)
def test_whatever_was_sent_the_rules_of_choosing_hold(sent: Sent, phase: Phase, answered: int, budget: int) -> None:
    talk = Talk(phase)
    for text, where, who in sent:
        if who == "turn":
            talk.turn(where, text)
        else:
            talk.sent_texts(text, phase=where, by="agent" if who == "agent" else "")
    talk.state.answered = answered
    named = [entry for entry in entries_for(talk.state, talk.begins(), budget) if isinstance(entry, Shown)]
    seqs = [entry.seq for entry in named]
    assert seqs == sorted(set(seqs)), "each once, in the order in which it was sent"
    if talk.state.messages:
        assert talk.state.messages[0].seq in seqs, "the request"
        assert talk.state.messages[-1].seq in seqs, "and the user's newest words"
    entries = talk.shown(budget)
    assert sum(map(entry_weight, entries)) <= budget * BYTES_PER_TOKEN * START
    assert titles(entries)[-1] == "Your part"
    assert entries == talk.shown(budget), "the same every time"
    if budget == 1_000_000:
        assert set(seqs) >= {message.seq for message in talk.state.recent}


@given(
    st.lists(st.lists(spoke, min_size=1, max_size=8).map(Sent), min_size=2, max_size=7),
    st.sampled_from([4_000, 10_000, 40_000, 100_000]),
)
def test_each_run_is_shown_what_the_one_before_was_shown_until_the_window_is_full(
    rounds: list[list[Any]], budget: int
) -> None:
    talk, was_all = Talk(Phase.CHAT), True
    for sent in rounds:
        for text, where, who in sent:
            if who == "turn":
                talk.turn(where, text, failed="" if len(text) % 2 else "agent-0 failed")
            else:
                talk.sent_texts(text, phase=where, by="agent" if who == "agent" else "")
        before = talk.state.window
        entries = talk.shown(budget, again=True)
        after = talk.state.window
        assert entries[: len(after.entries)] == after.entries
        assert sum(map(entry_weight, after.entries)) == after.size
        assert sum(map(entry_weight, entries)) <= budget * BYTES_PER_TOKEN * START
        if talk.state.messages:
            newest = talk.state.messages[-1]
            assert any(isinstance(entry, UserText) and entry.text[:9] == newest.text[:9] for entry in entries)
        if not talk.state.recent:
            continue
        most = before.size + sum(len(text.encode()) + 1_000 for text, _, _ in sent)
        is_kept = talk.state.recent[0].seq <= before.since  # a long text takes more of the state than of the window
        if is_kept and was_all and most <= budget * BYTES_PER_TOKEN * START * WINDOW:
            assert entries[: len(before.entries)] == before.entries
        was_all = after.until == talk.state.recent[-1].seq


class Counted(tuple[Any, ...]):
    """A tuple that counts what is looked at."""

    __slots__ = ()
    looked = 0

    def __iter__(self) -> Iterator[Any]:
        for item in super().__iter__():
            Counted.looked += 1
            yield item


@pytest.mark.parametrize("turns", [10, 100, 1_000])
def test_the_cost_does_not_grow_with_the_history(turns: int) -> None:
    talk = Talk()
    for n in range(turns):
        talk.sent_texts(f"message {n}")
        talk.turn(Phase.EXECUTE, f"answer {n}")
    state = talk.state
    state.history = None  # who looked at it would fail
    state.recent, state.messages, state.turns = Counted(state.recent), Counted(state.messages), Counted(state.turns)
    Counted.looked = 0
    entries_for(state, talk.begins())
    assert 0 < Counted.looked <= 12 * (700 + 2 * CYCLE_MESSAGES)
