"""`web_search`: asks the search service that the settings name, and lists what it finds.

The service is the operator's choice, so it may be at any address, also of this machine. It is asked without redirects,
cookies or compression, with the key that the settings name by its variable.
"""

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import httpx2

from tenex.core.config import Replay
from tenex.core.errors import ConfigurationError
from tenex.core.messages import cut
from tenex.core.phases import Access
from tenex.core.ports import ExecutionContext, ToolResult
from tenex.nostr.public_web import body_of
from tenex.prompting.render import fenced
from tenex.settings import Settings
from tenex.settings.sections import WebSearch
from tenex.tools.tool import Refusal, Tool, object_schema, string

from .fetch import MARK

TIMEOUT: Final = 15.0
"""Seconds of a search."""
MOST_BYTES: Final = 2 * 1024 * 1024
"""Of an answer: ten results of a service have some ten thousand."""
LONGEST: Final = {"title": 200, "link": 1_000, "snippet": 500}
"""Characters of what is shown of a result."""
BRAVE: Final = "https://api.search.brave.com/res/v1/web/search"


def search_tool(settings: Settings) -> Tool:
    """The tool `web_search`.

    Raises:
        ConfigurationError: no service is set, or its key is missing.
    """
    service = settings.web_search
    if not service.kind:
        raise ConfigurationError(['web_search: no service is set; set `kind` under [web_search], such as "searxng"'])
    key = os.environ.get(service.key_env, "") if service.key_env else ""
    if service.key_env and not key:
        raise ConfigurationError([f"web_search: the variable {service.key_env} has no key; set it for the daemon"])
    headers = _headers(service, key)
    host = urlsplit(_address(service, "")).hostname or ""

    async def search(arguments: Mapping[str, Any], _: ExecutionContext) -> ToolResult:
        words = " ".join(arguments["words"].split())
        if not words:
            raise Refusal("Not searched: `words` is blank.")
        entries = _entries(await _asked(_address(service, words), headers, host), service, host)
        if not entries:
            return ToolResult(ok=True, content=f"{host} finds nothing.")
        lines = [
            f"{number}. {entry['title']}\n   {entry['link']}\n   {entry['snippet']}".rstrip()
            for number, entry in enumerate(entries, 1)
        ]
        return ToolResult(ok=True, content=f"Found by {host}. {MARK}\n{fenced(chr(10).join(lines))}")

    return Tool(
        name="web_search",
        description="Searches the web; lists titles, addresses and excerpts.",
        parameters=object_schema({"words": string(max_length=400)}),
        access=Access.READ,
        replay=Replay.READ,
        body=search,
        time_cap=TIMEOUT + 5,
        asks=True,
        why=f"the words go to {host}",
    )


def _address(service: WebSearch, words: str) -> str:
    """The address of a search."""
    match service.kind:
        case "brave":
            query = urlencode({"q": words, "count": service.count})
            return f"{service.url or BRAVE}?{query}"
        case "searxng":
            query = urlencode({"q": words, "format": "json"})
            return f"{service.url.rstrip('/').removesuffix('/search')}/search?{query}"
        case _:
            return service.url.replace("{query}", quote(words, safe=""))


def _headers(service: WebSearch, key: str) -> dict[str, str]:
    headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "tenex"}
    if key:
        usual = "X-Subscription-Token: {key}" if service.kind == "brave" else "Authorization: Bearer {key}"
        name, _, value = (service.key_header or usual).partition(":")
        headers[name.strip()] = value.strip().replace("{key}", key)
    return headers


async def _asked(url: str, headers: Mapping[str, str], host: str) -> Any:
    """The JSON of an answer.

    Raises:
        Refusal: there is none.
    """
    client = httpx2.AsyncClient(timeout=None, follow_redirects=False)
    try:
        async with asyncio.timeout(TIMEOUT), client, client.stream("GET", url, headers=headers) as response:
            status = response.status_code
            is_compressed = response.headers.get("Content-Encoding", "identity").lower() != "identity"
            body = None if is_compressed else await body_of(response, MOST_BYTES)
    except TimeoutError as error:
        raise Refusal(f"Not searched: {host} did not answer within {TIMEOUT:g} s.") from error
    except (OSError, httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise Refusal(f"Not searched: {host} cannot be reached ({type(error).__name__}).") from error
    if status != httpx2.codes.OK:
        raise Refusal(f"Not searched: {host} answers HTTP {status}; the operator can correct [web_search].")
    if body is None:
        raise Refusal(f"Not searched: {host} sends more than {MOST_BYTES // 1024**2} MB, or compressed data.")
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refusal(
            f"Not searched: {host} does not answer in JSON; the operator can correct [web_search]."
        ) from error


def _entries(answer: Any, service: WebSearch, host: str) -> Sequence[Mapping[str, str]]:
    """The results in an answer, as short texts in one line each.

    Raises:
        Refusal: it has no list of them.
    """
    match service.kind:
        case "brave":
            places = {"results": "web.results", "title": "title", "link": "url", "snippet": "description"}
            if isinstance(answer, dict) and "web" not in answer:
                return ()  # as it answers where nothing is found
        case "searxng":
            places = {"results": "results", "title": "title", "link": "url", "snippet": "content"}
        case _:
            places = {
                "results": service.results,
                "title": service.title,
                "link": service.link,
                "snippet": service.snippet,
            }
    listed = _at(answer, places["results"])
    if not isinstance(listed, list):
        raise Refusal(
            f"Not searched: the answer of {host} has no list of results; the operator can correct [web_search]."
        )
    return [
        {name: _line(_at(one, places[name]), most) for name, most in LONGEST.items()}
        for one in listed[: service.count]
        if isinstance(one, dict)
    ]


def _at(value: Any, path: str) -> Any:
    """What is at a dotted path of JSON; None where there is nothing."""
    for part in filter(None, path.split(".")):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _line(value: Any, most: int) -> str:
    return cut(" ".join(value.split()), most) if isinstance(value, str) else ""
