"""What is good in a damaged journal: the records up to the damage, and the messages in intact lines after it."""

from bisect import bisect_left
from dataclasses import dataclass, field

from tenex.core.delivery.records import MessageSent
from tenex.core.ids import ConversationId
from tenex.core.inbox.records import CommandGiven, MessageRecorded, MessageWithdrawn
from tenex.core.records import ConversationImported, Record
from tenex.core.snapshot import StateSnapshot
from tenex.core.work.records import TurnOpened

from . import segments
from .contents import Remains
from .format import CONVERSATION, as_written
from .verify import contradictions

MessageRecord = MessageRecorded | CommandGiven | MessageSent


@dataclass(slots=True)
class Salvaged:
    """What could be read of a journal."""

    records: list[Record] = field(default_factory=list)
    """Records that follow one another from the first, or from a snapshot, and do not contradict each other."""
    messages: list[MessageRecord] = field(default_factory=list)
    """Those after the damage, without those that their authors deleted."""
    withdrawn: list[MessageWithdrawn] = field(default_factory=list)
    """Deletions after the damage."""
    deleted: set[str] = field(default_factory=set)
    """The events of messages after the damage that their authors deleted."""
    turns: int = 0
    """The number of the last turn after the damage."""
    has_import: bool = False
    """There is an import after the damage: the records before it were written elsewhere."""
    damage: list[str] = field(default_factory=list)
    """What cannot be used, in sentences; empty where the journal is whole."""


def salvage(conversation: ConversationId, remains: Remains) -> Salvaged:
    """Read a conversation's journal as far as it can be read, whatever its state.

    A file that begins with an intact snapshot needs none of those before it.
    """
    found = Salvaged()
    later: list[Record] = []
    is_broken = False
    for number, content in remains.items():
        file = segments.name_of(number)
        if isinstance(content, str):
            found.damage.append(f"{file}: {content}")
        data = b"" if isinstance(content, str) else as_written(content)
        records, length, fault = CONVERSATION.decode_lines(data)
        first = records[0] if records else None
        if isinstance(first, StateSnapshot):
            if not is_broken and found.records and found.records[-1].seq == first.seq:
                found.records += records[1:]
            else:
                if number > 1:
                    found.damage.append(f"the records before {first.seq + 1}, except for the state after them")
                found.records = records
                later = []
                is_broken = False
        elif number == 1:
            found.records = records
        else:
            later += records
        if not records or (fault is not None and not fault.is_torn):
            is_broken = True
            line = fault.line if fault is not None else 1
            whose = ", which another version of tenex wrote" if fault is not None and fault.kind == "foreign" else ""
            found.damage.append(f"{file} from line {line} on{whose}, except for the messages in it")
            later += CONVERSATION.decode_intact(data[length:])
    whole = found.records
    if any(contradictions(conversation, whole)):
        good = bisect_left(
            range(len(whole)), True, key=lambda last: any(contradictions(conversation, whole[: last + 1]))
        )
        found.damage.append(f"the records from {whole[good].seq} on, which contradict those before them")
        found.records = whole[:good]
        later = [*whole[good:], *later]
    found.withdrawn = [record for record in later if isinstance(record, MessageWithdrawn)]
    gone = {record.message for record in found.withdrawn}
    found.deleted = {one.event_id for one in later if isinstance(one, MessageRecorded) and one.seq in gone}
    found.messages = [one for one in later if isinstance(one, MessageRecord) and one.seq not in gone]
    found.has_import = any(isinstance(record, ConversationImported) for record in later)
    numbers = [record.turn_id.removeprefix("turn-") for record in later if isinstance(record, TurnOpened)]
    found.turns = max((int(number) for number in numbers if number.isdecimal()), default=0)
    return found
