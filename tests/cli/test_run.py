"""`tenex run`: what the daemon is given. What it does is tried in tests/service."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenex.cli.init import prepare
from tenex.cli.run import _serve
from tenex.core.errors import ConfigurationError
from tenex.nostr.keys import parse_public_key
from tenex.settings import load


def test_dropped_log_lines_are_counted_for_the_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []

    def refuses(_: object, *, lines_dropped: Callable[[], int], **__: Any) -> None:
        counted.append(lines_dropped())
        raise ConfigurationError(["enough has been seen"])

    monkeypatch.setattr("tenex.app.open_application", refuses)
    prepare(tmp_path / "data", None, ["ws://127.0.0.1:1"])
    settings = load(None, tmp_path / "data", env={}, parse_key=parse_public_key)
    with pytest.raises(ConfigurationError):
        asyncio.run(_serve(settings, None, (), lambda: 7))
    assert counted == [7]
