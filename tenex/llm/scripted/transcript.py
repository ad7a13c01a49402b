"""What a run of an agent has seen and done so far, read from the entries of its request."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from tenex.core.messages import AgentText, CallRequest, CallResult, ModelRequest, ModelStep, Note, UserText

from .requests import FILE, CannotApply, Task, read_request, short

LEARNED = "Learned:"
"""How an agent's reflection begins: what was asked for before it is not asked for again."""
Calls = Sequence[tuple[str, Mapping[str, Any]]]

_CHANGED = re.compile(r"^Files of this cycle: (.+)$", re.MULTILINE)  # tenex.core.context.transcript
_PART = re.compile(r"\n\[(?:Lines \d+ to \d+ of \d+; read on|Line \d+ is longer)[^\n]*\]\Z")  # tenex.tools.files_read
_EMPTY = "(The file is empty.)"
_REPLY = 6  # words of a message that may be an answer to a question about the request before it


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A tool call of this run and its result."""

    tool: str
    arguments: Mapping[str, Any]
    ok: bool
    content: str


class Transcript:
    """A run so far."""

    def __init__(self, request: ModelRequest) -> None:
        entries = request.entries
        start = next((at for at, entry in enumerate(entries) if isinstance(entry, ModelStep)), len(entries))
        before, during = entries[:start], entries[start:]
        self.agent = str(request.agent)
        self.tools = {tool.name: tool.description for tool in request.tools}
        self.unused = [f"`{tool.name}`" for tool in request.tools if tool.name in request.methods]
        self.steps = sum(isinstance(entry, ModelStep) for entry in during)
        calls: dict[str, CallRequest] = {
            call.id: call for step in during if isinstance(step, ModelStep) for call in step.calls
        }
        self.done = [
            Done(tool=entry.tool, arguments=calls[entry.id].arguments, ok=entry.ok, content=entry.content)
            for entry in during
            if isinstance(entry, CallResult) and entry.id in calls
        ]
        self.texts = [entry.text for entry in before if isinstance(entry, AgentText)]
        """What agents wrote."""
        said = [entry for entry in before if isinstance(entry, UserText | AgentText)]
        groups = [(by is UserText, [one.text for one in texts]) for by, texts in groupby(said, type)]
        if not any(by_user for by_user, _ in groups):  # a sub-agent is shown only its caller's text
            groups = [(True, texts) for _, texts in groups[-1:]]
        elif not groups[-1][0]:
            groups.pop()
        self.messages = [text for by_user, texts in groups if by_user for text in texts]
        self.newest = "\n".join(groups[-1][1]) if groups else ""
        """The user's latest messages before the run, with no agent's text between."""
        answers = [done.content for done in self.calls("ask")]  # they come again as messages
        later = [entry.text for entry in during if isinstance(entry, UserText) and entry.text not in answers]
        self.request, self.tasks = self._wanted(groups, later, next(iter(answers), ""))
        """The newest request on one line, and what it and messages during the run ask for."""
        notes = [entry.text for entry in before if isinstance(entry, Note)]
        found = next((found for note in reversed(notes) if (found := _CHANGED.search(note))), None)
        self.changed = [path.strip() for path in found[1].split(", ")] if found else []
        """Files this cycle has changed."""

    def _wanted(
        self, groups: Sequence[tuple[bool, Sequence[str]]], later: Sequence[str], reply: str
    ) -> tuple[str, list[Task]]:
        request, tasks = self.newest, list[Task]()
        for by_user, texts in reversed(groups):
            if not by_user and texts[-1].startswith(LEARNED):
                break
            if by_user:
                tasks = [task for text in texts for task in read_request(text)]
                reply = reply or next((text for text in reversed(texts) if not read_request(text)), "")
                if tasks or any(len(text.split()) > _REPLY for text in texts):
                    request = "\n".join(texts)
                    break
        tasks += [task for text in later for task in read_request(text)]
        name = re.search(FILE, reply) or re.search(r"(?P<path>\w+)\W*\Z", reply)
        path = "" if name is None else name["path"] if "." in name["path"] else f"{name['path']}.py"
        return short(request, 120), [replace(task, path=task.path or path) for task in tasks]

    def calls(self, tool: str, path: str | None = None) -> list[Done]:
        """The finished calls of a tool, on one path or any."""
        return [done for done in self.done if done.tool == tool and path in (None, done.arguments.get("path"))]

    def may_call(self, tool: str) -> bool:
        """Whether a tool is offered and was not called."""
        return tool in self.tools and not self.calls(tool)

    def first_calls(self, tool: str, paths: Iterable[str]) -> Calls:
        """Calls of a tool that is offered, on those paths on which it was not called."""
        return [(tool, {"path": path}) for path in paths if tool in self.tools and not self.calls(tool, path)]

    def before(self, path: str) -> str | None:
        """A file's text as this run first read it; None where it was not there.

        Raises:
            CannotApply: only a part was shown.
        """
        read = next((done for done in self.calls("read_file", path) if done.ok), None)
        if read is None:
            return None
        if _PART.search(read.content):
            raise CannotApply("it is longer than what I am shown of a file")
        return "" if read.content in ("", _EMPTY) else read.content.rstrip("\n") + "\n"
