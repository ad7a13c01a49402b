"""The pages in a real Chromium: nothing in its console, no request but to us, readable on a phone, usable by keyboard.

Where there is no Chromium the tests are skipped; `SHOTS=<folder>` keeps the screenshots.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

import pytest
from playwright.async_api import Browser, Page

from tenex.core.delivery.records import MessageSent
from tenex.core.identity.records import ConversationStarted
from tenex.core.ids import ConversationId
from tenex.core.records import ApprovalRequested
from tenex.core.text.foreign import well_formed
from tenex.nostr.embedded import embedded_relay
from tenex.nostr.events import is_genuine, sign, to_wire, unsigned_event
from tenex.nostr.keys import KeyRing
from tenex.store.format import CONVERSATION
from tenex.store.journal_reader import peek
from tenex.web.app import FILES
from tenex.web.reply import Writer
from tests.cli.journals import ONE, THREE, TWO, changed, renamed, worked
from tests.fakes.scenario import reply
from tests.histories.record import ROOT
from tests.interop.scripts import HERE, install
from tests.kits.call_approvals import asked
from tests.kits.hostile_pages import harmless, poisoned_all
from tests.kits.live_pages import split
from tests.kits.pages import MENU
from tests.kits.web_answers import ADDRESSES
from tests.service.kit import Folder, ordered
from tests.service.person import until

from .browser_kit import SHOTS, SIZES, WIDER, Seen, check, needs_chromium, tab
from .hostile import CORPUS
from .kit import Served, append, asking, rewrite, served

SCHEMES: dict[Literal["light", "dark"], dict[str, Any]] = {"light": {}, "dark": {"runOnly": ["color-contrast"]}}
"""The rules of accessibility that are looked at in each scheme of colours: the dark one has other colours alone."""
PATHS = {
    **{page.name: page.path for page in MENU},
    "search": "/conversations?q=think&status=waiting",
    "story": f"/c/{ONE}",
    "failures": f"/c/{ONE}?show=failures",
    "time": f"/c/{ONE}/time",
    "changes": f"/c/{ONE}/changes",
    "entry": f"/c/{ONE}/entry/20",
    "asked": f"/c/{TWO}",
    "approval": f"/c/{THREE}",
    "usage-of-one": f"/c/{ONE}/usage",
    "past": f"/c/{ONE}/at?seq=57&than=20",
    "back": f"/c/{ONE}/back/20",
    "missing": "/c/nothing",
}

pytestmark = needs_chromium

LONG = "cd packages/frontend && npm run build -- --mode production --out-dir /tmp/a-very-long-name-without-spaces" * 3


async def ask_for_a_call(data: Path) -> None:
    """A third conversation, in which calls wait for a permission."""
    calls = (("shell", {"command": LONG}), ("shell", {"command": "npm publish"}))
    scenario = asked(reply("I publish what is built.", *calls))
    await append(data, THREE, *renamed(THREE, scenario.journal))


@pytest.mark.parametrize(("size", "scheme"), [("wide", "light"), ("phone", "dark")])
async def test_every_page_is_laid_out_and_complains_about_nothing(
    pages: Served, browser: Browser, size: str, scheme: str
) -> None:
    async def keep(page: Page, name: str) -> None:
        if SHOTS is not None:
            path = Path(SHOTS) / f"{name}-{size}-{scheme}.png"
            await page.screenshot(path=path, full_page=not name.startswith("story"))

    await ask_for_a_call(pages.data)
    async with tab(browser, pages, size, scheme) as (page, seen):
        assert "#" not in page.url
        for name, path in PATHS.items():
            await page.goto(f"{pages.base}{path}")
            await page.locator("main > h1").wait_for()
            assert not await page.evaluate(WIDER), f"{name} has to be scrolled sideways"
            await keep(page, name)
            await page.locator("main details").evaluate_all("all => all.forEach((each) => { each.open = true; })")
            assert not await page.evaluate(WIDER), f"{name} has to be scrolled sideways when all is open"
            await keep(page, f"{name}-open")
        seen.complaints = [text for text in seen.complaints if "404" not in text]  # the page that is not there
        check(seen, pages)


@pytest.fixture
def axe() -> str:
    """The script of axe-core, which looks for faults of accessibility; without npm the test is skipped."""
    install()
    return (HERE / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")


async def test_no_page_has_a_fault_of_accessibility(pages: Served, browser: Browser, axe: str) -> None:
    await ask_for_a_call(pages.data)
    async with tab(browser, pages, scheme="light", bypass_csp=True) as (page, _):
        for path in (*PATHS.values(), "/login", f"/c/{TWO}/sent/7"):
            await page.goto(f"{pages.base}{path}")
            await page.locator("main > h1").wait_for()
            await page.add_script_tag(content=axe)
            for scheme, rules in SCHEMES.items():
                await page.emulate_media(color_scheme=scheme)
                result = await page.evaluate("rules => axe.run(rules)", {"resultTypes": ["violations"], **rules})
                faults = [(fault["id"], [node["html"] for node in fault["nodes"]]) for fault in result["violations"]]
                assert faults == [], (path, scheme)


async def test_a_page_goes_on_by_itself(data: Path, browser: Browser) -> None:
    async with served(data) as pages, tab(browser, pages) as (page, seen):
        await page.goto(f"{pages.base}/c/{TWO}")
        await page.locator("#connection").get_by_text("No daemon is running").wait_for()
        await append(data, TWO, *split(TWO)[1])
        await page.locator(".entry.tone-person").filter(has_text="blue").wait_for()
        await page.locator("#head").get_by_text("ended").wait_for()
        assert await page.locator(".entry.tone-person").filter(has_text="blue").count() == 1
        check(seen, pages)


async def test_a_list_goes_on_by_itself_but_not_over_what_is_being_written(data: Path, browser: Browser) -> None:
    async with served(data) as pages, tab(browser, pages) as (page, seen), tab(browser, pages) as (list_, _):
        await page.goto(f"{pages.base}/")
        await page.locator("textarea").fill("I am still thinking")
        await list_.goto(f"{pages.base}/conversations")
        await list_.locator("#rows .chip").first.wait_for()
        await page.locator("#connection").get_by_text("No daemon is running").wait_for()
        await list_.locator("#connection").get_by_text("No daemon is running").wait_for()
        write_more = split(TWO)[1]
        await append(data, TWO, *write_more)
        await (
            list_.locator("#rows .row")
            .filter(has_text="ended")
            .nth(1)
            .or_(list_.locator("#rows .row"))
            .first.wait_for()
        )
        assert await page.locator("textarea").input_value() == "I am still thinking"
        check(seen, pages)


async def test_what_only_a_person_can_fix_is_on_the_front_page_as_long_as_it_lasts(
    tmp_path: Path, browser: Browser
) -> None:
    async with embedded_relay() as url:
        folder = Folder(tmp_path / "data", url)
        folder.edit("", "[limits]\nretry_delays = [0.05]\nhold_for = 600\n")
        async with (
            ordered(folder, model="away") as process,
            served(folder.data) as pages,
            tab(browser, pages) as (page, seen),
        ):
            assert await page.locator("#open").is_hidden()
            assert await page.locator("#broken").inner_text() == ""
            name = await folder.write("Create hello.py that prints hello")
            stuck = page.get_by_role("heading", name="1 conversation cannot go on")
            await stuck.wait_for()
            assert "connection refused" in (await page.locator("#broken .cause").last.inner_text()).lower()
            assert await page.title() == f"(1) Waiting for you · {pages.site.name}"
            assert await page.locator("#open").inner_text() == "1"

            folder.let_go()
            await page.get_by_role("button", name="Continue now").click()
            await stuck.wait_for(state="detached")
            await folder.until(name, "ended")
            assert await page.title() == f"Waiting for you · {pages.site.name}"
            assert await page.locator("#open").is_hidden()
            await process.die()
            await page.get_by_text("no daemon is running, so nothing goes on").wait_for()
            check(seen, pages)


async def test_ten_conversations_fit_on_a_screen(data: Path, browser: Browser) -> None:
    names = [ConversationId(f"{number:064x}") for number in range(1, 15)]
    await rewrite(data, {name: renamed(name, asking().journal) for name in names})
    async with served(data) as pages, tab(browser, pages) as (page, seen):
        await page.set_viewport_size({"width": 1280, "height": 800})
        await page.goto(f"{pages.base}/conversations")
        boxes = [await row.bounding_box() for row in await page.locator("#rows .row").all()]
        assert len(boxes) == len(names)
        assert sum(box is not None and box["y"] + box["height"] <= 800 for box in boxes) >= 10
        exact = await page.locator("time.when").first.get_attribute("title")
        assert "1970" in str(exact)
        check(seen, pages)


async def test_the_pages_are_used_by_keyboard_alone(pages: Served, browser: Browser) -> None:
    async with tab(browser, pages) as (page, seen):
        await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.textContent") == "Skip to the content"
        await page.keyboard.press("Enter")
        await page.keyboard.press("Tab")
        inside = "document.activeElement.closest('main') !== null"
        assert await page.evaluate(inside)
        outline = await page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid"
        while await page.evaluate("document.activeElement.tagName") != "TEXTAREA":
            assert await page.evaluate(inside)
            await page.keyboard.press("Tab")
        await page.keyboard.type("Green")
        await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.textContent") == "Send"
        check(seen, pages)


async def test_what_waits_is_answered_with_one_press(data: Path, browser: Browser) -> None:
    """By keyboard and without scripts too: each button is a form of its own."""
    await rewrite(data, {TWO: renamed(TWO, asked().journal), ONE: worked(ONE)})
    async with served(data) as pages, tab(browser, pages) as (page, seen):
        sent: list[Any] = []

        async def write(_self: Any, replied: Any, text: str) -> tuple[str, ...]:
            sent.append(text)
            return ("f" * 64,)

        with patch.object(Writer, "write", write):
            await page.goto(f"{pages.base}/")
            await page.get_by_label("Why not, for the agent").fill("on Monday")
            async with page.expect_navigation():
                await page.get_by_role("button", name="No", exact=True).press("Enter")
            await page.locator(".notice.plain").wait_for()
            async with page.expect_navigation():
                await page.get_by_role("button", name="Yes, once").click()
            await page.locator(".notice.plain").wait_for()
        assert sent == ["no: on Monday", "yes"]
        check(seen, pages)


async def test_what_is_asked_later_comes_below_and_what_is_over_stays_in_its_place(
    data: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing moves under a finger that is about to press, and no form is lost."""
    from tenex.web import live

    monkeypatch.setattr(live, "LOOK_AT_ALL", 0.05)
    _, after = split(TWO)
    async with served(data) as pages, tab(browser, pages) as (page, seen):
        await page.goto(f"{pages.base}/")
        await page.locator("textarea").fill("I am still thinking")
        number = await page.locator(".ask input[name=form]").first.input_value()
        await page.locator("#connection").get_by_text("No daemon is running").wait_for()
        await append(data, THREE, *renamed(THREE, asked().journal))
        await page.locator(".ask").nth(1).wait_for()
        assert await page.locator(".ask").first.locator("textarea").input_value() == "I am still thinking"
        assert await page.locator(".ask input[name=form]").first.input_value() != number, "the newest form counts"
        before = await page.locator(".ask").nth(1).bounding_box()
        await append(data, TWO, *after)
        await page.locator(".ask.over").wait_for()
        assert await page.locator(".ask.over textarea").is_disabled()
        now = await page.locator(".ask").nth(1).bounding_box()
        assert before is not None
        assert now is not None
        assert abs(now["y"] - before["y"]) <= 2
        assert await page.locator(".ask").nth(1).get_by_role("button", name="Yes, once").is_enabled()
        check(seen, pages)


