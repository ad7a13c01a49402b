"""How the tests of the flow log: many of them bring faults about, and a coloured traceback costs more than the rest."""

from collections.abc import Iterator

import pytest
import structlog
from structlog.dev import ConsoleRenderer, plain_traceback


@pytest.fixture(autouse=True)
def plain_logs() -> Iterator[None]:
    *before, _ = structlog.get_config()["processors"]
    structlog.configure(processors=[*before, ConsoleRenderer(colors=False, exception_formatter=plain_traceback)])
    yield
    structlog.reset_defaults()
