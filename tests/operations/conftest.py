"""Fixtures of the tests of operations."""

from pathlib import Path

import pytest

from tenex.cli.init import prepare
from tests.store.conftest import disk as disk
from tests.store.conftest import folder as folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder as `tenex init` leaves it."""
    return prepare(tmp_path / "data", None, ["ws://127.0.0.1:1"]).data