async def test_a_question_that_comes_while_a_story_is_open_can_be_answered_there(data: Path, browser: Browser) -> None:
    journal = renamed(TWO, asked().journal)
    cut = next(place for place, decision in enumerate(journal) if any(map(is_request, decision)))
    await rewrite(data, {TWO: journal[:cut]})
    async with served(data) as pages, tab(browser, pages) as (page, seen):
        await page.goto(f"{pages.base}/c/{TWO}")
        await page.locator("#connection").get_by_text("No daemon is running").wait_for()
        assert await page.locator(".ask").count() == 0
        await append(data, TWO, *journal[cut:])
        await page.locator(".ask .call").wait_for()
        assert await page.locator(".ask .call").text_content() == "command: git push origin main"
        check(seen, pages)


def is_request(record: Any) -> bool:
    return isinstance(record, ApprovalRequested)


async def test_a_key_in_the_browser_signs_an_answer(data: Path, browser: Browser) -> None:
    """As an extension does it (NIP-07); a browser without one is shown no form that could not be sent."""
    owner = KeyRing(data / "keys").get("owner")
    (data / "keys" / "owner.nsec").unlink()
    published: list[Any] = []

    async def publish(_self: Any, _draft: Any, events: Any) -> tuple[str, ...]:
        published.extend(events)
        return ("f" * 64,)

    def signed(event: Any) -> Any:
        draft = unsigned_event(owner.public, event["created_at"], event["kind"], event["tags"], event["content"])
        return to_wire(sign(draft, owner))

    file = next(path for path in (data / "tenex.toml", data / "config" / "tenex.toml") if path.exists())
    assert owner.npub in file.read_text()
    address = {**ADDRESSES["notes"], "relays": ["ws://127.0.0.1:1"]}
    decisions = changed(renamed(TWO, asking().journal), ConversationStarted, address=address)
    await rewrite(data, {TWO: changed(decisions, MessageSent, relays=("ws://127.0.0.1:1",))})
    async with served(data) as pages, tab(browser, pages) as (page, seen):
        await page.goto(f"{pages.base}/")
        await page.locator(".ask").wait_for()
        assert not await page.locator(".ask textarea").is_visible()
        await page.expose_function("signedByUs", signed)
        await page.add_init_script(
            f"window.nostr = {{ getPublicKey: async () => '{owner.public}', signEvent: (e) => window.signedByUs(e) }}"
        )
        await page.goto(f"{pages.base}/")
        await page.locator(".ask textarea").fill("Green & <b>")
        with patch.object(Writer, "publish", publish):
            await page.get_by_role("button", name="Send").click()
            await page.locator(".notice.plain").wait_for()
        (event,) = published
        assert (event.content, event.pubkey, is_genuine(event)) == ("Green & <b>", owner.public, True)
        check(seen, pages)


