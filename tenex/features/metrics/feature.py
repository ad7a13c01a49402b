"""What metrics offer. Their library is loaded only where `metrics.port` is set."""

from typing import TYPE_CHECKING, Final

from tenex.feature import Feature

if TYPE_CHECKING:
    from tenex.app import Application
    from tenex.app.extension import Extension


def _extend(app: "Application") -> "Extension":
    from tenex.app.extension import Extension

    if app.settings.metrics.port is None:
        return Extension()
    from .daemon import extend

    return extend(app)


METRICS: Final = Feature(name="metrics", settings=["metrics"], extend=_extend)
