"""A run of an agent, read from the entries of its request: what is wanted, and the results of its calls so far.

The rules of a phase are written as if each call returned at once. They are followed from the beginning at each step:
a call that has a result returns it, and the first that has none is the next step.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from tenex.core.messages import AgentText, CallResult, ModelRequest, ModelStep, Note, UserText, without_context

from .requests import FILE, CannotApply, Task, read_request, short

LEARNED = "Learned:"
"""How an agent's reflection begins: what was asked for before it is not asked for again."""

_CHANGED = re.compile(r"^Files of this cycle: (.+)$", re.MULTILINE)  # tenex.core.memory.transcript
_PART = re.compile(r"\n\[(?:Lines \d+ to \d+ of \d+; read on|Line \d+ is longer)[^\n]*\]\Z")  # tenex.tools.files_read
_NUMBERS = re.compile(r"^\d+\t", re.MULTILINE)
_EMPTY = "(The file is empty.)"


class NextStep(Exception):
    """A tool, and the arguments of each call of it that has no result yet."""


class AgentRun:
    """A run so far."""

    def __init__(self, request: ModelRequest) -> None:
        entries = request.entries
        start = next((at for at, entry in enumerate(entries) if isinstance(entry, ModelStep)), len(entries))
        before = entries[:start]
        during = entries[start:]
        self.agent = str(request.agent)
        self.tools = {tool.name: tool.description for tool in request.tools}
        self.unused = [f"`{tool.name}`" for tool in request.tools if tool.name in request.methods]
        steps = [entry for entry in during if isinstance(entry, ModelStep)]
        self.steps = len(steps)
        calls = {call.id: _key(call.tool, call.arguments) for step in steps for call in step.calls}
        results = [entry for entry in during if isinstance(entry, CallResult) and entry.id in calls]
        self._results = {calls[result.id]: result for result in results}
        self.texts = [entry.text for entry in before if isinstance(entry, AgentText)]
        """What agents wrote."""
        self.own_texts = [
            entry.text for entry in before if isinstance(entry, AgentText) and _slug(entry.author) == self.agent
        ]
        said = [entry for entry in before if isinstance(entry, UserText | AgentText)]
        groups = [(by is UserText, [without_context(one.text) for one in texts]) for by, texts in groupby(said, type)]
        if not any(by_user for by_user, _ in groups):  # a sub-agent is shown only its caller's text
            groups = [(True, texts) for _, texts in groups[-1:]]
        elif not groups[-1][0]:
            groups.pop()
        self.messages = [text for by_user, texts in groups if by_user for text in texts]
        self.newest = "\n".join(groups[-1][1]) if groups else ""
        """The user's latest messages before the run, with no agent's text between."""
        answers = [result.content for result in results if result.tool == "ask"]  # they come again as messages
        later = [without_context(one.text) for one in during if isinstance(one, UserText) and one.text not in answers]
        self.request, self.tasks = _wanted(groups, later, "".join(answers[:1]))
        """The newest request on one line, and what it and messages during the run ask for."""
        notes = [entry.text for entry in before if isinstance(entry, Note)]
        found = next((found for note in reversed(notes) if (found := _CHANGED.search(note))), None)
        self.changed = [path.strip() for path in found[1].split(", ")] if found else []
        """Files this cycle has changed."""

    def call(self, tool: str, *each: Mapping[str, Any]) -> list[CallResult | None]:
        """The results of calls of a tool in one step, with these arguments; None where it is not offered.

        Raises:
            NextStep: some have not been made.
        """
        if missing := [one for one in each if tool in self.tools and _key(tool, one) not in self._results]:
            raise NextStep(tool, missing)
        return [self._results.get(_key(tool, one)) for one in each]

    def call_on(self, tool: str, paths: Iterable[str]) -> dict[str, CallResult | None]:
        """As `call`, by path."""
        names = list(paths)
        return dict(zip(names, self.call(tool, *({"path": path} for path in names)), strict=True))


def _slug(name: str) -> str:
    """The slug of an agent that is called by this name, where it follows from the name."""
    return "-".join(name.lower().split())


def _key(tool: str, arguments: Mapping[str, Any]) -> str:
    return json.dumps([tool, dict(arguments)], sort_keys=True)


def _wanted(groups: Sequence[tuple[bool, Sequence[str]]], later: Sequence[str], reply: str) -> tuple[str, list[Task]]:
    """The newest request and its tasks; the file name it lacks is in the reply that came after it."""
    request = "\n".join(groups[-1][1]) if groups else ""
    tasks = list[Task]()
    for by_user, texts in reversed(groups):
        if by_user:
            tasks = [task for text in texts for task in read_request(text)]
            reply = reply or next((text for text in reversed(texts) if not read_request(text)), "")
            if tasks or any(len(text.split()) > 6 for text in texts):  # longer than an answer about the one before
                request = "\n".join(texts)
                break
        elif texts[-1].startswith(LEARNED):
            break
    tasks += [task for text in later for task in read_request(text)]
    name = re.search(FILE, reply) or re.search(r"(?P<path>\w+)\W*\Z", reply)
    path = "" if name is None else name["path"] if "." in name["path"] else f"{name['path']}.py"
    return short(request, 120), [replace(task, path=task.path or path) for task in tasks]


def text_of(read: CallResult | None) -> str | None:
    """The text of a file by the result of `read_file`; None where there is none.

    Raises:
        CannotApply: only a part was shown.
    """
    if read is None or not read.ok:
        return None
    if _PART.search(read.content):
        raise CannotApply("it is longer than what I am shown of a file")
    if read.content in ("", _EMPTY):
        return ""
    return without_numbers(read.content).rstrip("\n") + "\n"


def without_numbers(shown: str) -> str:
    """Lines as `read_file` shows them, without their numbers."""
    return _NUMBERS.sub("", shown)
