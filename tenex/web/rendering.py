"""Turns values into HTML: jinja2 with autoescape, and Markdown without HTML and without images.

All texts are foreign: names, messages, file names and results of tools. What looks like a secret key is replaced, and
characters that change the direction of text are made visible, before a text is escaped.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PrefixLoader, StrictUndefined
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from markupsafe import Markup, escape

from tenex.core.messages import NO_USAGE, Usage
from tenex.core.text.amounts import byte_size, count, dollars, duration
from tenex.core.text.foreign import printable, redact, well_formed
from tenex.core.text.state_words import STATES, by_state_word, state_word
from tenex.core.work.turn import OrchestratorTurn
from tenex.store.search_words import CLOSE, OPEN

from .lines import line_of
from .story import Entry
from .talk import Node, bar_of, end_of_result, items_of
from .times import clock, due, when

FOLDER: Final = Path(__file__).parent
STATIC: Final = FOLDER / "static"
MARKDOWN_CHARACTERS: Final = 8_000
"""Of a message that is read as Markdown; a longer one is shown as it was written, in the time of its length."""
SCHEMES: Final = ("http://", "https://", "nostr:")
"""Of links that can be followed."""
DIRECTED: Final = frozenset({"p", "li", "h1", "h2", "h3", "h4", "h5", "h6", "td", "th", "blockquote"})
"""Elements of a message that each run from right to left where their own text does."""


class _Links(MarkdownIt):
    """Markdown whose links lead to the web or to events, and to nothing else."""

    def validateLink(self, url: str) -> bool:  # noqa: N802 - the library's name
        """Whether a link is one; else its text stays as it was written."""
        return url.strip().lower().startswith(SCHEMES)


class _Renderer(RendererHTML):
    """HTML whose links say nothing about this page to where they lead, and whose headings are below the page's own.

    A browser finds the direction of each block in its text: Arabic and Hebrew stand beside English in one message.
    """

    def renderToken(  # noqa: N802 - the library's name
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        """A tag."""
        token = tokens[idx]
        if token.nesting == 1 and token.tag in DIRECTED:
            token.attrSet("dir", "auto")
        return super().renderToken(tokens, idx, options, env)

    def link_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """The beginning of a link."""
        tokens[idx].attrSet("rel", "noreferrer noopener nofollow")
        return self.renderToken(tokens, idx, options, env)

    def heading_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """The beginning of a heading."""
        tokens[idx].tag = _below(tokens[idx].tag)
        return self.renderToken(tokens, idx, options, env)

    def heading_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """The end of a heading."""
        tokens[idx].tag = _below(tokens[idx].tag)
        return self.renderToken(tokens, idx, options, env)


def _below(heading: str) -> str:
    return f"h{min(6, int(heading[1]) + 2)}"


@cache
def _markdown() -> MarkdownIt:
    """The reader; an image would be fetched from where a stranger says, so `![text](address)` is a link."""
    return _Links("commonmark", {"html": False}, renderer_cls=_Renderer).enable("table").disable("image")


@lru_cache(maxsize=4_000)  # messages of pages that are looked at
def markdown(text: str) -> Markup:
    """A message as HTML."""
    clean = clean_text(text)
    if len(clean) > MARKDOWN_CHARACTERS:
        return Markup('<pre class="text" dir="auto" tabindex="0">{}</pre>').format(clean)
    return Markup(_markdown().render(clean))  # noqa: S704 - HTML in it is escaped, images and other links are text


def clean_text(text: str) -> str:
    """A foreign text as it may be shown."""
    return printable(redact(well_formed(text)))


def matched(excerpt: str) -> Markup:
    """An excerpt of a search, with what matched marked."""
    marked = Markup()
    for place, part in enumerate(excerpt.split(OPEN)):
        hit, is_closed, rest = part.partition(CLOSE)
        if place and is_closed:
            marked += Markup("<mark>{}</mark>").format(clean_text(hit)) + escape(clean_text(rest))
        else:
            marked += escape(clean_text(part))
    return marked


def local(at: int, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    """A time in ms in the zone of this machine; the number where no calendar has it."""
    try:
        return datetime.fromtimestamp(at / 1000).astimezone().strftime(form)
    except (OverflowError, ValueError, OSError):
        return str(at)


def day(at: int) -> str:
    """The day of a time in ms."""
    return local(at, "%A, %d %B %Y")


def moment(text: str) -> str:
    """A time of JSON in the zone of this machine; the text itself where it is none."""
    try:
        return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return text


def code(text: str) -> Markup:
    """A sentence of ours with what stands between backticks as code."""
    parts = [escape(clean_text(part)) for part in text.split("`")]
    return Markup().join(Markup("<code>{}</code>").format(part) if at % 2 else part for at, part in enumerate(parts))


def state_meaning(name: str) -> str:
    """What a state of a conversation means, and what to do."""
    text = STATES[name]
    return f"{text.meaning}{'. What to do: ' if text.remedy else ''}{text.remedy}".replace("`", "")


def number(value: int) -> str:
    """A number with its thousands apart."""
    return f"{value:,}"


def span(took: int) -> str:
    """A duration in ms, in words."""
    return duration(took / 1000) if took >= 1000 else f"{took} ms"


def usage_of(turn: OrchestratorTurn) -> Usage:
    """What a turn has taken, of all models."""
    return sum(turn.models.values(), NO_USAGE)


def _finalised(value: Any) -> Any:
    if isinstance(value, str) and not isinstance(value, Markup):
        return clean_text(value)
    return value


@cache
def environment() -> Environment:
    """The templates."""
    made = Environment(
        loader=ChoiceLoader(
            [
                FileSystemLoader(FOLDER / "templates"),
                PrefixLoader({"features": FileSystemLoader(FOLDER.parent / "features")}),
            ]
        ),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalised,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "by_state_word": by_state_word,
        "bar_of": bar_of,
        "byte_size": byte_size,
        "clock": clock,
        "code": code,
        "count": count,
        "day": day,
        "dollars": dollars,
        "due": due,
        "duration": duration,
        "line": line_of,
        "end_of_result": end_of_result,
        "items": items_of,
        "local": local,
        "markdown": markdown,
        "matched": matched,
        "moment": moment,
        "number": number,
        "state_meaning": state_meaning,
        "span": span,
        "state_word": state_word,
        "usage_of": usage_of,
        "when": when,
    }
    made.tests["state"] = STATES.__contains__
    return made


def qr_code(text: str) -> Markup:
    """A text as a QR code, in SVG."""
    import segno  # only who opens a link for a phone needs it

    drawn: str = segno.make_qr(text, error="L").svg_inline(
        scale=5, border=4, light="#fff", svgclass="qr", lineclass=None
    )
    return Markup(drawn)  # noqa: S704 - shapes alone


def page(template: str, values: Mapping[str, Any]) -> str:
    """A template with values, as HTML."""
    return environment().get_template(template).render(values)


def entry_html(entry: Entry, values: Mapping[str, Any]) -> str:
    """One entry of a story, the same as on a whole page; one of the work says where it belongs."""
    module = environment().get_template("entry.html").make_module(dict(values))
    html: Markup = module.node(Node(first=entry, entry=entry)) if entry.is_work else module.single(entry)  # type: ignore[attr-defined]
    return str(html)
