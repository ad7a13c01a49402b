"""Who is let in: one browser for each link, on this machine, from our own pages; and what every answer forbids."""

from pathlib import Path

import httpx2
import pytest

from tenex.web import guard
from tenex.web.guard import COOKIE, FORMS, HEADERS, POLICY, Logins, Session
from tests.cli.journals import ONE

from .kit import Served, served

PATHS = ("/", "/conversations", f"/c/{ONE}", f"/c/{ONE}/events", "/events", "/daemon", "/usage", "/agents")


async def test_a_link_logs_in_one_browser_and_is_then_worth_nothing(data: Path) -> None:
    async with served(data, is_logged_in=False) as pages:
        token = pages.site.logins.new_token()
        answer = await pages.login(token)
        assert (answer.status_code, answer.headers["location"]) == (303, f"{pages.site.base}/")
        cookie = answer.headers["set-cookie"].lower()
        assert {"httponly", "samesite=strict", f"path={pages.site.base.lower()}"} <= {
            part.strip() for part in cookie.split(";")
        }
        assert "token" not in cookie
        await pages.get("/")
        stolen = await pages.login(token)
        assert stolen.status_code == 403
        assert "set-cookie" not in stolen.headers
        assert "used before" in stolen.text


async def test_another_user_of_this_machine_gets_nothing_without_a_token(data: Path) -> None:
    async with served(data, is_logged_in=False) as pages:
        for path in PATHS:
            for name in ("", "x" * 43, "../", "\u00e9"):
                cookie = {b"cookie": f"{COOKIE}={name}".encode()} if name else {}
                answer = await pages.client.get(f"{pages.base}{path}", headers=cookie)
                assert answer.status_code == 401, path
                assert "nice" not in answer.text
        assert (await pages.client.get(f"{pages.base}/", headers={"accept": "text/html"})).status_code == 303
        answer = await pages.client.post(f"{pages.base}/daemon/doctor", headers={"origin": pages.url})
        assert answer.status_code == 401
        assert (await pages.login("")).status_code == 403
        assert (await pages.login("guess")).status_code == 403


async def test_nothing_is_below_any_other_path_not_even_the_login(pages: Served) -> None:
    for path in ("/", "/login", "/conversations", f"/c/{ONE}", pages.site.base, f"{pages.site.base}x/login"):
        answer = await pages.client.get(f"{pages.url}{path}")
        assert answer.status_code == 404, path
        assert pages.site.base not in answer.text
        assert pages.site.base not in answer.headers.get("location", "")


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "0.0.0.0",
        "",
        "a@127.0.0.1",
    ],
)
async def test_a_name_that_was_given_our_address_is_refused(pages: Served, host: str) -> None:
    """As by DNS rebinding: the browser believes that the page and we are one site."""
    for path in (
        f"{pages.site.base}/",
        f"{pages.site.base}/login",
        f"{pages.site.base}/static/tenex.css",
        "/favicon.ico",
    ):
        answer = await pages.client.get(f"{pages.url}{path}", headers={"host": host})
        assert answer.status_code in (400, 421), path
    port = pages.url.rpartition(":")[2]
    for own in ("localhost", f"localhost:{port}", f"LOCALHOST:{port}", f"127.0.0.1:{port}", f"[::1]:{port}"):
        assert (await pages.client.get(f"{pages.base}/", headers={"host": own})).status_code == 200, own


async def test_a_configured_name_is_one_of_ours(data: Path) -> None:
    async with served(data, hosts=("tenex.example.com",)) as pages:
        headers = {"host": "tenex.example.com", "origin": "https://tenex.example.com"}
        token = pages.site.logins.new_token()
        answer = await pages.client.post(f"{pages.base}/login", data={"token": token}, headers=headers)
        assert answer.status_code == 303
        assert "secure" in answer.headers["set-cookie"].lower()


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "null"},
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": "http://localhost:1"},
        {"origin": "OWN", "sec-fetch-site": "same-site"},
        {"origin": "OWN", "sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "none"},
    ],
)
async def test_a_form_of_another_page_does_nothing(pages: Served, headers: dict[str, str]) -> None:
    sent = {name: pages.url if value == "OWN" else value for name, value in headers.items()}
    fields = await pages.form("/", "/logout")
    answer = await pages.client.post(f"{pages.base}/logout", data=fields, headers=sent)
    assert answer.status_code == 403
    token = pages.site.logins.new_token()
    answer = await pages.client.post(f"{pages.base}/login", data={"token": token}, headers=sent)
    assert answer.status_code == 403
    assert (await pages.login(token)).status_code == 303  # it was not used up
    await pages.get("/")


