"""The pictures of docs/web.md: five states of the pages, in a real Chromium, of conversations that are made up.

python -m tests.web.pictures    writes them into docs/pictures
"""

import asyncio
import hashlib
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from playwright.async_api import Browser, Page, async_playwright

from tenex.core.approvals.records import ApprovalRequested
from tenex.core.identity.records import ConversationStarted
from tenex.core.ids import ConversationId, Millis
from tenex.nostr.embedded import embedded_relay
from tenex.operations.doctor.findings import Finding
from tenex.web.source import Source
from tests.cli.journals import Decisions, changed, renamed, worked, write_conversations
from tests.fakes.scenario import reply
from tests.kits.call_approvals import asked
from tests.kits.retries import broken, fire
from tests.repository.tree import ROOT
from tests.service.kit import Folder, ordered

from .browser_kit import ARGUMENTS, CHROMIUM
from .kit import Served, asking, served

FOLDER = ROOT / "docs" / "pictures"
HOUR = 3_600_000
REQUEST = "Create hello.py that prints hello"


def _held() -> Decisions:
    return fire(broken("route", times=6), "route", times=5).journal


def _permission() -> Decisions:
    return asked(reply("The build is done.", ("shell", {"command": "npm publish --access public"}))).journal


CONVERSATIONS = (
    ("Publish the package", _permission, 0.02),
    ("Which colour should the button have?", lambda: asking().journal, 0.3),
    ("Fix the flaky test of the importer", lambda: worked(ConversationId(""), 1), 0.8),
    ("Why is the start so slow?", _held, 1.2),
    ("Rename the settings of relays", _held, 1.9),
    ("Add a table of limits to the docs", lambda: worked(ConversationId(""), 2), 3),
    ("Write the changelog for 0.4", lambda: worked(ConversationId(""), 3), 7),
    ("Move the scripts to tools/", lambda: worked(ConversationId(""), 4), 26),
    ("Review the pull request about retries", lambda: worked(ConversationId(""), 5), 27),
    ("Make the parser accept empty leads", lambda: worked(ConversationId(""), 6), 30),
    ("أضف صفحة عن الحدود", lambda: worked(ConversationId(""), 7), 50),
    ("Benchmark the index with 10,000 conversations", lambda: worked(ConversationId(""), 8), 75),
)
"""The title, the journal, and how many hours ago it ended."""


def write(data: Path) -> None:
    """Write the conversations, as if they had happened lately."""
    now = time.time_ns() // 1_000_000
    made: dict[ConversationId, Decisions] = {}
    for title, journal, hours in CONVERSATIONS:
        name = ConversationId(hashlib.sha256(title.encode()).hexdigest())
        decisions = changed(renamed(name, journal()), ConversationStarted, title=title)
        decisions = changed(decisions, ApprovalRequested, expires_at=Millis(now + 24 * HOUR))
        last = max(record.at for decision in decisions for record in decision)
        shift = now - last - int(hours * HOUR)
        made[name] = [
            tuple(replace(record, at=Millis(record.at + shift)) for record in decision) for decision in decisions
        ]
    write_conversations(data, made)


async def logged_in(browser: Browser, pages: Served, width: int, height: int, scheme: str = "light") -> Page:
    """A page of a browser of that size."""
    dark: dict[str, str] = {"color_scheme": scheme}
    context = await browser.new_context(viewport={"width": width, "height": height}, **dark)  # type: ignore[arg-type]
    page = await context.new_page()
    await page.goto(f"{pages.base}/login#{pages.site.logins.new_token()}")
    await page.wait_for_url(f"{pages.base}/")
    return page


async def _none(_: Source) -> list[Finding]:
    return []


async def _yes(_: Source) -> bool:
    return True


async def main() -> None:
    """Write the pictures."""
    FOLDER.mkdir(exist_ok=True)
    async with async_playwright() as playwright, embedded_relay() as url:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        with TemporaryDirectory() as place:
            folder = Folder(Path(place) / "data", url)
            async with ordered(folder):
                name = await folder.write(REQUEST)
                await folder.until(name, "ended")
            # a daemon takes what was written with other keys for imported
            await asyncio.to_thread(write, folder.data)
            with patch.object(Source, "problems", _none), patch.object(Source, "is_daemon_there", _yes):
                async with served(folder.data) as pages:
                    await take(browser, pages, name)
        await browser.close()


async def take(browser: Browser, pages: Served, name: str) -> None:
    """Take the pictures."""
    wide = await logged_in(browser, pages, 1280, 800)
    for file, path in (("waiting", "/"), ("list", "/conversations"), ("conversation", f"/c/{name}")):
        await wide.goto(f"{pages.base}{path}")
        await wide.locator("main h1").first.wait_for(state="attached")
        await wide.wait_for_timeout(500)  # panels that scripts load
        await wide.screenshot(path=FOLDER / f"{file}.png")
    phone = await logged_in(browser, pages, 390, 780, "dark")
    await phone.locator(".ask").last.evaluate("one => one.scrollIntoView()")
    await phone.screenshot(path=FOLDER / "permission-phone.png")
    await phone.goto(f"{pages.base}/c/{name}")
    await phone.wait_for_timeout(500)
    await phone.screenshot(path=FOLDER / "conversation-phone.png")


if __name__ == "__main__":
    asyncio.run(main())
