"""Pages that are served on loopback, and a client that behaves like a browser: cookies, forms, streams."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx2
from starlette.routing import Route

from tenex.core.ids import ConversationId
from tenex.core.records import Record
from tenex.feature import Feature, checks_of, problems_of
from tenex.main import FEATURES
from tenex.nostr.keys import parse_public_key
from tenex.operations.doctor.findings import Case
from tenex.operations.doctor.runner import Report, run_doctor
from tenex.settings import load, resolve_paths
from tenex.store.disk import Disk
from tenex.store.opening import open_conversations
from tenex.store.repository import ConversationFolder
from tenex.web.app import routes_of
from tenex.web.server import at_port, server_of, site_of
from tenex.web.site import Site
from tests.cli.journals import ONE, Decisions, write_conversations
from tests.fakes.scenario import Scenario, diligent, longest_way
from tests.kits.commands import Tenex
from tests.store.kit import StillClock

VOID = frozenset({"meta", "link", "input", "br", "hr", "img"})


@dataclass
class Element:
    """An element of a page, with its text."""

    name: str
    attributes: dict[str, str]
    text: str = ""


class Page(HTMLParser):
    """A page as a browser reads it: its elements in order, with the text in each, and texts with what they are in."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self.texts: list[tuple[str, tuple[Element, ...]]] = []
        self._open: list[Element] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        for place in reversed(range(len(self._open))):
            if self._open[place].name == tag:
                del self._open[place:]
                return

    def handle_data(self, data: str) -> None:
        self.texts.append((data, tuple(self._open)))
        for element in self._open:
            element.text += data

    def all(self, name: str, **attributes: str) -> list[Element]:
        wanted = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
        return [e for e in self.elements if e.name == name and wanted.items() <= e.attributes.items()]

    def of_class(self, name: str) -> list[Element]:
        return [element for element in self.elements if name in element.attributes.get("class", "").split()]

    @property
    def seqs(self) -> list[int]:
        """The records that are shown: a tree has them in another order."""
        return sorted(int(each.attributes["data-seq"]) for each in self.elements if "data-seq" in each.attributes)


@dataclass
class Served:
    """Pages at a port, and a browser that is logged in unless a test logs it out."""

    site: Site
    url: str
    client: httpx2.AsyncClient
    data: Path
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def base(self) -> str:
        return f"{self.url}{self.site.base}"

    async def login(self, token: str | None = None) -> httpx2.Response:
        """As the script of the login page does."""
        value = self.site.logins.new_token() if token is None else token
        return await self.client.post(f"{self.base}/login", data={"token": value}, headers={"origin": self.url})

    async def get(self, path: str, status: int = 200, **headers: str) -> Page:
        """A page, which a browser asks for."""
        answer = await self.client.get(f"{self.base}{path}", headers={"accept": "text/html", **headers})
        assert answer.status_code == status, answer.text
        return Page(answer.text)

    async def post(self, path: str, fields: dict[str, str], **headers: str) -> httpx2.Response:
        """A form, sent from a page of ours."""
        return await self.client.post(f"{self.base}{path}", data=fields, headers={"origin": self.url, **headers})

    async def form(self, page: str, action: str) -> dict[str, str]:
        """The hidden fields of a form on a page."""
        html = (await self.client.get(f"{self.base}{page}")).text
        _, _, rest = html.partition(f'action="{self.site.base}{action}"')
        assert rest, f"{page} has no form {action}"
        inside = Page(rest.partition("</form>")[0])
        return {e.attributes["name"]: e.attributes["value"] for e in inside.all("input", type="hidden")}


IN_PATHS = {
    "{id}": ONE,
    "{seq:int}": "20",
    "{number:int}": "1",
    "{number}": "1",
    "{folder}": "files",
    "{name}": "report.pdf",
}


def paths_of(site: Site, method: str) -> list[str]:
    """All that a site answers with this method but the login and files; of conversations, those of the first."""
    found: list[str] = []
    for route in routes_of(site):
        assert isinstance(route, Route)
        if method in (route.methods or ()) and not route.path.startswith(("/login", "/static")):
            path = route.path
            for name, value in IN_PATHS.items():
                path = path.replace(name, value)
            assert "{" not in path, "give it a value in IN_PATHS"
            found.append(path)
    return found


@asynccontextmanager
async def served(
    data: Path, *, hosts: Sequence[str] = (), is_logged_in: bool = True, features: Sequence[Feature] = FEATURES
) -> AsyncIterator[Served]:
    """Serve the pages of a data folder while the context lasts."""
    settings = load(None, data, env={}, parse_key=parse_public_key)
    places = resolve_paths(settings)
    disk = Disk()
    listening = at_port(0)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    async with (
        open_conversations(settings.store, places.conversations, disk, StillClock()) as folder,
        asyncio.TaskGroup() as group,
        httpx2.AsyncClient(trust_env=False, verify=False, timeout=60) as client,
    ):
        parts = [part for feature in features for part in feature.pages()]

        async def examine() -> Report:
            case = Case(data=data, config=None, env={}, problems=problems_of(features))
            return await run_doctor(case, checks_of(features))

        site = site_of(settings, places, examine, folder, parts, problems_of(features), is_loopback=True)
        server = server_of(site, hosts)
        running = group.create_task(server.serve(sockets=[listening]))
        pages = Served(site, url, client, data)
        try:
            if is_logged_in:
                assert (await pages.login()).status_code == 303
            yield pages
        finally:
            site.streams.close()
            server.should_exit = True
            await running
    disk.close()


@dataclass
class Received:
    """An event of a stream."""

    name: str
    data: str
    id: int | None


async def events(answer: httpx2.Response) -> AsyncIterator[Received]:
    """The events of a stream, as `EventSource` reads them."""
    name, lines, number = "", [], None
    async for line in answer.aiter_lines():
        kind, _, value = line.partition(": ")
        if kind == "event":
            name = value
        elif kind == "data":
            lines.append(value)
        elif kind == "id":
            number = int(value)
        elif not line and name:
            yield Received(name, "\n".join(lines), number)
            name, lines, number = "", [], None


async def append(data: Path, name: Any, *decisions: Sequence[Record]) -> None:
    """Append to a journal as a daemon does."""
    disk = Disk()
    folder = ConversationFolder(data / "conversations", disk, StillClock())
    journal, _ = await folder.open(name)
    await journal.append(list(decisions))
    await folder.close()
    disk.close()


async def printed(tenex: Tenex, line: str, *words: object) -> str:
    """What a command prints, which has a loop of its own."""
    return (await asyncio.to_thread(tenex, line, *words)).out


async def rewrite(data: Path, conversations: Mapping[ConversationId, Decisions]) -> None:
    """Put other conversations in the place of those that are there."""

    def write() -> None:
        shutil.rmtree(data / "conversations", ignore_errors=True)
        write_conversations(data, conversations)

    await asyncio.to_thread(write)


def asking() -> Scenario:
    """A conversation in which an agent has asked the user something."""
    scenario = Scenario(longest_way, diligent)
    for text in ("I want something nice", "let us think", "plan it"):
        scenario.converse(text)
    assert scenario.conversation.work.asks
    return scenario
