"""What choices of models offer."""

from typing import TYPE_CHECKING, Final

from tenex.feature import Feature

if TYPE_CHECKING:
    from tenex.app import Application
    from tenex.app.extension import Extension
    from tenex.web.site import PagePart


def _extend(app: "Application") -> "Extension":
    from tenex.app.extension import Extension
    from tenex.nostr.client_requests import AGENT_CHANGE

    from .choices import ModelChoices

    choices = ModelChoices(
        app.daemon_journal,
        app.keys,
        app.clock,
        current=lambda: app.current.now,
        reload=lambda: app.reload(),  # noqa: PLW0108 - it is made later
        publish_status=lambda: app.indicators.changed(),  # noqa: PLW0108 - likewise
    )
    return Extension(services={"model choices": choices.run}, events={AGENT_CHANGE: choices.on_event})


def _pages() -> "list[PagePart]":
    from .pages import MODELS

    return [MODELS]


MODEL_CHOICES: Final = Feature(name="model_choices", extend=_extend, pages=_pages)
