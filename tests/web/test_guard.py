"""Who is let in: one browser for each link, on this machine, from our own pages; and what every answer forbids."""

import base64
import json
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tenex.nostr.events import sign, to_wire, unsigned_event
from tenex.nostr.keys import KeyRing, SecretKey
from tenex.web import guard
from tenex.web.app import application
from tenex.web.guard import COOKIE, FORMS, HEADERS, POLICY, Logins, Session
from tests.cli.journals import ONE

from .kit import Served, paths_of, served


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
        for path in paths_of(pages.site, "GET"):
            for name in ("", "x" * 43, "../", "\u00e9"):
                cookie = {b"cookie": f"{COOKIE}={name}".encode()} if name else {}
                answer = await pages.client.get(f"{pages.base}{path}", headers=cookie)
                assert answer.status_code == 401, path
                assert "nice" not in answer.text
        assert (await pages.client.get(f"{pages.base}/", headers={"accept": "text/html"})).status_code == 303
        for path in paths_of(pages.site, "POST"):
            answer = await pages.client.post(f"{pages.base}{path}", headers={"origin": pages.url})
            assert answer.status_code == 401, path
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
        "[::1].evil.com",
        "[::1]evil.com:80",
        "[::1",
        "127.0.0.1:80:80",
        "127.0.0.1:",
        "127.0.0.1/evil.com",
        "127.0.0.1?evil.com",
        "127.0.0.1#evil.com",
        "127.0.0.1 evil.com",
        "localhost.",
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


async def test_the_names_of_this_machine_are_answered(pages: Served) -> None:
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
    whole = [path for path in paths_of(pages.site, "GET") if not path.endswith("/events")]  # streams do not end
    for path in (*whole, "/login", "/static/tenex.css", "/static/none", "/c/nothing", "/none"):
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


# ---- a login by the key of an owner (NIP-98) -------------------------------------------------------------------------


def login_event(key: SecretKey, url: str, **more: Any) -> str:
    """The header of a request that logs in."""
    fields: dict[str, Any] = {"kind": 27_235, "at": int(time.time()), "tags": [["u", url], ["method", "POST"]], **more}
    draft = unsigned_event(key.public, fields["at"], fields["kind"], fields["tags"], "")
    wire = {**to_wire(sign(draft, key)), **({"sig": "0" * 128} if fields.get("is_forged") else {})}
    return f"Nostr {base64.b64encode(json.dumps(wire).encode()).decode()}"


async def by_key(pages: Served, header: str, **headers: str) -> httpx2.Response:
    return await pages.client.post(
        f"{pages.base}/login/key", headers={"origin": pages.url, "authorization": header, **headers}
    )


async def test_an_owner_s_key_logs_in_once_by_a_signature_for_this_page(data: Path) -> None:
    owner = KeyRing(data / "keys").get("owner")
    async with served(data, is_logged_in=False) as pages:
        header = login_event(owner, f"{pages.base}/login/key")
        answer = await by_key(pages, header)
        assert (answer.status_code, answer.json()) == (200, {"to": f"{pages.site.base}/"})
        assert "httponly" in answer.headers["set-cookie"].lower()
        await pages.get("/")
        pages.client.cookies.clear()
        again = await by_key(pages, header)
        assert (again.status_code, "used before" in again.json()["error"]) == (403, True)
        assert "set-cookie" not in again.headers


async def test_a_signature_for_another_port_of_this_machine_is_none_for_this_one(data: Path) -> None:
    """A server of another user, to which a browser has logged in, passes the signature on with its own address."""
    owner = KeyRing(data / "keys").get("owner")
    async with served(data, is_logged_in=False) as pages:
        for theirs in ("127.0.0.1:1", "localhost:1", "[::1]:1", "localhost"):
            header = login_event(owner, f"http://{theirs}{pages.site.base}/login/key")
            answer = await by_key(pages, header, host=theirs, origin=f"http://{theirs}")
            assert answer.status_code == 403, theirs
            assert "asked at another port" in answer.json()["error"]
            signer = {"host": theirs, "origin": f"http://{theirs}"}
            assert "another port" in (await pages.post("/login/signer", {"address": "x"}, **signer)).text
        assert (await by_key(pages, login_event(owner, f"{pages.base}/login/key"))).status_code == 200


@pytest.mark.parametrize(
    ("host", "counts"),
    [("tenex.example.com", True), ("tenex.example.com:443", True), ("tenex.example.com:8443", False),
     ("other.example.com:8443", True), ("other.example.com", False)],
)  # fmt: skip
async def test_behind_a_proxy_a_signature_is_for_a_usual_port_or_the_one_that_is_configured(
    data: Path, host: str, counts: bool
) -> None:
    owner = KeyRing(data / "keys").get("owner")
    async with served(data, hosts=("tenex.example.com", "other.example.com:8443"), is_logged_in=False) as pages:
        header = login_event(owner, f"https://{host}{pages.site.base}/login/key")
        answer = await by_key(pages, header, host=host, origin=f"https://{host}")
    assert (answer.status_code == 200) is counts


@pytest.mark.parametrize(
    "what", ["stranger", "url", "method", "two", "kind", "old", "new", "forged", "none", "nonsense"]
)
async def test_another_signature_logs_in_no_one(data: Path, what: str) -> None:
    owner = KeyRing(data / "keys").get("owner")
    async with served(data, is_logged_in=False) as pages:
        url = f"{pages.base}/login/key"
        now = int(time.time())
        wrong = {
            "stranger": login_event(SecretKey.generate(), url),
            "url": login_event(owner, url.replace("127.0.0.1", "evil.example")),
            "method": login_event(owner, url, tags=[["u", url], ["method", "GET"]]),
            "two": login_event(owner, url, tags=[["u", "http://evil.example"], ["u", url], ["method", "POST"]]),
            "kind": login_event(owner, url, kind=1),
            "old": login_event(owner, url, at=now - 65),
            "new": login_event(owner, url, at=now + 65),
            "forged": login_event(owner, url, is_forged=True),
            "none": "",
            "nonsense": "Nostr !!!",
        }[what]
        answer = await by_key(pages, wrong)
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers
        foreign = await by_key(pages, login_event(owner, url), origin="http://evil.example")
        assert foreign.status_code == 403


async def test_the_root_leads_to_the_pages_behind_a_proxy_alone(data: Path, tmp_path: Path) -> None:
    async with served(data, is_logged_in=False) as pages:
        inside = application(pages.site, ("tenex.example.com",), has_entry=True)
        transport = httpx2.ASGITransport(app=inside)
        async with httpx2.AsyncClient(transport=transport, base_url="https://tenex.example.com") as client:
            answer = await client.get("/", headers={"accept": "text/html"})
            assert (answer.status_code, answer.headers["location"]) == (303, f"{pages.site.base}/")
            assert (await client.get("/x")).status_code == 404
            assert (await client.get("/", headers={"host": "evil.example"})).status_code == 421
        assert (await pages.client.get(f"{pages.url}/")).status_code == 404
