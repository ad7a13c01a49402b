"""One agent that answers alone: each message of a user is a turn of it, and then the next message is waited for."""

from collections.abc import Sequence
from dataclasses import replace

from tenex.core import records as r
from tenex.core.delivery.outgoing import notify
from tenex.core.ids import Slug
from tenex.core.inbox.claims import is_answer
from tenex.core.inbox.commands import activity
from tenex.core.inbox.decide import record_message, report_disabled, report_elsewhere, why_disabled
from tenex.core.kind import Kind
from tenex.core.people.decider import Decider, person
from tenex.core.signals import MessageReceived
from tenex.core.state import State
from tenex.core.transaction import Transaction
from tenex.core.work import holds
from tenex.core.work.run import Run
from tenex.core.work.turns import advance, open_turn, spent, wait_at_limit
from tenex.workflows.single.state import NAME, SINGLE, SingleAgent, agent_of


class SingleKind(Kind):
    """A conversation with one agent. A mention gives another agent one turn; every other message is the agent's."""

    name = NAME
    state = SingleAgent
    reducers = SINGLE

    def owns(self, state: State) -> bool:
        """Whether the conversation began with an agent of its own, and nothing else has begun in it."""
        return bool(agent_of(state)) and not state.has_begun_kind

    def on_message(self, transaction: Transaction, signal: MessageReceived, called: Slug) -> None:
        """Take a message as the answer to an open question, or as work."""
        mentioned = tuple(slug for slug in signal.addressed if slug in transaction.policy.routable)
        wrote = record_message(transaction, replace(signal, addressed=mentioned))
        if called:
            report_elsewhere(transaction, called)
        elif (
            report_disabled(transaction, signal) and not transaction.state.totals.turn_count
        ):  # it was to begin, and nothing else
            transaction.add(r.Waiting, reason="user")
            return
        if not is_answer(transaction, signal, wrote):
            advance(transaction)

    def next(self, transaction: Transaction) -> None:
        """Open a turn where a message is not answered yet; else wait for one. A limit of cost comes before both."""
        state = transaction.state
        unanswered = [message for message in state.unanswered if not message.is_settled]
        mentioned = tuple(
            dict.fromkeys(slug for slug, _ in state.work.addressed if slug in transaction.policy.routable)
        )
        if limit := spent(transaction):
            wait_at_limit(transaction, *limit)
        elif mentioned or unanswered:
            wrote = state.cycle.messages[-1]
            self._open(
                transaction, mentioned or (agent_of(state),), f"{wrote.name} wrote", person(wrote.name, wrote.author)
            )
        else:
            transaction.add(r.Waiting, reason="user")

    def _open(self, transaction: Transaction, agents: Sequence[Slug], reason: str, decider: Decider) -> None:
        known = [slug for slug in agents if slug in transaction.policy.routable]
        if known:
            open_turn(transaction, known, reason, decider)
            return
        text = f"There is no agent {agents[0]} any more. Configure it again, or mention another: @NAME."
        if agents[0] in transaction.policy.disabled_agents:
            text = f"{why_disabled(transaction, agents[0])} Write again then, or mention another: @NAME."
        notify(transaction, text, error="agent")
        transaction.add(r.Waiting, reason="user")

    def guide(self, state: State, run: Run) -> tuple[str, str]:
        """The agent that answers alone; there are no phases to name."""
        return "conversation", agent_of(state)

    def command(self, transaction: Transaction, name: str, argument: str, signal: MessageReceived) -> bool:
        """Run the last turn again: on `/retry`, and on `/continue` where it has not finished."""
        del argument
        state = transaction.state
        last = transaction.state.memory.last_turn
        if (
            name not in ("retry", "continue")
            or state.work.turn is not None
            or state.cycle.status == "ended"
            or not state.cycle.turns
        ):
            return False
        if last is None or holds.on_hold(state):
            return False
        has_finished = all(done.outcome == "finished" for done in last.completions)
        transaction.add(r.Continued, name=signal.name)
        if name == "retry" or not has_finished:
            decider = person(signal.name, signal.message.author)
            self._open(transaction, last.agents, f"{signal.name} asked for another try", decider)
        elif state.unanswered:
            advance(transaction)
        else:
            notify(transaction, "There is nothing to go on with; write what you want.")
        return True

    def status(self, transaction: Transaction) -> list[str]:
        """The agent, then what runs."""
        return [
            f"Agent: {agent_of(transaction.state)}",
            *activity(transaction, "It has done what you asked for."),
        ]
