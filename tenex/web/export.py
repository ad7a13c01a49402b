"""One conversation as one file of HTML, without scripts: to read it where no tenex is, or to attach it to a report.

It is made of the templates of the pages, and leaves out what `tenex conversations show` leaves out.
"""

import hashlib
from base64 import b64encode
from collections.abc import Iterable

from markupsafe import Markup

from tenex import __version__
from tenex.core.ids import ConversationId
from tenex.core.projection import project
from tenex.core.records import Record
from tenex.store.stats import Stats, as_json

from .charts import tables_of
from .maps import map_of
from .rendering import STATIC, page
from .story import Story
from .talk import checks_of
from .timeline import timeline_of


def as_html(name: ConversationId, records: Iterable[Record]) -> str:
    """A conversation as a whole document."""
    journal = list(records)
    story = Story(name, is_private=False)
    entries = [entry for record in journal for entry in story.take(record)]
    projection = project(story.state)
    style = "".join((STATIC / name).read_text("utf-8") for name in ("tenex.css", "talk.css"))
    values = {
        "base": "",
        "id": name,
        "is_file": True,
        "version": __version__,
        "style": Markup(style),  # noqa: S704 - our own file
        "style_digest": b64encode(hashlib.sha256(style.encode()).digest()).decode(),
        "shown": projection,
        "entries": entries,
        "is_whole": True,
        "checks": checks_of(story.state),
        "timeline": timeline_of(projection),
        "map": map_of(story.state, story.ways),
        "tables": tables_of(as_json(Stats.of(name, journal))),
    }
    return page("file.html", values)
