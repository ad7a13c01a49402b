"""`/show FILE`: a user reads a file of the workspace, or has it sent."""

from typing import Final

from tenex.core import records as r
from tenex.core.delivery.outgoing import notify
from tenex.core.people.permissions import Decision
from tenex.core.port_values import ShowOutcome
from tenex.core.signals import MessageReceived
from tenex.core.text.foreign import trimmed
from tenex.core.transaction import Transaction

from .command import Command, SlashCommand

MOST_AT_ONCE: Final = 5
"""Files that are looked up at the same time for one conversation."""
LONGEST_PATH: Final = 1_000
"""Characters, as of a path that a tool takes."""
_QUOTES: Final = "`\"'“”‘’"


def show(transaction: Transaction, command: Command, signal: MessageReceived) -> None:
    """Have a file looked up."""
    path = trimmed(command.argument).strip(_QUOTES).strip()
    if len(path) > LONGEST_PATH:
        notify(transaction, f"That path is too long: at most {LONGEST_PATH:,} characters. Write `/show` for a list.")
    elif len(transaction.state.delivery.shows) >= MOST_AT_ONCE:
        notify(transaction, "I am still at the last files. Write `/show` again once they are here.")
    else:
        transaction.add(
            r.FileRequested, path=path or ".", name=signal.name, author=signal.message.author, role=signal.role
        )


def report(transaction: Transaction, request: int, outcome: ShowOutcome) -> None:
    """Record that a file was looked up, and send what came of it."""
    transaction.add(r.FileShown, request=request)
    notify(transaction, outcome.text, files=outcome.files)


SHOW: Final = SlashCommand(
    name="show",
    usage="FILE",
    help="send a file of the workspace; of a folder, what is in it",
    takes_argument=True,
    needs=Decision.READING,
    carry_out=show,
)
