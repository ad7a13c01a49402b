"""Calls that wait for a person, what was allowed in this conversation, and which requests are over."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from tenex.core.config import Replay
from tenex.core.ids import CallId, Millis, PublicKey, RunId, Slug
from tenex.core.values import replace
from tenex.core.work.tool_names import all_of_server

from .rules import ApprovalRule, Verdict

SETTLED: Final = 20
"""Requests that are over and remembered, so that a late answer gets a reply."""
PERMISSIONS: Final = 50
"""Permissions that are kept; the oldest makes room."""

Outcome = Literal["yes", "no", "expired", "unattended"]
Ending = Literal["yes", "no", "expired", "unattended", "parts", "over"]
"""How a request ended; `parts` where its calls had different answers, `over` with the work that it was for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedCall:
    """A call that a person is asked about."""

    call: CallId
    tool: str
    replay: Replay
    digest: str
    """The sha256 of tool and arguments: what is allowed is this, and nothing that resembles it."""
    line: str
    """It in a line, control characters as escapes, cut."""
    rule: str
    """Why it is asked about."""
    prefixes: tuple[tuple[str, ...], ...] = ()
    """What `always` allows: the first words of each of its commands; empty for the tool, or exactly these arguments."""
    is_exact: bool = False
    """Whether `always` allows nothing but these arguments."""
    wish: str = ""
    """What the agent wants and why it asks, as the end of a sentence; "" in older journals."""
    definition: str = ""
    """The digest of the tool's definition, to which what `always` allows is bound."""
    of_server: str = ""
    """The digest of the definitions of all tools of its server, to which “always all” is bound."""
    others: str = ""
    """The digest of its arguments besides the command, where `prefixes` are bound to them."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The files of the workspace that it names, with their digests when it was asked about."""
    changed: tuple[str, ...] = ()
    """Files that changed after it had been asked about before."""
    needs: tuple[str, ...] = ()
    """What it needs beyond the sandbox; `always` allows calls with exactly these needs."""
    host: str = ""
    """The host that it goes to, where `always` allows calls of the tool to this host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenAnswer:
    """An answer to a request: to all of its calls, or to some; `seq` is its record."""

    seq: int
    calls: tuple[CallId, ...]
    outcome: Outcome
    by: PublicKey = PublicKey("")
    name: str = ""
    event: str = ""
    """The message or the reaction that gave it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A message that asks about calls of one step; `seq` is its record."""

    seq: int
    at: Millis
    run: RunId
    agent: Slug
    name: str
    calls: tuple[AskedCall, ...]
    """All that were asked about; a call's number is its place among them, from 1."""
    expires_at: Millis
    needs_word: bool
    """Whether only a written yes counts, as the message does not show all of it."""
    remind_at: Millis = Millis(0)
    """When the message is sent once more; 0 for never, and once it was."""
    events: tuple[str, ...] = ()
    """The message's, and those of what the agent has said about it since."""
    answers: tuple[GivenAnswer, ...] = ()
    """Those so far; while it is open, calls are left."""

    @property
    def left(self) -> Mapping[int, AskedCall]:
        """The calls that have no answer yet, by their numbers."""
        answered = {call for answer in self.answers for call in answer.calls}
        return {number: asked for number, asked in enumerate(self.calls, start=1) if asked.call not in answered}

    @property
    def line(self) -> str:
        """What is asked, in a line."""
        return line_of(tuple(self.left.values()) or self.calls)

    @property
    def ending(self) -> Outcome | Literal["parts"]:
        """How it ended, once all of its calls have an answer."""
        outcomes = {answer.outcome for answer in self.answers}
        return outcomes.pop() if len(outcomes) == 1 else "parts"

    def find(self, call: CallId) -> AskedCall | None:
        """The call of that id, if it has no answer yet."""
        return next((asked for asked in self.left.values() if asked.call == call), None)

    def of(self, calls: Collection[CallId]) -> tuple[AskedCall, ...]:
        """The calls of these ids, in order."""
        return tuple(asked for asked in self.calls if asked.call in calls)

    def is_settled_by(self, calls: Collection[CallId]) -> bool:
        """Whether no call is left once these have an answer."""
        return all(asked.call in calls for asked in self.left.values())


