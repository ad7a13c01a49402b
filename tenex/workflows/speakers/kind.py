"""Speakers as a kind of conversation: the rules of a workflow are the router, and a round is a turn of one agent."""

import json
from collections.abc import Iterator, Sequence

from tenex.core import records as r
from tenex.core.config import Agent, Policy
from tenex.core.delivery.outgoing import notify
from tenex.core.effects import Effect, Key, Timer, Work
from tenex.core.ids import Slug
from tenex.core.inbox.claims import is_answer
from tenex.core.inbox.command import SlashCommand
from tenex.core.inbox.commands import activity, resume, stop
from tenex.core.inbox.decide import record_message, report_disabled
from tenex.core.inbox.message import Message
from tenex.core.kind import Kind
from tenex.core.kind_format import KindShare
from tenex.core.memory.window import cut_bytes
from tenex.core.messages import Note, ToolSpec
from tenex.core.people.decider import BY_RULE, Decider
from tenex.core.ports import ToolResult
from tenex.core.record import Record
from tenex.core.signals import MessageReceived
from tenex.core.state import State
from tenex.core.text.lines import Place, Row
from tenex.core.text.names import is_placeholder
from tenex.core.transaction import Transaction
from tenex.core.work import holds
from tenex.core.work.records import Outcome
from tenex.core.work.run import Call, Run
from tenex.core.work.turns import advance, open_turn, same_failure, spent, too_many_turns, wait_at_limit
from tenex.workflows.speakers import records as w
from tenex.workflows.speakers.config import NAME, rules_of
from tenex.workflows.speakers.reducers import SPEAKERS
from tenex.workflows.speakers.state import WorkflowSession, session_of
from tenex.workflows.speakers.view import rows_of, share_of

from . import calls, decide


