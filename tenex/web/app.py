"""The application: login, files, the pages, and the guard around all of them."""

from collections.abc import Collection
from http import HTTPStatus
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp

from tenex.core.errors import TenexError

from .change_pages import ChangePages
from .conversation_pages import ConversationPages
from .daemon_pages import DaemonPages
from .guard import COOKIE, LOOPBACK_NAMES, Guard, fields_of, host_of, is_our_port
from .list_pages import ListPages
from .rendering import STATIC, page, qr_code
from .reply_pages import ReplyPages
from .site import Page, Site
from .time_pages import TimePages

ICON: Final = "icon.svg"
FILES: Final = {
    "tenex.css": "text/css",
    "talk.css": "text/css",
    "live.js": "text/javascript",
    "times.js": "text/javascript",
    "talk.js": "text/javascript",
    "keys.js": "text/javascript",
    "login.js": "text/javascript",
    "sign.js": "text/javascript",
    "notify.js": "text/javascript",
    "worker.js": "text/javascript",
    "icon-192.png": "image/png",
    "icon-512.png": "image/png",
    ICON: "image/svg+xml",
}
"""What `static/` holds, with its type; nothing else is served from the disk."""


def application(site: Site, hosts: Collection[str], *, has_entry: bool = False) -> ASGIApp:
    """The pages of a site behind the guard; `hosts` are the names by which they may be asked.

    With `has_entry` the root of the host leads to the login.
    """
    routes = routes_of(site)
    site.menu = [route for route in routes if isinstance(route, Page) and route.is_in_menu]
    pages = Starlette(
        routes=[Mount(site.base, routes=routes), Route("/favicon.ico", _icon)],
        exception_handlers={TenexError: site.on_error, HTTPStatus.NOT_FOUND: site.on_missing},
    )
    return Guard(pages, base=site.base, hosts=hosts, logins=site.logins, has_entry=has_entry)


def routes_of(site: Site) -> list[BaseRoute]:
    """All that is below the base of a site."""
    return [
        Route("/login", _Login(site).answer, methods=["GET", "POST"]),
        Route("/login/key", _Login(site).by_key, methods=["POST"]),
        Route("/login/signer", _Login(site).by_signer, methods=["POST"]),
        Route("/logout", _Logout(site).answer, methods=["POST"]),
        Route("/link", _Link(site).answer, methods=["POST"]),
        Route("/static/app.webmanifest", _Manifest(site).answer),
        Route("/static/{name}", _static),
        *ListPages(site).routes(),
        *ConversationPages(site).routes(),
        *ChangePages(site).routes(),
        *ReplyPages(site).routes(),
        *TimePages(site).routes(),
        *DaemonPages(site).routes(),
        *(route for part in site.parts for route in part.routes(site)),
    ]


OTHER_PORT: Final = (
    "This page was asked at another port than it has, and a signature for one port is none for another. Log in at its "
    "own port, or with a link of `tenex web`."
)


