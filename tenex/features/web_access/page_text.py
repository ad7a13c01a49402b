"""The text of what a web server has sent: HTML as Markdown, other text as it is, and nothing else."""

import codecs
import re
from importlib.util import find_spec
from typing import Final

from tenex.core.messages import cut

PACKAGE: Final = "html_to_markdown"
"""Of the extra `fetch`."""

_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_TEXT: Final = re.compile(
    r"text/.+|application/(?:(?:[\w.-]+\+)?(?:json|xml|yaml)|x-yaml|toml|(?:x-)?javascript|ecmascript"
    r"|x-ndjson|jsonlines|sql|x-sh)"
)
_CHARSET: Final = re.compile(r"""charset\s*=\s*["']?\s*([\w.:-]{1,40})""", re.IGNORECASE)
_CHARSETS: Final = re.compile(
    r"(?:utf[-_]?(?:8|16|32)|us-ascii|ascii|latin|iso|windows|cp\d|koi8|mac|gb|big5|shift|s?jis|euc|hz|tis|x-).*",
    re.IGNORECASE,
)
"""Names of encodings of text: Python knows others, some of which take long or are none of text."""
_LOOKS_LIKE_HTML: Final = re.compile(rb"\s*(?:<!--.*?-->\s*)?<(?:!doctype\s+html|html[\s>])", re.IGNORECASE | re.DOTALL)
_HEAD: Final = 2_048
"""Bytes in which a page names its encoding, and in which text and other data can be told apart."""
_SIGNATURES: Final = {
    b"%PDF-": "a PDF",
    b"PK\x03\x04": "a ZIP archive or an office document",
    b"\x1f\x8b": "a gzip archive",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"GIF8": "a picture",
}
_MARKS: Final = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


class NoText(ValueError):
    """What was sent is no text that can be read; the message says what it is."""


def missing_package() -> str:
    """What to install where HTML cannot be read here; empty where it can."""
    return "" if find_spec(PACKAGE) is not None else "it needs the extra `fetch`: pip install 'tenexd[fetch]'"


def text_of(body: bytes, content_type: str, url: str) -> str:
    """The text of an answer; blocks for as long as its size takes.

    Args:
        body: its bytes.
        content_type: its header; it may be empty or wrong.
        url: its address, to which links on the page are relative.

    Raises:
        NoText: it is something else.
    """
    media_type = content_type.partition(";")[0].strip().lower()
    head = body[:_HEAD]
    for signature, what in _SIGNATURES.items():
        if head.startswith(signature):
            raise NoText(what)
    is_html = media_type in _HTML or (not media_type and _LOOKS_LIKE_HTML.match(head) is not None)
    if media_type and not is_html and _TEXT.fullmatch(media_type) is None:
        raise NoText(cut(media_type, 60))
    encoding = _encoding(head, content_type, is_html=is_html)
    if b"\0" in head and not encoding.startswith(("utf-16", "utf-32")):
        raise NoText("binary data")
    text = body.decode(encoding, "replace").removeprefix("\ufeff")
    return _markdown(text, url) if is_html else text


def _encoding(head: bytes, content_type: str, *, is_html: bool) -> str:
    """The name of an encoding, as the mark at the beginning, the header or the page says; else UTF-8."""
    for mark, name in _MARKS.items():
        if head.startswith(mark):
            return name
    said = [_CHARSET.search(content_type)]
    if is_html:
        said.append(_CHARSET.search(head.decode("latin-1")))
    for name in [match[1] for match in said if match is not None]:
        if _CHARSETS.fullmatch(name) is None:
            continue
        try:
            return codecs.lookup(name).name
        except LookupError:
            continue
    return "utf-8"


def _markdown(html: str, url: str) -> str:
    """HTML as Markdown: without scripts, styles, menus, forms, hidden parts and pictures.

    Raises:
        NoText: it cannot be read.
    """
    import html_to_markdown as library

    options = library.ConversionOptions(
        base_url=url,
        skip_images=True,
        compact_tables=True,
        extract_metadata=False,
        exclude_selectors=["iframe", "svg", "noscript", "template", "object", "embed"],
    )
    try:
        return library.convert(html, options).content or ""
    except Exception as error:
        raise NoText("HTML that cannot be read") from error
