"""What a run has seen and done so far, read anew from the request's entries at every step."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tenex.core.ids import CallId
from tenex.core.messages import AgentText, CallRequest, CallResult, Entry, ModelRequest, ModelStep, Note, UserText

_EMPTY = "(The file is empty.)"
_REMARK = re.compile(r"\n\[(?:Lines \d+ to \d+ of \d+; read on|Line \d+ is longer)[^\n]*\]\Z")
"""What `read_file` says where it has nothing to show, and where it shows a part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A tool call of this run that has its result."""

    tool: str
    arguments: Mapping[str, Any]
    ok: bool
    content: str

    @property
    def path(self) -> str:
        """The file the call was about, or an empty string."""
        return str(self.arguments.get("path", ""))

    @property
    def text(self) -> str:
        """The text of the file that was read, as far as it was shown; `read_file` leaves out its last newline."""
        shown = _REMARK.sub("", self.content)
        return "" if shown in ("", _EMPTY) else shown if shown.endswith("\n") else shown + "\n"

    @property
    def is_whole(self) -> bool:
        """Whether the file that was read was shown to its end."""
        return self.ok and not _REMARK.search(self.content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """A run so far.

    `groups` are a person's messages from before the run, those with no agent's answer between them together,
    oldest first. `interjections` came while the run was under way. `said` is what agents said before.
    """

    groups: tuple[tuple[str, ...], ...] = ()
    interjections: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    since: tuple[str, ...] = ()
    """Of that, what was said since the person's latest message."""
    notes: tuple[str, ...] = ()
    done: tuple[Done, ...] = ()
    steps: int = 0
    offered: frozenset[str] = field(default_factory=frozenset)
    replies: tuple[tuple[str, str], ...] = ()
    """What an agent said, and what the person wrote next."""

    @property
    def newest(self) -> tuple[str, ...]:
        """The person's latest messages before the run; empty if there are none."""
        return self.groups[-1] if self.groups else ()

    def calls(self, tool: str, path: str | None = None) -> tuple[Done, ...]:
        """The finished calls of a tool, on one path or on any, in order."""
        return tuple(done for done in self.done if done.tool == tool and path in (None, done.path))

    def last(self, tool: str, path: str | None = None) -> Done | None:
        """The latest finished call of a tool."""
        found = self.calls(tool, path)
        return found[-1] if found else None

    def reply_to(self, question: str) -> str | None:
        """What the person answered when an earlier run asked this; None if none did."""
        return next((reply for said, reply in reversed(self.replies) if said.strip() == question), None)


def read_transcript(request: ModelRequest) -> Transcript:
    """Sort a request's entries into what was there before the run and what came in it."""
    first = next((at for at, entry in enumerate(request.entries) if isinstance(entry, ModelStep)), None)
    before, during = request.entries[:first], request.entries[first:] if first is not None else ()
    done = _pair(during)
    answers = {call.content for call in done if call.tool == "ask"}
    return Transcript(
        groups=_groups(before) or _message_of_caller(before),
        # the answer to an `ask` may come a second time, as the message it was
        interjections=tuple(
            entry.text for entry in during if isinstance(entry, UserText) and entry.text not in answers
        ),
        said=_said(before),
        since=_said(before[_latest(before) :]),
        notes=tuple(entry.text for entry in before if isinstance(entry, Note)),
        done=done,
        steps=sum(isinstance(entry, ModelStep) for entry in during),
        offered=frozenset(tool.name for tool in request.tools),
        replies=_replies(before),
    )


def _said(entries: tuple[Entry, ...]) -> tuple[str, ...]:
    return tuple(entry.text for entry in entries if isinstance(entry, AgentText))


def _latest(entries: tuple[Entry, ...]) -> int:
    """Where the person's latest message stands."""
    return max((at for at, entry in enumerate(entries) if isinstance(entry, UserText)), default=0)


def _groups(entries: tuple[Entry, ...]) -> tuple[tuple[str, ...], ...]:
    groups: list[list[str]] = []
    is_open = False
    for entry in entries:
        if isinstance(entry, UserText):
            if is_open:
                groups[-1].append(entry.text)
            else:
                groups.append([entry.text])
            is_open = True
        elif isinstance(entry, AgentText):
            is_open = False
    return tuple(tuple(group) for group in groups)


def _message_of_caller(entries: tuple[Entry, ...]) -> tuple[tuple[str, ...], ...]:
    """What a colleague wants: whom one of them calls is shown no person's words."""
    return tuple((entry.text,) for entry in entries[-1:] if isinstance(entry, AgentText))


def _replies(entries: tuple[Entry, ...]) -> tuple[tuple[str, str], ...]:
    spoken = [entry for entry in entries if isinstance(entry, AgentText | UserText)]
    return tuple(
        (said.text, heard.text)
        for said, heard in pairwise(spoken)
        if isinstance(said, AgentText) and isinstance(heard, UserText)
    )


def _pair(entries: tuple[Entry, ...]) -> tuple[Done, ...]:
    asked: dict[CallId, CallRequest] = {}
    done: list[Done] = []
    for entry in entries:
        if isinstance(entry, ModelStep):
            asked.update((call.id, call) for call in entry.calls)
        elif isinstance(entry, CallResult):
            call = asked.get(entry.id)
            arguments = call.arguments if call else {}
            done.append(Done(tool=entry.tool, arguments=arguments, ok=entry.ok, content=entry.content))
    return tuple(done)
