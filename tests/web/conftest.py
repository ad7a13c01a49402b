"""A data folder with conversations, and its pages."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tenex.cli.init import prepare
from tests.cli.journals import ONE, TWO, renamed, worked, write_conversations
from tests.kits.commands import cwd as cwd
from tests.kits.commands import tenex as tenex

from .kit import Served, asking, served

if TYPE_CHECKING:
    from playwright.async_api import Browser


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What each test gets a copy of."""
    data = tmp_path_factory.mktemp("prepared") / "data"
    prepare(data, None, ["ws://127.0.0.1:1"])
    write_conversations(data, {ONE: worked(ONE), TWO: renamed(TWO, asking().journal)})
    return data


@pytest.fixture
def data(tmp_path: Path, prepared: Path) -> Path:
    """A folder as `tenex init` makes it, with one conversation through all phases, and one that waits for an answer."""
    return shutil.copytree(prepared, tmp_path / "data", symlinks=True)


@pytest.fixture
async def pages(data: Path) -> AsyncIterator[Served]:
    """The pages, in a browser that is logged in."""
    async with served(data) as pages:
        yield pages


@pytest.fixture
async def browser() -> "AsyncIterator[Browser]":
    """A Chromium without a window."""
    from playwright.async_api import async_playwright

    from .browser_kit import ARGUMENTS, CHROMIUM

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        try:
            yield browser
        finally:
            await browser.close()
