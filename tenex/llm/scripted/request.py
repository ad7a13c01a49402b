"""Which of a conversation's messages are the request, and what it wants in the light of answers given since."""

import re

from .intent import has_verb, intent_of
from .marks import file_names
from .moves import LEARNED
from .reading import answered, read_request
from .tasks import Asked, Lines, Program, Task, TextFile, Unable
from .transcript import Transcript

_CHANGED = re.compile(r"^Files changed in this cycle: (.+)$", re.MULTILINE)  # `core.transcript` writes it
_LEFT_OUT = re.compile(r"\[… \d+ characters left out …\]")  # and this, where it shows only a message's ends
_READ_BACK = 6  # groups of messages looked at, newest first, where the newest only says "yes"


def understood(seen: Transcript) -> Asked:
    """The newest request of the person.

    Messages with no answer of an agent between them are one request. Where the newest asks for nothing by itself
    ("yes", "hello.py"), it is read together with those before it.
    """
    if not seen.groups:
        return Asked()
    asked = read_request(seen.newest)
    back = 1
    # a new wish that was not understood must not bring back an old one that was
    while (
        not asked.tasks
        and back < min(len(seen.groups), _READ_BACK)
        and _is_no_request(seen.groups[-back])
        and not _follows_the_end(seen, seen.groups[-back])
    ):
        back += 1
        texts = tuple(text for group in seen.groups[-back:] for text in group)
        asked = read_request(texts)
    return asked


def expected(seen: Transcript) -> tuple[Task, ...]:
    """Everything wanted: the request, completed by the answer to a question, and what was added while at work."""
    asked = understood(seen)
    call = seen.last("ask")
    answer = call.content if call and call.ok else seen.reply_to(asked.question) if asked.question else None
    tasks = answered(asked, answer) if answer and answer.strip() else asked.tasks
    added = (task for text in seen.interjections for task in read_request((text,)).tasks)
    return tuple(_whole(task) for task in (*tasks, *added))


def _whole(task: Task) -> Task:
    """The task, unless the words it needs were not all shown."""
    words = task.text if isinstance(task, Program | TextFile | Lines) else ""
    if not _LEFT_OUT.search(words or ""):
        return task
    why = "your message is longer than what I am shown of one; send its content in several, or as a file"
    return Unable(path=task.path, why=why, name_hint=task.name_hint)


def files_changed(seen: Transcript) -> tuple[str, ...]:
    """The files this cycle has changed, as a note says."""
    found = next((found for note in reversed(seen.notes) if (found := _CHANGED.search(note))), None)
    return tuple(dict.fromkeys(path.strip() for path in found[1].split(", ") if path.strip())) if found else ()


def files_made(seen: Transcript) -> tuple[str, ...]:
    """The files this cycle changed, where a note says so; else those the latest agent's message to name any names."""
    if changed := files_changed(seen):
        return changed
    for texts in (seen.said, seen.notes):
        for text in reversed(texts):
            if names := file_names(text):
                return names
    return ()


def request_text(seen: Transcript) -> str:
    """The newest message of the person that asks for work; else the newest of all."""
    texts = [text for group in seen.groups for text in group]
    working = [text for text in texts if has_verb(text)]
    return (working or texts or [""])[-1]


def _follows_the_end(seen: Transcript, group: tuple[str, ...]) -> bool:
    """Whether the work before these messages was over: what was asked for then is not asked for now."""
    said = next((said for said, heard in reversed(seen.replies) if heard == group[0]), "")
    return said.startswith(LEARNED)


def _is_no_request(group: tuple[str, ...]) -> bool:
    return not any(has_verb(text) for text in group) or all(intent_of(text) == "assent" for text in group)
