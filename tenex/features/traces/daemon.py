"""Exports the spans of a daemon's conversations."""

from contextlib import AsyncExitStack

from tenex import __version__
from tenex.core.errors import ConfigurationError
from tenex.core.installation import pip_install
from tenex.core.ports import Observer
from tenex.settings import Settings


def open_spans(stack: AsyncExitStack, settings: Settings) -> list[Observer]:
    """The trace exporter to `traces.endpoint`; flushed when the stack is unwound.

    Raises:
        ConfigurationError: the extra `otel` is not installed.
    """
    assert settings.traces.endpoint is not None
    try:
        from .export import open_traces
    except ImportError as fault:
        raise ConfigurationError(
            [f"traces.endpoint: exporting spans needs the extra `otel`. Run: {pip_install(extra='otel')}"]
        ) from fault
    traces = open_traces(settings.traces.endpoint, with_content=settings.traces.content, version=__version__)
    stack.push_async_callback(traces.close)
    return [traces]
