"""The pages of several conversations: what waits, and the list with its filters and search."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from http import HTTPStatus
from itertools import groupby
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from tenex.core.errors import UsageError
from tenex.core.ids import Millis
from tenex.core.phases import Phase
from tenex.nostr.keys import parse_public_key
from tenex.operations.listing import STATUSES, row_json
from tenex.store.search import Choices, Filter

from .guard import session_of
from .site import Page, Site, number_of, stream

ROWS: Final = 50
"""Conversations on a page; another press shows as many more."""
MOST_ROWS: Final = 1_000

ORDERS: Final[Mapping[str, str]] = {"updated": "last change", "created": "beginning", "title": "title"}
"""By which the list can be sorted, with what a person reads."""
NO_CHOICES: Final = Choices(statuses={}, agents=(), people={})
FIELDS: Final = ("q", "status", "phase", "agent", "person", "since", "until", "sort")


@dataclass(frozen=True)
class ListPages:
    """The pages, with what they share."""

    site: Site

    def routes(self) -> list[BaseRoute]:
        """The addresses below that of the site."""
        return [
            Page(
                "/",
                self.waiting,
                title="Waiting",
                shows="what only you can fix; open questions and decisions of all conversations, each with its "
                "buttons, oldest first; below it where it is your turn",
                commands=["status", "approvals list"],
            ),
            Route("/events", self.events),
            Page(
                "/conversations",
                self.conversations,
                title="Conversations",
                shows="by day, with state, phase, cost and last words; what is new since this browser looked; filters "
                "and full-text search; goes on by itself",
                commands=["conversations list", "conversations search"],
            ),
        ]

    async def waiting(self, request: Request) -> Response:
        """What waits for a user, in all conversations."""
        waits = await self.site.what_waits()
        values = {
            "here": "waiting",
            "open": waits.number,
            "problems": await self.site.source.problems(),
            "stuck": waits.stuck_by_cause,
            # what is asked later comes below: nothing moves under a finger that is about to press
            "decisions": waits.decisions,
            "turns": waits.turns,
            "notices": waits.notices,
            **self.site.answering(request),
            "is_cut": waits.is_cut,
        }
        if request.query_params.get("part"):
            return await self.site.show(request, "waiting_part.html", values)
        return await self.site.show(request, "waiting.html", values)

    async def events(self, _: Request) -> Response:
        """The stream of pages that show several conversations."""
        if self.site.streams.is_full:
            return PlainTextResponse("Too many pages are open.\n", HTTPStatus.SERVICE_UNAVAILABLE)
        return stream(self.site.streams.of_all())

    async def conversations(self, request: Request) -> Response:
        """The conversations that a filter lets through, or that match a query."""
        query = request.query_params
        chosen = {name: query.get(name, "").strip() for name in FIELDS}
        wanted = _filter_of(chosen)
        limit = min(MOST_ROWS, number_of(request, "limit") or ROWS)
        order = chosen["sort"] if chosen["sort"] in ORDERS else "updated"
        rows: list[dict[str, Any]] = []
        fault = ""
        notices: list[str] = []
        choices = NO_CHOICES
        try:
            if chosen["q"]:
                matches, choices, notices = await self.site.source.search(chosen["q"], wanted, limit)
                rows = [
                    {**row_json(match.row), "matches": match.matches, "excerpts": match.excerpts} for match in matches
                ]
            else:
                rows, choices, notices = await self.site.source.rows_with_choices(wanted)
                rows = sorted(rows, key=_KEYS[order], reverse=order != "title")[:limit]
        except UsageError as error:
            fault = str(error)
        session = session_of(request)
        glimpses = await asyncio.gather(*(self.site.source.glimpse(row["id"]) for row in rows))
        for row, glimpse in zip(rows, glimpses, strict=True):
            row["glimpse"] = glimpse
            row["at"] = _ms_of(row.get("created" if order == "created" else "updated"))
            row["is_new"] = session.is_new(row["id"], _ms_of(row.get("updated")))
        is_by_day = not chosen["q"] and order != "title"
        values = {
            "here": "conversations",
            "groups": list(_by_day(rows)) if is_by_day else [("", rows)],
            "notices": notices,
            "fault": fault,
            "chosen": chosen,
            "statuses": _statuses(choices, chosen["status"]),
            "phases": list(map(str, Phase)),
            "agents": _agents(choices, chosen["agent"]),
            "people": _people(choices, chosen["person"]),
            "orders": ORDERS,
            "more": limit + ROWS if len(rows) == limit and limit < MOST_ROWS else 0,
        }
        return await self.site.show(request, "rows.html" if query.get("part") else "conversations.html", values)


_KEYS: Final[Mapping[str, Callable[[dict[str, Any]], str]]] = {
    "updated": lambda row: str(row["updated"]),
    "created": lambda row: str(row.get("created", "")),
    "title": lambda row: str(row["title"] or "").casefold(),
}


def _by_day(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The rows below their days, in the words of a person."""
    today = datetime.now().astimezone().date()
    for day, of_day in groupby(rows, key=lambda row: _date(row["at"])):
        yield _words_of_day(day, today), list(of_day)


def _words_of_day(day: date | None, today: date) -> str:
    if day is None:
        return "Without a date"
    if day == today:
        return "Today"
    if day == today - timedelta(days=1):
        return "Yesterday"
    return day.strftime("%A, %d %B" if day.year == today.year else "%A, %d %B %Y")


def _date(at: int) -> date | None:
    try:
        return datetime.fromtimestamp(at / 1000).astimezone().date() if at else None
    except (ValueError, OverflowError, OSError):
        return None


def _statuses(choices: Choices, chosen: str) -> list[tuple[str, int]]:
    """Each state that a conversation is in, with their number, and the one that was chosen."""
    return [(name, choices.statuses.get(name, 0)) for name in STATUSES if name in (*choices.statuses, chosen)]


def _agents(choices: Choices, chosen: str) -> list[str]:
    return sorted({*choices.agents, *filter(None, (chosen,))})


def _people(choices: Choices, chosen: str) -> list[tuple[str, str]]:
    """The keys of people and what they are called."""
    known = {key: name or key[:12] for key, name in choices.people.items()}
    if chosen and chosen not in known:
        known[chosen] = chosen
    return sorted(known.items(), key=lambda person: person[1].casefold())


def _filter_of(chosen: Mapping[str, str]) -> Filter:
    """The fields of the list's form as a filter; what is none is not asked for."""
    phase = Phase.parse(chosen["phase"])
    agent = chosen["agent"].removeprefix("@").lower()
    with suppress(ValueError):
        agent = parse_public_key(agent)
    person = chosen["person"]
    with suppress(ValueError):
        person = parse_public_key(person)
    return Filter(
        status=chosen["status"] if chosen["status"] in STATUSES else "",
        phase="" if phase is None else str(phase),
        agent=agent,
        person=person,
        since=_midnight(chosen["since"]),
        until=_midnight(chosen["until"], days=1),
    )


def _midnight(day: str, days: int = 0) -> Millis | None:
    """The beginning of a day in the zone of this machine, so many days later; None where it is no day."""
    try:
        begin = datetime.strptime(day, "%Y-%m-%d") + timedelta(days=days)  # noqa: DTZ007 local, as it was typed
        return Millis(int(begin.astimezone().timestamp() * 1000))
    except (ValueError, OverflowError, OSError):
        return None


def _ms_of(moment: object) -> int:
    """A time of JSON in ms; 0 where it is none."""
    try:
        return int(datetime.fromisoformat(str(moment)).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return 0
