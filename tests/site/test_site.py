"""The site, built and opened in a browser: every link leads somewhere, nothing is loaded from elsewhere."""

import fcntl
import functools
import http.server
import os
import re
import shutil
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.async_api import Browser, Page, async_playwright

from tests.interop.scripts import HERE

from .__main__ import SiteNotBuilt, build
from .source import ROOT, documents

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ARGUMENTS = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed on this machine")
needs_zensical = pytest.mark.skipif(
    not Path(sys.executable).with_name("zensical").exists(), reason="the extra `site` is not installed"
)
pytestmark = [needs_chromium, needs_zensical]

PAGES = (
    "README.md",
    "docs/README.md",
    "docs/architecture.md",
    "docs/reference/settings.md",
    "docs/reference/python.md",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built by the first worker that asks for it."""
    folder = tmp_path_factory.getbasetemp().parent / "site"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "site").exists():
            build(folder)
    return folder / "site"


@pytest.fixture(scope="module")
def base(site: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        await browser.close()


@pytest.fixture(params=["light", "dark"])
async def page(browser: Browser, base: str, request: pytest.FixtureRequest) -> AsyncIterator[Page]:
    """A page that notes each request to another server, each failed one and each error; there must be none."""
    page = await browser.new_page(color_scheme=request.param)
    faults: list[str] = []
    here = (base, "data:", "blob:")
    page.on("request", lambda request: None if request.url.startswith(here) else faults.append(request.url))
    page.on(
        "response",
        lambda response: None if response.status < 400 else faults.append(f"{response.status} {response.url}"),
    )
    page.on("pageerror", lambda error: faults.append(str(error)))
    yield page
    assert faults == []


def address(base: str, document: str) -> str:
    path = Path(document)
    name = path.with_name("index.html") if path.name == "README.md" else path.with_suffix(".html")
    return f"{base}/{name.as_posix()}"


async def test_a_page_loads_nothing_from_elsewhere_and_draws_its_pictures(page: Page, base: str) -> None:
    for document in PAGES:
        await page.goto(address(base, document), wait_until="networkidle")
        assert await page.locator("h1").count() == 1
        pictures = (ROOT / document).read_text("utf-8").count("```mermaid")
        await page.wait_for_function("count => document.querySelectorAll('div.mermaid').length === count", arg=pictures)


async def test_the_search_finds_a_page_by_a_word_in_it(page: Page, base: str) -> None:
    await page.goto(address(base, "README.md"), wait_until="networkidle")
    await page.keyboard.press("/")
    await page.keyboard.type("exFAT")
    await page.get_by_text("A data folder on exFAT").first.wait_for()


async def test_no_page_has_a_fault_of_accessibility(page: Page, base: str) -> None:
    axe = (HERE / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")
    for document in PAGES:
        await page.goto(address(base, document), wait_until="networkidle")
        await page.add_script_tag(content=axe)
        result = await page.evaluate("axe.run({resultTypes: ['violations']})")
        faults = [(fault["id"], [node["html"][:200] for node in fault["nodes"]][:3]) for fault in result["violations"]]
        assert faults == [], document


def test_every_link_of_the_site_leads_to_a_file(site: Path) -> None:
    """Zensical looks at links to pages; here are those to files, and those that it makes."""
    wrong = [
        f"{page.relative_to(site)}: {target}"
        for page in site.rglob("*.html")
        if page.name != "404.html"
        for target in re.findall(r'(?:href|src)="?([^"> ]+)', page.read_text("utf-8"))
        if not urlsplit(target).scheme and (path := unquote(urlsplit(target).path))
        if not (page.parent / path).resolve().exists()
    ]
    assert wrong == []


def test_every_document_is_a_page(site: Path) -> None:
    for document in documents():
        name = document.relative_to(ROOT)
        assert Path(address(str(site), name.as_posix())).is_file(), name


def test_a_link_that_leads_nowhere_stops_the_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from . import __main__ as command

    def lay_out_wrong(folder: Path) -> None:
        folder.mkdir(parents=True)
        (folder / "README.md").write_text("# Start\n\n[there](there.md)\n")

    monkeypatch.setattr(command, "lay_out", lay_out_wrong)
    with pytest.raises(SiteNotBuilt, match="page does not exist"):
        command.build(tmp_path)
