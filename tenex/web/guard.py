"""Who may see the pages: what every request is checked for before a page is made, and what every answer says.

    host      names this machine as we print it, or by a configured name: else a page in a browser may have given its
              own name our address (DNS rebinding)
    place     all pages are below a path that is drawn at each start. Cookies know no port: a browser shows the cookies
              of 127.0.0.1 to every server there, also to one of another user, but only below the path of the cookie
    origin    what changes something comes from a page of ours, by `Origin` and `Sec-Fetch-Site` (CSRF)
    session   a cookie that only this process knows, for a token that was printed, and is good for one login
    logins    of one address some in a minute: each costs a signature or connections
    form      what changes something carries a number that was drawn for that form, and is good once

Nothing is loaded from elsewhere, and no script or style but our own files runs: the policy has no exception.
"""

import hashlib
import hmac
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .outcome import Outcome
from .signer_login import SessionSigner

COOKIE: Final = "tenex_session"
BODY_BYTES: Final = 256 * 1024
"""Of what a form sends; a message over relays is smaller."""
FIELDS: Final = 20
TOKENS: Final = 20
"""Unused links that are good at a time."""
TOKEN_SECONDS: Final = 24 * 3_600
"""For how long an unused link is good."""
SESSIONS: Final = 50
"""Browsers that are logged in at a time; the one that has asked for nothing for longest is logged out."""
FORMS: Final = 10_000
"""Forms of one browser that may still be sent: those of the newest pages."""
OUTCOMES: Final = 50
"""Of the newest forms of one browser, for the pages that come after them."""
KEPT: Final = 20
"""Answers of one browser that it has been given to sign."""
VISITS: Final = 2_000
"""Conversations of which it is remembered when a browser has seen them last."""

LOGINS_PER_MINUTE: Final = 30
"""Of one address; behind a proxy that is one for all."""
ADDRESSES: Final = 1_000
"""Of which logins are counted."""

LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "::1")
"""Of this machine, at which a browser reaches a port without a proxy."""

OPEN: Final = ("/login", "/static/", "/favicon.ico")
"""What is answered without a session, below the path of the pages."""

_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(?::(\d{1,5}))?")
_USUAL_PORTS: Final = (None, 80, 443)

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; manifest-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # with `no-referrer` a browser would send `Origin: null` with our own forms
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}


@dataclass(slots=True)
class Session:
    """A browser that is logged in."""

    forms: OrderedDict[str, str] = field(default_factory=OrderedDict)
    """What each form that was shown is for, by its number."""
    outcomes: OrderedDict[str, Outcome] = field(default_factory=OrderedDict)
    """What became of the newest forms that were sent, by a number of each."""
    signer: SessionSigner | None = None
    """The remote signer it has logged in with."""
    since: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    """When it logged in, in ms: what was before that is not new to it."""
    _kept: OrderedDict[str, object] = field(default_factory=OrderedDict)
    """What it has been given to sign, by a number of each."""
    _visits: OrderedDict[str, int] = field(default_factory=OrderedDict)
    """When it has seen each conversation last, in ms."""

    def form(self, purpose: str) -> str:
        """The number of a new form."""
        number = secrets.token_urlsafe(16)
        self.forms[number] = purpose
        if len(self.forms) > FORMS:
            self.forms.popitem(last=False)
        return number

    def take(self, number: str, purpose: str) -> bool:
        """Whether a form with that number was shown for that purpose, and is sent for the first time."""
        return hmac.compare_digest(self.forms.pop(number, ""), purpose) if number else False

    def note(self, outcome: Outcome) -> str:
        """Remember what became of a form; returns the number by which the next page names it."""
        number = secrets.token_urlsafe(6)
        self.outcomes[number] = outcome
        if len(self.outcomes) > OUTCOMES:
            self.outcomes.popitem(last=False)
        return number

    def keep(self, value: object) -> str:
        """Keep something for one request of this browser; returns the number that it has to name."""
        number = secrets.token_urlsafe(16)
        self._kept[number] = value
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return number

    def take_kept(self, number: str) -> object:
        """What was kept under a number, once; None where there is nothing."""
        return self._kept.pop(number, None)

    def visited(self, conversation: str) -> None:
        """Remember that the browser shows a conversation now."""
        self._visits[conversation] = time.time_ns() // 1_000_000
        self._visits.move_to_end(conversation)
        if len(self._visits) > VISITS:
            self._visits.popitem(last=False)

    def is_new(self, conversation: str, updated: int) -> bool:
        """Whether something has happened in a conversation since the browser has seen it; `updated` is in ms."""
        return updated > self._visits.get(conversation, self.since)


class Logins:
    """The tokens of printed links, and the sessions; only digests are kept."""

    def __init__(self) -> None:
        self._tokens: OrderedDict[str, float] = OrderedDict()
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def new_token(self) -> str:
        """A token that is good for one login."""
        token = secrets.token_urlsafe(32)
        self._tokens[_digest(token)] = time.monotonic()
        if len(self._tokens) > TOKENS:
            self._tokens.popitem(last=False)
        return token

    def login(self, token: str) -> str | None:
        """The cookie of a new session for a token, which is good no more; None where it is not good."""
        made = self._tokens.pop(_digest(token), None)
        if made is None or time.monotonic() - made > TOKEN_SECONDS:
            return None
        return self.open_session()

    def open_session(self, signer: SessionSigner | None = None) -> str:
        """The cookie of a new session."""
        cookie = secrets.token_urlsafe(32)
        self._sessions[_digest(cookie)] = Session(signer=signer)
        if len(self._sessions) > SESSIONS:
            _end(self._sessions.popitem(last=False)[1])
        return cookie

    def session(self, cookie: str) -> Session | None:
        """The session of a cookie."""
        name = _digest(cookie)
        session = self._sessions.get(name)
        if session is not None:
            self._sessions.move_to_end(name)
        return session

    def logout(self, cookie: str) -> None:
        """End the session of a cookie."""
        _end(self._sessions.pop(_digest(cookie), None))


