"""The pages that the code names, without a site that serves them."""

from typing import cast

from tenex.web.app import routes_of
from tenex.web.site import Page, Site


class _NoSite:
    """What the lists of addresses read of a site; no page is shown."""

    parts = ()


_ALL = [route for route in routes_of(cast("Site", _NoSite())) if isinstance(route, Page)]
MENU = [page for page in _ALL if page.is_in_menu]
PAGES = [*MENU, *(page for page in _ALL if not page.is_in_menu)]
