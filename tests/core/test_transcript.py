"""What an agent is shown when its run begins, what is remembered, and how its requests begin with the same bytes."""

import os.path
import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenex.core import records as r
from tenex.core.config import Limits
from tenex.core.conversation import Conversation, new_conversation
from tenex.core.cycle.state import Cycle, of_cycle
from tenex.core.effects import ModelCall
from tenex.core.ids import ConversationId, Millis, RunId, Slug, TurnId
from tenex.core.memory.reducers import kept
from tenex.core.memory.state import DECISIONS, EARLIER_BYTES, FIRST, LEAST_RECENT, RECENT_BYTES, Window, size
from tenex.core.memory.transcript import START, WINDOW, WINDOW_BYTES, entries_for
from tenex.core.memory.window import BYTES_PER_TOKEN, PastCycle, entry_weight, fitted
from tenex.core.messages import AgentText, Entry, ModelStep, Note, Shown, ShownBefore, UserText, cut
from tenex.core.phases import Phase
from tenex.core.ports import Handoff
from tenex.core.records import RunStarted
from tenex.core.rollback.decide import state_at
from tenex.core.rollback.whole import of_fork
from tenex.core.signals import RollBack
from tenex.core.snapshot import StateSnapshot
from tenex.core.work.run import Run
from tenex.core.work.turn import Completion, OrchestratorTurn
from tenex.llm.messages import marked
from tenex.store.format import CONVERSATION
from tests.fakes.scenario import (
    ALICE,
    ENDS,
    ID,
    WAITS,
    Router,
    Scenario,
    in_flight,
    model_by_phase,
    policy,
    reply,
    route,
    scenario_at,
    step_until,
)
from tests.kits.team import team

from .kit import message, turn


def shown(scenario: Scenario) -> tuple[Entry, ...]:
    """What the agent that has just been set to work is shown."""
    step_until(scenario, lambda it: it.conversation.work.turn is not None)
    call = next(effect for effect in in_flight(scenario) if isinstance(effect, ModelCall))
    return call.entries


def titles(entries: tuple[Any, ...]) -> list[str]:
    """Notes by their title, messages by their text."""
    return [entry.title if isinstance(entry, Note) else getattr(entry, "text", "") for entry in entries]


def note(entries: tuple[Any, ...], title: str) -> str:
    """The text of the note of that title."""
    return next(entry.text for entry in entries if isinstance(entry, Note) and entry.title == title)


def test_a_summary_written_to_be_handed_on_is_handed_on_with_its_verdict() -> None:
    done = ("complete", {"response": "It works. " * 9, "summary": "all green", "verdict": "verified"})
    writes = reply("", ("write_file", {"path": "b"}), ("write_file", {"path": "a"}))

    def builds(conversation: Conversation, call: ModelCall) -> Any:
        run = conversation.work.runs[call.run]
        if run.agent == "helper":
            return reply("")
        return reply("built") if run.steps else writes

    router = Router(
        route("execute", "executor", "helper"), route("verification", "executor"), route("chores", "helper")
    )
    scenario = scenario_at(
        Phase.CHAT, router, model_by_phase(execute=builds, verification=[reply("", ("check", {}), done)])
    )
    assert note(shown(scenario), "Your part") == "on to execute. Beside you: helper."
    step_until(scenario, lambda it: it.conversation.cycle.phase is Phase.VERIFICATION)
    entries = shown(scenario)
    assert "helper failed: its model gave empty answers" in note(entries, "Hand-off")
    assert note(entries, "Your part").endswith("Files of this cycle: a, b")
    step_until(scenario, lambda it: it.conversation.cycle.phase is Phase.CHORES)
    assert note(shown(scenario), "Hand-off").endswith("\n\nexecutor [verified]: all green")


def test_the_reason_of_a_hand_over_is_the_part_and_not_repeated_in_the_hand_off() -> None:
    hands_over = reply("", ("hand_over", {"phase": "execute", "reason": "create hello.py"}))
    scenario = Scenario(Router(route("chat", "project-manager")), model_by_phase(chat=[hands_over]), config=team())
    scenario.user_writes("create hello.py")
    step_until(scenario, lambda it: it.conversation.cycle.phase is Phase.EXECUTE)
    entries = shown(scenario)
    assert note(entries, "Your part") == "create hello.py."
    assert note(entries, "Hand-off") == "From chat to execute."


def test_cut_keeps_both_ends() -> None:
    assert cut("abcdefghij", 10) == "abcdefghij"
    assert cut("a" * 50 + "b" * 50, 10) == "aaaaa\n[… 90 characters left out …]\nbbbbb"
    assert cut("abcdefghijk", 10) == "abcdefghijk", "what says that something is left out is longer"


