"""What all pages share: the values of their frame, forms that count once, and errors as pages."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from tenex import __version__
from tenex.core.errors import StoreError, TenexError, TransientError, UsageError
from tenex.core.ids import ConversationId
from tenex.core.projection import project
from tenex.operations.doctor.runner import Report
from tenex.tools.checkpoints import Checkpoints

from .guard import Logins, fields_of, session_of
from .key_login import KeyLogins
from .live import Streams
from .rendering import entry_html, page
from .reply import Writer
from .signer_login import SignerLogins
from .source import Source
from .story import Entry, Story
from .talk import Summary, checks_of
from .waiting import Waits, what_waits

_STATUS: Final[tuple[tuple[type[TenexError], HTTPStatus], ...]] = (
    (UsageError, HTTPStatus.NOT_FOUND),
    (StoreError, HTTPStatus.INTERNAL_SERVER_ERROR),
    (TransientError, HTTPStatus.BAD_GATEWAY),
)


KNOWN_FOR: Final = 60.0
"""Seconds for which the menu shows how much waits, as it was when that was looked at."""


class FormRefused(UsageError):
    """A form that was not shown here, or was sent before."""


class Page(Route):
    """The address of a page, with its title, what it shows, and the commands of `tenex` that print the same.

    The menu lists each that is of no single conversation, by the name of the method that answers.
    """

    def __init__(
        self,
        path: str,
        endpoint: Callable[[Request], Awaitable[Response]],
        *,
        title: str,
        shows: str,
        commands: Sequence[str],
    ) -> None:
        super().__init__(path, endpoint)
        self.title = title
        self.shows = shows
        self.commands = commands

    @property
    def is_in_menu(self) -> bool:
        """Whether the menu lists it: it is of no single conversation."""
        return not self.param_convertors


async def _none(_: "Site") -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class PagePart:
    """What a feature adds: a section at the end of a page, with the forms in it."""

    page: str
    """The page, by its name in the menu."""
    template: str
    """Such as `features/lessons/agents.html`: a file in the folder of a feature."""
    values: Callable[["Site"], Awaitable[Mapping[str, Any]]] = _none
    """What the template is given beside the values of the page."""
    routes: Callable[["Site"], Sequence[BaseRoute]] = lambda _: ()
    """The addresses of its forms."""


@dataclass(kw_only=True)
class Site:
    """The pages of one data folder."""

    source: Source
    writer: Writer
    logins: Logins
    key_logins: KeyLogins
    signer_logins: SignerLogins
    base: str
    """The path below which all pages are."""
    name: str
    """Of the project."""
    examine: Callable[[], Awaitable[Report]]
    """Asks the doctor, who repairs nothing."""
    parts: Sequence[PagePart]
    """What features add."""
    checkpoints: Callable[[], Checkpoints | None]
    """Gives None where there are none."""
    outer: str = ""
    """The address of the pages for browsers on other machines; "" where none can reach them."""
    menu: Sequence[Page] = ()
    """The application adds them."""
    streams: Streams = field(init=False)
    _number: tuple[float, int] = (-math.inf, 0)
    """When it was looked what waits (seconds of a monotonic clock), and how much did."""

    def __post_init__(self) -> None:
        self.streams = Streams(self.source, self._fragment, self._head)

    def _fragment(self, name: ConversationId, entry: Entry, before: Summary) -> str:
        html = entry_html(entry, {"base": self.base, "id": name, "is_file": False})
        return html if entry.is_work else html + page("work_line.html", {"summary": before})

    def _head(self, story: Story, work: Summary) -> str:
        shown = {"shown": project(story.state), "checks": checks_of(story.state), "summary": work}
        return page("head.html", {"base": self.base, **shown}) + page("work_line.html", shown)

    async def show(
        self, request: Request, template: str, values: Mapping[str, Any], status: int = HTTPStatus.OK
    ) -> Response:
        """A page."""
        session = session_of(request)
        parts = [part for part in self.parts if part.page == values.get("here")]
        added: dict[str, Any] = {}
        for part in parts:
            added |= await part.values(self)
        frame = {
            "base": self.base,
            "form": session.form,
            "here": "",
            "id": "",
            "is_file": False,
            "tab": "",
            "menu": self.menu,
            "open": self._known_number(),
            "parts": parts,
            "project": self.name,
            "sign": False,
            "signer": session.signer is not None,
            "version": __version__,
            "outcome": session.outcomes.get(request.query_params.get("sent", "")),
        }
        return HTMLResponse(await asyncio.to_thread(page, template, {**frame, **added, **values}), status)

    async def what_waits(self) -> Waits:
        """What waits for a person in all conversations; the menu of all pages shows how much for a while.

        To look again for each page would read the index each time, and where there is none every conversation.
        """
        waits = await what_waits(self.source)
        self._number = (time.monotonic(), waits.number)
        return waits

    def _known_number(self) -> int:
        at, number = self._number
        return number if time.monotonic() - at < KNOWN_FOR else 0

    async def fields(self, request: Request) -> dict[str, str]:
        """The fields of a form, whatever it is for.

        Raises:
            FormRefused: it is too large.
        """
        fields = await fields_of(request)
        if fields is None:
            raise FormRefused("The form is too large, or none. Nothing was done.")
        return fields

    def answering(self, request: Request) -> dict[str, Any]:
        """For a page with forms that answer: why it cannot sign them, and whether the browser may."""
        has_signer = session_of(request).signer is not None
        why_not = "" if has_signer and not self.writer.is_off else self.writer.why_not()
        return {"why_not": why_not, "sign": bool(why_not) and not self.writer.is_off}

    async def posted(self, request: Request, purpose: str) -> dict[str, str]:
        """The fields of a form that was shown for that purpose.

        Raises:
            FormRefused: it was not, or was sent before, or is too large.
        """
        fields = await self.fields(request)
        if not session_of(request).take(fields.get("form", ""), purpose):
            raise FormRefused("This form was sent before, or its page is too old. Nothing was done; load it again.")
        return fields

    def to(self, path: str) -> Response:
        """Go to another page after a form."""
        return RedirectResponse(f"{self.base}{path}", HTTPStatus.SEE_OTHER)

    async def on_error(self, request: Request, error: Exception) -> Response:
        """The page for an error."""
        status = next((code for kind, code in _STATUS if isinstance(error, kind)), HTTPStatus.INTERNAL_SERVER_ERROR)
        if isinstance(error, FormRefused):
            status = HTTPStatus.FORBIDDEN
        elif request.method == "POST" and isinstance(error, UsageError):
            status = HTTPStatus.BAD_REQUEST
        return await self.show(request, "error.html", {"sentence": str(error)}, status)

    async def on_missing(self, request: Request, _: Exception) -> Response:
        """The page for an address that there is not."""
        if request.scope.get("tenex.session") is None:
            return PlainTextResponse("There is no such page.\n", HTTPStatus.NOT_FOUND)
        return await self.show(request, "error.html", {"sentence": "There is no such page."}, HTTPStatus.NOT_FOUND)


def id_of(request: Request) -> ConversationId:
    """The conversation that an address names; whether there is one is seen when it is read."""
    return ConversationId(str(request.path_params["id"]))


def number_of(request: Request, name: str) -> int:
    """A number of the query; 0 where there is none."""
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else 0


def stream(events: Any) -> Response:
    """An answer of Server-Sent Events."""
    return StreamingResponse(events, media_type="text/event-stream", headers={"x-accel-buffering": "no"})
