"""A conversation is begun and steered from the pages, with a daemon that runs, in a real Chromium."""

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from unittest.mock import patch

from playwright.async_api import Browser

from tenex.core.records import Stopped
from tenex.nostr.embedded import embedded_relay
from tenex.web.reply import Writer
from tests.cli.journals import ONE, TWO, renamed, worked
from tests.kits.call_approvals import asked
from tests.service.kit import Folder, ordered
from tests.service.person import until

from .browser_kit import check, needs_chromium, tab
from .kit import rewrite, served

pytestmark = needs_chromium


async def test_a_conversation_is_begun_with_an_agent_and_stopped_by_keys_and_buttons(
    tmp_path: Path, browser: Browser
) -> None:
    async with embedded_relay() as url:
        folder = Folder(tmp_path / "data", url)
        async with ordered(folder, model="away"), served(folder.data) as pages, tab(browser, pages) as (page, seen):
            await page.keyboard.press("c")
            await page.wait_for_url("**/new")
            await page.get_by_label("For").select_option("executor")
            await page.get_by_label("What is to be done").fill("Create hello.py that prints hello")
            await page.get_by_label("What is to be done").press("Control+Enter")
            await page.get_by_text("The conversation has begun.").wait_for()
            (name,) = folder.names
            assert page.url.startswith(f"{pages.base}/c/{name}")
            begun = folder.state(name)
            assert begun.identity.title.startswith("@executor Create hello.py")
            await page.get_by_role("button", name="Stop").click()
            await until(lambda: any(isinstance(record, Stopped) for record in folder.records(name)))
            await page.get_by_role("button", name="Continue").wait_for()
            check(seen, pages)


async def test_a_form_that_begins_a_conversation_is_sent_once_and_to_no_one_unknown(data: Path) -> None:
    async with served(data) as pages:
        fields = await pages.form("/new", "/new/reply/0")
        unknown = await pages.post("/new/reply/0", {**fields, "text": "hello", "to": "unknown"})
        assert (unknown.status_code, "no agent and no workflow" in unknown.text) == (400, True)
        again = await pages.post("/new/reply/0", {**fields, "text": "hello"})
        assert again.status_code == 403
        empty = await pages.post("/new/reply/0", {**await pages.form("/new", "/new/reply/0"), "text": " "})
        assert (empty.status_code, "is empty" in empty.text) == (400, True)


async def test_keys_go_through_what_waits_and_answer_it(data: Path, browser: Browser) -> None:
    await rewrite(data, {TWO: renamed(TWO, asked().journal), ONE: worked(ONE)})
    sent: list[Any] = []

    async def write(_self: Any, _replied: Any, text: str) -> tuple[str, ...]:
        sent.append(text)
        return ("f" * 64,)

    async with served(data) as pages, tab(browser, pages) as (page, seen):
        with patch.object(Writer, "write", write):
            await page.keyboard.press("y")  # nothing has the focus: no answer
            await page.get_by_label("Why not, for the agent").fill("y")
            await page.locator("h1").click()
            await page.keyboard.press("j")
            await page.keyboard.press("j")
            assert await page.locator(".ask:focus-within").count() == 1
            async with page.expect_navigation():
                await page.keyboard.press("y")
            await page.locator(".notice.plain").wait_for()
        assert sent == ["yes"]
        await page.goto(f"{pages.base}/conversations")
        await page.keyboard.press("/")
        await page.keyboard.type("?j")
        assert await page.locator("input[type=search]").input_value() == "?j"
        await page.locator("main").click(position={"x": 2, "y": 2})
        await page.keyboard.press("j")
        assert await page.locator(".row:focus-within").count() == 1
        await page.keyboard.press("?")
        await page.get_by_role("heading", name="Keys").wait_for()
        await page.keyboard.press("Escape")
        check(seen, pages)


async def test_times_are_those_of_the_zone_of_the_reader(data: Path, browser: Browser) -> None:
    zone: dict[str, Any] = {"timezone_id": "Asia/Tokyo"}
    async with served(data) as pages, tab(browser, pages, **zone) as (page, seen):
        for path, kind in (("/conversations", "when"), (f"/c/{ONE}", "clock")):
            await page.goto(f"{pages.base}{path}")
            time = page.locator(f"time.{kind}[data-local]").first
            await time.wait_for()
            begun = datetime.fromisoformat(str(await time.get_attribute("datetime")))
            there = begun.astimezone(timezone(timedelta(hours=9)))
            assert f"{there:%H:%M:%S}" in str(await time.get_attribute("title"))
            if kind == "clock":
                assert await time.inner_text() == f"{there:%H:%M:%S}"
        check(seen, pages)