RUN: dict[str, Any] = {"agent": Slug("executor"), "pubkey": ALICE, "warn_at": Millis(1), "close_at": Millis(2)}


class Talk:
    """A conversation made up message by message, that is at the beginning of a run."""

    def __init__(self, phase: Phase = Phase.EXECUTE) -> None:
        self.state = new_conversation(ConversationId("c" * 64), cycle=Cycle(number=1, phase=phase, status="active"))
        self.seq = 0

    def sent_texts(self, text: str, *, phase: Phase | None = None, by: str = "", after: TurnId | None = None) -> int:
        """Someone states something: alice, or an agent in a turn."""
        self.seq += 1
        who: dict[str, Any] = {"name": by, "role": None} if by else {}
        sent = message(self.seq, text, phase=phase or self.state.cycle.phase, after_turn=after, **who)
        self.state.memory = kept(self.state.memory, sent)
        if not by:
            self.state.cycle = replace(self.state.cycle, messages=of_cycle(self.state.cycle.messages, sent, first=1))
        return self.seq

    def turn(self, phase: Phase, *texts: str, summary: str = "", failed: str = "") -> OrchestratorTurn:
        """A turn opens, its agents speak, it closes."""
        self.seq += 1
        how: dict[str, Any] = {"outcome": "failed" if failed else "finished", "error": failed, "at": Millis(self.seq)}
        how |= {"summary": "", "verdict": ""}
        done = tuple(Completion(agent=Slug(f"agent-{n}"), text=text, **how) for n, text in enumerate(texts))
        opened = turn(self.seq, phase, agents=tuple(one.agent for one in done))
        for text in texts if not failed else ():
            self.sent_texts(text, phase=phase, by="agent", after=opened.turn_id)
        words = summary or failed or " ".join(texts)
        closed = replace(opened, completions=done, is_completed=True, summary=words)
        self.state.cycle = replace(self.state.cycle, turns=of_cycle(self.state.cycle.turns, closed))
        self.state.memory = replace(self.state.memory, last_turn=closed)
        return closed

    def happened(self, sent: list[tuple[str, Phase, str]]) -> None:
        """Users and agents wrote this, agents also in turns, of which some failed."""
        for text, where, who in sent:
            if who == "turn":
                self.turn(where, text, failed="" if len(text) % 2 else "agent-0 failed")
            else:
                self.sent_texts(text, phase=where, by="agent" if who == "agent" else "")

    def begins(
        self, reason: str = "do it", handoff: Handoff | None = None, touched: frozenset[str] = frozenset()
    ) -> Run:
        """A run begins."""
        self.seq += 1
        self.state.identity = replace(self.state.identity, next_seq=self.seq + 1)
        self.state.work = replace(
            self.state.work,
            turn=turn(self.seq, self.state.cycle.phase, turn_id=TurnId("now"), reason=reason, handoff=handoff),
        )
        self.state.cycle = replace(self.state.cycle, touched=touched)
        return Run(
            **RUN, id=RunId("r"), name="Executor", phase=self.state.cycle.phase, system="", entries=(), armed=self.seq
        )

    def shown(self, budget: int, *, again: bool = False, **more: Any) -> tuple[Entry, ...]:
        """What the run is shown, with the words put in as the fold does it; as the first one, or after another."""
        if not again:
            self.state.memory = replace(self.state.memory, window=Window())
        entries = entries_for(self.state, self.begins(**more), budget)
        run = RunId("r")
        self.state.apply(RunStarted(**RUN, seq=self.seq + 1, at=Millis(1), run=run, agent_name="E", entries=entries))
        shown = self.state.work.runs[run].entries
        named = sum(not isinstance(entry, ShownBefore) for entry in entries)
        assert (len(shown) > named) is (named < len(entries)), "every message that is named is known"
        return shown


def spoken(entries: tuple[Entry, ...]) -> list[str]:
    """The first word of each message."""
    return [entry.text.split()[0] for entry in entries if isinstance(entry, (UserText, AgentText))]


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