class SpeakersKind(Kind):
    """A conversation that a workflow of speakers was opened in."""

    name = NAME
    state = WorkflowSession
    records = (
        w.WorkflowOpened,
        w.InviteAcknowledged,
        w.ContextSet,
        w.RoundClosed,
        w.ExpectationMissed,
        w.WorkflowClosed,
    )
    reducers = SPEAKERS
    commands = (
        SlashCommand(
            name="set",
            usage="NAME=VALUE",
            help="set a variable of a workflow; `/set` alone lists them",
            elsewhere="Only a workflow has variables; mention one in a new note to begin it.",
            takes_argument=True,
            counts_in_opening=True,
        ),
    )
    asks_at_limits = False

    def owns(self, state: State) -> bool:
        """Whether a workflow was opened."""
        return session_of(state) is not None

    def begins(self, policy: Policy, slug: Slug) -> bool:
        """Whether the name is of a workflow of speakers."""
        return slug in rules_of(policy).workflows

    def begin_cycle(self, transaction: Transaction, reason: str, decider: Decider) -> None:
        """Begin none: a workflow that is closed is over."""

    def on_message(self, transaction: Transaction, signal: MessageReceived, called: Slug) -> None:
        """Open the workflow if there is none yet; take the message as an answer or as the user's round."""
        if session_of(transaction.state) is None:
            decide.open_session(transaction, rules_of(transaction.policy).workflows[called], signal)
        wrote = record_message(transaction, signal)
        if session_of(transaction.state) is None:  # the reason has been reported
            transaction.add(r.Ended, reason=f"the workflow {called} could not begin")
            return
        if not called:
            report_disabled(transaction, signal)
        if not is_answer(transaction, signal, wrote):
            decide.on_message(transaction, wrote, signal.role)
            advance(transaction)

    def next(self, transaction: Transaction) -> None:
        """Open the round of the speaker whom the rules name; a limit of cost comes before them."""
        speaker = decide.next_speaker(transaction)
        session = session_of(transaction.state)
        if speaker is None or session is None:
            return
        is_bounded = session.speakers.graph_data.get("max_turns") is not None
        limit = spent(transaction) or same_failure(transaction) or (None if is_bounded else too_many_turns(transaction))
        if limit is None:
            open_turn(transaction, (speaker,), session.why, BY_RULE)
        else:
            wait_at_limit(transaction, *limit)

    def on_turn_closed(
        self, transaction: Transaction, run: Run, outcome: Outcome, text: str, *, completed: bool
    ) -> None:
        """Count the round."""
        decide.count_round(
            transaction, calls.round_of(transaction.state, transaction.policy, run, text, completed=completed), outcome
        )

    def tool_specs(self, state: State, run: Run, policy: Policy) -> tuple[ToolSpec, ...]:
        """The tools that direct the workflow."""
        session = session_of(state)
        if session is None or not calls.has_calls(session, policy):
            return ()
        return calls.specs(session, run.agent)

    def own_call(self, transaction: Transaction, run: Run, call: Call) -> bool:
        """Decide a handoff, the end, a change of variables or a call that a rule names."""
        return calls.decided(transaction, run, call)

    def checked_result(self, transaction: Transaction, run: Run, result: ToolResult) -> ToolResult:
        """The result with what a speaker may ask for."""
        session = session_of(transaction.state)
        is_speaker = session is not None and not session.is_closed and calls.takes_part(session, run)
        if session is None or not is_speaker or not calls.has_calls(session, transaction.policy):
            return super().checked_result(transaction, run, result)
        if result.route is None and not result.context and not result.removed:
            return result
        return calls.checked_result(transaction, session, run, result)

    def text_of_calls(self, transaction: Transaction, run: Run) -> str:
        """The reason or the summary of the call that decides what follows."""
        return calls.text_of(calls.round_of(transaction.state, transaction.policy, run, ""))

    def effects(self, state: State) -> Iterator[Effect]:
        """A timer for each thing that is expected."""
        session = session_of(state)
        for name, watch in session.watches.items() if session is not None else ():
            yield Timer(key=Key(Work.TIMER, watch.seq, name), due=watch.due)

    def continues(self, state: State, record: Record) -> bool:
        """Whether a round is counted, which goes with its turn; or a conversation begins as this workflow's."""
        return isinstance(record, w.RoundClosed) or (
            isinstance(record, w.WorkflowOpened) and state.cycle.status == "active"
        )

    def on_timer(self, transaction: Transaction, key: Key) -> bool:
        """Handle that something expected is late."""
        session = session_of(transaction.state)
        if session is None or key.part not in session.watches:
            return False
        decide.missed(transaction, session, key.part)
        return True

    def share(self, state: State) -> KindShare | None:
        """The speaker who is next, or why the workflow has ended."""
        return share_of(state)

    def rows(self, record: Record, place: Place) -> Iterator[Row]:
        """The workflow, its variables and what was late."""
        return rows_of(record, place)

    def command(self, transaction: Transaction, name: str, argument: str, signal: MessageReceived) -> bool:
        """Execute `/set`, `/new`, `/continue` and `/retry`."""
        session = session_of(transaction.state)
        if session is None or name not in ("set", "new", "continue", "retry"):
            return False
        if name == "set":
            decide.set_variables(transaction, session, argument)
        elif name == "new":
            stop(transaction, signal.name, quiet=True)
            if session.is_closed:
                notify(transaction, decide.over(session))
            decide.close(
                transaction,
                decide.CLOSED,
                "It was closed." if is_placeholder(signal.name) else f"{signal.name} closed it.",
                by=signal.name,
            )
        elif name == "retry" and transaction.state.work.turn is not None and not holds.on_hold(transaction.state):
            notify(transaction, "I am at work; `/stop` first.")
        elif session.is_closed:
            notify(transaction, decide.over(session))
        else:
            before = transaction.state.next_seq
            resume(transaction, signal.name)
            is_silent = not any(isinstance(rec, r.MessageSent) and rec.seq >= before for rec in transaction.records)
            if transaction.state.cycle.waiting_for == "user" and is_silent:
                notify(transaction, "It is your turn: write what you have to say.")
        return True

    def status(self, transaction: Transaction) -> list[str]:
        """The round, then what runs."""
        session = session_of(transaction.state)
        return [] if session is None else [decide.status_line(session), *activity(transaction, "It has ended.")]

    def sender(self, state: State) -> Agent | None:
        """The workflow, with a key of its own."""
        session = session_of(state)
        return None if session is None else Agent(slug=session.slug, name=session.name, pubkey=session.pubkey)

    def guide(self, state: State, run: Run) -> tuple[str, str]:
        """The workflow; a sub-agent takes no part in it."""
        session = session_of(state)
        return ("phase", "") if run.parent is not None or session is None else ("workflow", session.name)

    def notes(self, state: State, run: Run, room: int) -> Iterator[Note]:
        """The round, who takes part, and the variables."""
        session = session_of(state)
        if session is None:
            return
        speakers = session.speakers
        bound = speakers.graph_data.get("max_turns")
        of = f" of at most {bound}" if bound else ""
        variables = json.dumps(speakers.context_vars, ensure_ascii=False, indent=1)
        values = "It has no variables yet."
        if speakers.context_vars:
            values = f"Its variables:\n{cut_bytes(variables, room)}"
        text = (
            f"{session.name}, round {speakers.turn_count + 1}{of}. You speak as {run.agent}. Who takes part: "
            f"{', '.join(speakers.participant_order)}.\n{values}"
        )
        yield Note(title="Workflow", text=text)

    def visible(self, state: State, messages: Sequence[Message]) -> Sequence[Message]:
        """What the view leaves: the request that opened the workflow, the newest messages, and unread ones."""
        session = session_of(state)
        if session is None or session.view == "full":
            return messages
        most = 1 if session.view == "summary" else 2 * len(session.speakers.participant_order)
        unread = {message.seq for message in state.unanswered}
        return [
            message
            for place, message in enumerate(messages)
            if not place or place >= len(messages) - most or message.seq in unread
        ]
