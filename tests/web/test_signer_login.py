"""An owner logs in with a remote signer, which signs what is written on the pages from then on (NIP-46)."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tenex.nostr.embedded import embedded_relay
from tenex.nostr.events import is_genuine, parse_event
from tenex.nostr.keys import KeyRing, SecretKey
from tenex.web import signer_login
from tenex.web.server import at_port
from tests.fakes import bunker as fake
from tests.fakes.bunker import Bunker, bunker
from tests.kits.web_answers import answer, written
from tests.service.person import stored

from .kit import Page, Served, served


@pytest.fixture
async def relay() -> AsyncIterator[str]:
    async with embedded_relay() as url:
        yield url


@pytest.fixture
async def elsewhere(tmp_path: Path, relay: str) -> AsyncIterator[tuple[Served, Bunker]]:
    """Pages whose folder has no key of an owner, and the owner's signer; no browser is logged in."""
    data = tmp_path / "data"
    await written(data, relay)
    owner = KeyRing(data / "keys").get("owner")
    (data / "keys" / "owner.nsec").unlink()
    async with served(data, is_logged_in=False) as pages, bunker(relay, owner) as signer:
        yield pages, signer


async def log_in(pages: Served, address: str) -> Any:
    return await pages.post("/login/signer", {"address": address})


async def test_an_owner_logs_in_and_answers_with_a_signer(elsewhere: tuple[Served, Bunker], relay: str) -> None:
    """The signer gets the login and the answer, and nothing else; after a logout it is not asked."""
    pages, signer = elsewhere
    assert pages.site.base in (await log_in(pages, signer.address)).headers["location"]
    shown = await pages.get("/")
    text = " ".join(element.text for element in shown.elements)
    assert "Answers need the key of an owner" not in text
    assert "your remote signer signs what you write" in text
    assert (await answer(pages, "Green")).status_code == 303
    (wire,) = await stored(relay, authors=[signer.user.public])
    assert is_genuine(parse_event(wire))
    assert wire["content"] == "Green"
    templates = [json.loads(request["params"][0]) for request in signer.asked("sign_event")]
    assert [template["kind"] for template in templates] == [27_235, 1]
    assert templates[0]["tags"][0] == ["u", f"{pages.base}/login/signer"]
    assert templates[0]["content"] == ""
    form = await pages.form("/", "/logout")
    await pages.post("/logout", form)
    await pages.get("/", status=303)


def _signs_nothing(there: Bunker, method: str, params: Sequence[str]) -> Any:
    return {"error": "no, thanks"} if method == "sign_event" else fake.good(there, method, params)


async def test_a_signer_that_refuses_leaves_the_question(elsewhere: tuple[Served, Bunker], relay: str) -> None:
    pages, signer = elsewhere
    await log_in(pages, signer.address)
    signer.answer = _signs_nothing
    refused = await answer(pages, "Green")
    assert refused.status_code == 400
    assert "Your signer refused: no, thanks. Nothing was sent." in refused.text
    assert not await stored(relay, authors=[signer.user.public])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(signer_login, "PATIENCE", 0.3)
        for reply in (None, {"result": "auth_url", "error": "https://signer.example"}):
            signer.answer = fake.on_signing(lambda *_, reply=reply: reply)
            late = await answer(pages, "Green")
            assert (late.status_code, "Your signer did not sign" in late.text) == (502, True)
    assert not await stored(relay, authors=[signer.user.public])
    signer.answer = fake.good
    assert (await answer(pages, "Green")).status_code == 303


@pytest.mark.parametrize("what", ["stranger", "refused", "address", "private", "away", "lies", "wrong secret"])
async def test_who_is_no_owner_is_not_let_in(
    elsewhere: tuple[Served, Bunker], relay: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does the page connect to relays of a stranger's choice on this network."""
    pages, signer = elsewhere
    address = signer.address
    if what == "stranger":
        signer.user = SecretKey.generate()
    elif what == "lies":  # it says that it holds the owner's key
        owner = signer.user.public
        signer.user = SecretKey.generate()
        signer.answer = lambda there, method, params: (
            {"result": owner} if method == "get_public_key" else fake.good(there, method, params)
        )
    elif what == "refused":
        signer.answer = _signs_nothing
    elif what == "address":
        address = f"bunker://{signer.signer.public}"
    elif what == "private":
        address = address.replace(relay, relay.replace("127.0.0.1", "localhost"))
    elif what == "away":  # nothing listens there
        with closing(at_port(0)) as taken:
            port = taken.getsockname()[1]
        monkeypatch.setattr(pages.site.signer_logins, "_relays", frozenset({f"ws://127.0.0.1:{port}"}))
        address = address.replace(relay, f"ws://127.0.0.1:{port}")
    elif what == "wrong secret":
        address = address.replace(signer.secret, "guess")
    refused = await log_in(pages, address)
    assert refused.status_code == 403
    fault = " ".join(notice.text for notice in Page(refused.text).of_class("bad"))
    expected = {
        "stranger": "This key is not an owner's.",
        "lies": "The signer refused: it signed with another key",
        "refused": "The signer refused: no, thanks",
        "address": "names 0 relays",
        "private": "The signer was not reached: no relay of it can be reached",
        "away": "The signer was not reached: no relay of it can be reached",
        "wrong secret": "The signer refused: unknown secret",
    }
    assert expected[what] in fault
    assert signer.secret not in refused.text
    await pages.get("/", status=303)
    if what in ("private", "away"):
        assert not signer.requests


async def test_a_login_that_a_person_allows_elsewhere_goes_on(elsewhere: tuple[Served, Bunker]) -> None:
    pages, signer = elsewhere
    where = "https://signer.example/allow?<script>"
    signer.answer = lambda there, method, params: (
        {"result": "auth_url", "error": where} if method == "connect" else fake.good(there, method, params)
    )
    shown = Page((await log_in(pages, signer.address)).text)
    assert where in [link.attributes["href"] for link in shown.all("a")]
    (number,) = (field.attributes["value"] for field in shown.all("input", name_="number"))
    (request,) = signer.asked("connect")
    await signer.send({"id": request["id"], "result": "ack"}, request["client"])
    assert (await pages.post("/login/signer", {"number": number})).status_code == 303
    await pages.get("/")
    again = await pages.post("/login/signer", {"number": number})
    assert "This login is over" in again.text
