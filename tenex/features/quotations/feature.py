"""What quotations offer."""

from typing import TYPE_CHECKING, Final

from tenex.feature import Feature

if TYPE_CHECKING:
    from tenex.app import Application
    from tenex.app.extension import Extension
    from tenex.core.ports import Quotations


def _extend(app: "Application") -> "Extension":
    from tenex.app.extension import Extension

    def finder() -> "Quotations":
        from tenex.store.past_messages import PastMessages

        from .finder import QuotationFinder

        past = PastMessages(app.index, app.folder)
        return QuotationFinder(past, app.index, app.pool, app.keys, app.profiles.names, app.clock)

    return Extension(quotations=finder)


QUOTATIONS: Final = Feature(name="quotations", extend=_extend)
