"""What access to the web offers."""

from typing import Final

from tenex.feature import Feature

WEB_ACCESS: Final = Feature(
    name="web_access",
    settings=("web_search",),
    tools={
        "fetch": "tenex.features.web_access.fetch:fetch_tool",
        "web_search": "tenex.features.web_access.search:search_tool",
    },
)