def _end(session: Session | None) -> None:
    if session is not None and session.signer is not None:
        session.signer.close()


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


class Guard:
    """Lets through to the pages what passes every check; an ASGI application around theirs."""

    def __init__(
        self, pages: ASGIApp, *, base: str, hosts: Collection[str], logins: Logins, has_entry: bool = False
    ) -> None:
        """Guard the pages below the path `base`; `hosts` are the names by which they may be asked.

        A name may have a port, which a proxy has; without one it is of this server or a usual one.
        The root leads to the login for a name of its own, whose cookies no other server gets: with `has_entry` also at
        the names of this machine, as behind a socket or with https.
        """
        self._pages = pages
        self._base = base
        self._hosts = frozenset(host.lower() for host in hosts)
        self._logins = logins
        self._has_entry = has_entry
        self._attempts: OrderedDict[str, list[float]] = OrderedDict()
        """The times of the newest logins, by the address that asked."""

    def _tries_too_often(self, client: str) -> bool:
        """Count a login of an address; whether it has tried more often than it may."""
        now = time.monotonic()
        recent = [at for at in self._attempts.pop(client, ()) if now - at < 60]
        self._attempts[client] = [*recent, now][-LOGINS_PER_MINUTE:]
        if len(self._attempts) > ADDRESSES:
            self._attempts.popitem(last=False)
        return len(recent) >= LOGINS_PER_MINUTE

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; anything but HTTP is not answered."""
        if scope["type"] != "http":
            return
        request = Request(scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = self._refusal(request)
        await (answer or self._pages)(scope, receive, send_with_headers)

    def _is_our_port(self, request: Request, name: str, port: int | None) -> bool:
        """Whether a port is the one at which this server listens, or one of the proxy before it."""
        listening = (request.scope.get("server") or (None, None))[1]
        if port == listening or f"{name}:{port}" in self._hosts:
            return True
        is_behind_proxy = listening is None or name not in LOOPBACK_NAMES
        return is_behind_proxy and port in _USUAL_PORTS

    def _refusal(self, request: Request) -> Response | None:
        """The answer to a request that is not let through; None where it is."""
        headers = request.headers
        name, port = host_of(headers)
        if name not in self._hosts and f"{name}:{port}" not in self._hosts:
            return _refused(HTTPStatus.MISDIRECTED_REQUEST, "The pages have another name. Use the link as printed.")
        if request.method not in ("GET", "HEAD", "POST"):
            return _refused(HTTPStatus.METHOD_NOT_ALLOWED, "Only GET and POST are known here.")
        path = request.url.path
        if path == "/favicon.ico":
            return None
        is_entry = self._has_entry or name not in LOOPBACK_NAMES
        if path == "/" and is_entry:
            return RedirectResponse(f"{self._base}/", HTTPStatus.SEE_OTHER)
        if not path.startswith(f"{self._base}/"):
            return _refused(HTTPStatus.NOT_FOUND, "There is nothing here. `tenex web` prints the link.")
        if request.method == "POST" and not is_own_page(headers):
            return _refused(HTTPStatus.FORBIDDEN, "This did not come from a page of tenex. Nothing was done.")
        rest = path.removeprefix(self._base)
        client = request.client.host if request.client is not None else ""
        if request.method == "POST" and rest.startswith("/login") and self._tries_too_often(client):
            return _refused(HTTPStatus.TOO_MANY_REQUESTS, "Too many logins. Wait a minute, then try again.")
        session = self._logins.session(request.cookies.get(COOKIE, ""))
        request.scope["tenex.session"] = session
        request.scope["tenex.is_our_port"] = self._is_our_port(request, name, port)
        if session is not None or rest.startswith(OPEN):
            return None
        if request.method == "GET" and "text/html" in headers.get("accept", ""):
            return RedirectResponse(f"{self._base}/login", HTTPStatus.SEE_OTHER)
        return _refused(HTTPStatus.UNAUTHORIZED, "Log in with a link of `tenex web`.")


def is_our_port(request: Request) -> bool:
    """Whether a request that was let through names a port of these pages: a signature for another one is not for us."""
    return bool(request.scope.get("tenex.is_our_port"))


def host_of(headers: Headers) -> tuple[str, int | None]:
    """The name and the port in the `Host` header, in which nothing else may be; ("", None) where there is none."""
    hosts = headers.getlist("host")
    match = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
    if match is None:
        return "", None
    return match[1].strip("[]").lower(), int(match[2]) if match[2] else None


def is_own_page(headers: Headers) -> bool:
    """Whether a browser says that a request comes from a page of this server."""
    origin = headers.get("origin")
    site = headers.get("sec-fetch-site")
    if origin is None:
        return site == "same-origin"
    host = headers.get("host", "")
    return origin in (f"http://{host}", f"https://{host}") and site in (None, "same-origin")


def session_of(request: Request) -> Session:
    """The session of a request that was let through.

    Raises:
        LookupError: it needs none.
    """
    session: Session | None = request.scope.get("tenex.session")
    if session is None:
        raise LookupError("no session")
    return session


async def fields_of(request: Request) -> dict[str, str] | None:
    """The fields of a form; None where it is too large, or none."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > BODY_BYTES:
            return None
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        return None
    try:
        fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=FIELDS, errors="replace")
    except ValueError:
        return None
    return {name: values[0] for name, values in fields.items()}


def _refused(status: HTTPStatus, sentence: str) -> Response:
    return PlainTextResponse(f"{sentence}\n", status)