async def test_an_owner_logs_in_with_the_key_in_the_browser(data: Path, browser: Browser) -> None:
    owner = KeyRing(data / "keys").get("owner")

    def signed(event: Any) -> Any:
        draft = unsigned_event(owner.public, event["created_at"], event["kind"], event["tags"], event["content"])
        return to_wire(sign(draft, owner))

    async with served(data) as pages:
        context = await browser.new_context(viewport={"width": 390, "height": 844})
        page = await context.new_page()
        await page.goto(f"{pages.base}/login")
        assert not await page.get_by_role("button", name="Sign and log in").is_visible()
        await page.expose_function("signedByUs", signed)
        await page.add_init_script("window.nostr = { signEvent: (event) => window.signedByUs(event) }")
        await page.goto(f"{pages.base}/login")
        await page.get_by_role("button", name="Sign and log in").click()
        await page.locator(".ask").wait_for()
        assert page.url == f"{pages.base}/"
        await context.close()


async def test_a_tab_that_is_not_looked_at_holds_no_connection_and_misses_nothing(data: Path, browser: Browser) -> None:
    """A browser has six connections to a server: more tabs than that would wait for one another."""
    async with served(data) as pages, tab(browser, pages) as (page, seen):
        await page.goto(f"{pages.base}/c/{TWO}")
        await page.locator("#connection").get_by_text("No daemon is running").wait_for()
        await page.evaluate(LOOKED_AT, False)
        await until(lambda: not pages.site.streams._all())
        await append(data, TWO, *split(TWO)[1])
        assert await page.locator(".entry").filter(has_text="blue").count() == 0
        await page.evaluate(LOOKED_AT, True)
        await page.locator(".entry.tone-person").filter(has_text="blue").wait_for()
        await page.locator("#head").get_by_text("ended").wait_for()
        numbers = await page.locator("[data-seq]").evaluate_all(SEQS)
        lines = await page.locator(".work > details > summary").all_inner_texts()
        await page.reload()
        assert await page.locator("[data-seq]").evaluate_all(SEQS) == numbers, "the script builds the same trees"
        assert await page.locator(".work > details > summary").all_inner_texts() == lines
        check(seen, pages)


