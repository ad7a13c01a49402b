"""What the tests of this folder share: AG2 at work, and a registry that forgets what a test registers."""

from collections.abc import Iterator

import pytest

from tenex.workflows.speakers import TransitionRegistry

from .ag2 import AG2, install


@pytest.fixture(scope="session")
def ag2() -> Iterator[AG2]:
    """AG2 in an environment of its own; where it cannot be installed the test is skipped."""
    process = AG2(install())
    yield process
    process.close()


@pytest.fixture
def fresh_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry of the process, as new; what a test registers there is gone afterwards."""
    monkeypatch.setattr(TransitionRegistry, "_default", TransitionRegistry())
