"""A data folder with conversations, and its pages."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tenex.cli.init import prepare
from tests.cli.journals import ONE, TWO, renamed, worked, write_conversations
from tests.kits.commands import cwd as cwd
from tests.kits.commands import tenex as tenex

from .kit import Served, asking, served


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
