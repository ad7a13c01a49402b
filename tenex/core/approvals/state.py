"""Calls that wait for a person, what was allowed in this conversation, and which requests are over."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from tenex.core.config import Replay
from tenex.core.ids import CallId, Millis, RunId, Slug
from tenex.core.values import replace

from .rules import ApprovalRule, Verdict

SETTLED: Final = 20
"""Requests that are over and remembered, so that a late answer gets a reply."""
PERMISSIONS: Final = 50
"""Permissions that are kept; the oldest makes room."""

Outcome = Literal["yes", "no", "expired", "unattended"]
Ending = Literal["yes", "no", "expired", "unattended", "over"]
"""How a request ended; `over` with the work that it was for."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A message that asks about calls of one step; `seq` is its record."""

    seq: int
    at: Millis
    run: RunId
    agent: Slug
    name: str
    calls: tuple[AskedCall, ...]
    expires_at: Millis
    needs_word: bool
    """Whether only a written yes counts, as the message does not show all of it."""
    events: tuple[str, ...] = ()
    """The message's; more than one where it is long."""

    @property
    def line(self) -> str:
        """What is asked, in a line."""
        first, *others = self.calls
        return f"{first.line} and {len(others)} more" if others else first.line

    def find(self, call: CallId) -> AskedCall | None:
        """The call of that id."""
        return next((asked for asked in self.calls if asked.call == call), None)


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

    def rules(self) -> tuple[ApprovalRule, ...]:
        """It as rules."""
        given: dict[str, Any] = {
            "decision": Verdict.ALLOW,
            "name": f"permission {self.number} of {self.name}",
            "tool": self.tool,
            "digest": self.digest,
        }
        return tuple(ApprovalRule(match=words, **given) for words in self.prefixes or ((),))


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledRequest:
    """A request that is over."""

    seq: int
    run: RunId
    events: tuple[str, ...]
    line: str
    outcome: Ending
    name: str = ""


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

    def closed(self, seq: int, outcome: Ending, name: str = "") -> "Approvals":
        """A request is over."""
        request = self.open.get(seq)
        if request is None:
            return self
        over = SettledRequest(
            seq=seq, run=request.run, events=request.events, line=request.line, outcome=outcome, name=name
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