def line_of(calls: tuple[AskedCall, ...]) -> str:
    """Calls in a line: the first, and how many more."""
    first = calls[0].line if calls else ""
    return f"{first} and {len(calls) - 1} more" if len(calls) > 1 else first


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """What a person has allowed in this conversation, beyond one request."""

    number: int
    """The seq of the answer; by it the permission is revoked."""
    tool: str
    prefixes: tuple[tuple[str, ...], ...]
    digest: str
    """Where it allows exactly one call; else ""."""
    line: str
    name: str
    """Who gave it."""
    until: Millis
    """0: as long as the conversation."""
    definition: str = ""
    """The digest of the tool's definition that it is bound to; "" in older journals, for any."""
    others: str = ""
    """The digest of the arguments besides the command that it is bound to; "" for any."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Where it allows exactly one call: the digests of the files that this names."""
    needs: tuple[str, ...] = ()
    """What the calls it allows need beyond the sandbox."""
    host: str = ""
    """The host to which the calls it allows go; "" for any."""

    @classmethod
    def of(
        cls, asked: AskedCall, *, number: int, name: str, until: Millis, is_for_server: bool = False
    ) -> "Permission":
        """What “always” to a call allows; `is_for_server` is for “always all”."""
        every = all_of_server(asked.tool)
        if is_for_server and every:
            return cls(
                number=number,
                tool=every,
                prefixes=(),
                digest="",
                line=every,
                name=name,
                until=until,
                definition=asked.of_server,
            )
        return cls(
            number=number,
            tool=asked.tool,
            prefixes=asked.prefixes,
            digest=asked.digest if asked.is_exact else "",
            line=asked.line,
            name=name,
            until=until,
            definition=asked.definition,
            others=asked.others,
            files=asked.files if asked.is_exact else {},
            needs=asked.needs,
            host=asked.host,
        )

    def rules(self) -> tuple[ApprovalRule, ...]:
        """It as rules."""
        shared: dict[str, Any] = {
            "decision": Verdict.ALLOW,
            "name": f"permission {self.number} of {self.name}",
            "tool": self.tool,
            "digest": self.digest,
            "definition": self.definition,
            "others": self.others,
            "files": self.files,
            "host": self.host,
            "needs": frozenset(self.needs),
        }
        return tuple(ApprovalRule(match=words, **shared) for words in self.prefixes or ((),))


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledRequest:
    """A request that is over."""

    seq: int
    run: RunId
    events: tuple[str, ...]
    line: str
    outcome: Ending
    name: str = ""
    answers: tuple[GivenAnswer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Approvals:
    """What persons are asked to allow, and what they have allowed."""

    open: Mapping[int, Request] = field(default_factory=dict)
    """By the seq of their records."""
    permissions: tuple[Permission, ...] = ()
    settled: tuple[SettledRequest, ...] = ()

    def asked_by(self, event: str) -> Request | None:
        """The open request that an event is the message of."""
        return next((request for request in self.open.values() if event in request.events), None)

    def settled_by(self, event: str) -> SettledRequest | None:
        """The request that is over and that an event was the message of."""
        return next((request for request in self.settled if event in request.events), None)

    def given_by(
        self, event: str, author: PublicKey
    ) -> tuple[Request | SettledRequest, tuple[GivenAnswer, ...]] | None:
        """The request that an event of a user has answered, and the answers in it."""
        requests: list[Request | SettledRequest] = [*self.open.values(), *self.settled]
        for request in requests:
            answers = tuple(answer for answer in request.answers if answer.event == event and answer.by == author)
            if answers:
                return request, answers
        return None

    def asked(self, run: RunId, call: CallId) -> AskedCall | None:
        """The call of a run that waits for an answer."""
        named = (request.find(call) for request in self.open.values() if request.run == run)
        return next((asked for asked in named if asked is not None), None)

    def unattended(self, run: RunId) -> tuple[str, ...]:
        """What a run was refused because no one is there to be asked, in a line each."""
        return tuple(one.line for one in self.settled if one.run == run and one.outcome == "unattended")

    def rules(self, now: Millis) -> tuple[ApprovalRule, ...]:
        """The permissions that hold now, as rules."""
        holding = (permission for permission in self.permissions if not permission.until or permission.until > now)
        return tuple(rule for permission in holding for rule in permission.rules())

    def answered(self, seq: int, answer: GivenAnswer) -> "Approvals":
        """A request has an answer; it is over once none of its calls is left."""
        request = self.open.get(seq)
        if request is None:
            return self
        request = replace(request, answers=(*request.answers, answer))
        now = replace(self, open={**self.open, seq: request})
        if request.left:
            return now
        return now.closed(seq, request.ending, "" if request.ending == "parts" else answer.name)

    def withdrawn(self, event: str, author: PublicKey) -> "Approvals":
        """A user has deleted an answer: what it allows beyond its calls ends, and it is not found again."""
        answered = self.given_by(event, author)
        if answered is None:
            return self
        numbers = {answer.seq for answer in answered[1]}

        def without_event(answers: tuple[GivenAnswer, ...]) -> tuple[GivenAnswer, ...]:
            return tuple(replace(answer, event="") if answer.seq in numbers else answer for answer in answers)

        return replace(
            self,
            open={seq: replace(asked, answers=without_event(asked.answers)) for seq, asked in self.open.items()},
            settled=tuple(replace(over, answers=without_event(over.answers)) for over in self.settled),
            permissions=tuple(kept for kept in self.permissions if kept.number not in numbers),
        )

    def closed(self, seq: int, outcome: Ending, name: str = "") -> "Approvals":
        """A request is over."""
        request = self.open.get(seq)
        if request is None:
            return self
        over = SettledRequest(
            seq=seq,
            run=request.run,
            events=request.events,
            line=request.line,
            outcome=outcome,
            name=name,
            answers=request.answers,
        )
        left = {number: other for number, other in self.open.items() if number != seq}
        return replace(self, open=left, settled=(*self.settled, over)[-SETTLED:])

    def permitted(self, permissions: tuple[Permission, ...]) -> "Approvals":
        """A person has allowed more than one request."""
        return replace(self, permissions=(*self.permissions, *permissions)[-PERMISSIONS:])

    def gone_back(self, to: int) -> "Approvals":
        """After a rollback to record `to` nothing is open, and what was allowed later counts no more."""
        now = self
        for seq in self.open:
            now = now.closed(seq, "over")
        return replace(now, permissions=tuple(one for one in now.permissions if one.number <= to))