SEQS = "all => all.map(one => Number(one.dataset.seq))"
LOOKED_AT = """
(isLookedAt) => {
  Object.defineProperty(document, "hidden", { value: !isLookedAt, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}
"""


async def test_earlier_entries_come_in_front_and_the_reader_stays(
    data: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tenex.web import source

    monkeypatch.setattr(source, "ENTRIES", 20)
    async with served(data) as pages, tab(browser, pages) as (page, seen):
        await page.goto(f"{pages.base}/c/{ONE}")
        first = await page.locator("[data-seq]").first.get_attribute("data-seq")
        assert await page.locator(".entry").count() <= 40
        await page.locator("#earlier").click()
        await page.locator(".entry").nth(45).wait_for(state="attached")
        numbers = await page.locator(".is-message").evaluate_all(SEQS)
        assert numbers == sorted(numbers)
        assert numbers[0] < int(str(first)) <= numbers[-1]
        check(seen, pages)


async def test_the_pages_are_read_and_answered_without_scripts(pages: Served, browser: Browser) -> None:
    context = await browser.new_context(java_script_enabled=False, viewport={"width": 390, "height": 844})
    page = await context.new_page()
    await page.goto(f"{pages.base}/login")
    await page.locator("#token").fill(pages.site.logins.new_token())
    await page.get_by_role("button", name="Log in", exact=True).click()
    await page.locator(".ask textarea").wait_for()
    await page.goto(f"{pages.base}/c/{ONE}")
    assert await page.locator(".entry").count() > 50
    await page.goto(f"{pages.base}/c/{ONE}/time")
    assert await page.locator("svg.timeline rect").count() > 10
    await page.goto(f"{pages.base}/conversations?q=think")
    assert await page.locator("mark").count() == 1
    await context.close()


def texts() -> Iterator[str]:
    """The corpus, again and again, from different beginnings."""
    while True:
        yield from map(well_formed, CORPUS)


async def test_hostile_texts_run_nowhere_and_fetch_nothing(data: Path, browser: Browser) -> None:
    every = texts()
    await rewrite(data, {ONE: poisoned_all(ONE, harmless(), every), TWO: poisoned_all(TWO, asking().journal, every)})
    async with served(data) as pages, tab(browser, pages) as (page, seen):
        ours = {f"{pages.base}/static/{name}" for name in FILES}
        for path in ("/", "/conversations", f"/c/{ONE}", f"/c/{TWO}", f"/c/{ONE}/usage"):
            await page.goto(f"{pages.base}{path}")
            await page.locator("main > h1").wait_for()
            await page.locator("main details").evaluate_all("all => all.forEach((each) => { each.open = true; })")
            assert set(await page.locator("script").evaluate_all("all => all.map((each) => each.src)")) <= ours
            assert await page.locator("img, iframe, object, embed, base, style").count() == 0
        check(seen, pages)


async def test_a_file_that_comes_while_a_page_is_open_is_listed_and_saved(data: Path, browser: Browser) -> None:
    """Also a page of the web: nothing of it is shown or run."""
    html = b"<script>document.title = 'run'; alert('run')</script>"
    folder = data / "conversations" / TWO / "files"
    async with served(data) as pages, tab(browser, pages, "phone") as (page, seen):
        await page.goto(f"{pages.base}/c/{TWO}")
        await page.locator("#connection").get_by_text("No daemon is running").wait_for()
        assert await page.locator("#files li").count() == 0
        folder.mkdir()
        (folder / "report of a long name.html").write_bytes(html)
        await append(data, TWO, *split(TWO)[1])
        await page.locator("#files summary").click()
        assert not await page.evaluate(WIDER)
        address = page.url
        async with page.expect_download() as expected:
            await page.get_by_role("link", name="report of a long name.html").click()
        download = await expected.value
        assert download.suggested_filename == "report of a long name.html"
        assert Path(await download.path()).read_bytes() == html
        assert page.url == address
        await page.goto(f"{pages.base}/c/{TWO}/files/files/missing")
        seen.complaints = [text for text in seen.complaints if "404" not in text]
        check(seen, pages)


async def test_an_exported_page_opens_as_a_file(data: Path, browser: Browser, tmp_path: Path) -> None:
    from tenex.web.export import as_html

    records = peek(data / "conversations" / ONE / "journal.jsonl", CONVERSATION)
    file = tmp_path / "story.html"
    file.write_text(as_html(ConversationId(ONE), records), "utf-8")
    context = await browser.new_context(viewport={"width": 390, "height": 844})
    page = await context.new_page()
    seen = Seen()
    page.on("console", lambda message: seen.complaints.append(message.text))
    page.on("request", lambda request: seen.requests.append(request.url))
    await page.goto(file.as_uri())
    assert await page.locator(".entry").count() > 50
    paper = await page.locator(".tone-person").first.evaluate("one => getComputedStyle(one).borderLeftWidth")
    assert paper == "3px"  # the style is in force
    assert seen.complaints == []
    assert seen.requests == [file.as_uri()]
    if SHOTS is not None:
        await page.screenshot(path=Path(SHOTS) / "exported-phone.png")
    await context.close()


async def test_a_conversation_is_read_like_a_chat(data: Path, browser: Browser) -> None:
    """The newest is in view, the reply is at the end of the window, and the work between opens by keyboard."""
    await append(data, THREE, *renamed(THREE, [recorded("checks")]))
    async with served(data) as pages, tab(browser, pages) as (page, seen):
        await page.goto(f"{pages.base}/c/{ONE}")
        await page.locator(".is-message").last.wait_for()
        assert await in_view(page, ".is-message >> nth=-1")
        assert await in_view(page, ".state")
        assert await in_view(page, ".reply button")
        await page.mouse.wheel(0, -600)
        assert await in_view(page, ".reply button")

        await page.goto(f"{pages.base}/c/{THREE}?around=24#s24")
        failed = page.locator(".work > details[open] .role-check.is-failed .tail").first
        assert await failed.inner_text() == "test_old"
        assert await page.locator(".work > details[open]").count() < await page.locator(".work").count()
        summary = page.locator(".work > details:not([open]) > summary").first
        await summary.focus()
        await page.keyboard.press("Enter")
        more = page.locator(".work > details[open] details[data-src] > summary").last
        await more.press("Enter")
        await page.locator(".work details[open]:not([data-src]) pre").last.wait_for()
        await page.locator("#side .timeline").wait_for()
        check(seen, pages)


async def test_agents_of_one_turn_stand_side_by_side_where_there_is_room(data: Path, browser: Browser) -> None:
    await append(data, THREE, *renamed(THREE, [recorded("checks")]))
    for size, are_beside in {"wide": True, "phone": False}.items():
        async with served(data) as pages, tab(browser, pages, size) as (page, _):
            await page.goto(f"{pages.base}/c/{THREE}?around=50")
            await page.locator(".work > details").evaluate_all("all => all.forEach((each) => { each.open = true; })")
            lanes = page.locator(".lanes").first
            tops = await lanes.locator(":scope > .role-run").evaluate_all(
                "all => all.map((each) => each.getBoundingClientRect().top)"
            )
            assert len(tops) == 2
            assert (tops[0] == tops[1]) is are_beside


async def test_the_changes_of_a_real_conversation_are_accessible_and_fit(
    tmp_path: Path, browser: Browser, axe: str
) -> None:
    async with embedded_relay() as url:
        folder = Folder(tmp_path / "data", url)
        async with ordered(folder), served(folder.data) as pages:
            name = await folder.write("Create zebra.py that prints xylophone")
            await folder.until(name, "ended")
            for size in SIZES:
                async with tab(browser, pages, size, bypass_csp=True) as (page, _):
                    await page.goto(f"{pages.base}/c/{name}/changes")
                    await page.locator(".sides .added").first.wait_for()
                    assert not await page.evaluate(WIDER)
                    now = await page.locator(".sides .now").first.bounding_box()
                    whole = await page.locator(".sides").first.bounding_box()
                    assert now is not None
                    assert whole is not None
                    assert (now["x"] > whole["x"] + 100) is (size == "wide"), "side by side where there is room"
                    await page.add_script_tag(content=axe)
                    for scheme, rules in SCHEMES.items():
                        await page.emulate_media(color_scheme=scheme)
                        result = await page.evaluate(
                            "rules => axe.run(rules)", {"resultTypes": ["violations"], **rules}
                        )
                        assert result["violations"] == [], (size, scheme)
                    await page.locator(".by a").first.click()
                    await page.locator(".entry:has(> .line .ended:target)").wait_for()
                    assert "write_file" in await page.locator(".entry:has(> .line .ended:target)").inner_text()


def recorded(name: str) -> tuple[Any, ...]:
    return tuple(peek(ROOT / name / "journal.jsonl", CONVERSATION))


async def in_view(page: Page, selector: str) -> bool:
    """Whether all of an element is within the window."""
    box = await page.locator(selector).bounding_box()
    height = await page.evaluate("innerHeight")
    return box is not None and box["y"] >= 0 and box["y"] + box["height"] <= height + 1