async def test_a_form_counts_once_and_only_for_what_it_was_shown_for(pages: Served) -> None:
    fields = await pages.form("/", "/link")
    assert (await pages.post("/logout", fields)).status_code == 403
    fields = await pages.form("/", "/link")
    made = await pages.post("/link", fields)
    assert made.status_code == 200
    assert (await pages.post("/link", fields)).status_code == 403
    assert (await pages.post("/link", {})).status_code == 403
    link = made.text.partition('class="link">')[2].partition("<")[0]
    async with httpx2.AsyncClient(trust_env=False) as client:
        other = Served(pages.site, pages.url, client, pages.data)
        assert (await other.login(link.partition("#")[2])).status_code == 303
        await other.get("/")
        stranger = await other.post("/link", await pages.form("/", "/link"))
        assert stranger.status_code == 403  # a form of one browser is none of another


async def test_after_logging_out_the_cookie_is_worth_nothing(pages: Served) -> None:
    cookie = pages.client.cookies[COOKIE]
    answer = await pages.post("/logout", await pages.form("/", "/logout"))
    assert answer.status_code == 303
    answer = await pages.client.get(f"{pages.base}/", headers={"cookie": f"{COOKIE}={cookie}"})
    assert answer.status_code == 401


async def test_every_answer_forbids_what_is_not_ours(pages: Served) -> None:
    assert "unsafe" not in POLICY
    assert "*" not in POLICY
    for path in (*PATHS[:3], "/daemon", "/login", "/static/tenex.css", "/static/none", "/c/nothing", "/none"):
        answer = await pages.client.get(f"{pages.base}{path}")
        assert {name: answer.headers[name] for name in HEADERS} == dict(HEADERS), path
    refused = await pages.client.get(f"{pages.url}/")
    assert refused.headers["content-security-policy"] == POLICY
    icon = await pages.client.get(f"{pages.url}/favicon.ico")
    assert (icon.status_code, icon.headers["content-type"]) == (200, "image/svg+xml")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
async def test_only_get_and_post_are_known(pages: Served, method: str) -> None:
    assert (await pages.client.request(method, f"{pages.base}/")).status_code == 405


async def test_no_other_file_of_the_disk_is_served(pages: Served) -> None:
    for name in ("..%2Fguard.py", "%2e%2e/guard.py", "guard.py", ".", "tenex.css%00.js"):
        answer = await pages.client.get(f"{pages.base}/static/{name}")
        assert answer.status_code == 404, name


async def test_a_form_that_is_too_large_or_none_is_refused(pages: Served) -> None:
    fields = await pages.form("/", "/link")
    assert (await pages.post("/link", {**fields, "text": "x" * 300_000})).status_code == 403
    answer = await pages.client.post(f"{pages.base}/link", json=fields, headers={"origin": pages.url})
    assert answer.status_code == 403
    assert (await pages.post("/link", fields)).status_code == 200


def test_old_links_sessions_and_forms_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    logins = Logins()
    tokens = [logins.new_token() for _ in range(guard.TOKENS + 1)]
    assert logins.login(tokens[0]) is None
    cookies = [logins.login(tokens[1])]
    cookies.extend(logins.login(logins.new_token()) for _ in range(guard.SESSIONS))
    assert logins.session(str(cookies[0])) is None
    assert logins.session(str(cookies[-1])) is not None
    late = logins.new_token()
    monkeypatch.setattr(guard, "TOKEN_SECONDS", -1)
    assert logins.login(late) is None
    session = Session()
    first = session.form("answer")
    for _ in range(FORMS):
        last = session.form("answer")
    assert not session.take(first, "answer")
    assert session.take(last, "answer")
    assert not session.take("", "")