def test_cycles_that_are_over_are_shown_unless_all_of_them_is_shown() -> None:
    talk = Talk()
    talk.state.cycle = replace(talk.state.cycle, phase=Phase.CHAT, number=2)
    since = talk.sent_texts("old request " + "x" * 40_000)
    talk.sent_texts("old answer", by="agent")
    talk.state.cycle = replace(talk.state.cycle, messages=())
    talk.sent_texts("new request")
    reported = PastCycle(cycle=1, since=since, request="old request", done=("execute: agent: built",))
    talk.state.memory = replace(talk.state.memory, past=(reported,))
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
def test_b23_whatever_was_sent_the_rules_of_choosing_hold(sent: Sent, phase: Phase, answered: int, budget: int) -> None:
    """An agent that came back was shown the whole history, and again what it had missed."""
    talk = Talk(phase)
    talk.happened(sent)
    talk.state.memory = replace(talk.state.memory, answered=answered)
    named = [entry for entry in entries_for(talk.state, talk.begins(), budget) if isinstance(entry, Shown)]
    seqs = [entry.seq for entry in named]
    assert seqs == sorted(set(seqs)), "each once, in the order in which it was sent"
    if talk.state.cycle.messages:
        assert talk.state.cycle.messages[0].seq in seqs, "the request"
        assert talk.state.cycle.messages[-1].seq in seqs, "and the user's newest words"
    entries = talk.shown(budget)
    assert sum(map(entry_weight, entries)) <= budget * BYTES_PER_TOKEN * START
    assert titles(entries)[-1] == "Your part"
    assert entries == talk.shown(budget), "the same every time"
    recent = talk.state.memory.recent
    if budget == 1_000_000 and sum(len(message.text.encode()) + 1_000 for message in recent) <= WINDOW_BYTES:
        assert set(seqs) >= {message.seq for message in recent}, "all where all fits"


@given(
    st.lists(st.lists(spoke, min_size=1, max_size=8).map(Sent), min_size=2, max_size=7),
    st.sampled_from([4_000, 10_000, 40_000, 100_000]),
)
def test_each_run_is_shown_what_the_one_before_was_shown_until_the_window_is_full(
    rounds: list[list[Any]], budget: int
) -> None:
    talk, was_all = Talk(Phase.CHAT), True
    for sent in rounds:
        talk.happened(sent)
        before = talk.state.memory.window
        entries = talk.shown(budget, again=True)
        after = talk.state.memory.window
        assert entries[: len(after.entries)] == after.entries
        assert sum(map(entry_weight, after.entries)) == after.size
        assert sum(map(entry_weight, entries)) <= budget * BYTES_PER_TOKEN * START
        if talk.state.cycle.messages:
            newest = talk.state.cycle.messages[-1]
            assert any(isinstance(entry, UserText) and entry.text[:9] == newest.text[:9] for entry in entries)
        if not talk.state.memory.recent:
            continue
        most = before.size + sum(len(text.encode()) + 1_000 for text, _, _ in sent)
        is_kept = (
            talk.state.memory.recent[0].seq <= before.since
        )  # a long text takes more of the state than of the window
        if is_kept and was_all and most <= budget * BYTES_PER_TOKEN * START * WINDOW:
            assert entries[: len(before.entries)] == before.entries
        was_all = after.until == talk.state.memory.recent[-1].seq


FILLER = re.findall(
    r"\w+",
    "the roof of the old house should be repaired before winter because rain comes in at the north side and the "
    "carpenter who looked at it says that the beams below are still dry enough to keep if we begin within a month",
)


def sentence(number: int) -> str:
    """From 20 to 60 words, others for each number."""
    return " ".join(FILLER[(number * 7 + word) % len(FILLER)] for word in range(20 + number * 13 % 41))


class Chat:
    """A person and the project manager, who write to each other in one cycle that does not end."""

    def __init__(self, budget: int) -> None:
        self.requests: list[tuple[Entry, ...]] = []
        self.answer = sentence
        self.scenario = Scenario(Router(WAITS), self._model, config=policy(limits=Limits(same_route=10**6)))
        self.scenario.budget = budget

    def _model(self, conversation: Conversation, call: ModelCall) -> ModelStep:
        self.requests.append(fitted(call.system, call.entries, (), self.scenario.budget))
        return reply(self.answer(len(self.requests)))

    def writes(self, text: str, then: Any = WAITS) -> None:
        """A message and its answer."""
        self.scenario.router = Router(route(None, "project-manager"), then)
        self.scenario.converse(text)

    def goes_on(self, messages: int, then: Any = WAITS) -> None:
        """So many messages more, each with its answer."""
        for number in range(len(self.requests), len(self.requests) + messages):
            self.writes(f"message-{number} {sentence(number)}", then)


def sent(request: tuple[Entry, ...]) -> str:
    """What a model reads of the first request of a run."""
    return "\n\n".join(marked(one) for one in request if isinstance(one, (UserText, AgentText, Note)))


def shared(requests: list[tuple[Entry, ...]]) -> float:
    """The part of all bytes of the requests that the request before begins with, too."""
    texts = [sent(request) for request in requests]
    same = sum(len(os.path.commonprefix(pair)) for pair in pairwise(texts))  # noqa: RUF071 - no paths
    return same / sum(map(len, texts[1:]))


