"""A tab of a real Chromium that is logged in, and what the browser complains about in it."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.async_api import Browser, Page

from .kit import Served

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ARGUMENTS = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
SIZES = {"phone": (390, 844), "wide": (1280, 900)}
SHOTS = os.environ.get("SHOTS")
WIDER = "document.documentElement.scrollWidth > innerWidth"

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")


@dataclass
class Seen:
    """What a browser reports while a page is open."""

    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@asynccontextmanager
async def tab(
    browser: Browser, pages: Served, size: str = "wide", scheme: Any = "light", **more: Any
) -> AsyncIterator[tuple[Page, Seen]]:
    """A tab that is logged in by a link, and what the browser complains about in it."""
    width, height = SIZES[size]
    context = await browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce", **more
    )
    seen = Seen()
    page = await context.new_page()
    page.on("console", lambda message: seen.complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: seen.complaints.append(f"error: {error}"))
    page.on("dialog", lambda dialog: seen.complaints.append(f"dialog: {dialog.message}"))
    page.on("request", lambda request: seen.requests.append(request.url))
    await page.add_init_script(
        "addEventListener('securitypolicyviolation', (event) => console.error('violation', event.violatedDirective))"
    )
    try:
        await page.goto(f"{pages.base}/login#{pages.site.logins.new_token()}")
        await page.wait_for_url(f"{pages.base}/")
        yield page, seen
    finally:
        await context.close()


def check(seen: Seen, pages: Served) -> None:
    assert seen.complaints == []
    assert [url for url in seen.requests if not url.startswith(f"{pages.url}/")] == []
