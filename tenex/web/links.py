"""How pages that are served are asked for a link: by a control socket of their own, which only their user may use."""

from typing import Final

from tenex.core.errors import TenexError
from tenex.service.client import ask
from tenex.settings import ProjectPaths

LINK: Final = "link"
"""The request."""


async def new_link(places: ProjectPaths) -> str:
    """A link that logs one browser in, once, of the pages that are served now.

    Raises:
        TenexError: none are, or they do not answer.
    """
    path = places.web_socket
    try:
        answer = await ask(path, LINK)
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError) as error:
        raise TenexError(
            f"No pages of {places.data} are served. `tenex web` serves them, or a daemon with `web.enabled`; "
            "`tenex status` shows why one does not."
        ) from error
    except OSError as error:
        raise TenexError(f"The pages do not answer at {path}: {str(error) or 'it took too long'}.") from error
    return str(answer["link"])