@pytest.mark.parametrize("budget", [32_000, 100_000])
def test_a_fact_of_the_third_message_is_known_at_the_three_hundredth(budget: int) -> None:
    chat = Chat(budget)
    chat.goes_on(2)
    chat.scenario.user_writes("/skip chores")
    chat.writes("Remember that the password of the archive is heliotrope. " + sentence(3))
    chat.goes_on(297)
    last = chat.requests[-1]
    assert "heliotrope" in sent(last)
    assert f"message-298 {sentence(298)}" in sent(last)
    assert sum(f"message-{number} " in sent(last) for number in range(300)) > 200
    if budget == 100_000:
        assert all(f"message-{number} {sentence(number)}" in sent(last) for number in range(3, 300)), "word for word"
    else:
        earlier = note(last, "Earlier")
        assert "alice gave up chores: “/skip chores”" in earlier
        assert f"alice: message-1 {sentence(1)}" in earlier


@pytest.mark.parametrize("budget", [16_000, 32_000, 100_000])
@pytest.mark.parametrize("then", [WAITS, ENDS], ids=["one cycle", "a cycle for each message"])
def test_requests_of_a_long_chat_begin_with_the_same_bytes(budget: int, then: Any) -> None:
    chat = Chat(budget)
    chat.goes_on(150, then)
    assert shared(chat.requests[-100:]) > 0.9
    begun = [{type(entry) for entry in one.entries} for one in chat.scenario.records(r.RunStarted)[1:]]
    assert sum(ShownBefore not in kinds for kinds in begun) <= 150 * 1_000 // budget


def test_the_state_is_bounded_and_what_leaves_it_stays_in_a_line() -> None:
    chat = Chat(100_000)
    chat.answer = lambda number: "x" * 3_000
    chat.goes_on(400)
    state = chat.scenario.conversation
    assert RECENT_BYTES // 2 < sum(map(size, state.memory.recent)) == state.memory.recent_size <= RECENT_BYTES
    assert len(state.memory.recent) >= LEAST_RECENT
    assert [message.text.split()[0] for message in state.memory.earlier[:FIRST]] == [
        f"message-{n}" for n in range(FIRST)
    ]
    assert sum(map(size, state.memory.earlier)) <= EARLIER_BYTES
    without_turns = state.fork()
    without_turns.cycle = replace(without_turns.cycle, turns=())
    without_turns.memory = replace(without_turns.memory, last_turn=None)
    without_turns.history = None
    assert len(CONVERSATION.encode_decisions([[StateSnapshot.of(without_turns)]])) < 800_000


def test_going_back_and_branching_off_take_the_window_of_then() -> None:
    chat = Chat(100_000)
    chat.goes_on(3)
    records = chat.scenario.records()
    to = next(record.seq for record in reversed(records) if isinstance(record, r.Waiting))
    then = state_at(ID, records, to)
    chat.goes_on(3)
    chat.scenario.handle(RollBack(to=to, then=then, by="olga"))
    assert chat.scenario.conversation.memory.window == then.memory.window
    chat.goes_on(1)
    last = sent(chat.requests[-1])
    assert [n for n in range(7) if f"message-{n} " in last] == [0, 1, 2, 6]
    fork = of_fork(then, Millis(1), id=ConversationId("f" * 64), address={}, title="t")
    assert fork.memory.window.entries == then.memory.window.entries
    assert fork.memory.window.until == then.memory.window.until - then.next_seq < fork.next_seq
    assert [message.seq for message in fork.memory.recent if message.seq > fork.memory.window.until]


def test_commands_that_waive_answers_and_approved_plans_are_decisions_and_the_oldest_are_forgotten() -> None:
    asks = reply("", ("ask", {"question": "Which colour?"}))
    scenario = scenario_at(Phase.PLAN, Router(WAITS)).settle()
    scenario.router = Router(route("execute", "executor"), WAITS)
    scenario.worker = model_by_phase(execute=[asks, reply("done")])
    for text in ("yes, but without the cellar", "blue", "/skip verification"):
        scenario.converse(text)
    decisions = scenario.conversation.memory.user_decisions
    assert [(one.text, one.is_command) for one in decisions] == [
        ("alice on the plan: yes, but without the cellar", False),
        ("asked “Which colour?”, alice answered: blue", False),
        ("alice gave up verification: “/skip verification”", True),
    ]
    for _ in range(DECISIONS):
        scenario.user_writes("/new")
        scenario.user_writes("the next thing")
        scenario.user_writes("/quick")
    assert len(scenario.conversation.memory.user_decisions) == DECISIONS
    assert not set(decisions) & set(scenario.conversation.memory.user_decisions)
