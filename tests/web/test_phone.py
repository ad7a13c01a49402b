"""Pages that other machines can reach: with a certificate of the operator, behind the same guard; and as an app."""

import signal
import ssl
from pathlib import Path

import httpx2
import pytest
from playwright.async_api import Browser

from tenex.web import live
from tests.cli.journals import THREE, renamed
from tests.fakes.certificates import certificate
from tests.kits.call_approvals import asked
from tests.kits.commands import Tenex

from .browser_kit import check, needs_chromium, tab
from .kit import Page, append, served
from .server_kit import ended, started


def settings(data: Path, text: str) -> None:
    file = next(path for path in (data / "tenex.toml", data / "config" / "tenex.toml") if path.exists())
    file.write_text(f"{file.read_text()}\n[web]\n{text}\n")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('listen = "192.168.1.20"', "needs `certificate` and `key`"),
        ('listen = "my-laptop"', "has to be an address"),
        ('certificate = "a.pem"', "given together"),
        ('listen = "0.0.0.0"\ncertificate = "a.pem"\nkey = "b.pem"', "`hosts` has to name this machine"),
        ('certificate = "a.pem"\nkey = "b.pem"', "cannot be used"),
    ],
)
def test_nothing_is_served_to_others_without_a_certificate(data: Path, tenex: Tenex, text: str, why: str) -> None:
    settings(data, text)
    assert why in tenex("web --port 0", "--data", data, code=3).err


async def test_pages_with_a_certificate_have_secure_cookies_and_begin_at_the_root(data: Path) -> None:
    trusted, _ = certificate(data, "pages.test")
    settings(data, 'certificate = "pages.test.pem"\nkey = "pages.test.key"\nhosts = ["pages.test"]')
    process, link = await started(data, "--port", "0")
    assert link.startswith("https://127.0.0.1:")
    base, _, token = link.partition("/login#")
    origin = "/".join(base.split("/")[:3])
    trust = ssl.create_default_context(cafile=trusted)
    trust.check_hostname = False
    async with httpx2.AsyncClient(trust_env=False, timeout=60, verify=trust) as client:
        entry = await client.get(f"{origin}/", headers={"accept": "text/html"})
        assert (entry.status_code, entry.headers["location"]) == (303, base.removeprefix(origin) + "/")
        answer = await client.post(f"{base}/login", data={"token": token}, headers={"origin": origin})
        assert answer.status_code == 303
        assert "secure" in answer.headers["set-cookie"].lower()
        page = Page((await client.get(f"{base}/")).text)
        number = page.all("form", action=f"{base.removeprefix(origin)}/link")
        assert number
        fields = {e.attributes["name"]: e.attributes["value"] for e in page.all("input", type="hidden")[-2:-1]}
        shown = Page((await client.post(f"{base}/link", data=fields, headers={"origin": origin})).text)
        assert shown.of_class("qr"), "a phone reads the link from the screen"
        assert shown.of_class("link")[0].text.startswith("https://pages.test/")
    assert await ended(process, signal.SIGTERM) == 0


async def test_a_link_that_no_phone_could_use_has_no_code(data: Path) -> None:
    async with served(data) as pages:
        answer = await pages.post("/link", await pages.form("/", "/link"))
        page = Page(answer.text)
        assert not page.of_class("qr")
        assert "web.listen" in page.of_class("notice")[0].text


async def test_logins_are_counted_by_the_address_that_asks(data: Path) -> None:
    async with served(data, is_logged_in=False) as pages:
        statuses = [(await pages.login("wrong")).status_code for _ in range(32)]
        assert statuses == [403] * 30 + [429] * 2
        assert (await pages.client.get(f"{pages.base}/login")).status_code == 200


async def test_the_manifest_names_nothing_and_needs_no_login(data: Path) -> None:
    async with served(data, is_logged_in=False, hosts=["pages.test"]) as pages:
        address = f"{pages.base}/static/app.webmanifest"
        here = (await pages.client.get(address)).json()
        assert (here["name"], here["start_url"]) == ("tenex", f"{pages.site.base}/")
        there = await pages.client.get(address, headers={"host": "pages.test"})
        assert there.json()["start_url"] == "/"
        for icon in here["icons"]:
            answer = await pages.client.get(f"{pages.url}{icon['src']}")
            assert answer.headers["content-type"] == "image/png"


@needs_chromium
async def test_what_comes_while_the_tab_is_not_looked_at_is_notified(
    data: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "LOOK_AT_ALL", 0.05)
    async with served(data) as pages, tab(browser, pages, permissions=["notifications"]) as (page, seen):
        await page.locator("#connection").get_by_text("No daemon is running").wait_for()
        assert await page.locator("#notify").is_hidden(), "it is allowed already"
        await page.evaluate(NOT_LOOKED_AT)
        assert pages.site.streams._all(), "the stream stays open"
        await append(data, THREE, *renamed(THREE, asked().journal))

        assert await page.evaluate(NOTIFICATIONS) == ["2 things wait for you"]
        check(seen, pages)


NOT_LOOKED_AT = """
() => {
  Object.defineProperty(document, "hidden", { value: true, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}
"""
NOTIFICATIONS = """
async () => {
  for (;;) {
    const all = await navigator.serviceWorker.getRegistrations();
    const shown = (await Promise.all(all.map((one) => one.getNotifications()))).flat();
    if (shown.length) {
      return shown.map((one) => one.title);
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
"""
