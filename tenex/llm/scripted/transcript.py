"""What a run of an agent has seen and done so far, read from the entries of its request."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tenex.core.messages import AgentText, CallRequest, CallResult, ModelRequest, ModelStep, Note, UserText

from .requests import FILE, Task, read_request, short

LEARNED = "Learned:"
"""How an agent's reflection begins: what was asked for before it is not asked for again."""

_CHANGED = re.compile(r"^Files of this cycle: (.+)$", re.MULTILINE)  # tenex.core.context.transcript
_PART = re.compile(r"\n\[(?:Lines \d+ to \d+ of \d+; read on|Line \d+ is longer)[^\n]*\]\Z")  # tenex.tools.files_read
_EMPTY = "(The file is empty.)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A tool call of this run and its result."""

    tool: str
    arguments: Mapping[str, Any]
    ok: bool
    content: str

    @property
    def text(self) -> str | None:
        """The text of the file that was read; None where there is none, or only a part was shown."""
        if not self.ok or _PART.search(self.content):
            return None
        return "" if self.content in ("", _EMPTY) else self.content.rstrip("\n") + "\n"


class Transcript:
    """A run so far: `groups` of user messages before it, with no agent's answer between, and `later` ones during it."""

    def __init__(self, request: ModelRequest) -> None:
        entries = request.entries
        start = next((at for at, entry in enumerate(entries) if isinstance(entry, ModelStep)), len(entries))
        before, during = entries[:start], entries[start:]
        self.agent = str(request.agent)
        self.offered = {tool.name for tool in request.tools}
        self.steps = sum(isinstance(entry, ModelStep) for entry in during)
        calls: dict[str, CallRequest] = {
            call.id: call for step in during if isinstance(step, ModelStep) for call in step.calls
        }
        self.done = [
            Done(tool=entry.tool, arguments=calls[entry.id].arguments, ok=entry.ok, content=entry.content)
            for entry in during
            if isinstance(entry, CallResult) and entry.id in calls
        ]
        answers = {done.content for done in self.done if done.tool == "ask"}  # they come again as messages
        self.later = [entry.text for entry in during if isinstance(entry, UserText) and entry.text not in answers]
        self.texts = [entry.text for entry in before if isinstance(entry, AgentText)]
        self.groups: list[tuple[str, list[str]]] = []
        """The agent's text before each group, and the group's messages."""
        answered, is_new = "", True
        for entry in before:
            if isinstance(entry, AgentText):
                answered, is_new = entry.text, True
            elif isinstance(entry, UserText):
                if is_new:
                    self.groups.append((answered, []))
                self.groups[-1][1].append(entry.text)
                is_new = False
        if (
            not self.groups and before and isinstance(before[-1], AgentText)
        ):  # a sub-agent is shown only its caller's text
            self.groups.append(("", [before[-1].text]))
        notes = [entry.text for entry in before if isinstance(entry, Note)]
        found = next((found for note in reversed(notes) if (found := _CHANGED.search(note))), None)
        self.changed = [path.strip() for path in found[1].split(", ")] if found else []
        """Files this cycle has changed."""

    @property
    def newest(self) -> str:
        """The user's latest messages before the run."""
        return "\n".join(self.groups[-1][1]) if self.groups else ""

    def calls(self, tool: str, path: str | None = None) -> list[Done]:
        """The finished calls of a tool, on one path or any."""
        return [done for done in self.done if done.tool == tool and path in (None, done.arguments.get("path"))]

    def before(self, path: str) -> str | None:
        """A file's text as this run first read it; None where it was not there, or only a part was shown."""
        read = self.calls("read_file", path)
        return read[0].text if read else None

    def is_partial(self, path: str) -> bool:
        """Whether the file exists and only a part of it was shown."""
        return any(read.ok and read.text is None for read in self.calls("read_file", path))

    def tasks(self) -> list[Task]:
        """What the user wants: the newest request, its missing file name from a later answer, and what came since."""
        tasks: list[Task] = []
        reply = next((done.content for done in self.done if done.tool == "ask" and done.ok), "")
        for before, texts in reversed(self.groups[-6:]):
            tasks = [task for text in texts for task in read_request(text)]
            if tasks or before.startswith(LEARNED) or any(len(text.split()) > 6 for text in texts):
                reply = texts[-1] if len(texts) > 1 and not reply and not read_request(texts[-1]) else reply
                break
            reply = reply or texts[-1]
        tasks += [task for text in self.later for task in read_request(text)]
        name = re.search(FILE, reply) or re.search(r"(?P<path>\w+)\W*\Z", reply)
        path = "" if name is None else name["path"] if "." in name["path"] else f"{name['path']}.py"
        return [Task(kind=one.kind, path=one.path or path, text=one.text, old=one.old) for one in tasks]

    def request(self) -> str:
        """The newest message that asks for work, on one line; else the newest of all."""
        texts = [text for _, group in self.groups for text in group]
        return short(next((text for text in reversed(texts) if read_request(text)), (texts or [""])[-1]), 120)
