"""Every play of these tests is held against the invariants when its test is over."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.fakes.play import Play

from .kit import check_sound


@pytest.fixture(autouse=True)
def every_play_is_sound(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    plays: list[Play] = []
    begin = Play.__init__

    def registered(self: Play, *args: Any, **more: Any) -> None:
        begin(self, *args, **more)
        plays.append(self)

    monkeypatch.setattr(Play, "__init__", registered)
    yield
    for play in plays:
        check_sound(play)
