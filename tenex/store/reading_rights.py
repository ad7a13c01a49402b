"""Who may read which conversation: the one rule for everything that shows a conversation in another one.

Relays show a public thread to anyone; a conversation in a private group they do not, and none of them knows what our
agents were told elsewhere. So an agent reads in another conversation only what each reader of its answer has taken part
in. In the order of the questions:

    who reads the answer    the user for whom the agent works, and every member or guest who has written or given a
                            command where the agent works; where that is not stored, it is not known, so nothing is read
    who has taken part      a user with a message in the conversation. It was written here, so not one of an import,
                            whose authors a file only names, nor one that a fork began with; it was sent into the
                            conversation's group, if it has one; and it still counts, so not one before a rollback.
                            A command is no message: `/help` with the id of a thread is not taking part in it.
    where it may be shown   what was said in direct messages only to the same people, in direct messages

A message that was refused, or waits for its turn, is in no journal. What a user may do now changes nothing about what
they have read. (ADR 44.)
"""

import json
import sqlite3
from contextlib import closing

from tenex.core.config import Role
from tenex.core.ids import ConversationId, PublicKey

_PARTICIPANTS = """
select c.id from messages m join conversations c on c.number = m.conversation
where m.author in (select value from json_each(?)) and m.seq > c.imported and not m.undone
and not exists (
    select 1 from facets f where f.conversation = c.number and f.kind = 'room'
    and f.value not in (select value from facets where conversation = ? and kind = 'room')
)
group by c.number having count(distinct m.author) = ?
"""


def readable(
    connection: sqlite3.Connection, here: ConversationId, person: PublicKey | None, *, is_new: bool = False
) -> frozenset[ConversationId]:
    """The conversations whose messages may be shown in a conversation to those who read it; itself among them.

    `person` is the user for whom the agent that asks works there; None where that is not known. In a conversation that
    `is_new`, which `person` is about to begin, no one else has written.
    """
    asking = connection.execute("select number from conversations where id = ?", (here,)).fetchone()
    if is_new and asking is None:
        asking = (-1,)
    if not person or asking is None:
        return frozenset({here})
    query = "select value from facets where conversation = ? and kind in (?, ?)"
    with closing(connection.execute(query, (*asking, Role.MEMBER.value, Role.GUEST.value))) as rows:
        readers = sorted({person.lower(), *(str(key).lower() for (key,) in rows)})
    with closing(connection.execute(_PARTICIPANTS, (json.dumps(readers), *asking, len(readers)))) as rows:
        return frozenset({here, *(ConversationId(name) for (name,) in rows)})
