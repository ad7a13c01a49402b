"""A registry that forgets what a test registers."""

import pytest

from tenex.workflows.speakers.registry import TransitionRegistry


@pytest.fixture
def fresh_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry of the process, as new; what a test registers there is gone afterwards."""
    monkeypatch.setattr(TransitionRegistry, "_default", TransitionRegistry())