class _Login:
    """The page that a printed link leads to, and its form."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def answer(self, request: Request) -> Response:
        """Show the form, or log in with its token."""
        if request.method != "POST":
            return self._form("")
        fields = await fields_of(request) or {}
        cookie = self._site.logins.login(fields.get("token", "").strip())
        if cookie is None:
            return self._form("This link was used before, or is too old.", HTTPStatus.FORBIDDEN)
        return self._logged_in(request, RedirectResponse(f"{self._site.base}/", HTTPStatus.SEE_OTHER), cookie)

    async def by_key(self, request: Request) -> Response:
        """Log in by a signature of an owner (NIP-98)."""
        url = f"{request.headers.get('origin', '')}{self._site.base}/login/key"
        why = self._site.key_logins.why_not(request.headers.get("authorization", ""), url)
        why = why if is_our_port(request) else OTHER_PORT
        if why:
            return JSONResponse({"error": why}, HTTPStatus.FORBIDDEN)
        return self._logged_in(request, JSONResponse({"to": f"{self._site.base}/"}), self._site.logins.open_session())

    async def by_signer(self, request: Request) -> Response:
        """Log in by a remote signer of an owner (NIP-46), which signs what is written from then on."""
        fields = await fields_of(request) or {}
        logins = self._site.signer_logins
        if not is_our_port(request):
            return self._form("", HTTPStatus.FORBIDDEN, signer_fault=OTHER_PORT)
        try:
            if number := fields.get("number", ""):
                signer = await logins.go_on(number)
            else:
                url = f"{request.headers.get('origin', '')}{self._site.base}/login/signer"
                begun = await logins.begin(fields.get("address", ""), url)
                if isinstance(begun, tuple):
                    allow_at, number = begun
                    return self._form("", allow_at=allow_at, number=number)
                signer = begun
        except TenexError as error:
            return self._form("", HTTPStatus.FORBIDDEN, signer_fault=str(error))
        to = RedirectResponse(f"{self._site.base}/", HTTPStatus.SEE_OTHER)
        return self._logged_in(request, to, self._site.logins.open_session(signer))

    def _logged_in(self, request: Request, answer: Response, cookie: str) -> Response:
        answer.set_cookie(
            COOKIE,
            cookie,
            path=self._site.base,
            httponly=True,
            samesite="strict",
            secure=request.headers.get("origin", "").startswith("https:"),
        )
        return answer

    def _form(self, fault: str, status: int = HTTPStatus.OK, **signer: str) -> Response:
        shown = {"signer_fault": "", "allow_at": "", "number": "", **signer}
        return HTMLResponse(page("login.html", {"base": self._site.base, "fault": fault, **shown}), status)


class _Logout:
    """Ends the session of a browser."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def answer(self, request: Request) -> Response:
        """Log out."""
        await self._site.posted(request, "logout")
        self._site.logins.logout(request.cookies.get(COOKIE, ""))
        answer = self._site.to("/login")
        answer.delete_cookie(COOKIE, path=self._site.base)
        return answer


class _Link:
    """Makes a link for another browser."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def answer(self, request: Request) -> Response:
        """Show a new link, which is good once."""
        await self._site.posted(request, "link")
        origin = request.headers.get("origin") or f"http://{request.headers['host']}"
        is_here = host_of(request.headers)[0] in LOOPBACK_NAMES
        address = (self._site.outer or origin) if is_here else origin
        link = f"{address}{self._site.base}/login#{self._site.logins.new_token()}"
        can_be_reached = not is_here or bool(self._site.outer)
        code = qr_code(link) if can_be_reached else ""
        return await self._site.show(request, "link.html", {"link": link, "code": code})


class _Manifest:
    """Lets a browser install the pages as an app. It names nothing of the project: it is given without a login."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def answer(self, request: Request) -> Response:
        """The manifest; a host of its own begins at its root, which leads to the pages after a restart too."""
        is_here = host_of(request.headers)[0] in LOOPBACK_NAMES
        static = f"{self._site.base}/static"
        icons = [
            {"src": f"{static}/icon-{size}.png", "sizes": f"{size}x{size}", "type": "image/png"} for size in (192, 512)
        ]
        manifest = {
            "name": "tenex",
            "short_name": "tenex",
            "start_url": f"{self._site.base}/" if is_here else "/",
            "scope": "/",
            "display": "standalone",
            "icons": icons,
        }
        return JSONResponse(manifest, media_type="application/manifest+json")


async def _static(request: Request) -> Response:
    name = str(request.path_params["name"])
    if name not in FILES:
        return PlainTextResponse("There is no such file.\n", HTTPStatus.NOT_FOUND)
    return FileResponse(STATIC / name, media_type=FILES[name])


async def _icon(_: Request) -> Response:
    return FileResponse(STATIC / ICON, media_type=FILES[ICON])
