"""Calls that wait for a person, as an operator is shown them, and what the answers so far suggest."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from tenex.core import records as r
from tenex.core.approvals.message import call_number, call_text, number_of, numbers_of
from tenex.core.approvals.state import AskedCall, Request
from tenex.core.conversation import Conversation
from tenex.core.ids import Millis
from tenex.store.view_json import iso

ENOUGH: Final = 20
"""Answers, all of them yes, from which on a rule is proposed."""


def open_requests(conversations: Iterable[Conversation], now: Millis) -> list[dict[str, Any]]:
    """The requests that wait for an answer, oldest first."""
    found = [(request, state) for state in conversations for request in state.approvals.open.values()]
    found.sort(key=lambda pair: pair[0].at)
    return [_shown(request, state, now) for request, state in found]


def _shown(request: Request, state: Conversation, now: Millis) -> dict[str, Any]:
    run = state.work.runs.get(request.run)
    return {
        "number": number_of(state.id, request.seq),
        "names": numbers_of(state.id, request),
        "conversation": state.id,
        "request": request.seq,
        "title": state.identity.title,
        "agent": request.agent,
        "asks": request.line,
        "since": iso(request.at),
        "seconds": max(0, now - request.at) // 1000,
        "expiresAt": iso(request.expires_at),
        "needsWord": request.needs_word,
        "calls": [
            {
                "number": call_number(state.id, request, number),
                "tool": asked.tool,
                "rule": asked.rule,
                "asks": asked.line,
                "text": call_text(asked.tool, call.request.arguments),
            }
            for number, asked in request.left.items()
            if run is not None and (call := run.find(asked.call)) is not None
        ],
    }


# ---- what could be allowed by a rule ----


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A kind of call that persons have always allowed."""

    tool: str
    words: tuple[str, ...]
    """The first words of the command; empty for the whole tool."""
    answers: int
    needs: tuple[str, ...] = ()
    """What each needed beyond the sandbox."""


_Kind = tuple[str, tuple[str, ...], tuple[str, ...]]
"""The tool, the first words of the command, and the needs."""


def proposals(journals: Iterable[Iterable[r.Record]]) -> list[Proposal]:
    """The kinds of calls of which at least `ENOUGH` were asked about here, and each was allowed."""
    allowed: Counter[_Kind] = Counter()
    refused: set[_Kind] = set()
    for journal in journals:
        records = list(journal)
        if any(isinstance(record, r.ConversationImported) for record in records):
            continue  # who answered there is what a file says
        for kind, is_yes in _answers(records):
            if is_yes:
                allowed[kind] += 1
            else:
                refused.add(kind)
    return [
        Proposal(tool=tool, words=words, answers=count, needs=needs)
        for (tool, words, needs), count in allowed.most_common()
        if count >= ENOUGH and (tool, words, needs) not in refused
    ]


def _answers(records: Iterable[r.Record]) -> Iterator[tuple[_Kind, bool]]:
    asked: dict[int, tuple[AskedCall, ...]] = {}
    for record in records:
        if isinstance(record, r.ApprovalRequested):
            asked[record.seq] = record.calls
        elif isinstance(record, r.ApprovalAnswered) and record.outcome in ("yes", "no"):
            for call in asked.get(record.request, ()):
                if call.call in record.calls and not call.is_exact:
                    kinds = [(call.tool, words, call.needs) for words in call.prefixes or ((),)]
                    yield from ((kind, record.outcome == "yes") for kind in kinds)
