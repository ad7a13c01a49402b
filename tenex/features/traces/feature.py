"""What traces offer. Their libraries are loaded only where `traces.endpoint` is set."""

from typing import TYPE_CHECKING, Final

from tenex.feature import Feature

if TYPE_CHECKING:
    from tenex.app import Application
    from tenex.app.extension import Extension


def _extend(app: "Application") -> "Extension":
    from tenex.app.extension import Extension

    if app.settings.traces.endpoint is None:
        return Extension()
    from .daemon import open_spans

    return Extension(observers=open_spans(app.stack, app.settings))


TRACES: Final = Feature(name="traces", settings=["traces"], extend=_extend)
