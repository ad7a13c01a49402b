"""What an agent is shown when its run begins: everything once, in order, within the budget, at a cost that stays."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tenex.core.config import Role
from tenex.core.context.transcript import START, WINDOW, entries_for
from tenex.core.context.window import BYTES_PER_TOKEN, PastCycle, entry_weight
from tenex.core.conversation import Conversation
from tenex.core.effects import ModelCall
from tenex.core.ids import ConversationId, EventId, Millis, PublicKey, RunId, Slug, TurnId
from tenex.core.messages import AgentText, Entry, Note, Shown, ShownBefore, UserText, cut
from tenex.core.phases import Phase
from tenex.core.ports import Handoff
from tenex.core.records import Outcome, RunStarted
from tenex.core.reducers.memory import kept
from tenex.core.state.conversation import of_cycle
from tenex.core.state.memory import Window
from tenex.core.state.run import Completion, Message, OrchestratorTurn, Run
from tests.fakes.scenario import (
    Router,
    Scenario,
    in_flight,
    model_by_phase,
    reply,
    route,
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


def test_a_summary_written_to_be_handed_on_is_handed_on_with_its_verdict() -> None:
    done = ("complete", {"response": "It works. " * 9, "summary": "all green", "verdict": "verified"})
    writes = reply("", ("write_file", {"path": "b"}), ("write_file", {"path": "a"}))

    def builds(conversation: Conversation, call: ModelCall) -> Any:
        run = conversation.runs[call.run]
        if run.agent == "helper":
            return reply("")
        return reply("built") if run.steps else writes

    router = Router(
        route("execute", "executor", "helper"), route("verification", "executor"), route("chores", "helper")
    )
    scenario = scenario_at(Phase.CHAT, router, model_by_phase(execute=builds, verification=[reply("", done)]))
    assert note(shown(scenario), "Your part") == "on to execute. Beside you: helper."
    step_until(scenario, lambda it: it.conversation.phase is Phase.VERIFICATION)
    entries = shown(scenario)
    assert "helper failed: its model gave empty answers" in note(entries, "Hand-off")
    assert note(entries, "Your part").endswith("Files of this cycle: a, b")
    step_until(scenario, lambda it: it.conversation.phase is Phase.CHORES)
    assert note(shown(scenario), "Hand-off").endswith("\n\nexecutor [verified]: all green")


def test_cut_keeps_both_ends() -> None:
    assert cut("abcdefghij", 10) == "abcdefghij"
    assert cut("abcdefghijk", 10) == "abcde\n[… 1 characters left out …]\nghijk"


RUN: dict[str, Any] = {
    "id": RunId("r"),
    "agent": Slug("executor"),
    "pubkey": ALICE,
    "warn_at": Millis(1),
    "close_at": Millis(2),
}


def turn_of(name: str, seq: int, phase: Phase, agents: tuple[Slug, ...], reason: str) -> OrchestratorTurn:
    """A turn that has been opened."""
    return OrchestratorTurn(
        turn_id=TurnId(name), seq=seq, timestamp=Millis(seq), phase=phase, agents=agents, reason=reason
    )


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
        outcome: Outcome = "failed" if failed else "finished"
        blank = Completion(
            agent=Slug("agent"), outcome=outcome, text="", summary="", verdict="", error=failed, at=Millis(self.seq)
        )
        done = tuple(replace(blank, agent=Slug(f"agent-{n}"), text=text) for n, text in enumerate(texts))
        agents = tuple(one.agent for one in done)
        opened = turn_of(f"turn-{self.seq}", self.seq, phase, agents, "r")
        for text in texts if not failed else ():
            self.sent_texts(text, phase=phase, by="agent", turn=opened.turn_id)
        words = summary or failed or " ".join(texts)
        closed = replace(opened, completions=done, is_completed=True, summary=words)
        self.state.turns = of_cycle(self.state.turns, closed)
        self.state.last_turn = closed
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
        self.state.next_seq = self.seq + 1
        turn = turn_of("now", self.seq, self.state.phase, (Slug("executor"),), reason)
        self.state.turn = replace(turn, handoff=handoff)
        self.state.touched = touched
        return Run(**RUN, name="Executor", phase=self.state.phase, system="", entries=(), armed=self.seq)

    def shown(self, budget: int, *, again: bool = False, **more: Any) -> tuple[Entry, ...]:
        """What the run is shown, with the words put in as the fold does it; as the first one, or after another."""
        if not again:
            self.state.window = Window()
        entries = entries_for(self.state, self.begins(**more), budget)
        started = {name: value for name, value in RUN.items() if name != "id"}
        self.state.apply(
            RunStarted(**started, seq=self.seq + 1, at=Millis(1), run=RUN["id"], agent_name="E", entries=entries)
        )
        named = [entry for entry in entries if not isinstance(entry, ShownBefore)]
        before = len(self.state.runs[RunId("r")].entries) - len(named)
        assert (before > 0) is (len(named) < len(entries)), "every message that is named is known"
        return self.state.runs[RunId("r")].entries


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
    talk.happened(sent)
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
        talk.happened(sent)
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
